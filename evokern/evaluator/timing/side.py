"""One contestant in one allocation: its process's calls, from the first to the last, and what they are checked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evokern.errors import Unavailable
from evokern.evaluation import INCUMBENT, Reason, Sample, Verdict
from evokern.evaluator.call.caller import Call, Caller, Fault
from evokern.evaluator.call.contestant import CANDIDATE, Contestant
from evokern.evaluator.call.exchange import verify_all, verify_tiles, write
from evokern.evaluator.reference.oracle import InputSet
from evokern.evaluator.timing.wear import Stay, looks
from evokern.task import Workload

if TYPE_CHECKING:
    from evokern.evaluator.timing.clock import JudgedClock

RETAKES = 3
"""How often a void sample is taken again before it is left out."""

WHOLE = 16
"""One timed call in so many is checked whole, by secret coin; the others on secret rows and for what was never written. Coins alone
would let a side that is wrong in one row of 512, in every call, through a measurement that ends after three allocations in three cases
of ten, so one of its first timed calls is checked whole besides (`Side.check_one`)."""

FEWEST_BEFORE, MOST_BEFORE = 8, 96
"""How many calls an older process made before it is timed, drawn evenly on a logarithmic scale: no number is likely to be met."""

BRIEF_SETS = 8
"""Sets for these calls."""

LONG_CALLS = (16, 32)
"""Fewest and most untimed calls of a long stay (`Side.stay_longer`), shared by two workloads where there are more than one."""

LONG_SETS = 4
"""Most sets for these; no call of the same process is timed on one of them."""

LONG_WHOLE = 8
"""One of these calls in so many is checked whole, by secret coin."""


class Ages:
    """How many calls processes make before they are timed.

    Of every two allocations one, by secret coin, has fresh processes; in the other both sides make a secret number of calls first.

    Args:
        rng: Secret chance.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._due: list[int] = []

    def draw(self) -> int:
        """Calls before the next allocation's timed ones."""
        if not self._due:
            older = round(math.exp(self._rng.uniform(math.log(FEWEST_BEFORE), math.log(MOST_BEFORE))))
            self._due = [older, 0] if self._rng.integers(2) else [0, older]
        return self._due.pop()


