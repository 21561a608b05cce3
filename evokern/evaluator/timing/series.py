"""Series: the timed calls of two contestants on one workload, and the ratio that follows from them.

Within an allocation the least time of each side counts: whatever else runs on the machine only ever adds to a time, and both
sides were called as often, in turn. That holds only where a side's calls agree. A kernel that puts its work off to every
second call has calls that do not, and then their mean counts, which is what a user pays. Where calls differ by less than noise
may, but always the same way or always more than the opponent's, the means of both sides count. What is put off for longer shows
in the totals of whole series.

A void sample says that its wall time cannot be trusted; its CPU time was still spent. Where a contestant has more of them than its
opponent, they are no accident of the machine's, and what they took counts like any other time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median, stdev

from evokern.evaluation import Clock, Measurement, Ratio, Sample
from evokern.statistics import confidence_multiplier, paired_ratio, shifted, unexplained_bias, widened
from evokern.statistics.paired import SPREAD_FLOOR
from evokern.task import Workload

AGREE = 1.15
"""Two calls of one side in one allocation agree where the longer takes at most so many times as long as the shorter."""

PUT_OFF = 0.15
"""Logarithm by which the ratio of all time taken may be worse than the ratio of allocations before it counts instead."""

UNEVEN = 0.02
"""Logarithm by which calls of one allocation must differ in an order, or scatter more than the opponent's, for means to count."""

SURE = 0.95
"""Confidence with which they must, at every look at once; with eight allocations that is p = 0.003 at one look. To be wrong costs no
more than a little precision, since the means of both sides count then; to be surer would miss 14 % of every second call where calls
scatter by 5 %."""

FEWEST_EFFECTS = 2
"""Allocations from which there is a spread between them."""

ALIKE = 2.0
"""Void samples are the machine's doing up to so many times the opponent's share."""

FEWEST_VOID = 2
"""Void samples from which they count: one is nobody's doing."""

LEAST_TIME_NS = 1000.0
"""Times at or below the null are taken as this, so that a ratio stays finite; `impossible` deals with them."""


@dataclass
class Series:
    """Samples of two contestants on one workload.

    Attributes:
        null_ns: Taken off each time of those that `nulls` does not name.
        margin: Logarithm by which intervals are widened: what a kernel differs from itself under this clock.
        samples: All of them, void ones included.
        aged: Allocations whose processes had made further calls before.
        nulls: What is taken off each time of a contestant whose calls cost something else beside their work.
    """

    null_ns: float
    margin: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    aged: set[int] = field(default_factory=set)
    nulls: Mapping[str, float] = field(default_factory=dict)

    def times_ns(self, who: str) -> list[float]:
        """Valid times of one contestant, null taken off."""
        return [self._time(s) for s in self.samples if s.who == who and not s.void]

    def by_cluster(self, who: str) -> dict[int, float]:
        """What a call of one contestant takes in each allocation, nanoseconds."""
        return {cluster: typical(times) for cluster, times in self._times(who).items()}

    def ratio(self, who: str, opponent: str) -> Ratio | None:
        """The opponent's time over `who`'s; None where no allocation has a valid sample of both."""
        valid, theirs = self._times(who), self._times(opponent)
        if not set(valid) & set(theirs):
            return None
        ours = self._times(who, void_too=True) if self._void_by_itself(who, opponent) else valid
        clusters = sorted(set(ours) & set(theirs))
        told = fmean if self._uneven(who, opponent, ours, theirs) else typical
        logs = [math.log(told(theirs[c]) / told(ours[c])) for c in clusters]
        pairs = sum(min(len(valid.get(c, ())), len(theirs[c])) for c in clusters)
        ratio = widened(replace(paired_ratio(logs, clusters), pairs=pairs), self.margin)
        whole = math.log(_total(theirs, clusters) / _total(ours, clusters))
        beyond = math.log(ratio.estimate) - whole
        return shifted(ratio, -beyond) if beyond > PUT_OFF else ratio

    def bias(self, one: str, same: str) -> float:
        """Logarithm by which a kernel differs from itself under two names, beyond scatter; 0 where that is not known."""
        ours, theirs = self.by_cluster(one), self.by_cluster(same)
        logs = [math.log(theirs[c] / ours[c]) for c in sorted(set(ours) & set(theirs))]
        return unexplained_bias(logs) if len(logs) > 1 else 0.0

    def void_share(self, who: str) -> float:
        """Share of void samples of one contestant."""
        mine = [s for s in self.samples if s.who == who]
        return sum(bool(s.void) for s in mine) / len(mine) if mine else 0.0

    def voids(self, who: str) -> int:
        """Number of void samples of one contestant."""
        return sum(s.who == who and bool(s.void) for s in self.samples)

    def _void_by_itself(self, who: str, opponent: str) -> bool:
        return self.voids(who) >= FEWEST_VOID and self.void_share(who) > ALIKE * self.void_share(opponent)

    def _times(self, who: str, *, void_too: bool = False) -> dict[int, list[float]]:
        times: dict[int, list[float]] = {}
        for sample in self.samples:
            if sample.who == who and (void_too or not sample.void):
                times.setdefault(sample.cluster, []).append(self._time(sample))
        return times

    def _uneven(self, who: str, opponent: str, ours: Mapping[int, Sequence[float]], theirs: Mapping[int, Sequence[float]]) -> bool:
        """Whether calls of one allocation differ by more than chance: by turn, from first to last, or more than the other side's."""
        scatter = [_scatter(ours[c]) - _scatter(theirs[c]) for c in set(ours) & set(theirs)]
        return beyond_chance(scatter) or any(beyond_chance(effects) for one in (who, opponent) for effects in self._ordered(one))

    def _ordered(self, who: str) -> Iterator[list[float]]:
        """By how much calls of one allocation differ, by each order that a kernel could give them: one number per allocation.

        The orders: odd and even calls of the process, odd and even timed calls, the first and the last half of these.
        """
        found: dict[int, list[Sample]] = {}
        for sample in self.samples:
            if sample.who == who and not sample.void:
                found.setdefault(sample.cluster, []).append(sample)
        logs = {c: [math.log(self._time(s)) for s in mine] for c, mine in found.items()}
        yield _differences(logs, {c: [s.position % 2 == 1 for s in mine] for c, mine in found.items()})
        yield _differences(logs, {c: [i % 2 == 1 for i in range(len(mine))] for c, mine in found.items()})
        yield _differences(logs, {c: [2 * i >= len(mine) for i in range(len(mine))] for c, mine in found.items()})

    def _time(self, sample: Sample) -> float:
        return max(sample.cpu_ns - self.nulls.get(sample.who, self.null_ns), LEAST_TIME_NS)


