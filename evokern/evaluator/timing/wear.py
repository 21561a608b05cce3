"""Wear: calls that take more time or memory the longer their process lives.

Timed calls are a process's first ones, a user's are its millionth. So some allocations make calls of secret number before the timed
ones, and what they say must agree with the others; and a process may not keep more memory with every call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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


def keeps_memory(kept: Sequence[int]) -> bool:
    """Whether processes keep more and more memory.

    Args:
        kept: By how many bytes each of their calls changed the private memory of its process, first calls on a shape left out.
    """
    if len(kept) < FEWEST_CALLS or fmean(kept) <= KEPT_BYTES:
        return False
    return sum(k > KEPT_BYTES for k in kept) >= OFTEN * len(kept)
