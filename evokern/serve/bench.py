"""Bench: one run of the journal whose kernels come from outside, judged as the evolver's are.

    a client hands in a kernel -> the meter -> the journal -> the executor judges, confirms -> the journal -> the client

Everything that decides what a verdict is worth is the engine's own: its executor, steward, trust, ledger and upkeep. What is not
here is the search: no island, no operator, no archive.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from evokern import record
from evokern.engine.engine import BASELINES, SEAL_EVERY
from evokern.engine.ledger import Ledger
from evokern.engine.sealing import keep_seal
from evokern.engine.steward import Steward
from evokern.engine.trust import Trust
from evokern.engine.upkeep import Upkeep
from evokern.errors import Unavailable
from evokern.evaluation import Elite, Evaluation, Fingerprint, Verdict
from evokern.evaluator.catalogue import find_task
from evokern.evaluator.signing import Seal
from evokern.evaluator.statement import Opening, Preparation
from evokern.event import SESSION, Budget, Event, RunSettings, Spent
from evokern.executor import Executor
from evokern.executor.local import LocalExecutor
from evokern.island import elite_of
from evokern.kernel import Candidate, Kernel
from evokern.serve.meter import Meter, Session
from evokern.serve.turn import Turn
from evokern.store import Journal, RunLease, new_run_id
from evokern.store import payload as events
from evokern.task import Task

SEAL_SECONDS = 1.0
"""How long the end of a bench waits for the judge's signature over its journal: a client that leaves does not wait for long."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client gets.

    Attributes:
        evaluation: The verdict.
        run: The run that it was made in.
        reused: Whether it was made before, under the same fingerprint, and cost nothing now.
    """

    evaluation: Evaluation
    run: str
    reused: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a kernel comes from, as its author says.

    Attributes:
        operator: Who hands it in, such as "agent" or "batch".
        parents: Ids of the kernels that it was made from, the main one first.
        edits: What was changed, in a line each.
    """

    operator: str
    parents: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()


