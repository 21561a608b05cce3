"""An attack island: the evolver itself, turned on the evaluator.

One island of the engine searches genomes of attacks (`attack_genome`) instead of kernels; cells of its archive are what an attack does
and when, its fitness is how far up the real ladder it got. What passes is given to a referee (`attack_referee`), who tells the
harmless from the escaped. Every attempt is kept, one JSON line each, and a search goes on from the lines that are there.
"""

from __future__ import annotations

import asyncio
import fcntl
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evokern.archive import ArchiveSettings, GridArchive
from evokern.errors import EvokernError, Unavailable
from evokern.evaluation import BASELINE, Clock, Evaluation, Measurement, Ratio, Reason, Rung, Verdict
from evokern.evaluator.catalogue import find_task
from evokern.evaluator.session import Session
from evokern.evaluator.statement import Opening
from evokern.event import Proposal, RefusalReason, Request, RunSettings
from evokern.island import Island, IslandSettings
from evokern.kernel import Candidate, Kernel
from evokern.statistics import score_of
from evokern.study.attack_genome import EFFECTS, TASKS, Genome, crossed, drawn, honest, mutated
from evokern.study.attack_referee import ESCAPES, LIVES, Class, Referee, Seen, classify, gain
from evokern.study.small import shrunk
from evokern.task import DType

SEEDS = 2 * len(EFFECTS)
"""Attempts drawn by chance before the search begins: every effect twice."""

HELD_OUT = 9
"""Held-out shapes of the small tasks: one of every kind."""

AGAIN = 2
"""How often an attempt is judged where the machine failed."""

LOOKS = 4
"""How often a gain of time must show to be one: a user has some twenty timed calls of either kernel, and others use the machine too."""

JUDGED_AGAIN = 3
"""How often an escape is judged once more: what passes now and then found a lucky draw, what passes always found a hole."""

SETTINGS = IslandSettings(restart_after=20)
"""Of the island; most attempts fail on purpose, so that gaps between gains are long."""

WORTH = {Rung.SCREEN: 0.0, Rung.BUILD: 0.0, Rung.CHECK: 1.0, Rung.GATE: 2.0, Rung.MEASURE: 3.0, Rung.CONFIRM: 4.0}
"""Fitness of an attempt that failed, by the last rung it entered."""

WORTH_PASSED = {Class.HARMLESS: 1.5, Class.DORMANT: 4.5, Class.GAINFUL: 6.0, Class.BLATANT: 7.0}
"""Fitness of one that passed, before what it pays: a defect that never acts is worth less than one that nearly got through."""


@dataclass(frozen=True)
class Attempt:
    """One attack and what came of it.

    Attributes:
        number: Running number.
        operator: Who made it.
        parents: Ids of the kernels that it was made from.
        genome: What it is.
        kernel_id: Of its source.
        verdict: The ladder's last word.
        reason: Its reason.
        detail: Its one line.
        rung: The last rung entered.
        log_score: Natural logarithm of its measured speed-up over the baseline; None where it was not measured.
        log_low: The lower bound of it, which is what is promised.
        log_lead: That lower bound over the honest kernel's speed-up; None where that was not asked.
        kind: What the referee calls it; None where it did not pass.
        seen: What its user saw.
        passed_again: How often of `JUDGED_AGAIN` times it passed once more; None where it did not escape.
        fitness: What it is worth to the search.
        seconds: All of it, wall time.
    """

    number: int
    operator: str
    parents: tuple[str, ...]
    genome: Genome
    kernel_id: str
    verdict: Verdict
    reason: Reason
    detail: str = ""
    rung: Rung = Rung.SCREEN
    log_score: float | None = None
    log_low: float | None = None
    log_lead: float | None = None
    kind: Class | None = None
    seen: Seen | None = None
    passed_again: int | None = None
    fitness: float = 0.0
    seconds: float = 0.0

    @property
    def escaped(self) -> bool:
        """Whether it got through and should not have."""
        return self.kind in ESCAPES

    @property
    def line(self) -> str:
        """In one line."""
        what = f"{self.genome.task} {self.genome.what} when {self.genome.when}"
        return f"{self.number} {self.operator}: {what}: {self.verdict}/{self.reason}{f' {self.kind}' if self.kind else ''}"


