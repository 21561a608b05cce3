"""Who may be at work: many at a time, or one alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Visit:
    """One stay among others.

    Attributes:
        alone: Whether nobody else was there at any moment of it.
    """

    alone: bool = True


class Floor:
    """A lock that is held together or alone; whoever wants to be alone comes before those who arrive later."""

    def __init__(self) -> None:
        self._inside: set[Visit] = set()
        self._door = asyncio.Lock()
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[Visit]:
        """Be there with others."""
        async with self._door:
            visit = Visit(alone=not self._inside)
            for other in self._inside:
                other.alone = False
            self._inside.add(visit)
            self._empty.clear()
        try:
            yield visit
        finally:
            self._inside.discard(visit)
            if not self._inside:
                self._empty.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be there when everybody has left; nobody enters meanwhile."""
        async with self._door:
            await self._empty.wait()
            yield
