"""The judge's clock: paired calls, blocks, and what a call that does nothing takes (EVALUATOR section 3).

On one thread a call takes the CPU time of its slot, and wall time must agree with it, but for the time that the machine kept the
slot waiting: a sample that waited for another process or for a clock is void and taken again. On several threads a call takes wall
time, from the moment its slot is thawed until it is frozen again, because CPU time over the threads granted would reward a kernel
that leaves most of them idle.

A kernel cannot tell a timed call from another: processes are young or have made a secret number of calls, any call may be checked
whole, and no process is timed on values that it has seen.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from evokern.evaluation import Clock, Measurement
from evokern.evaluator.call.caller import Call
from evokern.evaluator.call.contestant import Contestant, entered
from evokern.evaluator.call.protocol import Kind
from evokern.evaluator.reference.oracle import InputSet
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.secrecy import Secret
from evokern.evaluator.timing import series as of_series
from evokern.evaluator.timing.contention import CONTENDED, MOST_VOID_US, VOID_US, cpu_pressure, waited
from evokern.evaluator.timing.contest import Contest
from evokern.evaluator.timing.eviction import Evicts
from evokern.evaluator.timing.series import Series
from evokern.evaluator.timing.side import BRIEF_SETS, Ages, Side
from evokern.evaluator.timing.stopping import CLUSTERS, Stop, allocate_until, never
from evokern.task import Task, Workload

AGAIN_CALM = 3
"""How often a kernel is timed against itself where it seems to differ from itself by more than `CALM`."""

CALM = 0.02

ITSELF_CLUSTERS = 6

FEW_BEYOND, SCATTERS = 0.9, 2.5
"""Quantile of the waits of a kernel that never waits, and so many times its distance from the median: about one call in a hundred waits
for longer."""


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
        null_gap_ns: Wall time of a call of a kernel that never waits, in which it neither worked nor queued for a processor.
        slack_ns: By how much that time scatters.
        resolution_ns: Interquartile range of it.
        margin: Logarithm by which a kernel seems to differ from itself; intervals are widened by it.
    """

    task: Task
    threads: int
    shelf: Shelf
    evictor: Evicts
    deadline: Callable[[Workload], float]
    null_ns: float = 0.0
    null_gap_ns: float = 0.0
    slack_ns: float = VOID_US * 1000
    resolution_ns: float = 0.0
    margin: float = 0.0
    _queues: deque[float] = field(default_factory=lambda: deque(maxlen=24))
    _pressure: float = 0.0

    def calibrate(self, null: Contestant, workload: Workload, secret: Secret, count: int = 32) -> None:
        """Time a kernel that does nothing, under the same protocol, writes and eviction included."""
        calls = self._calls(null, workload, secret.stream("null"), count)
        times = np.array([self.time_ns(call) for call in calls])
        self.null_ns = float(np.median(times))
        self.null_gap_ns = float(np.median([gap_ns(call) for call in calls]))
        low, high = np.percentile(times, [25, 75])
        self.resolution_ns = float(high - low)

    def calibrate_gap(self, worker: Contestant, workloads: Sequence[Workload], secret: Secret, count: int = 12) -> None:
        """Learn from a trusted kernel that works all the time by how much wall time exceeds CPU time for no fault of a kernel's.

        It is more where memory is moved than where nothing is done (120 us instead of 50 on a virtual machine), and the same for short
        and for long calls: held against the null alone, it made fast kernels seem to wait.
        """
        gaps = [gap_ns(call) for w in workloads for call in self._calls(worker, w, secret.stream("gap", w.name), count)]
        self.null_gap_ns = max(self.null_gap_ns, median(gaps))
        scatter = float(np.quantile(gaps, FEW_BEYOND)) - median(gaps)
        self.slack_ns = min(max(VOID_US * 1000, SCATTERS * scatter), MOST_VOID_US * 1000)

    def idle_ns(self, idle: Contestant, workload: Workload, secret: Secret, count: int = 32) -> float:
        """What a call of a resident process costs that computes nothing, median."""
        return median(self.time_ns(call) for call in self._calls(idle, workload, secret.stream("idle"), count))

    def calibrate_margin(self, one: Contestant, same: Contestant, workloads: Sequence[Workload], secret: Secret) -> None:
        """Time a kernel against itself: what its ratio differs from 1 by is no gain of anybody's.

        Args:
            one: Any kernel.
            same: The same under another name.
            workloads: On which; the one that it differs most on decides.
            secret: Key and context of every draw.
        """
        margins = []
        for turn in range(AGAIN_CALM):
            found = self.compare(one, same, workloads, secret.derive("itself", turn), clusters=ITSELF_CLUSTERS, stop=never)
            margins.append(max((s.bias(one.name, same.name) for s in found.values()), default=0.0))
            if margins[-1] <= CALM:
                break
        self.margin = min(margins)

    def glance(self, contestant: Contestant, workload: Workload, secret: Secret, count: int = 5) -> float:
        """A quick look at a time, microseconds less the null: enough to tell what is long enough to be timed."""
        calls = self._calls(contestant, workload, secret.stream("glance", workload.name), count)
        return max(median(self.time_ns(call) for call in calls) - self.null_of(contestant), 0.0) / 1000

    def _calls(self, contestant: Contestant, workload: Workload, rng: np.random.Generator, count: int) -> list[Call]:
        with entered(contestant, [workload]) as callers:
            side = Side(self, contestant, callers)
            return [side.call(workload, self.shelf.timed(workload, i % self.shelf.count(workload)), rng) for i in range(count + 1)][1:]

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
        long_stays: int = 0,
        only: Callable[[Workload], Sequence[int]] | None = None,
    ) -> dict[str, Series]:
        """Time two contestants in blocks ABBA or BAAB by secret coin, each allocation with fresh processes and memory.

        Args:
            who: The one whose ratio is asked for.
            opponent: The other.
            workloads: On which.
            secret: Key and context of every draw.
            clusters: Most allocations.
            blocks: Blocks of two pairs per allocation and workload; see `allocate_until`.
            stop: See `Stop`; asked after each allocation.
            long_stays: In how many of the first `CLUSTERS` allocations, by secret choice, a kernel makes many calls on each workload.
            only: Numbers of the base sets that a workload's calls may take; all of them where it is None.

        Raises:
            Fault: A contestant failed, waits instead of working, or wears out.
        """
        self.evictor.settle()
        nulls = {c.name: self.null_of(c) for c in (who, opponent)}
        series = {w.name: Series(self.null_ns, self.margin, nulls=nulls) for w in workloads}
        contest = Contest(self, who, opponent, series, only=only)
        ages = Ages(secret.stream("ages"))
        longer = set(secret.stream("longer").permutation(CLUSTERS)[:long_stays].tolist())

        def allocate(cluster: int, size: int) -> None:
            self._pressure = cpu_pressure()
            contest.allocate(workloads, cluster, size, ages.draw(), secret.stream("cluster", cluster), longer=cluster in longer)

        try:
            allocate_until(stop, allocate, contest.ratios, clusters=clusters, blocks=blocks)
            if contest.seems_worn():
                # One kernel in some hundred seems so by chance on a noisy machine: as many allocations again tell.
                for cluster in range(contest.allocations, 2 * contest.allocations):
                    allocate(cluster, blocks)
        finally:
            who.release()
            opponent.release()
        contest.charge()
        return contest.series

    def stock(self, contestant: Contestant, workloads: Sequence[Workload], cluster: int) -> None:
        """Start a contestant's processes ahead of an allocation, where they would not be in each other's way."""

    def measurement(
        self, workload: Workload, who: str, series: Series, opponent: str, as_name: str, floor_us: float | None
    ) -> Measurement | None:
        """See `series.measurement`."""
        return of_series.measurement(
            workload,
            who,
            series,
            opponent,
            as_name,
            null_ns=self.null_ns,
            resolution_ns=self.resolution_ns,
            floor_us=floor_us,
            clock=self.name,
        )

    @property
    def brief(self) -> Workload:
        """The visible workload whose calls are shortest."""
        return min(self.task.search, key=lambda w: math.prod(v for _, v in w.axes))

    def brief_set(self, index: int) -> InputSet:
        """Values for a call that is not timed."""
        names = self.task.distributions
        return self.shelf.checked(dict(self.brief.axes), names[index % len(names)], 1000 + index % BRIEF_SETS)

    def void(self, call: Call) -> str:
        """Why a call's time does not count; empty where it does."""
        if not self.by_cpu_time or not self.null_ns:
            return ""
        return "waited" if waited(self.beyond_ns(call), call.cpu_ns, contended=self.contended, slack_ns=self.slack_ns) else ""

    def heard(self, call: Call) -> None:
        """Take note of how long an opponent, who never waits by itself, had to queue."""
        self._queues.append(call.queued_ns / call.wall_ns)

    @property
    def contended(self) -> bool:
        """Whether others want this machine's processors too."""
        return self._pressure > CONTENDED or (bool(self._queues) and median(self._queues) > CONTENDED)

    def beyond_ns(self, call: Call) -> float:
        """Wall time in which it neither worked nor queued, beyond that of a call of a kernel that never waits."""
        return gap_ns(call) - self.null_gap_ns

    def null_of(self, contestant: Contestant) -> float:
        """What is taken off the time of its calls, nanoseconds."""
        return self.null_ns if contestant.null_ns is None else contestant.null_ns

    def taking(self, *contestants: Contestant) -> AbstractContextManager[None]:
        """For the length of a block, calls take the time that all of these can have."""
        return nullcontext()

    def kind(self, workload: Workload, *, evict: bool) -> Kind:
        """What a call is asked for with: a device's clock has kinds of its own."""
        return Kind.GO

    @property
    def by_cpu_time(self) -> bool:
        """Whether a call takes the CPU time of its slot, which its wall time is then held against."""
        return self.threads == 1

    @property
    def name(self) -> Clock:
        """Whose clock it is."""
        return Clock.JUDGED

    def time_ns(self, call: Call) -> float:
        """What a call took, the null not yet taken off."""
        return call.cpu_ns if self.by_cpu_time else call.span_ns


def gap_ns(call: Call) -> int:
    """Wall time in which the slot neither worked nor, like the judge that listened to it, waited for a processor."""
    return call.wall_ns - call.cpu_ns - call.queued_ns
