"""The engine: one asyncio loop over all islands.

    an island asks -> an operator proposes -> the journal -> the executor judges -> the journal -> the island places

The loop itself is `Engine.evolve`. Nothing is acted on before it is durable, and what islands hold is a pure function of the
journal's events in order: a resume tells them all again and goes on, and proposals that were in flight are judged again.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from evokern import plugins, record
from evokern.archive import ArchiveSettings, GridArchive
from evokern.engine.confirming import to_beat, worth_confirming
from evokern.engine.display import Display, Silent
from evokern.engine.documents import (
    About,
    Standing,
    closing_facts,
    info_document,
    island_document,
    status_document,
    summary_document,
)
from evokern.engine.ledger import Ledger
from evokern.engine.sealing import keep_seal
from evokern.engine.steward import Steward
from evokern.engine.trust import Judged, Trust
from evokern.engine.upkeep import Upkeep
from evokern.errors import EvokernError, Unavailable, UsageError
from evokern.evaluation import Elite, Evaluation, Reason, evaluation_key
from evokern.evaluator.catalogue import find_task
from evokern.evaluator.signing import Seal
from evokern.evaluator.statement import Closing, Opening, Preparation
from evokern.event import Budget, Event, EventKind, Operator, Proposal, Refusal, RefusalReason, Request, RunSettings
from evokern.executor import Executor
from evokern.executor.local import LocalExecutor
from evokern.island import Ask, Island, replay
from evokern.kernel import SUFFIXES, Candidate, Kernel
from evokern.migration import Migration, ring
from evokern.store import Journal, RunLease, new_run_id
from evokern.store import payload as events
from evokern.task import Task

LLM_FREE = ("rewrite", "retune")
WITH_MODEL = ("mutate", "cross")

LAGGING = 0.7
"""Share of the champion's speed below which an island's best is replaced as a starting point by a visit of the champion."""

TICK_SECONDS = 1.0

BASELINES = "baselines"
"""Option of `RunSettings.options`: names of the baselines to measure, with commas; for tests and machines where torch.compile fails."""

SEAL_EVERY = 200
"""Events after which a judge signs the journal's head again."""

OPPONENTS = 3
"""Champions that a kernel is screened against at most, where they fail under it; then it is the baseline's turn."""

CHANGEABLE = ("budget", "model")
"""Settings that a resume may change: no earlier verdict depends on them."""

Outcome = TypeVar("Outcome")


