"""Eviction: empty caches before a call, by reading clean memory; writing would leave dirty lines that land in the timed span."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evokern.evaluator.timing.contention import cpu_pressure

SHARE = 2
"""Bytes read at most, over the size of the last-level cache."""

LEAST_BYTES, MOST_BYTES = 32 << 20, 256 << 20
"""Bounds of the memory that is read from, whatever the cache is said to have."""

PROVISIONAL_BYTES = 96 << 20
"""What is read until it is known how much must be: a share of a socket's cache that few virtual machines have more of."""

PROBE_BYTES = 8 << 20
"""A block that was just written, as inputs are: once nothing is left of it in any cache, reading it takes longest."""

STEPS = (1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
"""Shares of the memory that are tried."""

COLD = 0.95
"""A share is enough where the probe takes this part of the time that it takes after all of it was read."""

AGAIN = 1.25
"""More than enough by so much: a neighbour may own another part of the cache tomorrow."""

TRIALS = 7

CALM_PRESSURE = 0.2
"""Where processors are wanted for a larger share of time, others empty the caches too, and far too little would seem enough."""


Words = NDArray[np.uint64]


class Evicts(Protocol):
    """Whoever empties caches.

    Attributes:
        bytes_per_ns: What the machine reads from memory at best; 0 where it is not known.
    """

    bytes_per_ns: float

    def evict(self) -> None:
        """Leave nothing of a call's inputs in them."""
        ...

    def settle(self) -> None:
        """Find out what that takes, where it is not known."""
        ...


class Evictor:
    """Empties the caches.

    The size that a virtual machine tells of its cache is the whole socket's, of which it may own a tenth; reading twice that would be
    most of a measurement's time. So it is measured how much is enough.

    Args:
        cache_bytes: Size of the last-level cache.
        cpus: Processors that are idle while this runs, to read with; the caller's own is used besides.

    Attributes:
        size: Bytes that are read.
        bytes_per_ns: What all these processors together read, at best, by their CPU time: 0 at first, and it only grows. A loaded
            machine reads more slowly, so a bound made of this is to be one of what was read about the time of the calls in question.
    """

    def __init__(self, cache_bytes: int, cpus: Collection[int] = ()) -> None:
        self._memory = np.ones(min(max(SHARE * cache_bytes, LEAST_BYTES), MOST_BYTES) // 8, np.uint64)
        self.size = min(PROVISIONAL_BYTES, self._memory.nbytes)
        self.bytes_per_ns = 0.0
        self._settled = False
        others = sorted(set(cpus) - os.sched_getaffinity(0))
        self._helpers = [_pinned(cpu) for cpu in others]

    def evict(self) -> None:
        """Read it, each processor its part."""
        self.bytes_per_ns = max(self.bytes_per_ns, self._read(self.size))

    def settle(self) -> None:
        """Find out how much must be read, once, as soon as the machine is calm; before that it is `PROVISIONAL_BYTES`."""
        if not self._settled and cpu_pressure() < CALM_PRESSURE:
            self._settled = True
            self.calibrate()

    def calibrate(self) -> None:
        """Find out how much must be read, and how fast this machine reads."""
        whole = self._memory.nbytes
        times = self._probed([int(share * whole) for share in STEPS])
        enough = next(size for size, took in times.items() if took >= COLD * times[whole])
        self.size = min(int(AGAIN * enough), whole)
        self.bytes_per_ns = max(self.bytes_per_ns, *(self._read(whole) for _ in range(3)))

    def _probed(self, sizes: Sequence[int]) -> dict[int, int]:
        """Least CPU time to read a block that was written before so many bytes were read, by that number, nanoseconds.

        The sizes take turns, so that a machine that is busy for a while is busy for all of them.
        """
        probe = np.ones(PROBE_BYTES // 8, np.uint64)
        times = dict.fromkeys(sizes, sys.maxsize)
        for turn in range(TRIALS):
            for size in sizes:
                probe[:] = turn
                self._read(size)
                start = time.thread_time_ns()
                probe.max()
                times[size] = min(times[size], time.thread_time_ns() - start)
        return times

    def _read(self, size: int) -> float:
        """Read so much, each processor its part; the sum of their rates, bytes per nanosecond of CPU time."""
        if size < 8 * (len(self._helpers) + 1):
            return 0.0
        first, *others = np.array_split(self._memory[: size // 8], len(self._helpers) + 1)
        waiting = [helper.submit(_rate, part) for helper, part in zip(self._helpers, others, strict=True)]
        return _rate(first) + sum(one.result() for one in waiting)


def _rate(part: Words) -> float:
    start = time.thread_time_ns()
    part.max()
    return part.nbytes / max(time.thread_time_ns() - start, 1)


def _pinned(cpu: int) -> ThreadPoolExecutor:
    helper = ThreadPoolExecutor(1, f"evict-{cpu}")
    helper.submit(os.sched_setaffinity, 0, {cpu}).result()
    return helper
