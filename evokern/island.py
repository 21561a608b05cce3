"""Island: ask and tell over one archive.

`ask` says who should try what on whom; `tell` takes the verdict. Any number of asks may be open and verdicts may come in any
order. All that an island holds is a pure function of what it was told, in order, so a replay of the journal rebuilds it
exactly; chance is drawn from the run's seed and the request's number, never from what went before.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from evokern import record
from evokern.evaluation import Elite, Evaluation, Verdict
from evokern.event import Event, EventKind, Parent, Placement, Refusal, RefusalReason
from evokern.kernel import Candidate
from evokern.statistics import score_of
from evokern.store.payload import Evaluated, Migrated, Proposed, Refused, Rejudged


class Archive(Protocol):
    """What an island needs of its archive (DESIGN section 3)."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Elite]: ...

    def __contains__(self, kernel_id: object) -> bool: ...

    def empty(self) -> Archive:
        """An archive of the same kind that holds nothing."""
        ...

    def get(self, kernel_id: str) -> Elite | None:
        """An elite that is kept, or None."""
        ...

    def place(self, elite: Elite) -> Placement:
        """Keep an elite or turn it down."""
        ...

    def sample(self, rng: random.Random, count: int) -> list[Elite]:
        """Distinct parents."""
        ...

    def best(self) -> Elite | None:
        """The champion."""
        ...

    def exemplars(self, *, without: Collection[str] = ()) -> Any:
        """Champion and farthest, or None while there is neither."""
        ...


class OperatorTraits(Protocol):
    """What an island needs to know of an operator; it never calls one."""

    name: str
    parents_wanted: int
    needs_model: bool


@dataclass(frozen=True, slots=True)
class IslandSettings:
    """Constants of the choice of operators and parents.

    Attributes:
        exploration: Weight of the bandit's bonus for what was tried little, in units of the best arm's rate.
        discount: What a pull keeps of its weight at each later one: gains dry up as a search goes on.
        switch_after: Evaluations without gain after which another operator is wanted (SEARCH.md, Stall).
        restart_after: Evaluations without gain after which parents come from a far cell.
        restart_lasts: Evaluations for which they do, unless there is a gain before.
        futile_after: Refusals "no change" or "already tried" after which a parent is exhausted for an operator.
    """

    exploration: float = 0.5
    discount: float = 0.98
    switch_after: int = 5
    restart_after: int = 10
    restart_lasts: int = 5
    futile_after: int = 3


class Stall(StrEnum):
    """How long an island has gone without gain, in words."""

    STEADY = "steady"
    SWITCH = "switch"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Ask:
    """What an island wants tried.

    Attributes:
        number: Running number of the request within the run.
        island: Index of the island.
        operator: Name of the operator.
        parents: As many as the operator wants, the main one first.
        stall: Why they were chosen so.
    """

    number: int
    island: int
    operator: str
    parents: tuple[Parent, ...]
    stall: Stall = Stall.STEADY

    @property
    def parent_ids(self) -> tuple[str, ...]:
        """Ids of the parents, the main one first."""
        return tuple(parent.candidate.id for parent in self.parents)


@dataclass(slots=True)
class Arm:
    """What one operator has brought, discounted.

    Attributes:
        pulls: Tries that ended.
        gain: Verified log gain over the parent, summed.
        seconds: Time of proposals and evaluations, summed.
        open: Tries in flight.
    """

    pulls: float = 0.0
    gain: float = 0.0
    seconds: float = 0.0
    open: int = 0


@dataclass(slots=True)
class Bandit:
    """Chooses operators by verified log gain per second.

    Upper confidence bounds on discounted rates: rates are divided by the best one, which makes them fit one constant whatever
    the device, and a try in flight counts as one that brought nothing, so that late rewards do not draw all tries to one arm.
    Arms may come and go; one that is not asked for keeps what it has.

    Sources: Auer et al. 2002, Machine Learning 47 (UCB1); Garivier and Moulines 2008, arXiv:0805.3415 (discounting); Desautels et
    al. 2014, JMLR 15 (in-flight tries as pulls).
    """

    exploration: float = 0.5
    discount: float = 0.98
    arms: dict[str, Arm] = field(default_factory=dict)

    def choose(self, names: Sequence[str], rng: random.Random) -> str:
        """The most promising of some arms; one never tried goes first, ties are broken by chance."""
        arms = {name: self.arms.get(name, Arm()) for name in names}
        rates = {name: _rate(arm) for name, arm in arms.items()}
        top = max(rates.values()) or 1.0
        tries = sum(arm.pulls + arm.open for arm in arms.values())

        def promise(name: str) -> tuple[float, float]:
            tried = arms[name].pulls + arms[name].open
            bonus = self.exploration * math.sqrt(math.log1p(tries) / tried) if tried else math.inf
            return rates[name] / top + bonus, rng.random()

        return max(names, key=promise)

    def pull(self, name: str) -> None:
        """A try begins."""
        self.arms.setdefault(name, Arm()).open += 1

    def drop(self, name: str) -> None:
        """A try ended without telling anything of the arm."""
        arm = self.arms.setdefault(name, Arm())
        arm.open = max(0, arm.open - 1)

    def reward(self, name: str, gain: float, seconds: float) -> None:
        """A try ended.

        Args:
            name: Whose try.
            gain: Verified log gain, at least 0.
            seconds: What it took, at least 0.
        """
        self.drop(name)
        for arm in self.arms.values():
            arm.pulls *= self.discount
            arm.gain *= self.discount
            arm.seconds *= self.discount
        arm = self.arms[name]
        arm.pulls += 1.0
        arm.gain += gain
        arm.seconds += seconds