class Engine:
    """One run.

    Args:
        settings: What it is.
        home: Folder of the journal and all run data.
        display: Who shows it.
        executor: Where evaluations run; None for this machine.
        operators: Who proposes; None for those of the settings.
        run_id: Id of a run to resume; None for a new one.
        changes: One line per setting that a resume changed.

    Attributes:
        run_id: Id of the run.
        islands: Its islands; empty until the search is made ready.
        recorded: Whether the journal holds it, so that it can be resumed.

    Raises:
        UsageError: The task is not there, or changed since the run began.
    """

    def __init__(
        self,
        settings: RunSettings,
        *,
        home: Path,
        display: Display | None = None,
        executor: Executor | None = None,
        operators: Sequence[Operator] | None = None,
        run_id: str | None = None,
        changes: Sequence[str] = (),
    ) -> None:
        self.settings, self.home = settings, home
        self.task: Task = find_task(settings.task)
        if run_id is not None and self.task.digest != settings.task_digest:
            raise UsageError(
                "the task's files changed since the run began", where=str(self.task.folder), mend="Start a new run, or restore them"
            )
        self.run_id = run_id or new_run_id(self.task.name)
        self.islands: list[Island] = []
        self.recorded = run_id is not None
        self._resumed, self._changes = run_id is not None, changes
        self._display: Display = display or Silent()
        self._executor, self._given_operators = executor, operators
        self._ledger = Ledger()
        self._tried: set[str] = set()
        self._numbers = 0
        self._legs = 0
        self._open = 0
        self._unbroken: set[asyncio.Task[Any]] = set()
        self._reason = ""
        self._seed: Kernel | None = None
        self._preparation: Preparation | None = None
        self._unsealed = 0

    @classmethod
    def resume(
        cls,
        run: str,
        *,
        home: Path,
        changes: Mapping[str, Any],
        display: Display | None = None,
        executor: Executor | None = None,
        operators: Sequence[Operator] | None = None,
    ) -> Engine:
        """The engine of a run that stopped, with the settings that it had.

        Args:
            run: Id or unique prefix; empty for the newest.
            home: Where it is.
            changes: New values by setting; those of `CHANGEABLE` may change.
            display: Who shows it.
            executor: As for a new run.
            operators: As for a new run.

        Raises:
            UsageError: There is no such run, or a setting cannot change.
        """
        refused = sorted(set(changes) - set(CHANGEABLE))
        if refused:
            raise UsageError(f"'{refused[0]}' cannot change on a resume: earlier verdicts depend on it", mend="Start a new run")
        with Journal(home, read_only=True) as journal:
            found = journal.run(run)
        settings = replace(found.settings, **changes)
        lines = [line for name in changes for line in changed_lines(name, getattr(found.settings, name), getattr(settings, name))]
        return cls(settings, home=home, display=display, executor=executor, operators=operators, run_id=found.id, changes=lines)

    def refuse_spent(self) -> None:
        """Refuse to go on where a resume could only measure the closing once more.

        Raises:
            UsageError: Nothing is left of the budget, and nothing was judged since the run was closed.
        """
        ledger = Ledger()
        with Journal(self.home, read_only=True) as journal:
            history = list(journal.replay(self.run_id))
        ledger.restore(history)
        spent = ledger.spent().exceeds(self.settings.budget)
        last = [event.kind for event in history if event.kind is EventKind.CLOSED or event.kind in events.VERDICTS][-1:]
        if spent and last == [EventKind.CLOSED]:
            mend = "Give a larger one, which counts all legs: --minutes, --evals, --tokens or --usd"
            raise UsageError(f"nothing is left of its budget of {spent}", where=self.run_id, mend=mend)

    async def run(self) -> dict[str, Any]:
        """Search until the budget ends.

        Returns:
            The summary that the closing table is made of.

        Raises:
            EvokernError: Something needed is missing, or the journal cannot be written; what was committed is kept.
            asyncio.CancelledError: The caller gave up; the run can be resumed.
        """
        with Journal(self.home) as self._journal, RunLease(self.home, self.run_id):
            try:
                async with self._ready():
                    await self._search()
                    return await self._close()
            except asyncio.CancelledError:
                await self._end("interrupted")
                raise
            except EvokernError as error:
                # A journal that failed cannot say so itself.
                with contextlib.suppress(EvokernError):
                    await self._end(f"failed: {error.what}")
                raise

    async def evolve(self, island: Island) -> None:
        """The loop: ask, propose, judge, place, until the budget ends."""
        while not self._finished():
            ask = self._next_ask(island)
            if ask is None:
                await self._change()
                continue
            with self._at_work():
                candidate, seconds = await self._propose(island, ask)
                if candidate is not None:
                    await self._judge_and_place(candidate, seconds)

    # Making ready

    @contextlib.asynccontextmanager
    async def _ready(self) -> AsyncIterator[None]:
        """Everything a search needs, for as long as it lasts; the run's clock starts at the end of it."""
        if not self._resumed:
            await self._append(events.run_started(self.run_id, self.settings))
            self.recorded = True
        self._trust = Trust(self.home)
        history = [self._trust.doubted(event) for event in self._journal.replay(self.run_id)]
        self._legs = _leg(history) if self._resumed else 0
        model = self._model()
        self._operators = {o.name: o for o in self._given_operators or self._chosen_operators(model)}
        has_model = model is not None or self._given_operators is not None
        self.islands = [self._island(i, has_model=has_model) for i in range(self.settings.islands)]
        self._migration = Migration(ring(self.settings.islands))
        self._restore(history)
        executor = self._executor or LocalExecutor(self._opening(), in_flight=self.settings.builds + 2)
        self._executor = executor
        self._steward = Steward(executor, self._display.say)
        self._upkeep = Upkeep(self._steward, self._champion, self._retell, lambda: self._ledger.spent().seconds)
        self._evaluating = asyncio.Semaphore(executor.capacity())
        self._telling, self._again = asyncio.Lock(), asyncio.Lock()
        self._changed = asyncio.Event()
        try:
            self._display.started(self._info())
            preparation = self._preparation = await self._prepared(executor, model)
            self._trust.admit(preparation)
            self._display.started(self._info())
            begun = [events.baselines(self.run_id, preparation.fingerprint.digest, record.to_json(preparation))]
            if self._resumed:
                begun.append(events.run_resumed(self.run_id, self.settings, self._legs, self._changes))
            await self._append(*begun)
            self._ledger.start_clock()
            yield
        finally:
            await executor.close()
            if model is not None:
                await model.aclose()

    async def _prepared(self, executor: Executor, model: Any) -> Preparation:
        """The executor open and the model's endpoint tried, both at once."""
        async with _one_error(), asyncio.TaskGroup() as group:
            opening = group.create_task(executor.open(self._display.say))
            if model is not None:
                group.create_task(model.probe())
        return opening.result()

    def _model(self) -> Any:
        if not self.settings.model:
            return None
        from evokern.model.gateway import GatewaySettings

        budget = self.settings.budget
        gateway = GatewaySettings.from_environment(
            self.settings.model, in_flight=self.settings.model_calls, token_limit=budget.tokens, usd_limit=budget.usd
        )
        return plugins.load("model", "litellm")(gateway)

    def _chosen_operators(self, model: Any) -> list[Operator]:
        names = (*LLM_FREE, *WITH_MODEL) if model is not None else LLM_FREE
        return [plugins.load("operator", name).for_run(self.settings, model) for name in names]

    def _island(self, index: int, *, has_model: bool) -> Island:
        return Island(index, GridArchive(ArchiveSettings()), self._operators.values(), seed=self.settings.seed, has_model=has_model)

    def _opening(self) -> Opening:
        return Opening(
            task_folder=str(self.task.folder),
            dtype=self.settings.dtype,
            backend=self.settings.backend,
            threads=self.settings.threads,
            home=str(self.home.resolve()),
            key_name=f"{self.run_id}.key",
            builds=self.settings.builds,
            degenerate=self.settings.degenerate,
            **self._limited_baselines(),
            epoch=self._ledger.epoch,
        )

    def _limited_baselines(self) -> dict[str, Any]:
        names = self.settings.options.get(BASELINES, "")
        return {"baselines": tuple(names.split(","))} if names else {}

    def _restore(self, history: Sequence[Event]) -> None:
        """Everything that is a function of the journal."""
        self._migration.restore(history, placed=replay(self.islands, history))
        self._ledger.restore(history)
        for event in history:
            body = events.read(event)
            if isinstance(body, events.Proposed):
                self._tried.add(body.candidate.id)
                self._numbers = max(self._numbers, body.number + 1)
                if body.candidate.operator == "seed" and self._seed is None:
                    self._seed = body.candidate.kernel
            elif isinstance(body, events.Refused):
                self._numbers = max(self._numbers, body.number + 1)

    # Searching

    async def _search(self) -> None:
        """Founders first, then all islands at once until the budget ends."""
        left = None if self.settings.budget.seconds is None else self.settings.budget.seconds - self._ledger.before_s
        try:
            async with asyncio.timeout(left), _one_error():
                await self._all_islands()
        except TimeoutError:
            self._reason = self._reason or "seconds"
        finally:
            await self._settle()

    async def _all_islands(self) -> None:
        async with asyncio.TaskGroup() as group:
            ticking = [group.create_task(self._tick()), group.create_task(self._keep_up())]
            await self._judge_unfinished()
            await self._found()
            async with asyncio.TaskGroup() as evolving:
                for island in self.islands:
                    for _ in range(self._coroutines()):
                        evolving.create_task(self.evolve(island))
            for task in ticking:
                task.cancel()

    def _coroutines(self) -> int:
        """Per island: enough to keep the executor and the model busy, each up to its own limit."""
        assert self._executor is not None
        wanted = self._executor.capacity() + (self.settings.model_calls if self.settings.model else 0)
        return -(-wanted // len(self.islands))

    async def _judge_unfinished(self) -> None:
        """Proposals that were in flight when the run stopped."""
        for candidate in self._journal.unfinished(self.run_id):
            proposal = self._journal.candidate(self.run_id, candidate.id)
            if proposal is not None and not self._finished():
                with self._at_work():
                    await self._judge_and_place(candidate, proposal.seconds)

    async def _found(self) -> None:
        """Every seed judged once, and an elite on every island."""
        founders = [Candidate(kernel, self.task.name, self.settings.dtype) for kernel in self._seeds() if kernel.id not in self._tried]
        founders = founders[: self._room()]
        for founder in founders:
            self._tried.add(founder.id)
            await self._append(events.proposed(self.run_id, -1, founder))
            self._seed = self._seed or founder.kernel
        if founders:
            await self._judge_founders(founders)
        empty = [island for island in self.islands[1:] if not len(island.archive)]
        for elite in list(self.islands[0].archive):
            if elite.candidate.operator == "seed":
                for island in empty:
                    await self._welcome(elite, 0, island)
        if self._champion() is None and self._ledger.settled:
            raise EvokernError("no seed kernel passed", where=self.run_id, mend=f"See `evokern status {self.run_id}` and `evokern show`")

    def _room(self) -> int | None:
        """Evaluations that may still begin; None where nothing limits them."""
        limit = self.settings.budget.evaluations
        return None if limit is None else max(0, limit - len(self._ledger.settled) - self._open)

    async def _judge_founders(self, founders: Sequence[Candidate]) -> None:
        """Bounded fan-out over independent candidates, whose errors come as values."""
        from asyncio_pool import AioPool

        assert self._executor is not None

        async def outcome(founder: Candidate) -> BaseException | None:
            try:
                await self._judge_and_place(founder, 0.0)
            except (Exception, asyncio.CancelledError) as error:
                return error
            return None

        async with AioPool(size=self._executor.capacity()) as pool:
            # Not `pool.map`: waiting for room in the pool it takes a cancellation for itself and goes on.
            outcomes = pool.map_n(outcome, founders)
            try:
                await asyncio.wait(outcomes)
            except asyncio.CancelledError:
                # Else the pool would first wait for all of them.
                await pool.cancel()
                raise
        for error in (ended.result() for ended in outcomes):
            if error is not None:
                raise error

    def _seeds(self) -> list[Kernel]:
        given = [Kernel(dialect, source) for dialect, source in self.settings.seeds]
        for dialect in plugins.load("backend", self.settings.backend).dialects if not given else ():
            path = self.task.folder / "seeds" / f"{dialect}-{self.settings.dtype}{SUFFIXES[dialect]}"
            if path.is_file():
                given.append(Kernel(dialect, path.read_text()))
        if not given:
            raise UsageError(
                f"the task has no {self.settings.dtype} seed for backend {self.settings.backend}",
                where=self.task.name,
                mend="Give one with --seed-kernel",
            )
        return given

    def _finished(self) -> bool:
        """Whether the search is over; what is in flight ends first."""
        if not self._reason:
            self._reason = self._ledger.spent().exceeds(self.settings.budget)
        if not self._reason and any(pause == math.inf for pause in self._pauses().values()):
            # The client sends no call that could pass the budget, so what was spent never quite reaches it.
            self._reason = self._ledger.scarcer(self.settings.budget)
        return bool(self._reason)

    def _pauses(self) -> dict[str, float]:
        """Operators that may not be asked now, by name, with the seconds for which they rest."""
        pauses = {name: float(getattr(operator, "pause_s", lambda: 0.0)()) for name, operator in self._operators.items()}
        return {name: pause for name, pause in pauses.items() if pause > 0}

    def _next_ask(self, island: Island) -> Ask | None:
        """What the island wants; None where it must wait, or where no island has anything left to try, which ends the search."""
        if self._room() == 0:
            return None
        paused = self._pauses()
        ask = island.ask(self._numbers, without=paused)
        if ask is not None:
            self._numbers += 1
        elif not self._open and not paused and not any(self._has_ask(other) for other in self.islands):
            self._reason = "exhausted"
            self._wake()
        return ask

    def _has_ask(self, island: Island) -> bool:
        ask = island.ask(self._numbers)
        if ask is not None:
            island.drop(ask)
        return ask is not None

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Counts what is in flight, each of which may become an evaluation; whoever waits for a change looks again afterwards."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _change(self) -> None:
        """Wait until something in flight has ended, or a moment, as a model's rest may be over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), TICK_SECONDS)

    async def _whole(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Do all of it even if the caller is cancelled: what is in the journal is also told, and what was paid for is kept."""
        task = asyncio.ensure_future(work)
        self._unbroken.add(task)
        task.add_done_callback(self._end_whole)
        return await asyncio.shield(task)

    def _end_whole(self, task: asyncio.Future[Any]) -> None:
        self._unbroken.discard(task)
        if not task.cancelled():
            # Looked at, so that asyncio prints no traceback of a failure whose caller was cancelled by another one's.
            task.exception()

    async def _settle(self) -> None:
        """Wait for what was not broken off."""
        while self._unbroken:
            await asyncio.wait(self._unbroken)

    async def _propose(self, island: Island, ask: Ask) -> tuple[Candidate | None, float]:
        """A candidate that is new to the run, recorded; or None, with the refusal recorded."""
        operator, start = self._operators[ask.operator], time.monotonic()
        request = Request(
            self.task, self.settings.dtype, ask.parents, self._champion(), (), random.Random(f"{self.settings.seed}/{ask.number}"),
            self._tried, island.index, ask.number,
        )  # fmt: skip
        try:
            proposal = await operator.propose(request)
        except asyncio.CancelledError:
            island.drop(ask)
            raise
        seconds = time.monotonic() - start
        return await self._whole(self._record(island, ask, proposal, seconds)), seconds

    async def _record(self, island: Island, ask: Ask, proposal: Proposal, seconds: float) -> Candidate | None:
        await self._record_calls(ask.number, proposal)
        if proposal.kernel is not None and proposal.kernel.id in self._tried:
            proposal = replace(proposal, kernel=None, refusal=Refusal(RefusalReason.ALREADY_TRIED))
        if proposal.kernel is None:
            await self._refuse(island, ask, proposal, seconds)
            return None
        self._tried.add(proposal.kernel.id)
        candidate = Candidate(
            proposal.kernel, self.task.name, self.settings.dtype, ask.parent_ids, ask.operator, proposal.edits, (), island.index
        )
        await self._append(events.proposed(self.run_id, ask.number, candidate, proposal, seconds=seconds))
        return candidate

    async def _record_calls(self, number: int, proposal: Proposal) -> None:
        for index, call in enumerate(proposal.calls):
            await self._append(events.model_called(self.run_id, number, index, call))
            self._ledger.take_call(call)

    async def _refuse(self, island: Island, ask: Ask, proposal: Proposal, seconds: float) -> None:
        refusal = proposal.refusal or Refusal(RefusalReason.MALFORMED, "neither a kernel nor a reason")
        body = events.Refused(
            ask.number, island.index, ask.operator, ask.parent_ids, refusal, seconds, proposal.prompt, proposal.response, proposal.calls
        )
        async with self._telling:
            await self._append(events.refused(self.run_id, body))
            island.refuse(ask.operator, ask.parent_ids, refusal, seconds=seconds)
        if refusal.reason is RefusalReason.BUDGET_SPENT:
            self._reason = self._reason or self._ledger.scarcer(self.settings.budget)

    async def _judge_and_place(self, candidate: Candidate, seconds: float) -> None:
        """Up the ladder, recorded, told to its island."""
        async with self._evaluating:
            judged = await self._judged(candidate)
        await self._whole(self._tell(candidate, judged, seconds))

    async def _tell(self, candidate: Candidate, judged: Judged, seconds: float) -> None:
        evaluation, external = judged.evaluation, self._trust.is_external(judged.evaluation)
        bits = self._steward.take_bits(candidate.id)
        async with self._telling:
            written = events.evaluated(self.run_id, evaluation, candidate.island, reused=judged.reused, external=external, bits=bits)
            await self._append(written)
            self._ledger.take_verdict(events.Evaluated(evaluation, candidate.island, judged.reused, external, bits))
            island = self.islands[candidate.island]
            if external:
                island.pass_over(candidate)
                return
            placement = island.tell(candidate, evaluation, seconds=seconds)
            if evaluation.confirmed and not judged.reused:
                self._upkeep.note(candidate.id)
            if placement is not None:
                await self._append(events.placed(self.run_id, island.index, candidate.id, placement))
                if placement.placed:
                    self._migration.note_placed()
                    await self._migrate()
                    await self._lift_lagging()

    async def _judged(self, candidate: Candidate) -> Judged:
        """Taken from an earlier run, or screened against the champion and confirmed where it may enter the archive."""
        assert self._preparation is not None
        fingerprint = self._preparation.fingerprint
        key = evaluation_key(candidate.id, self.task.digest, self.settings.dtype, fingerprint)
        known = self._trust.known(self._journal, candidate.id, key, fingerprint)
        if known is not None:
            return known
        champion = self._champion()
        evaluation = await self._screened(candidate, champion)
        worth = evaluation.passed and not self._trust.is_external(evaluation)
        if worth and worth_confirming(candidate, evaluation, champion, self._archive(candidate.island)):
            bar = to_beat(evaluation, self._archive(candidate.island))
            evaluation = await self._steward.confirm(candidate, evaluation, bar)
        return Judged(evaluation)

    async def _screened(self, candidate: Candidate, champion: Elite | None) -> Evaluation:
        """A verdict that is the candidate's own: an opponent that fails is looked into, and another one takes its place."""
        for _ in range(OPPONENTS):
            incumbent = champion.candidate.kernel if champion else None
            evaluation = await self._steward.evaluate(candidate, incumbent)
            if evaluation.reason is not Reason.OPPONENT or champion is None:
                return evaluation
            await self._upkeep.accused(champion, candidate.id)
            champion = self._champion()
        return await self._steward.evaluate(candidate, None)

    async def _retell(self, elite: Elite, evaluation: Evaluation, why: str) -> None:
        """Record that an elite was judged again, and tell every island that knows it."""
        bits = self._steward.take_bits(elite.candidate.id)
        await self._whole(self._retold(events.Rejudged(evaluation, why, self._trust.is_external(evaluation), bits)))

    async def _retold(self, body: events.Rejudged) -> None:
        async with self._telling:
            await self._append(events.rejudged(self.run_id, self._ledger.rejudged, body))
            self._ledger.take_rejudged(body)
            if body.external:
                return
            for island in self.islands:
                island.retell(body.evaluation)
            await self._refill()

    async def _refill(self) -> None:
        """An elite for every island that lost its last one."""
        for island in self.islands:
            if len(island.archive) or not self._ledger.withdrawn:
                continue
            champion = self._champion()
            if champion is None:
                raise EvokernError("every kernel that had passed failed when it was judged again", where=self.run_id)
            await self._welcome(champion, champion.candidate.island, island)

    def _archive(self, island: int) -> GridArchive:
        archive = self.islands[island].archive
        assert isinstance(archive, GridArchive)
        return archive

    async def _migrate(self) -> None:
        for move in self._migration.moves([island.archive for island in self.islands]):
            await self._welcome(move.elite, move.source, self.islands[move.target])

    async def _lift_lagging(self) -> None:
        """Send the champion to islands that are far behind; early gains are large, and a migration's turn comes late."""
        champion = self._champion()
        if champion is None:
            return
        for island in self.islands:
            best = island.archive.best()
            if best is not None and best.score.ratio.estimate < LAGGING * champion.score.ratio.estimate:
                await self._welcome(champion, champion.candidate.island, island)

    async def _welcome(self, elite: Elite, source: int, island: Island) -> None:
        await self._append(events.migrated(self.run_id, events.Migrated(elite.candidate.id, source, island.index)))
        island.welcome(elite)
        self._migration.note_moved(elite.candidate.id)

    def _champion(self) -> Elite | None:
        best = [elite for island in self.islands if (elite := island.archive.best()) is not None]
        return max(best, key=lambda e: (e.score.low, e.score.log, e.candidate.id), default=None)

    async def _append(self, *written: Event) -> None:
        await self._journal.append(written)
        self._unsealed += len(written)
        for event in written:
            self._display.event(event)

    # Closing and showing

    async def _end(self, reason: str) -> None:
        """Stop the clock and say why; the first reason of a leg is the one that stays."""
        await self._append(events.run_ended(self.run_id, self._legs, reason, self._ledger.stop_clock()))

    async def _close(self) -> dict[str, Any]:
        assert self._executor is not None
        await self._end(self._reason or "done")
        await self._upkeep.at_end()
        champion = self._champion()
        closing = await self._executor.finish(champion.candidate.kernel, self._seed) if champion else None
        summary = self._summary(champion, closing)
        if closing is not None:
            await self._append(events.closed(self.run_id, self._legs, {"closing": record.to_json(closing), "summary": summary}))
        await self._seal()
        self._display.ended(summary)
        return summary

    def _summary(self, champion: Elite | None, closing: Closing | None) -> dict[str, Any]:
        summary = summary_document(self._about(), self._standing(), self._reason or "done")
        if champion is None or closing is None:
            return summary
        return summary | closing_facts(closing, champion) | {"path": str(self._write_kernel(champion.candidate.kernel))}

    def _write_kernel(self, kernel: Kernel) -> Path:
        path = self.home / "runs" / self.run_id / f"best{SUFFIXES[kernel.dialect]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(kernel.source)
        return path

    def _info(self) -> dict[str, Any]:
        return info_document(self._about())

    def _about(self) -> About:
        return About(self.run_id, self.task.name, self.settings, self._preparation)

    def _standing(self) -> Standing:
        ledger = self._ledger
        return Standing(
            ledger.spent(),
            dict(ledger.verdicts),
            self._champion(),
            ledger.calls,
            ledger.external,
            ledger.withdrawn,
            ledger.epoch,
            ledger.bits,
        )

    async def _tick(self) -> None:
        while True:
            self._display.tick(self.status())
            await asyncio.sleep(TICK_SECONDS)

    def status(self) -> dict[str, Any]:
        """The document of `evokern status`, from memory."""
        islands = [island_document(i.index, len(i.archive), i.archive.best()) for i in self.islands]
        return status_document(self._about(), self._standing(), "running", islands)

    # Keeping up

    async def _keep_up(self) -> None:
        """What is due in time: the champion measured again, the held-out set retired, the journal sealed."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            await self._upkeep.when_due()
            assert self._preparation is not None
            assert self._executor is not None
            if self._ledger.bits >= self._preparation.gate_bits or self._executor.is_worn():
                await self._whole(self._rotate())
            await self._upkeep.gate_again(self._ledger.rotated)
            if self._unsealed >= SEAL_EVERY:
                await self._seal()

    async def _rotate(self) -> None:
        """Another held-out set."""
        assert self._executor is not None
        bits = self._ledger.bits
        self._ledger.retire_held_out(early=True)
        await self._append(events.rotated(self.run_id, events.Rotated(self._ledger.epoch, bits)))
        async with self._steward.alone():
            self._preparation = await self._executor.rotate(self._ledger.epoch)

    async def _seal(self) -> None:
        """Have the judge sign the head of the chain; a run that cannot be sealed is no worse than one that was killed."""
        assert self._executor is not None
        head = self._journal.head(self.run_id)
        with contextlib.suppress(Unavailable):
            seal = await self._executor.seal(Seal(self.run_id, head.position, head.digest))
            await self._append(events.sealed(self.run_id, head.position, record.to_json(seal)))
            keep_seal(self.home, seal)
            self._unsealed = 0


def _leg(history: Sequence[Event]) -> int:
    """How many times the run has been taken up again, this time included; a leg that ended before it was ready counts too."""
    return 1 + max((int(e.key) for e in history if e.kind in (EventKind.RUN_RESUMED, EventKind.RUN_ENDED)), default=0)


@contextlib.asynccontextmanager
async def _one_error() -> AsyncIterator[None]:
    """Of the errors of several coroutines one is told, a typed one if there is any: the others mostly follow from it."""
    try:
        yield
    except BaseExceptionGroup as group:
        typed, _ = group.split(EvokernError)
        raise _first(typed or group) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def changed_lines(name: str, old: object, new: object) -> list[str]:
    """What changed in a setting, a line each; a budget limit by limit."""
    if isinstance(old, Budget) and isinstance(new, Budget):
        pairs = [(f.name, getattr(old, f.name), getattr(new, f.name)) for f in fields(Budget)]
        return [f"limit of {limit} is {'lifted' if after is None else f'now {after}'}" for limit, before, after in pairs if before != after]
    return [] if old == new else [f"{name} is now {new or 'none'}"]