class Bench:
    """Judges kernels from outside, in one run.

    The judge is started when the first kernel comes, and kept until the bench is closed. A kernel that the home has a verdict on,
    under the same fingerprint, is answered from the journal. One that is handed in twice at a time is judged once.

    Args:
        settings: What is judged; its options name the session.
        journal: Of the home.
        turn: Of this process.
        executor: Where evaluations run; None for this machine.
        say: Told what takes time for all kernels together, such as making ready.

    Attributes:
        task: The task.
        run_id: Id of the run.
        meter: What the session has used.
    """

    def __init__(
        self, settings: RunSettings, *, journal: Journal, turn: Turn, executor: Executor | None = None, say: Say = lambda _: None
    ) -> None:
        self.settings, self._said = settings, say
        self.task: Task = find_task(settings.task)
        self.run_id = new_run_id(self.task.name)
        self.meter = Meter(journal, Session.of(settings), settings.budget)
        self._home = journal.path.parent.resolve()
        self._journal, self._turn = journal, turn
        self._executor: Executor = executor or LocalExecutor(self._opening(), in_flight=settings.builds + 2)
        self._steward = Steward(self._executor, self._say)
        self._trust = Trust(self._home)
        self._ledger = Ledger()
        self._upkeep = Upkeep(self._steward, self._champion, self._retell, lambda: self._ledger.spent().seconds)
        self._lease: RunLease | None = None
        self._recorded = False
        self._preparation: Preparation | None = None
        self._opening_door, self._rotating = asyncio.Lock(), asyncio.Lock()
        self._room = asyncio.Semaphore(self._executor.capacity())
        self._callers: list[tuple[str, Say]] = []
        self._under_way: dict[str, asyncio.Task[Answer]] = {}
        self._claimed: set[str] = set()
        self._number = -1
        self._closed = False
        self._attempts: Counter[str] = Counter()
        self._elites: dict[str, Elite] = {}
        self._unsealed = 0

    async def __aenter__(self) -> Bench:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close("interrupted" if isinstance(error, asyncio.CancelledError | KeyboardInterrupt) else "done")

    async def evaluate(self, kernel: Kernel, origin: Origin, say: Say = lambda _: None) -> Answer:
        """A kernel's verdict: the whole ladder against the baseline, confirmed where it passed.

        A caller that is cancelled gives up waiting; the evaluation, which is paid for, goes on and is kept.

        Args:
            kernel: Which.
            origin: Where it comes from.
            say: Told what takes time.

        Raises:
            BudgetSpent: The session may not have another one.
            EvokernError: The task or the machine does not allow it.
        """
        if self._closed:
            raise Unavailable("the session has ended", where=self.run_id)
        with self._listening(kernel.id, say):
            work = self._under_way.get(kernel.id)
            if work is None:
                work = asyncio.ensure_future(self._answered(kernel, origin))
                self._under_way[kernel.id] = work
                work.add_done_callback(lambda done: self._ended(kernel.id, done))
            return await asyncio.shield(work)

    async def close(self, reason: str = "done") -> None:
        """End what is under way, the run and the judge; a second call does nothing."""
        was_closed, self._closed = self._closed, True
        works = list(self._under_way.values())
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        try:
            if self._recorded and not was_closed:
                spent = self.meter.own(self.run_id)
                await self._append(events.run_ended(self.run_id, 0, reason, Spent(spent.seconds, spent.evaluations)))
                # A judge that is still at work signs when it is done, for which nobody waits.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._seal(), SEAL_SECONDS)
        finally:
            await self._executor.close()
            if self._lease is not None:
                self._lease.release()

    # Making ready

    def _opening(self) -> Opening:
        named = self.settings.options.get(BASELINES, "")
        limited: dict[str, Any] = {"baselines": tuple(named.split(","))} if named else {}
        return Opening(
            task_folder=str(self.task.folder),
            dtype=self.settings.dtype,
            backend=self.settings.backend,
            threads=self.settings.threads,
            home=str(self._home),
            key_name=f"{self.run_id}.key",
            builds=self.settings.builds,
            degenerate=self.settings.degenerate,
            **limited,
        )

    async def _ready(self) -> Fingerprint:
        """The run recorded and the judge open; where that failed, the next kernel tries again."""
        async with self._opening_door:
            if self._preparation is None:
                self._lease = self._lease or RunLease(self._home, self.run_id)
                if not self._recorded:
                    await self._append(events.run_started(self.run_id, self.settings))
                    self._recorded = True
                async with self._turn.held(self._say):
                    preparation = await self._executor.open(self._say)
                self._trust.admit(preparation)
                await self._append(events.baselines(self.run_id, preparation.fingerprint.digest, record.to_json(preparation)))
                self._preparation = preparation
            return self._preparation.fingerprint

    # Judging

    async def _answered(self, kernel: Kernel, origin: Origin) -> Answer:
        known = self._known(kernel, await self._ready())
        candidate = Candidate(kernel, self.task.name, self.settings.dtype, origin.parents, origin.operator, origin.edits)
        if known is not None:
            await self._note(candidate, known)
            return known
        async with self.meter.claim(lambda: len(self._claimed), self.run_id):
            await self._propose(candidate)
            self._claimed.add(candidate.id)
        try:
            return await self._paid(candidate)
        finally:
            self._claimed.discard(candidate.id)

    async def _paid(self, candidate: Candidate) -> Answer:
        before = len(self._claimed) - 1
        if before:
            self._say_to(candidate.id, f"waiting beside {before} other{'s' if before > 1 else ''} of this session")
        async with self._room, self._turn.held(self._say):
            self._say_to(candidate.id, "judging")
            evaluation = await self._judged(candidate)
            async with self.meter.settling():
                await self._tell(candidate, evaluation)
                self._claimed.discard(candidate.id)
            await self._keep_up()
        return Answer(evaluation, self.run_id)

    async def _judged(self, candidate: Candidate) -> Evaluation:
        evaluation = await self._steward.evaluate(candidate, None)
        if evaluation.passed and not self._trust.is_external(evaluation):
            evaluation = await self._steward.confirm(candidate, evaluation)
        return evaluation

    def _known(self, kernel: Kernel, fingerprint: Fingerprint) -> Answer | None:
        """The last verdict of a home's judge on exactly this source, task and dtype under this fingerprint.

        Of whichever held-out set, as long as it may stand: nobody may ask the next one what the last one refused.
        """
        for run in reversed(self._journal.appearances(kernel.id)):
            for evaluation in reversed(self._journal.evaluations(run, kernel.id)):
                if self._stands(evaluation, fingerprint):
                    return Answer(evaluation, run, reused=True)
        return None

    def _stands(self, evaluation: Evaluation, fingerprint: Fingerprint) -> bool:
        then = evaluation.fingerprint
        about = (evaluation.task_digest, evaluation.dtype) == (self.task.digest, str(self.settings.dtype))
        same = then is not None and replace(then, held_out_epoch=fingerprint.held_out_epoch) == fingerprint
        # A kernel that passed and was never confirmed was only compared with another run's champion.
        told = evaluation.verdict is not Verdict.INFRASTRUCTURE and (evaluation.confirmed or not evaluation.passed)
        return about and same and told and not self._trust.is_external(evaluation)

    async def _note(self, candidate: Candidate, known: Answer) -> None:
        """What another session found out about a kernel counts in this one too."""
        if self.meter.holds(known.run):
            return
        await self._propose(candidate)
        await self._append(events.evaluated(self.run_id, known.evaluation, 0, reused=known.run))
        self._keep(candidate, known.evaluation)

    async def _propose(self, candidate: Candidate) -> None:
        self._number += 1
        await self._append(events.proposed(self.run_id, self._number, candidate))

    async def _tell(self, candidate: Candidate, evaluation: Evaluation) -> None:
        external, bits = self._trust.is_external(evaluation), self._steward.take_bits(candidate.id)
        attempt = self._attempts[candidate.id]
        self._attempts[candidate.id] += 1
        await self._append(events.evaluated(self.run_id, evaluation, 0, attempt=attempt, external=external, bits=bits))
        self._ledger.take_verdict(events.Evaluated(evaluation, 0, external=external, bits=bits))
        if not external:
            self._keep(candidate, evaluation)

    def _keep(self, candidate: Candidate, evaluation: Evaluation) -> None:
        elite = elite_of(candidate, evaluation)
        if elite is not None:
            self._elites[candidate.id] = elite
            self._upkeep.note(candidate.id)
        else:
            self._elites.pop(candidate.id, None)

    def _champion(self) -> Elite | None:
        return max(self._elites.values(), key=lambda e: (e.score.low, e.score.log, e.candidate.id), default=None)

    # Keeping up

    async def _keep_up(self) -> None:
        """What is due after a verdict: the held-out set retired, the journal sealed."""
        if self._gate_is_worn():
            async with self._rotating:
                if self._gate_is_worn():
                    await self._rotate()
        if self._unsealed >= SEAL_EVERY:
            await self._seal()

    def _gate_is_worn(self) -> bool:
        assert self._preparation is not None
        return self._ledger.bits >= self._preparation.gate_bits or self._executor.is_worn()

    async def _rotate(self) -> None:
        """Another held-out set; whoever is the best, and whoever takes its place, passes that one too."""
        bits = self._ledger.bits
        self._ledger.retire_held_out(early=True)
        await self._append(events.rotated(self.run_id, events.Rotated(self._ledger.epoch, bits)))
        async with self._steward.alone():
            self._preparation = await self._executor.rotate(self._ledger.epoch)
        before: Elite | None = None
        while (champion := self._champion()) is not None and champion != before:
            before = champion
            await self._upkeep.gate_again(self._ledger.rotated)

    async def _retell(self, elite: Elite, evaluation: Evaluation, why: str) -> None:
        external = self._trust.is_external(evaluation)
        body = events.Rejudged(evaluation, why, external, self._steward.take_bits(elite.candidate.id))
        await self._append(events.rejudged(self.run_id, self._ledger.rejudged, body))
        self._ledger.take_rejudged(body)
        if not external:
            self._keep(elite.candidate, evaluation)

    async def _seal(self) -> None:
        """Have the judge sign the head of the chain; a run that cannot be sealed is no worse than one that was killed."""
        head = self._journal.head(self.run_id)
        with contextlib.suppress(Unavailable):
            seal = await self._executor.seal(Seal(self.run_id, head.position, head.digest))
            await self._append(events.sealed(self.run_id, head.position, record.to_json(seal)))
            keep_seal(self._home, seal)
            self._unsealed = 0

    async def _append(self, *written: Event) -> None:
        await self._journal.append(written)
        self._unsealed += len(written)

    # Telling

    def _say(self, text: str) -> None:
        """To all callers."""
        self._said(text)
        for _, say in list(self._callers):
            say(text)

    def _say_to(self, kernel_id: str, text: str) -> None:
        for waited_for, say in list(self._callers):
            if waited_for == kernel_id:
                say(text)

    @contextlib.contextmanager
    def _listening(self, kernel_id: str, say: Say) -> Iterator[None]:
        caller = (kernel_id, say)
        self._callers.append(caller)
        try:
            yield
        finally:
            self._callers.remove(caller)

    def _ended(self, kernel_id: str, work: asyncio.Task[Answer]) -> None:
        self._under_way.pop(kernel_id, None)
        if not work.cancelled():
            # Looked at, so that asyncio prints no traceback of a failure whose caller has left.
            work.exception()


def in_session(settings: RunSettings, name: str, budget: Budget) -> RunSettings:
    """A run's settings as those of a bench: one island, no model, the session's budget, and its name among the options."""
    return replace(settings, budget=budget, islands=1, model="", options={**settings.options, SESSION: name})
