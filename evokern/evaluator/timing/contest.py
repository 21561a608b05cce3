"""A contest: two contestants over several allocations, and what is charged to them at its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from evokern.evaluation import Ratio, Reason, Verdict
from evokern.evaluator.call.caller import Call, Caller, Fault
from evokern.evaluator.call.contestant import CANDIDATE, Contestant, entered
from evokern.evaluator.timing.contention import waited
from evokern.evaluator.timing.series import Series
from evokern.evaluator.timing.side import LONG_CALLS, Side, opponent_fault
from evokern.evaluator.timing.wear import Stay, keeps_memory, slows_down
from evokern.task import Workload

if TYPE_CHECKING:
    from evokern.evaluator.timing.clock import JudgedClock

CHARGED = 0.25
"""Share of void samples above which a candidate is charged, where its opponent's share is less than a third of its own."""

MORE_VOID = 3.0
"""So many times the opponent's share of void samples is not the machine's doing."""

FEWEST_CHARGED = 6
"""Void samples on one workload that it takes to charge anybody for them."""

IDLE_SHARE = 0.5
"""Share of the time it waited for which processors must have been idle, else the machine kept it waiting."""

FAR = 4.0
"""So many times what its opponent's calls wait is no share of what the machine makes both of them wait."""

MOST_FAR, MOST_NEAR = 3 / 4, 7 / 8
"""Share of a side's calls that must wait so much longer, and of the opponent's than which they must: a machine that was stopped for a
moment says nothing of either."""

FEWEST_FAR, FEWEST_NEAR = 18, 24
"""Calls that must, and calls of the opponent. Were the waits of both of one kind, chance would have them so, the factor `FAR` apart,
with a probability below 2e-5."""

MISMATCH = 0.04
"""Share by which the wall time of a whole series may exceed its CPU time beyond the opponent's; R over the number of calls, or what a
single call may, where that is more."""


