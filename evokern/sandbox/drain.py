"""Reads what slots print, so that no full pipe blocks one and no flood fills the judge's memory."""

from __future__ import annotations

import os
import selectors
import threading
from collections.abc import Callable

from evokern import printable

KEPT_BYTES = 64 << 10
"""Printed bytes that are kept; the rest is counted and dropped."""


class Stream:
    """Standard output and error of one slot.

    Attributes:
        flooded: Whether more was printed than allowed.
    """

    def __init__(self, descriptor: int, most: int, on_flood: Callable[[], None]) -> None:
        self.descriptor, self._most, self._on_flood = descriptor, most, on_flood
        self.flooded = False
        self._kept, self._count = bytearray(), 0
        self._ended = threading.Event()

    def text(self) -> str:
        """What was printed so far, capped, and cleaned for whoever reads it."""
        return printable.block(bytes(self._kept).decode("utf-8", "replace"))

    def wait(self, seconds: float) -> None:
        """Wait until every writer is gone, so that `text` is whole."""
        self._ended.wait(seconds)

    def take(self) -> bool:
        """Read once; False at the end, and at a flood: a writer then blocks until it is killed, and gets nothing else done."""
        part = os.read(self.descriptor, 1 << 16)
        self._count += len(part)
        self._kept += part[: KEPT_BYTES - len(self._kept)]
        if self._count > self._most and not self.flooded:
            self.flooded = True
            self._on_flood()
        return bool(part) and not self.flooded

    def end(self) -> None:
        """Nothing more is read; called by the drain alone."""
        self._ended.set()

    def close(self) -> None:
        """Close, once it has ended and nobody writes any more."""
        if self._ended.is_set():
            os.close(self.descriptor)


class Drain:
    """One thread that reads all streams."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._new: list[Stream] = []
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="evokern-drain", daemon=True)
        self._thread.start()

    def add(self, stream: Stream) -> None:
        """Read a stream from now on, to its end."""
        with self._lock:
            self._new.append(stream)
        os.write(self._wake_write, b".")

    def close(self) -> None:
        """Stop the thread."""
        self._closing = True
        os.write(self._wake_write, b".")
        self._thread.join()

    def _work(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select():
                if key.data is None:
                    os.read(self._wake_read, 4096)
                    self._register_new()
                elif not key.data.take():
                    self._selector.unregister(key.fileobj)
                    key.data.end()
        self._register_new()
        for key in self._selector.get_map().values():
            if key.data is not None:
                key.data.end()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _register_new(self) -> None:
        with self._lock:
            new, self._new = self._new, []
        for stream in new:
            self._selector.register(stream.descriptor, selectors.EVENT_READ, stream)