def _rate(arm: Arm) -> float:
    """Gain per second, tries in flight taken to last as long as the others and to bring nothing."""
    if arm.gain <= 0.0:
        return 0.0
    expected = arm.seconds * (1.0 + arm.open / arm.pulls) if arm.pulls else arm.seconds
    return arm.gain / max(expected, 1e-9)


NOT_THE_ARMS_FAULT = frozenset(
    {RefusalReason.MODEL_FAILED, RefusalReason.MODEL_PAUSED, RefusalReason.BUDGET_SPENT, RefusalReason.NOT_APPLICABLE}
)
"""Refusals that say nothing of what an operator brings."""

FUTILE = frozenset({RefusalReason.NO_CHANGE, RefusalReason.ALREADY_TRIED})
"""Refusals that, repeated, say that a parent has nothing left for an operator."""


class Island:
    """Ask and tell over one archive.

    Args:
        index: Which island it is.
        archive: Empty, and this island's own.
        operators: What may be asked for, in the order of the tables.
        seed: Root of the run's chance.
        has_model: Whether operators that need a language model may be chosen at all.
        settings: Constants.
    """

    def __init__(
        self,
        index: int,
        archive: Archive,
        operators: Iterable[OperatorTraits],
        *,
        seed: int = 0,
        has_model: bool = False,
        settings: IslandSettings | None = None,
    ) -> None:
        self.index, self.archive, self.seed = index, archive, seed
        self.settings = settings or IslandSettings()
        self.bandit = Bandit(self.settings.exploration, self.settings.discount)
        self._operators = {operator.name: operator for operator in operators if has_model or not operator.needs_model}
        self._offered: dict[str, Elite] = {}
        self._scores: dict[str, float] = {}
        self._refusals: Counter[tuple[str, str]] = Counter()
        self._exhausted: set[tuple[str, str]] = set()
        self._barren: list[str] = []
        self._restarts: list[str] = []
        self._restart_left = 0
        self.told = 0

    @property
    def stall(self) -> Stall:
        """Whether the island is in a stall; a supervisor may take its cue from here."""
        if self._restart_left:
            return Stall.RESTART
        return Stall.SWITCH if len(self._barren) >= self.settings.switch_after else Stall.STEADY

    def ask(self, number: int, *, without: Collection[str] = ()) -> Ask | None:
        """What to try next.

        Args:
            number: Running number of the request within the run; all chance comes from it and the seed.
            without: Operators that may not be chosen now, such as those whose endpoint is paused.

        Returns:
            The ask, which stays open until `tell`, `refuse` or `drop`; None where the archive is empty or no operator has
            anything left to try on any elite.
        """
        rng = random.Random(f"{self.seed}/{self.index}/{number}")
        for elite in self._main_parents(rng):
            names = self._allowed(elite, without)
            if names:
                name = self.bandit.choose(names, rng)
                self.bandit.pull(name)
                parents = [elite, *self._partners(elite, self._operators[name].parents_wanted - 1, rng)]
                return Ask(number, self.index, name, tuple(Parent(p.candidate, p.evaluation) for p in parents), self.stall)
        return None

    def tell(self, candidate: Candidate, evaluation: Evaluation, *, seconds: float = 0.0) -> Placement | None:
        """Take a verdict; the kernel is placed if it passed and was confirmed.

        Args:
            candidate: One that this island asked for, or a seed meant for it.
            evaluation: Its final evaluation.
            seconds: Wall time that the operator took to propose it.

        Returns:
            Where the archive put it; None where it was not offered.

        Raises:
            ValueError: The candidate is another island's.
        """
        if candidate.island != self.index:
            raise ValueError(f"candidate of island {candidate.island} told to island {self.index}")
        if evaluation.verdict is Verdict.INFRASTRUCTURE:
            self.bandit.drop(candidate.operator)
            return None
        self.told += 1
        elite = elite_of(candidate, evaluation)
        placement = self._place(elite) if elite else None
        if candidate.parents:
            gain = self._gain(candidate, elite) if elite and placement and placement.placed else 0.0
            self.bandit.reward(candidate.operator, gain, seconds + sum(evaluation.seconds.values()))
            self._note_stall(candidate.operator, improved=placement is not None and placement.champion)
        return placement

    def pass_over(self, candidate: Candidate) -> None:
        """Close a try whose verdict counts for nothing here, as no judge that is known gave it."""
        self.bandit.drop(candidate.operator)

    def retell(self, evaluation: Evaluation) -> None:
        """Take a new evaluation of a kernel that was offered before: its numbers change, or it goes.

        The archive becomes what it would be had the kernel been offered so from the start. Where one goes, those that it had driven
        out come back, and parents count as untried.

        Args:
            evaluation: What holds from now on.
        """
        known = self._offered.get(evaluation.kernel_id)
        if known is None:
            return
        elite = elite_of(known.candidate, evaluation)
        if elite is None:
            del self._offered[evaluation.kernel_id]
            self._exhausted.clear()
            self._refusals.clear()
        else:
            self._offered[evaluation.kernel_id] = elite
            self._scores[evaluation.kernel_id] = elite.score.log
        self.archive = self.archive.empty()
        for offered in self._offered.values():
            self.archive.place(offered)

    def refuse(self, operator: str, parent_ids: Sequence[str], refusal: Refusal, *, seconds: float = 0.0) -> None:
        """Take an operator's "no"; it is not a generation, and a parent that it does not apply to is not asked for again.

        Args:
            operator: Who refused.
            parent_ids: Of the ask.
            refusal: Why.
            seconds: Wall time that it took.
        """
        pair = (parent_ids[0], operator) if parent_ids else ("", operator)
        if refusal.reason is RefusalReason.NOT_APPLICABLE:
            self._exhausted.add(pair)
        elif refusal.reason in FUTILE:
            self._refusals[pair] += 1
            if self._refusals[pair] >= self.settings.futile_after:
                self._exhausted.add(pair)
        if refusal.reason in NOT_THE_ARMS_FAULT or refusal.reason in FUTILE:
            self.bandit.drop(operator)
        else:
            self.bandit.reward(operator, 0.0, seconds)

    def drop(self, ask: Ask) -> None:
        """Close an ask that came to nothing, such as one that was cancelled."""
        self.bandit.drop(ask.operator)

    def welcome(self, elite: Elite) -> Placement:
        """Take a migrant, which is no try of any operator."""
        return self._place(elite)

    def exhausted(self, kernel_id: str, operator: str) -> bool:
        """Whether an operator has nothing left to try on a parent."""
        return (kernel_id, operator) in self._exhausted

    def restore(self, events: Iterable[Event]) -> int:
        """Rebuild the state from a run's events; see `replay`, which does it for all islands at once."""
        return replay([self], events)

    def state(self) -> dict[str, Any]:
        """Everything that was learnt, as JSON, for comparison with a replay; tries in flight are left out."""
        arms = {name: [arm.pulls, arm.gain, arm.seconds] for name, arm in sorted(self.bandit.arms.items()) if arm.pulls}
        return {
            "island": self.index,
            "told": self.told,
            "elites": [[elite.candidate.id, record.to_json(elite.score)] for elite in self.archive],
            "arms": arms,
            "exhausted": sorted(map(list, self._exhausted)),
            "refusals": sorted([*pair, count] for pair, count in self._refusals.items()),
            "barren": list(self._barren),
            "restarts": [list(self._restarts), self._restart_left],
        }

    def _place(self, elite: Elite) -> Placement:
        self._offered.setdefault(elite.candidate.id, elite)
        self._scores.setdefault(elite.candidate.id, elite.score.log)
        return self.archive.place(elite)

    def _gain(self, candidate: Candidate, elite: Elite) -> float:
        """Log gain over the best parent; 0 where none is known here."""
        known = [self._scores[parent] for parent in candidate.parents if parent in self._scores]
        return max(0.0, elite.score.log - max(known)) if known else 0.0

    def _note_stall(self, operator: str, *, improved: bool) -> None:
        self._restart_left = 0 if improved else max(0, self._restart_left - 1)
        self._barren = [] if improved else [*self._barren, operator]
        if len(self._barren) >= self.settings.restart_after:
            self._barren = []
            span = self.archive.exemplars(without=self._restarts)
            if span is not None and span.farthest is not span.champion:
                self._restarts.append(span.farthest.candidate.id)
                self._restart_left = self.settings.restart_lasts
            else:
                self._restarts.clear()

    def _main_parents(self, rng: random.Random) -> Iterator[Elite]:
        """Elites in the order in which to try them as the main parent: a far one in a restart, else as the archive draws."""
        if self._restart_left:
            far = self.archive.get(self._restarts[-1])
            if far is not None:
                yield far
        yield from self.archive.sample(rng, 1)
        yield from self.archive.sample(rng, len(self.archive))

    def _allowed(self, elite: Elite, without: Collection[str]) -> list[str]:
        """Operators that have something to try on an elite; in a stall, without the one that was tried most in vain."""
        names = [
            name
            for name, operator in self._operators.items()
            if name not in without and (elite.candidate.id, name) not in self._exhausted and operator.parents_wanted <= len(self.archive)
        ]
        if len(self._barren) < self.settings.switch_after:
            return names
        tired = Counter(self._barren[-self.settings.switch_after :]).most_common(1)[0][0]
        return [name for name in names if name != tired] or names

    def _partners(self, main: Elite, count: int, rng: random.Random) -> list[Elite]:
        if count < 1:
            return []
        return [elite for elite in self.archive.sample(rng, count + 1) if elite.candidate.id != main.candidate.id][:count]