@dataclass
class Contest:
    """Two contestants over several allocations, and what is charged to them at the end.

    Attributes:
        clock: Whose calls.
        who: The one whose ratio is asked for.
        opponent: The other.
        series: What was measured, by workload.
        calls: Timed calls by contestant.
        kept: See `Side`, by contestant.
        counted: See `Side`, by contestant.
        allocations: How many there were.
        only: Numbers of the base sets that a workload's calls may take; all of them where it is None.
    """

    clock: JudgedClock
    who: Contestant
    opponent: Contestant
    series: dict[str, Series]
    calls: dict[str, list[Call]] = field(default_factory=dict)
    kept: dict[str, list[list[int]]] = field(default_factory=dict)
    counted: dict[str, list[Stay]] = field(default_factory=dict)
    allocations: int = 0
    only: Callable[[Workload], Sequence[int]] | None = None

    def allocate(
        self, workloads: Sequence[Workload], cluster: int, blocks: int, calls_before: int, rng: np.random.Generator, *, longer: bool = False
    ) -> None:
        """One allocation: fresh processes, `calls_before` calls of each, then blocks on every workload.

        Args:
            workloads: On which.
            cluster: Its index.
            blocks: Blocks on each workload.
            calls_before: Untimed calls on the smallest workload.
            rng: Secret chance.
            longer: Whether kernels make many untimed calls on each timed workload too (`Side.stay_longer`).
        """
        shapes = list({w.name: w for w in [*workloads, self.clock.brief]}.values())
        for contestant in (self.who, self.opponent):
            self.clock.stock(contestant, shapes, cluster)
        with entered(self.who, shapes) as ours, unblamed(self.opponent, shapes) as theirs:
            sides = [Side(self.clock, self.who, ours), Side(self.clock, self.opponent, theirs)]
            for side in sides:
                side.grow_older(calls_before, rng)
            for workload in workloads:
                if calls_before or longer:
                    self.series[workload.name].aged.add(cluster)
                long_calls = int(rng.integers(*LONG_CALLS, endpoint=True)) // min(len(workloads), 2) if longer else 0
                self._blocks(sides, workload, rng, cluster, blocks, long_calls)
            self.allocations += 1
            for side in sides:
                self.kept.setdefault(side.contestant.name, []).extend(side.kept.values())
                self.counted.setdefault(side.contestant.name, []).extend(side.counted)

    def _blocks(
        self, sides: Sequence[Side], workload: Workload, rng: np.random.Generator, cluster: int, blocks: int, long_calls: int
    ) -> None:
        """One workload's share of an allocation: a warm call each, then blocks of two pairs on sets that no call has seen."""
        order = [int(i) for i in rng.permutation(list(self.sets(workload)))]
        for side in sides:
            side.warm(workload, order, rng)
            if long_calls:
                side.stay_longer(workload, long_calls, rng)
            if cluster == 0:  # the one allocation that every measurement has
                side.check_one(workload, 2 * blocks, rng)
        for block in range(blocks):
            first, second = sides if rng.integers(2) else (sides[1], sides[0])
            for side, pair in ((first, 0), (second, 0), (second, 1), (first, 1)):
                calls = self.calls.setdefault(side.contestant.name, [])
                self.series[workload.name].samples += side.samples(workload, rng, cluster, 2 * block + pair, calls)

    def sets(self, workload: Workload) -> Sequence[int]:
        """Numbers of the base sets that its calls take."""
        return range(self.clock.shelf.count(workload)) if self.only is None else self.only(workload)

    def ratios(self) -> dict[str, Ratio | None]:
        """What is known so far, by workload."""
        return {name: one.ratio(self.who.name, self.opponent.name) for name, one in self.series.items()}

    def seems_worn(self) -> bool:
        """Whether a side that may be charged seems to slow down."""
        return any(self._slowing(me, other) for me, other in self._chargeable())

    def charge(self) -> None:
        """Charge contestants for waiting and for wear; the opponent's faults are not the candidate's.

        Raises:
            Fault: There is something to charge.
        """
        for me, other in self._chargeable():
            fault = self._wear(me, other) or self._waiting(me, other)
            if fault is not None:
                raise fault if me.name == CANDIDATE else opponent_fault(me, fault)

    def _wear(self, me: Contestant, other: Contestant) -> Fault | None:
        # The host memory of a sealed process is none of a candidate's.
        if not me.sealed and keeps_memory(self.kept.get(me.name, []), self.counted.get(me.name, [])):
            return Fault(Verdict.QUARANTINED, Reason.WEAR, "its process keeps more memory with every call")
        name = self._slowing(me, other)
        return Fault(Verdict.QUARANTINED, Reason.WEAR, f"{name}: its calls become slower the more its process has made") if name else None

    def _slowing(self, me: Contestant, other: Contestant) -> str:
        """The workload on which older processes are slower; empty where there is none."""
        return next((name for name, one in self.series.items() if slows_down(one, me.name, other.name)), "")

    def _chargeable(self) -> Iterator[tuple[Contestant, Contestant]]:
        """Sides that are kernels under judgement, each with its opponent."""
        for me, other in ((self.who, self.opponent), (self.opponent, self.who)):
            if not (me.resident or me.trusted):
                yield me, other

    def _waiting(self, me: Contestant, other: Contestant) -> Fault | None:
        if not self.clock.by_cpu_time:
            return None
        mine, theirs = self.calls.get(me.name, []), self.calls.get(other.name, [])
        void = [s.void_share(me.name) for s in self.series.values() if _void_by_itself(s, me.name, other.name)]
        often = max(void, default=0.0) > CHARGED
        # On a contended machine a void call waited for longer than others could have kept it.
        void_alone = often and (self.clock.contended or self._was_idle(mine))
        if void_alone or self._waits_far_longer(mine, theirs) or self._disagrees(mine, theirs, void_too=bool(void)):
            return Fault(
                Verdict.QUARANTINED,
                Reason.CLOCK_MISMATCH,
                "its wall time exceeds its CPU time: it waits, or works where the clock does not see it",
            )
        return None

    def _waits_far_longer(self, mine: Sequence[Call], theirs: Sequence[Call]) -> bool:
        """Whether most calls wait as no contended machine makes them, and as hardly one of the opponent's does.

        It tells who sleeps where a restless machine makes calls of both sides void, so that their numbers tell nothing.
        """
        if not self.clock.null_ns or len(theirs) < FEWEST_NEAR:
            return False
        near = sorted(self.clock.beyond_ns(c) for c in theirs)[math.ceil(MOST_NEAR * len(theirs)) - 1]
        waits = [(self.clock.beyond_ns(c), c.cpu_ns) for c in mine]
        slack_ns = self.clock.slack_ns
        far = sum(waited(beyond, cpu, contended=True, slack_ns=slack_ns) and beyond > FAR * near for beyond, cpu in waits)
        return far >= max(FEWEST_FAR, MOST_FAR * len(mine))

    def _was_idle(self, calls: Sequence[Call]) -> bool:
        """Whether processors had nothing to do while these calls neither worked nor queued."""
        gap = sum(max(self.clock.beyond_ns(c), 0.0) for c in calls)
        return sum(c.idle_ns for c in calls) >= IDLE_SHARE * gap

    def _disagrees(self, mine: Sequence[Call], theirs: Sequence[Call], *, void_too: bool) -> bool:
        """Whether the wall time of all calls that count is more than their CPU time, and more so than the opponent's.

        What one call may hide below the resolution of a sample adds up over a series; so does what a few void calls hide.
        """
        if self.clock.contended or not self.clock.null_ns:
            return False
        counted = [c for c in mine if void_too or not self.clock.void(c)]
        # Queues are told to a side in lumps now and then, so that one seems to wait for less than nothing: nobody else's fault.
        excess = self._excess(counted) - max(self._excess([c for c in theirs if void_too or not self.clock.void(c)]), 0.0)
        if not mine:
            return False
        allowed_ns = max(self.clock.resolution_ns / len(mine), self.clock.slack_ns)
        return excess > max(MISMATCH, allowed_ns / max(fmean(c.cpu_ns for c in mine), 1.0)) and self._was_idle(mine)

    def _excess(self, calls: Sequence[Call]) -> float:
        """Wall time beyond CPU time over all of them, as a share of it."""
        work = sum(c.cpu_ns for c in calls)
        return sum(self.clock.beyond_ns(c) for c in calls) / work if work else 0.0


def _void_by_itself(series: Series, me: str, other: str) -> bool:
    """Whether so many of a contestant's samples are void, and so few of the other's, that it is no accident."""
    return series.voids(me) >= FEWEST_CHARGED and series.void_share(me) > MORE_VOID * series.void_share(other)


@contextmanager
def unblamed(opponent: Contestant, workloads: Sequence[Workload]) -> Iterator[Mapping[str, Caller]]:
    """As `entered`, for a contestant whose faults are not the candidate's."""
    try:
        callers = opponent.enter(workloads)
    except Fault as fault:
        raise opponent_fault(opponent, fault) from None
    try:
        yield callers
    except BaseException:
        opponent.leave(callers)
        raise
    strays = opponent.leave(callers)
    if strays:
        raise opponent_fault(opponent, Fault(Verdict.HACKED, Reason.RESIDUAL_WORK, f"left {strays} processes behind"))