class Mutate:
    """Operator: one step of chance away from a parent.

    Args:
        genomes: By kernel id, of everything that was made; a child is added.
    """

    name, parents_wanted, needs_model = "attack_mutate", 1, False

    def __init__(self, genomes: dict[str, Genome]) -> None:
        self._genomes = genomes

    @classmethod
    def for_run(cls, settings: RunSettings, model: Any) -> Mutate:
        """See `evokern.event.Operator`; knows no genome, and so refuses."""
        return cls({})

    async def propose(self, request: Request) -> Proposal:
        """See `evokern.event.Operator`; the genome travels as the one edit."""
        known = [self._genomes[p.candidate.id] for p in request.parents if p.candidate.id in self._genomes]
        if len(known) < self.parents_wanted:
            return Proposal.refused(RefusalReason.NOT_APPLICABLE, "not the kernel of a genome")
        return self._found(self._child(known, request.rng), request)

    def _child(self, parents: Sequence[Genome], rng: random.Random) -> Genome:
        return mutated(parents[0], rng)

    def _found(self, genome: Genome, request: Request) -> Proposal:
        kernel = genome.kernel
        if kernel.id in request.tried:
            return Proposal.refused(RefusalReason.ALREADY_TRIED)
        self._genomes[kernel.id] = genome
        return Proposal(kernel, edits=(f"{genome.what} when {genome.when}",))


class Cross(Mutate):
    """Operator: what one parent does, when another does it."""

    name, parents_wanted = "attack_cross", 2

    def _child(self, parents: Sequence[Genome], rng: random.Random) -> Genome:
        return crossed(parents[0], parents[1], rng)


class Leap(Mutate):
    """Operator: several steps away from a parent, or anywhere."""

    name = "attack_leap"

    def _child(self, parents: Sequence[Genome], rng: random.Random) -> Genome:
        if rng.random() < 0.5:  # noqa: PLR2004 - a coin
            return drawn(rng)
        genome = parents[0]
        for _ in range(3):
            genome = mutated(genome, rng)
        return genome


@dataclass
class Court:
    """The real ladder on small tasks, and the referee behind it.

    Attributes:
        folder: Scratch: small tasks, build products, keys.
        say: Told what takes time.
        lock: File that is held while one attempt is judged, where several measure on one machine; None for none.
        lives: See `attack_referee.LIVES`.
        again: See `JUDGED_AGAIN`.
        sessions: Judges by task; a missing one is opened when it is first needed.
    """

    folder: Path
    say: Callable[[str], None]
    lock: Path | None = None
    lives: Sequence[int] = LIVES
    again: int = JUDGED_AGAIN
    sessions: dict[str, Session] = field(default_factory=dict)
    _own: set[str] = field(default_factory=set)
    _referee: Referee | None = None
    _honest: dict[tuple[str, str], float | None] = field(default_factory=dict)

    def judged(self, genome: Genome, number: int, operator: str, parents: tuple[str, ...]) -> Attempt:
        """Up the ladder, and to the referee where it passes."""
        with self._alone():
            self.session(genome.task)
            start = time.monotonic()
            evaluation = self._evaluated(genome)
            attempt = Attempt(
                number, operator, parents, genome, genome.kernel.id, evaluation.verdict, evaluation.reason, evaluation.detail[:200],
                evaluation.rung, *_logs(evaluation),
            )  # fmt: skip
            if evaluation.passed:
                attempt = self._refereed(attempt)
            if attempt.escaped:
                attempt = replace(attempt, passed_again=sum(self._evaluated(genome).passed for _ in range(self.again)))
        return replace(attempt, fitness=fitness(attempt), seconds=round(time.monotonic() - start, 2))

    def close(self) -> None:
        """End every process that it started."""
        for name in self._own & set(self.sessions):
            self.sessions.pop(name).close()
        if self._referee is not None:
            self._referee.close()
            self._referee = None

    def _refereed(self, attempt: Attempt) -> Attempt:
        genome = attempt.genome
        for turn in range(LOOKS):
            seen = self._watched(genome, f"{attempt.number}/{turn}")
            kind, lead = classify(seen, None), None
            if kind not in ESCAPES:
                lead = self._lead(attempt, again=turn > 0)
                kind = classify(seen, lead)
            attempt = replace(attempt, seen=seen, log_lead=lead, kind=kind)
            # A gain of time on a busy machine may be chance; what is wrong is wrong.
            if lead is None or kind not in ESCAPES:
                break
        return attempt

    def _lead(self, attempt: Attempt, *, again: bool) -> float | None:
        """Logarithm of how many times faster than the honest kernel the ladder promises it to be, at least."""
        genome = attempt.genome
        key, low = (genome.task, genome.base), attempt.log_low
        if again:
            low = _logs(self._evaluated(genome))[1]
        if again or key not in self._honest:
            self._honest[key] = _logs(self._evaluated(honest(*key)))[0]
        theirs = self._honest[key]
        return None if low is None or theirs is None else low - theirs

    def _watched(self, genome: Genome, seed: str) -> Seen:
        session = self.session(genome.task)
        libraries = [session.build(g.kernel).artefact for g in (genome, honest(genome.task, genome.base))]
        if libraries[0] is None or libraries[1] is None:
            raise Unavailable("a library that was built is gone", where=str(self.folder))
        if self._referee is None:
            contestant = session.ladder.contestant("user", genome.kernel, session.build(genome.kernel))
            self._referee = Referee(self.folder / "referee", contestant.loader, contestant.limits.cpus)
        timed = [w.name for w in session.ladder.timed]
        return self._referee.watch(libraries[0], libraries[1], session.task, genome.task, timed, seed, self.lives)

    def _evaluated(self, genome: Genome) -> Evaluation:
        """Judged and confirmed like any elite; a judge that fails is replaced once."""
        for turn in range(AGAIN):
            try:
                evaluation = climbed(self.session(genome.task), genome.kernel)
            except EvokernError as error:
                if turn + 1 == AGAIN or genome.task not in self._own:
                    raise
                self.say(f"the judge of {genome.task} failed, starting another: {error.line}")
                self.sessions.pop(genome.task).close()
                continue
            if evaluation.verdict is not Verdict.INFRASTRUCTURE:
                break
        return evaluation

    def session(self, name: str) -> Session:
        """The judge of a task, opened when it is first asked for."""
        for turn in range(AGAIN):
            if name in self.sessions:
                break
            try:
                self.sessions[name] = self._opened(name)
                self._own.add(name)
            except EvokernError as error:
                if turn + 1 == AGAIN:
                    raise
                self.say(f"no judge of {name}, trying again: {error.line}")
        return self.sessions[name]

    def _opened(self, name: str) -> Session:
        home, suite = self.folder / "home" / name, self.folder / "suite"
        folder = suite / f"{name}_small"
        if not folder.is_dir():
            folder = shrunk(find_task(name, home=home), suite, held_out=HELD_OUT)
        return Session(Opening(str(folder), DType.FLOAT32, "cpu", 1, str(home), baselines=("eager",)), self.say)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self.lock is None:
            yield
            return
        with self.lock.open("a") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield


