"""A contest: two contestants over several allocations, and what is charged to them at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from evokern.evaluation import Ratio, Reason, Verdict
from evokern.evaluator.call.caller import Call, Caller, Fault
from evokern.evaluator.call.contestant import CANDIDATE, Contestant, entered
from evokern.evaluator.timing.contention import VOID_US
from evokern.evaluator.timing.series import Series
from evokern.evaluator.timing.side import Side, opponent_fault
from evokern.evaluator.timing.wear import keeps_memory, slows_down
from evokern.task import Workload

if TYPE_CHECKING:
    from evokern.evaluator.timing.clock import JudgedClock

CHARGED = 0.5
"""Share of void samples above which a candidate is charged, where its opponent has less than half of that."""

IDLE_SHARE = 0.5
"""Share of the time it waited for which processors must have been idle, else the machine kept it waiting."""

MISMATCH = 0.04
"""Share by which the wall time of a whole series may exceed its CPU time beyond the opponent's; R over the number of calls, or what a
single call may, where that is more."""


@dataclass
class Contest:
    """Two contestants over several allocations, and what is charged to them at the end."""

    clock: JudgedClock
    who: Contestant
    opponent: Contestant
    series: dict[str, Series]
    calls: dict[str, list[Call]] = field(default_factory=dict)
    kept: dict[str, list[int]] = field(default_factory=dict)
    allocations: int = 0

    def allocate(self, workloads: Sequence[Workload], cluster: int, blocks: int, calls_before: int, rng: np.random.Generator) -> None:
        """One allocation: fresh processes, `calls_before` calls of each, then blocks on every workload."""
        shapes = list({w.name: w for w in [*workloads, self.clock.brief]}.values())
        with entered(self.who, shapes) as ours, unblamed(self.opponent, shapes) as theirs:
            sides = [Side(self.clock, self.who, ours), Side(self.clock, self.opponent, theirs)]
            for side in sides:
                side.grow_older(calls_before, rng)
            for workload in workloads:
                if calls_before:
                    self.series[workload.name].aged.add(cluster)
                self._blocks(sides, workload, rng, cluster, blocks)
            self.allocations += 1
            for side in sides:
                self.kept.setdefault(side.contestant.name, []).extend(side.kept)

    def _blocks(self, sides: Sequence[Side], workload: Workload, rng: np.random.Generator, cluster: int, blocks: int) -> None:
        """One workload's share of an allocation: a warm call each, then blocks of two pairs on sets that no call has seen."""
        order = [int(i) for i in rng.permutation(self.clock.shelf.count(workload))]
        for side in sides:
            side.warm(workload, order, rng)
        for block in range(blocks):
            first, second = sides if rng.integers(2) else (sides[1], sides[0])
            for side, pair in ((first, 0), (second, 0), (second, 1), (first, 1)):
                calls = self.calls.setdefault(side.contestant.name, [])
                self.series[workload.name].samples += side.samples(workload, rng, cluster, 2 * block + pair, calls)

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
        if keeps_memory(self.kept.get(me.name, [])):
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
        if self.clock.threads > 1:
            return None
        mine, theirs = self.calls.get(me.name, []), self.calls.get(other.name, [])
        often = any(s.void_share(me.name) > CHARGED and s.void_share(other.name) < CHARGED / 2 for s in self.series.values())
        # On a contended machine a void call waited for longer than others could have kept it.
        if (often and (self.clock.contended or self._was_idle(mine))) or self._disagrees(mine, theirs):
            return Fault(
                Verdict.QUARANTINED,
                Reason.CLOCK_MISMATCH,
                "its wall time exceeds its CPU time: it waits, or works where the clock does not see it",
            )
        return None

    def _was_idle(self, calls: Sequence[Call]) -> bool:
        """Whether processors had nothing to do while these calls neither worked nor queued."""
        gap = sum(max(self.clock.beyond_ns(c), 0.0) for c in calls)
        return sum(c.idle_ns for c in calls) >= IDLE_SHARE * gap

    def _disagrees(self, mine: Sequence[Call], theirs: Sequence[Call]) -> bool:
        """Whether the wall time of all calls that count is more than their CPU time, and more so than the opponent's.

        What one call may hide below the resolution of a sample adds up over a series.
        """
        if self.clock.contended or not self.clock.null_ns:
            return False
        excess = self._excess([c for c in mine if not self.clock.void(c)]) - self._excess([c for c in theirs if not self.clock.void(c)])
        if not mine:
            return False
        allowed_ns = max(self.clock.resolution_ns / len(mine), VOID_US * 1000)
        return excess > max(MISMATCH, allowed_ns / max(fmean(c.cpu_ns for c in mine), 1.0)) and self._was_idle(mine)

    def _excess(self, calls: Sequence[Call]) -> float:
        """Wall time beyond CPU time over all of them, as a share of it."""
        work = sum(c.cpu_ns for c in calls)
        return sum(self.clock.beyond_ns(c) for c in calls) / work if work else 0.0


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
