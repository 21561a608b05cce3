"""The judge's clock: paired calls, blocks, and what a call that does nothing takes (EVALUATOR section 3).

On one thread a call takes the CPU time of its slot, and wall time must agree with it, but for the time that the scheduler says
it kept the slot waiting: a sample that waited for another process or for a clock is void and taken again. On several threads a call
takes wall time, because CPU time over the threads granted would reward a kernel that leaves most of them idle.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from evokern.errors import Unavailable
from evokern.evaluation import Clock, Measurement, Ratio, Reason, Sample, Verdict
from evokern.evaluator.call.caller import Call, Caller, Fault
from evokern.evaluator.call.contestant import CANDIDATE, Contestant, entered
from evokern.evaluator.call.exchange import verify_tiles, write
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.secrecy import Secret
from evokern.statistics import paired_ratio
from evokern.task import Task, Workload

RETAKES = 3
"""How often a void sample is taken again before it is left out."""

VOID_SHARE = 0.06
"""Wall time beyond CPU time, as a share of it, from which a sample is void."""

CONTENDED = 0.05
"""From which share the machine is contended: of the wall time for which opponents queue, at the median of their last calls, or of
the last ten seconds in which some task of the machine had to wait for a processor (Linux's pressure stall information).

The scheduler says how long a runner's first thread had to queue but not how long the others had, so there a kernel with
threads seems to be idle; the CPU clock, which covers the whole slot, then stands alone up to `CONTENDED_SHARE`."""

CONTENDED_SHARE = 3.0
"""As `VOID_SHARE`, on a contended machine: what three others on the same processor can add."""

VOID_US = 60.0
"""The same in microseconds beyond the null's own, for short calls."""

CHARGED = 0.5
"""Share of void samples above which a candidate is charged, where its opponent has less than half of that."""

EVICTION_SHARE = 2
"""Bytes read to evict, over the size of the last-level cache."""

LEAST_TIME_NS = 1000.0
"""Times at or below the null are taken as this, so that a ratio stays finite; `impossible` deals with them."""


class Evictor:
    """Empties the caches by reading clean memory; writing would leave dirty lines that land in the timed span.

    Args:
        cache_bytes: Size of the last-level cache.
    """

    def __init__(self, cache_bytes: int) -> None:
        self._memory = np.ones(min(max(EVICTION_SHARE * cache_bytes, 32 << 20), 256 << 20) // 8, np.uint64)

    def evict(self) -> None:
        """Read all of it."""
        self._memory.sum()


@dataclass
class Series:
    """Samples of two contestants on one workload, and what follows from them.

    Attributes:
        samples: All of them, void ones included.
        null_ns: Taken off each time.
    """

    null_ns: float
    samples: list[Sample] = field(default_factory=list)

    def times_ns(self, who: str) -> list[float]:
        """Valid times of one contestant, null taken off."""
        return [self._time(s) for s in self.samples if s.who == who and not s.void]

    def ratio(self, who: str, opponent: str) -> Ratio | None:
        """The opponent's time over `who`'s; None where no allocation has a valid sample of both.

        Within an allocation it is the least time of each side: whatever else runs on the machine only ever adds to a time, and
        both sides were called as often, in turn.
        """
        ours, theirs = self._by_cluster(who), self._by_cluster(opponent)
        clusters = sorted(set(ours) & set(theirs))
        if not clusters:
            return None
        logs = [math.log(min(theirs[c]) / min(ours[c])) for c in clusters]
        pairs = sum(min(len(ours[c]), len(theirs[c])) for c in clusters)
        return replace(paired_ratio(logs, clusters), pairs=pairs)

    def _by_cluster(self, who: str) -> dict[int, list[float]]:
        times: dict[int, list[float]] = {}
        for sample in self.samples:
            if sample.who == who and not sample.void:
                times.setdefault(sample.cluster, []).append(self._time(sample))
        return times

    def void_share(self, who: str) -> float:
        """Share of void samples of one contestant."""
        mine = [s for s in self.samples if s.who == who]
        return sum(bool(s.void) for s in mine) / len(mine) if mine else 0.0

    def _time(self, sample: Sample) -> float:
        return max(sample.cpu_ns - self.null_ns, LEAST_TIME_NS)


Stop = Callable[[Mapping[str, Ratio], int], bool]
"""Told the ratios so far and the number of allocations; whether to stop."""


@dataclass
class JudgedClock:
    """Times contestants against each other.

    Attributes:
        task: Whose calls.
        threads: Threads granted.
        shelf: Sets of inputs with expected outputs.
        evictor: Empties caches.
        deadline: Seconds a call on a workload may take.
        null_ns: Median time of a call that does nothing; 0 until calibrated.
        null_gap_ns: Wall time in which it neither worked nor waited for a processor.
        resolution_ns: Interquartile range of it.
    """

    task: Task
    threads: int
    shelf: Shelf
    evictor: Evictor
    deadline: Callable[[Workload], float]
    null_ns: float = 0.0
    null_gap_ns: float = 0.0
    resolution_ns: float = 0.0
    _queues: deque[float] = field(default_factory=lambda: deque(maxlen=24))
    _pressure: float = 0.0

    def calibrate(self, null: Contestant, workload: Workload, secret: Secret, count: int = 32) -> None:
        """Time a kernel that does nothing, under the same protocol, writes and eviction included."""
        calls = self._calls(null, workload, secret.stream("null"), count)
        times = np.array([self._time_ns(call) for call in calls])
        self.null_ns = float(np.median(times))
        self.null_gap_ns = float(np.median([_idle_ns(call) for call in calls]))
        low, high = np.percentile(times, [25, 75])
        self.resolution_ns = float(high - low)

    def glance(self, contestant: Contestant, workload: Workload, secret: Secret, count: int = 5) -> float:
        """A quick look at a time, microseconds less the null: enough to tell what is long enough to be timed."""
        calls = self._calls(contestant, workload, secret.stream("glance", workload.name), count)
        return max(median(self._time_ns(call) for call in calls) - self.null_ns, 0.0) / 1000

    def _calls(self, contestant: Contestant, workload: Workload, rng: np.random.Generator, count: int) -> list[Call]:
        with entered(contestant, [workload]) as callers:
            return [
                self._call(contestant, callers[workload.name], workload, rng, i % self.shelf.count(workload))[0] for i in range(count + 1)
            ][1:]

    def compare(
        self,
        who: Contestant,
        opponent: Contestant,
        workloads: Sequence[Workload],
        secret: Secret,
        *,
        clusters: int,
        blocks: int = 1,
        stop: Stop,
    ) -> dict[str, Series]:
        """Time two contestants in blocks ABBA or BAAB by secret coin, each allocation with fresh processes and memory.

        Args:
            who: The one whose ratio is asked for.
            opponent: The other.
            workloads: On which.
            secret: Key and context of every draw.
            clusters: Most allocations.
            blocks: Blocks of two pairs per allocation and workload.
            stop: See `Stop`; asked after each allocation.

        Raises:
            Fault: A contestant failed, or waits instead of working.
        """
        series = {w.name: Series(self.null_ns) for w in workloads}
        for cluster in range(clusters):
            rng = secret.stream("cluster", cluster)
            self._pressure = cpu_pressure()
            with entered(who, workloads) as ours, _unblamed(opponent, workloads) as theirs:
                for workload in workloads:
                    sides = (who, ours[workload.name]), (opponent, theirs[workload.name])
                    self._blocks(*sides, workload, rng, cluster, blocks, series[workload.name])
            ratios = {name: one.ratio(who.name, opponent.name) for name, one in series.items()}
            if all(ratios.values()) and stop({k: v for k, v in ratios.items() if v is not None}, cluster + 1):
                break
        self._charge(who.name, opponent.name, series)
        return series

    def _blocks(
        self,
        a: tuple[Contestant, Caller],
        b: tuple[Contestant, Caller],
        workload: Workload,
        rng: np.random.Generator,
        cluster: int,
        blocks: int,
        series: Series,
    ) -> None:
        """One workload's share of an allocation: a warm call each, then blocks of two pairs on sets that no call has seen."""
        warm, *chosen = (int(i) for i in rng.choice(self.shelf.count(workload), 1 + 2 * blocks, replace=False))
        for contestant, caller in (a, b):  # the first call on a shape is a build
            self._call(contestant, caller, workload, rng, warm)
        for block in range(blocks):
            first, second = (a, b) if rng.integers(2) else (b, a)
            for (contestant, caller), pair in ((first, 0), (second, 0), (second, 1), (first, 1)):
                index = 2 * block + pair
                series.samples += self._sample(contestant, caller, workload, rng, chosen[index], cluster, index)

    def _sample(
        self, contestant: Contestant, caller: Caller, workload: Workload, rng: np.random.Generator, index: int, cluster: int, pair: int
    ) -> list[Sample]:
        """One half of a pair: the valid sample last, void ones before it."""
        taken = []
        for _ in range(1 + RETAKES):
            call, void = self._call(contestant, caller, workload, rng, index)
            taken.append(Sample(contestant.name, cluster, pair, round(self._time_ns(call)), call.wall_ns, void))
            if not void:
                break
        return taken

    def _call(self, contestant: Contestant, caller: Caller, workload: Workload, rng: np.random.Generator, index: int) -> tuple[Call, str]:
        exchange = write(self.task, caller, dict(workload.axes), self.shelf.timed(workload, index), rng, layout="contiguous", permute=True)
        if workload.residency == "cold":
            self.evictor.evict()
        try:
            call = caller.call(exchange.placed, self.deadline(workload))
            if not contestant.trusted:
                verify_tiles(self.task, caller, exchange, rng)
        except Fault as fault:
            raise fault if contestant.name == CANDIDATE else _opponent_failed(contestant, fault) from None
        if contestant.name != CANDIDATE:
            self._queues.append(call.queued_ns / call.wall_ns)
        return call, self._void(call)

    def _time_ns(self, call: Call) -> float:
        return call.cpu_ns if self.threads == 1 else call.wall_ns

    def _void(self, call: Call) -> str:
        if self.threads > 1:
            return ""
        beyond = _idle_ns(call) - self.null_gap_ns
        contended = self._pressure > CONTENDED or (bool(self._queues) and median(self._queues) > CONTENDED)
        share = CONTENDED_SHARE if contended else VOID_SHARE
        return "waited" if self.null_ns and beyond > max(share * call.cpu_ns, VOID_US * 1000) else ""

    def _charge(self, who: str, opponent: str, series: Mapping[str, Series]) -> None:
        for one in series.values() if who == CANDIDATE else ():
            if one.void_share(who) > CHARGED and one.void_share(opponent) < CHARGED / 2:
                raise Fault(
                    Verdict.QUARANTINED,
                    Reason.CLOCK_MISMATCH,
                    "its wall time exceeds its CPU time: it waits, or works where the clock does not see it",
                )


def _idle_ns(call: Call) -> int:
    """Wall time in which the slot neither worked nor, like the judge that listened to it, waited for a processor."""
    return call.wall_ns - call.cpu_ns - call.queued_ns


def cpu_pressure() -> float:
    """Share of the last ten seconds in which some task had to wait for a processor; 0 where the kernel does not say."""
    try:
        with open("/proc/pressure/cpu", encoding="ascii") as stream:
            return float(stream.readline().split("avg10=")[1].split()[0]) / 100
    except (OSError, IndexError, ValueError):
        return 0.0


@contextmanager
def _unblamed(opponent: Contestant, workloads: Sequence[Workload]) -> Iterator[Mapping[str, Caller]]:
    """As `entered`, for a contestant whose failure to start is not the candidate's."""
    try:
        callers = opponent.enter(workloads)
    except Fault as fault:
        raise _opponent_failed(opponent, fault) from None
    try:
        yield callers
    finally:
        opponent.leave(callers)


def _opponent_failed(opponent: Contestant, fault: Fault) -> Exception:
    if opponent.resident:
        return Unavailable(f"the process of '{opponent.name}' died: {fault.detail or fault.reason}")
    return Fault(Verdict.INFRASTRUCTURE, Reason.HOST_ERROR, f"the opponent '{opponent.name}' failed: {fault.detail or fault.reason}")


def measurement(
    workload: Workload, who: str, series: Series, opponent: str, as_name: str, clock: JudgedClock, floor_us: float | None
) -> Measurement | None:
    """What a series says of one contestant; None where no pair is valid.

    Args:
        workload: Where.
        who: Name of the contestant.
        series: Its samples.
        opponent: Name of the opponent in the samples.
        as_name: Name of the opponent in the result.
        clock: For null and resolution.
        floor_us: Time below which the device cannot be, for `share`.
    """
    ratio = series.ratio(who, opponent)
    if ratio is None:
        return None
    time_us = median(series.times_ns(who)) / 1000
    return Measurement(
        workload=workload.name,
        clock=Clock.JUDGED,
        time_us=time_us,
        null_us=clock.null_ns / 1000,
        resolution_us=clock.resolution_ns / 1000,
        share=None if floor_us is None else floor_us / time_us,
        versus={as_name: ratio},
        samples=tuple(series.samples),
    )


def merged(first: Measurement, second: Measurement) -> Measurement:
    """Two measurements of one workload: the second's time, and both lists of opponents and samples."""
    return replace(second, versus={**first.versus, **second.versus}, samples=first.samples + second.samples)
