"""Turn: of the processes that judge for one home, one does so at a time, as two would measure each other."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from evokern.serve.lock import POLL_SECONDS, locked

LOCK = "turn.lock"
"""Within a home."""

LONGEST_SECONDS = 20.0
"""After so long a process lets no more of its own in until all are out, and others may come before it."""


class Turn:
    """A lock over processes that many of one process hold together.

    Args:
        home: The home folder.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / LOCK
        self._descriptor = -1
        self._inside = 0
        self._since = self._released = -LONGEST_SECONDS
        self._door = asyncio.Lock()
        self._empty = asyncio.Event()

    @asynccontextmanager
    async def held(self, say: Callable[[str], None] = lambda _: None) -> AsyncIterator[None]:
        """Judge while no other process does.

        Args:
            say: Told where one must wait.

        Raises:
            Unavailable: The lock's file cannot be made.
        """
        async with self._door:
            if self._inside and time.monotonic() - self._since > LONGEST_SECONDS:
                await self._empty.wait()
            if not self._inside:
                await self._take(say)
            self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._release()

    async def _take(self, say: Callable[[str], None]) -> None:
        if time.monotonic() - self._released < POLL_SECONDS:
            # Whoever waits looks again within this time.
            await asyncio.sleep(2 * POLL_SECONDS)
        self._descriptor = await locked(self._path, lambda: say("another process of this home is judging; waiting for its turn to end"))
        self._since = time.monotonic()
        self._empty.clear()

    def _release(self) -> None:
        os.close(self._descriptor)
        self._released = time.monotonic()
        self._empty.set()