class Side:
    """One contestant in one allocation.

    Args:
        clock: Whose calls.
        contestant: Who is called.
        callers: Its runners, by workload.

    Attributes:
        kept: By how many bytes each call changed its process's private memory, by workload, first calls on a shape left out.
        counted: What it kept over its long stays, counted page by page.
    """

    def __init__(self, clock: JudgedClock, contestant: Contestant, callers: Mapping[str, Caller]) -> None:
        self.clock, self.contestant, self.callers = clock, contestant, callers
        self.kept: dict[str, list[int]] = {}
        self.counted: list[Stay] = []
        self._unseen: dict[str, list[int]] = {}
        self._until_whole: dict[str, int] = {}
        self._memory = 0

    @property
    def on_trial(self) -> bool:
        """Whether it is a kernel under judgement, and no trusted process."""
        return not (self.contestant.trusted or self.contestant.resident)

    def warm(self, workload: Workload, order: Sequence[int], rng: np.random.Generator) -> None:
        """The first call on a shape, which is a build; then `order` says which sets come next."""
        first, *rest = order
        self.call(workload, self.clock.shelf.timed(workload, first), rng, evict=False)
        self._unseen[workload.name] = list(rest)

    def grow_older(self, calls: int, rng: np.random.Generator) -> None:
        """Untimed calls on the smallest shape, each checked whole."""
        brief = self.clock.brief
        if not self.contestant.resident:
            for number in range(calls):
                values = self.clock.brief_set(int(rng.integers(BRIEF_SETS)))
                self.call(brief, values, rng, evict=False, whole=True, counts=number > 0)

    def stay_longer(self, workload: Workload, calls: int, rng: np.random.Generator) -> None:
        """Untimed calls on a timed workload, after the first and before the timed ones: some caches cold, some not, a few checked whole.

        What counts its calls on that workload meets these, and cannot tell them from timed ones.
        """
        unseen = self._unseen[workload.name]
        apart = min(LONG_SETS, len(unseen) // 2)  # enough must be left to time calls on
        stays, self._unseen[workload.name] = unseen[-apart:], unseen[:-apart]
        if not self.on_trial:
            return
        written, at = [], looks(calls)
        for number in range(1, calls + 1):
            values = self.clock.shelf.timed(workload, stays[int(rng.integers(len(stays)))])
            whole = bool(rng.integers(LONG_WHOLE) == 0)
            self.call(workload, values, rng, evict=bool(rng.integers(2)), whole=whole, counts=True)
            if number in at:
                written.append(self.callers[workload.name].slot.written_bytes())
        first, middle, last = written
        self.counted.append(Stay(at, (first, middle, last)))

    def check_one(self, workload: Workload, of: int, rng: np.random.Generator) -> None:
        """Check one of the next timed calls whole, whatever the coins say: which one is a secret, and coins stay for the others.

        Args:
            workload: On which.
            of: How many calls it is one of; so many must come.
            rng: Secret chance.
        """
        self._until_whole[workload.name] = int(rng.integers(of))

    def samples(self, workload: Workload, rng: np.random.Generator, cluster: int, pair: int, calls: list[Call]) -> list[Sample]:
        """One half of a pair: the valid sample last, void ones before it, each on a set that its process has not seen."""
        taken: list[Sample] = []
        unseen = self._unseen[workload.name]
        for _ in range(1 + RETAKES):
            if not unseen:
                break
            values = self.clock.shelf.timed(workload, unseen.pop(0))
            call = self.call(workload, values, rng, whole=self._is_due(workload), counts=True)
            calls.append(call)
            taken.append(
                Sample(
                    self.contestant.name,
                    cluster,
                    pair,
                    round(self.clock.time_ns(call)),
                    call.wall_ns,
                    self.clock.void(call),
                    coarse(min(call.claimed_ns, call.wall_ns)),
                    call.position,
                )
            )
            if not taken[-1].void:
                break
        return taken

    def _is_due(self, workload: Workload) -> bool:
        """Whether the next timed call is the one that `check_one` chose; a call that is taken again counts too."""
        left = self._until_whole.get(workload.name, -1)
        self._until_whole[workload.name] = left - 1
        return left == 0

    def call(
        self,
        workload: Workload,
        values: InputSet,
        rng: np.random.Generator,
        *,
        evict: bool = True,
        whole: bool = False,
        counts: bool = False,
    ) -> Call:
        """One call on inputs just written, verified afterwards.

        Args:
            workload: On which shape.
            values: The set.
            rng: Secret chance.
            evict: Whether caches are emptied first, where the workload is to find them so.
            whole: Whether it is checked whole in any case, and not by coin.
            counts: Whether the memory that it keeps is looked at.

        Raises:
            Fault: It failed, or its outputs are wrong.
        """
        clock, caller, task = self.clock, self.callers[workload.name], self.clock.task
        exchange = write(task, caller, dict(workload.axes), values, rng, layout="contiguous", permute=True)
        if evict and workload.residency == "cold":
            clock.evictor.evict()
        whole = bool(rng.integers(WHOLE) == 0) or whole
        try:
            call = caller.call(exchange.placed, clock.deadline(workload), clock.kind(workload, evict=evict))
            if not self.contestant.trusted and whole:
                verify_all(task, caller, exchange)
            elif not self.contestant.trusted:
                verify_tiles(task, caller, exchange, rng)
        except Fault as fault:
            raise fault if self.contestant.name == CANDIDATE else opponent_fault(self.contestant, fault) from None
        if counts and self._memory and call.memory_bytes:
            self.kept.setdefault(workload.name, []).append(call.memory_bytes - self._memory)
        self._memory = call.memory_bytes
        if self.contestant.name != CANDIDATE:
            clock.heard(call)
        return call


def coarse(claimed_ns: int) -> int:
    """A claim to two digits: a kernel can write any number there, and what is kept of it is to tell a time and no more."""
    return int(float(f"{claimed_ns:.1e}"))


def opponent_fault(opponent: Contestant, fault: Fault) -> Exception:
    """A fault of whoever a candidate was timed against, which is no verdict on the candidate.

    The detail says the opponent's own verdict and reason first, so that a champion at fault can be checked again and withdrawn.
    """
    if opponent.resident:
        return Unavailable(f"the process of '{opponent.name}' died: {fault.detail or fault.reason}")
    # What a kernel of the evaluator's own says is no candidate's text.
    said = f": {fault.detail} {fault.log[-500:]}".rstrip() if opponent.trusted and opponent.name != INCUMBENT else ""
    return Fault(Verdict.INFRASTRUCTURE, Reason.OPPONENT, f"the opponent '{opponent.name}' failed: {fault.verdict}, {fault.reason}{said}")
