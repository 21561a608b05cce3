"""When a measurement has said enough: losers leave early, and an interval is made no narrower than what hangs on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from evokern.evaluation import Ratio, Score
from evokern.statistics import MARGIN_FLOOR, combine

Stop = Callable[[Mapping[str, Ratio], int], bool]
"""Told the ratios so far, by workload, and the number of allocations; whether to stop. Asked after whole allocations only."""

CLUSTERS = 8
"""Allocations behind a ratio that is to stand."""

LATER_BLOCKS = 2

MOST_CLUSTERS = 12
"""Allocations at most where nothing hangs on the width of the interval."""

MOST_UNDECIDED = 32
"""Allocations at most where it is open whether a kernel beats what it would replace. At a noise of 10 % a call this tells a gain
of 8 % from none in four of five cases (`benchmarks/noise.py`)."""

HOPELESS_FROM = 16
"""Allocations from which an estimate that does not beat what it would replace ends the measurement: few such kernels get there."""

WIDE = 0.16
"""Width of an interval, natural logarithms, above which more than `CLUSTERS` allocations are taken whatever hangs on it."""

UNDECIDED = {1: (0.75, 1.5), 3: (0.95, 1.08)}
"""Screening ends after so many allocations where the estimate against the incumbent is outside these bounds. It only decides what
is worth confirming, so it needs no interval."""


def allocate_until(
    stop: Stop, allocate: Callable[[int, int], None], ratios: Callable[[], Mapping[str, Ratio | None]], *, clusters: int, blocks: int
) -> None:
    """Take allocations until enough is known.

    Args:
        stop: Says when that is.
        allocate: Makes one allocation: told its index, and how many blocks each workload gets.
        ratios: What is known so far, by workload; None where nothing is.
        clusters: Allocations at most.
        blocks: Blocks at first; from `CLUSTERS` allocations on there are two, because it is scatter that made them necessary.
    """
    for cluster in range(clusters):
        allocate(cluster, blocks if cluster < CLUSTERS else max(blocks, LATER_BLOCKS))
        found = ratios()
        known = {name: ratio for name, ratio in found.items() if ratio is not None}
        if len(known) == len(found) and stop(known, cluster + 1):
            break


def decided(ratios: Mapping[str, Ratio], clusters: int) -> bool:
    """Stop screening: far from the incumbent early, anybody else once the ratio stands."""
    low, high = UNDECIDED.get(clusters, (0.0, math.inf))
    return clusters >= CLUSTERS or not low < combine(ratios).ratio.estimate < high


def settled(to_beat: float | None = None, margin: float = MARGIN_FLOOR) -> Stop:
    """Stop confirming once the interval may be quoted and says whether the kernel beats what it would replace.

    Args:
        to_beat: Logarithm of the score that it must beat; None where nothing hangs on it.
        margin: Noise margin by which it must.
    """
    bar = None if to_beat is None else to_beat + math.log1p(margin)

    def stop(ratios: Mapping[str, Ratio], clusters: int) -> bool:
        if clusters < CLUSTERS:
            return False
        score = combine(ratios)
        if bar is not None and _open(score, bar, clusters):
            return clusters >= MOST_UNDECIDED
        return clusters >= MOST_CLUSTERS or score.high - score.low < WIDE

    return stop


def _open(score: Score, bar: float, clusters: int) -> bool:
    if clusters >= HOPELESS_FROM and score.log <= bar:
        return False
    return score.low <= bar < score.high


def never(ratios: Mapping[str, Ratio], clusters: int) -> bool:
    """Stop only when all allocations are used up."""
    return False
