"""Wear: calls that take more time or memory the longer their process lives.

Timed calls are a process's first ones, a user's are its millionth. So some allocations make calls of secret number before the timed
ones, and what they say must agree with the others; and a process may not keep more memory with every call.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from itertools import chain
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

KEPT_LEAST = 128 << 10
"""Bytes that each half of a stay must have kept besides: the kernel's count of resident pages is off by some tens of them."""

SETTLES = 3
"""Calls of a stay in which allocators may still grow."""


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


def keeps_memory(stays: Sequence[Sequence[int]]) -> bool:
    """Whether processes keep more and more memory.

    Args:
        stays: By process and workload, by how many bytes each call changed the private memory of its process, first calls on a shape
            left out.
    """
    kept = list(chain.from_iterable(stays))
    if len(kept) >= FEWEST_CALLS and fmean(kept) > KEPT_BYTES and sum(k > KEPT_BYTES for k in kept) >= OFTEN * len(kept):
        return True
    long = [stay for stay in stays if len(stay) >= SETTLES + FEWEST_CALLS]
    return bool(long) and sum(map(_grows, long)) >= OFTEN * len(long)


def _grows(stay: Sequence[int]) -> bool:
    """Whether memory grew in both halves of a stay: a pool that is made once grows in one of them."""
    settled = stay[SETTLES:]
    half = len(settled) // 2
    return all(sum(part) > max(KEPT_EACH * len(part), KEPT_LEAST) for part in (settled[:half], settled[half:]))