def elite_of(candidate: Candidate, evaluation: Evaluation) -> Elite | None:
    """What may be offered to an archive: passed, confirmed, and with a score; else None."""
    score = score_of(evaluation) if evaluation.confirmed else None
    return None if score is None else Elite(candidate, evaluation, score)


def replay(islands: Sequence[Island], events: Iterable[Event]) -> int:
    """Rebuild islands from a run's events.

    Proposals that were never judged stay open, as they are about to be judged again.

    Args:
        islands: Fresh ones; events of other islands are passed over.
        events: The run's, in the journal's order.

    Returns:
        How many candidates their archives kept, migrants not counted.
    """
    return _Replay(islands).over(events)


class _Replay:
    """One pass over a run's events."""

    def __init__(self, islands: Sequence[Island]) -> None:
        self._islands = {island.index: island for island in islands}
        self._proposals: dict[str, Proposed] = {}
        self._elites: dict[str, Elite] = {}
        self._placed = 0

    def over(self, events: Iterable[Event]) -> int:
        for event in events:
            if event.kind is EventKind.PROPOSED:
                self._proposed(record.from_json(Proposed, event.payload))
            elif event.kind is EventKind.EVALUATED:
                self._evaluated(record.from_json(Evaluated, event.payload))
            elif event.kind in (EventKind.REMEASURED, EventKind.WITHDRAWN):
                self._rejudged(record.from_json(Rejudged, event.payload))
            elif event.kind is EventKind.REFUSED:
                self._refused(record.from_json(Refused, event.payload))
            elif event.kind is EventKind.MIGRATED:
                self._migrated(record.from_json(Migrated, event.payload))
        return self._placed

    def _proposed(self, body: Proposed) -> None:
        self._proposals[body.candidate.id] = body
        island = self._islands.get(body.candidate.island)
        if island and body.candidate.parents:
            island.bandit.pull(body.candidate.operator)

    def _evaluated(self, body: Evaluated) -> None:
        proposal = self._proposals.get(body.evaluation.kernel_id)
        if proposal is None:
            return
        island = self._islands.get(proposal.candidate.island)
        if body.external:
            if island:
                island.pass_over(proposal.candidate)
            return
        elite = elite_of(proposal.candidate, body.evaluation)
        if elite:
            self._elites[elite.candidate.id] = elite
        if island:
            placement = island.tell(proposal.candidate, body.evaluation, seconds=proposal.seconds)
            self._placed += placement is not None and placement.placed

    def _rejudged(self, body: Rejudged) -> None:
        proposal = self._proposals.get(body.evaluation.kernel_id)
        if body.external or proposal is None:
            return
        elite = elite_of(proposal.candidate, body.evaluation)
        if elite:
            self._elites[elite.candidate.id] = elite
        for island in self._islands.values():
            island.retell(body.evaluation)

    def _refused(self, body: Refused) -> None:
        island = self._islands.get(body.island)
        if island:
            island.bandit.pull(body.operator)
            island.refuse(body.operator, body.parents, body.refusal, seconds=body.seconds)

    def _migrated(self, body: Migrated) -> None:
        island, elite = self._islands.get(body.target), self._elites.get(body.kernel_id)
        if island and elite:
            island.welcome(elite)