def climbed(session: Session, kernel: Kernel) -> Evaluation:
    """A kernel's last word from the ladder, confirmation included."""
    built = session.build(kernel)
    evaluation = session.ladder.judge(kernel, built, None)
    return session.ladder.confirm(kernel, built, evaluation) if evaluation.passed else evaluation


def _logs(evaluation: Evaluation) -> tuple[float | None, float | None]:
    """Logarithm of the speed-up that was measured, and its lower bound."""
    score = score_of(evaluation)
    return (None, None) if score is None else (score.log, score.low)


def fitness(attempt: Attempt) -> float:
    """How far it got, and what it pays there: the share of wrong answers, and the logarithm of the time gained."""
    if attempt.kind is None or attempt.seen is None:
        return WORTH[attempt.rung]
    wrong = max([*attempt.seen.wrong.values(), *attempt.seen.wrong_later.values()], default=0.0)
    return WORTH_PASSED[attempt.kind] + wrong + min(max(math.log(max(gain(attempt.seen, attempt.log_lead), 1e-9)), 0.0), 1.0)


class AttackIsland:
    """A search for attacks.

    Args:
        court: Judges them.
        seed: Root of all chance.
        seeds: Genomes to begin with; as many as `SEEDS`, drawn by chance, for None.
        tasks: Names of the tasks that chance may draw.
    """

    def __init__(self, court: Court, *, seed: int, seeds: Sequence[Genome] | None = None, tasks: Sequence[str] = TASKS) -> None:
        self.attempts: list[Attempt] = []
        self._court, self._seed, self._tasks = court, seed, tasks
        self._seeds = list(seeds) if seeds is not None else [self._drawn(number) for number in range(SEEDS)]
        self._genomes: dict[str, Genome] = {}
        self._operators = {op.name: op for op in (Mutate(self._genomes), Cross(self._genomes), Leap(self._genomes))}
        archive = GridArchive(ArchiveSettings(descriptors=("what", "when", "task"), reach=0.0))
        self._island = Island(0, archive, self._operators.values(), seed=seed, settings=SETTINGS)
        self._number = 0

    def restore(self, attempts: Iterable[Attempt]) -> None:
        """Take up attempts that were made before, in order."""
        for attempt in attempts:
            if attempt.operator != "seed":
                self._island.bandit.pull(attempt.operator)
            self._take(attempt)
            self._number = attempt.number + 1

    def search(self, enough: Callable[[], bool]) -> Iterator[Attempt]:
        """Attempts, as they come, until it is enough.

        Raises:
            EvokernError: A judge cannot be opened, or dies again and again.
        """
        while not enough():
            number, self._number = self._number, self._number + 1
            made = self._made(number)
            if made is not None:
                genome, operator, parents = made
                try:
                    attempt = self._court.judged(genome, number, operator, parents)
                except BaseException:
                    self._island.bandit.drop(operator)
                    raise
                self._take(attempt)
                yield attempt

    def _drawn(self, number: int) -> Genome:
        """A genome by chance whose main effect is the next in turn."""
        rng, wanted = random.Random(f"evokern.attack_island/1 {self._seed} {number}"), list(EFFECTS)[number % len(EFFECTS)]
        genome = drawn(rng, self._tasks[number % len(self._tasks)])
        first = replace(genome.defects[0], what=wanted, amount=EFFECTS[wanted][0].draw(rng))
        return replace(genome, defects=(first, *genome.defects[1:]))

    def _made(self, number: int) -> tuple[Genome, str, tuple[str, ...]] | None:
        """What to try next; None where an operator refused."""
        if number < len(self._seeds):
            genome = self._seeds[number]
            self._genomes[genome.kernel.id] = genome
            return genome, "seed", ()
        ask = self._island.ask(number)
        if ask is None:
            genome = self._drawn(number)
            self._genomes[genome.kernel.id] = genome
            return genome, "seed", ()
        rng = random.Random(f"evokern.attack_island/1 {self._seed} ask {number}")
        tried = frozenset(attempt.kernel_id for attempt in self.attempts)
        request = Request(find_task(self._tasks[0]), DType.FLOAT32, ask.parents, None, (), rng, tried, number=number)
        proposal = asyncio.run(self._operators[ask.operator].propose(request))
        if proposal.kernel is None or self._genomes[proposal.kernel.id].task not in self._tasks:
            refusal = proposal.refusal
            if refusal is None:
                self._island.drop(ask)
            else:
                self._island.refuse(ask.operator, ask.parent_ids, refusal)
            return None
        return self._genomes[proposal.kernel.id], ask.operator, ask.parent_ids

    def _take(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        self._genomes[attempt.kernel_id] = attempt.genome
        candidate = Candidate(attempt.genome.kernel, attempt.genome.task, DType.FLOAT32, attempt.parents, attempt.operator)
        self._island.tell(candidate, standing(attempt))


def standing(attempt: Attempt) -> Evaluation:
    """An attempt as the island's archive takes it: its fitness in the place of a speed-up, under no fingerprint at all."""
    ratio = math.exp(attempt.fitness)
    verdict = Verdict.INFRASTRUCTURE if attempt.verdict is Verdict.INFRASTRUCTURE else Verdict.PASSED
    return Evaluation(
        attempt.kernel_id,
        "",
        str(DType.FLOAT32),
        verdict,
        confirmed=verdict is Verdict.PASSED,
        measurements=(Measurement("ladder", Clock.JUDGED, 1.0, 0.0, 0.0, None, {BASELINE: Ratio(ratio, ratio, ratio, 0, 0)}),),
        descriptors={"what": attempt.genome.what, "when": attempt.genome.when, "task": attempt.genome.task},
        seconds={"attempt": attempt.seconds},
    )


def summary(attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Attempts by verdict and by what the referee called them, and every escape."""
    kinds = Counter(str(a.kind) for a in attempts if a.kind is not None)
    return {
        "attempts": len(attempts),
        "seconds": round(sum(a.seconds for a in attempts), 1),
        "by_verdict": dict(Counter(f"{a.verdict}/{a.reason}" for a in attempts).most_common()),
        "by_rung": dict(Counter(str(a.rung) for a in attempts).most_common()),
        "passed": {str(kind): kinds[str(kind)] for kind in Class},
        "escapes": [
            {
                "number": a.number,
                "kernel_id": a.kernel_id,
                "kind": str(a.kind),
                "what": a.genome.what,
                "when": a.genome.when,
                "task": a.genome.task,
                "passed_again": a.passed_again,
            }
            for a in attempts
            if a.escaped
        ],
    }


__all__ = ["SEEDS", "AttackIsland", "Attempt", "Court", "climbed", "fitness", "standing", "summary"]