def typical(times: Sequence[float]) -> float:
    """The least of an allocation's times where they agree, else their mean."""
    least = min(times)
    return least if max(times) <= AGREE * least else fmean(times)


def beyond_chance(effects: Sequence[float]) -> bool:
    """Whether an effect that was seen once per allocation is one.

    Args:
        effects: One per allocation, natural logarithms.
    """
    if len(effects) < FEWEST_EFFECTS:
        return False
    error = max(stdev(effects), SPREAD_FLOOR) / math.sqrt(len(effects))
    return abs(fmean(effects)) > max(UNEVEN, confidence_multiplier(len(effects), confidence=SURE) * error)


def _differences(logs: Mapping[int, Sequence[float]], marked: Mapping[int, Sequence[bool]]) -> list[float]:
    """Mean of marked times less that of the others, by allocation that has both."""
    found = []
    for cluster, values in logs.items():
        those = [v for v, mark in zip(values, marked[cluster], strict=True) if mark]
        others = [v for v, mark in zip(values, marked[cluster], strict=True) if not mark]
        if those and others:
            found.append(fmean(those) - fmean(others))
    return found


def _scatter(times: Sequence[float]) -> float:
    """Logarithm by which the mean of an allocation's times is above the least of them."""
    return math.log(fmean(times) / min(times))


def _total(times: Mapping[int, Sequence[float]], clusters: Sequence[int]) -> float:
    """Mean of all times but the longest: one interrupt is nobody's doing, a second one is."""
    every = sorted(t for c in clusters for t in times[c])
    return fmean(every[:-1] or every)


def measurement(
    workload: Workload,
    who: str,
    series: Series,
    opponent: str,
    as_name: str,
    *,
    null_ns: float,
    resolution_ns: float,
    floor_us: float | None,
    clock: Clock = Clock.JUDGED,
) -> Measurement | None:
    """What a series says of one contestant; None where no pair is valid.

    Args:
        workload: Where.
        who: Name of the contestant.
        series: Its samples.
        opponent: Name of the opponent in the samples.
        as_name: Name of the opponent in the result.
        null_ns: Of the clock.
        resolution_ns: Of the clock.
        floor_us: Time below which the device cannot be, for `share`.
        clock: Whose.
    """
    ratio = series.ratio(who, opponent)
    if ratio is None:
        return None
    time_us = median(series.times_ns(who)) / 1000
    return Measurement(
        workload=workload.name,
        clock=clock,
        time_us=time_us,
        null_us=null_ns / 1000,
        resolution_us=resolution_ns / 1000,
        share=None if floor_us is None else floor_us / time_us,
        versus={as_name: ratio},
        samples=tuple(series.samples),
    )


def merged(first: Measurement, second: Measurement) -> Measurement:
    """Two measurements of one workload: the second's time, and both lists of opponents and samples."""
    return replace(second, versus={**first.versus, **second.versus}, samples=first.samples + second.samples)
