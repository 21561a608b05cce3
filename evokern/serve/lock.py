"""Locks between the processes of a home: files, so that a lock ends with the process that holds it, however that dies."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from evokern.errors import Unavailable

POLL_SECONDS = 0.05
"""How often whoever waits looks again."""


async def locked(path: Path, waits: Callable[[], None] = lambda: None) -> int:
    """Wait for a lock and hold it.

    Args:
        path: Its file; made where it is not there.
        waits: Called once where another process holds it.

    Returns:
        A descriptor; closing it lets go of the lock.

    Raises:
        Unavailable: The file cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Unavailable(f"the lock cannot be made: {error.strerror}", where=str(path)) from error
    try:
        if not _taken(descriptor):
            waits()
            while not _taken(descriptor):  # noqa: ASYNC110 - nothing in this process knows when another one lets go
                await asyncio.sleep(POLL_SECONDS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
