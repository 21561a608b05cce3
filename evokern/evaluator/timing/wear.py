"""Wear: calls that take more time or memory the longer their process lives.

Timed calls are a process's first ones, a user's are its millionth. So some allocations make calls of secret number before the timed
ones, and what they say must agree with the others; and a process may not keep more memory with every call.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import fmean, variance

from evokern.evaluator.timing.series import Series

SLOWER = 0.15
"""Logarithm by which an older process may be slower than a fresh one, relative to its opponent."""

ERRORS = 5.0
"""Standard errors by which it must be."""

RANGES = 1.5
"""By how often the range of the fresh ones an older one must be beyond them, where only some are."""

FEWEST = 3
"""Allocations of either age that are needed."""

KEPT_BYTES = 256 << 10
"""Bytes of private memory that a process may keep with every call, on average over all calls but the first on each shape: that
one may allocate what all later ones use."""

FEWEST_CALLS = 4
"""Calls that are needed."""

OFTEN = 1 / 4
"""Share of calls that must have kept that much: one that grows a pool once does no harm."""

KEPT_EACH = mmap.PAGESIZE
"""Bytes that a process may keep with every call of a stay, which is many calls of one process on one workload."""

KEPT_ROUGHLY = 128 << 10
"""Bytes that each half of a stay must have kept besides where they come from the kernel's own count of resident pages, which is off by
some tens of pages."""

KEPT_LEAST = 6 * mmap.PAGESIZE
"""The same where pages were counted one by one (`Stay`): a thread that goes deeper into its stack, or a few pages of a process that were
another's too, are no leak. Of honest kernels none kept more than 4 pages in either half of 200 stays, none more than 2 in both. The
shortest half has two calls, so that 16 KiB in each are 8 pages."""

SETTLES = 3
"""Calls of a stay in which allocators may still grow."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Many calls of one process on one workload, and its memory after three of them.

    Attributes:
        after: How many calls there had been at each look.
        written: Private memory that the process had written, bytes (`Slot.written_bytes`).
    """

    after: tuple[int, int, int]
    written: tuple[int, int, int]

    @property
    def grows(self) -> bool:
        """Whether memory grew in both halves: a pool that is made once grows in one of them."""
        return min(self.written) > 0 and all(
            later - sooner > max(KEPT_EACH * (last - first), KEPT_LEAST)
            for (sooner, later), (first, last) in zip(pairwise(self.written), pairwise(self.after), strict=True)
        )


def looks(calls: int) -> tuple[int, int, int]:
    """After which calls of a stay its memory is looked at: those that settle, the middle of the others, the last."""
    return SETTLES, (SETTLES + calls) // 2, calls


def slows_down(series: Series, who: str, opponent: str) -> bool:
    """Whether older processes of one contestant are slower than fresh ones, its opponent as the measure of the machine."""
    ours, theirs = series.by_cluster(who), series.by_cluster(opponent)
    logs = {c: math.log(ours[c] / theirs[c]) for c in set(ours) & set(theirs)}
    old, young = [v for c, v in logs.items() if c in series.aged], [v for c, v in logs.items() if c not in series.aged]
    return min(len(old), len(young)) >= FEWEST and (_all_slower(old, young) or _some_slower(old, young))


def _all_slower(old: Sequence[float], young: Sequence[float]) -> bool:
    beyond = fmean(old) - fmean(young)
    return beyond > max(SLOWER, ERRORS * math.sqrt(variance(old) / len(old) + variance(young) / len(young)))


def _some_slower(old: Sequence[float], young: Sequence[float]) -> bool:
    """Whether several of the older ones, not all, are far beyond every fresh one: the number of calls before was a draw."""
    limit = max(young) + max(SLOWER, RANGES * (max(young) - min(young)))
    return sum(value > limit for value in old) >= FEWEST


def keeps_memory(stays: Sequence[Sequence[int]], counted: Sequence[Stay] = ()) -> bool:
    """Whether processes keep more and more memory.

    Args:
        stays: By process and workload, by how many bytes each call changed the private memory of its process, first calls on a shape
            left out; by the kernel's own count.
        counted: Long stays on timed workloads, pages counted one by one.
    """
    if counted and sum(stay.grows for stay in counted) >= OFTEN * len(counted):
        return True
    kept = list(chain.from_iterable(stays))
    if len(kept) >= FEWEST_CALLS and fmean(kept) > KEPT_BYTES and sum(k > KEPT_BYTES for k in kept) >= OFTEN * len(kept):
        return True
    long = [stay for stay in stays if len(stay) >= SETTLES + FEWEST_CALLS]
    return bool(long) and sum(map(_grows, long)) >= OFTEN * len(long)


def _grows(stay: Sequence[int]) -> bool:
    """As `Stay.grows`, by the kernel's own count after every call."""
    settled = stay[SETTLES:]
    half = len(settled) // 2
    return all(sum(part) > max(KEPT_EACH * len(part), KEPT_ROUGHLY) for part in (settled[:half], settled[half:]))
