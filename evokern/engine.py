"""The engine: one asyncio loop over all islands.

    an island asks -> an operator proposes -> the journal -> the executor judges -> the journal -> the island places

The loop itself is `Engine.evolve`. Nothing is acted on before it is durable, and what islands hold is a pure function of the
journal's events in order: a resume tells them all again and goes on, and proposals that were in flight are judged again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from evokern import plugins, record
from evokern.archive import ArchiveSettings, GridArchive
from evokern.errors import EvokernError, UsageError
from evokern.evaluation import BASELINE, INCUMBENT, Elite, Evaluation, Score
from evokern.evaluator.catalogue import find_task
from evokern.evaluator.statement import Closing, Opening, Preparation
from evokern.event import Event, EventKind, ModelCall, Operator, Proposal, Refusal, RefusalReason, Request, RunSettings, Spent
from evokern.executor import Executor
from evokern.executor.local import LocalExecutor
from evokern.island import Ask, Island, replay
from evokern.kernel import SUFFIXES, Candidate, Kernel
from evokern.migration import Migration, ring
from evokern.statistics import chain, score_of
from evokern.store import Journal, RunLease, new_run_id
from evokern.store import payload as events
from evokern.task import Task

LLM_FREE = ("rewrite", "retune")
WITH_MODEL = ("mutate", "cross")

WORTH_CONFIRMING = 0.7
"""Share of the champion's speed below which no kernel is confirmed, however empty its cell: that costs more than its screening."""

LAGGING = 0.7
"""Share of the champion's speed below which an island's best is replaced as a starting point by a visit of the champion."""

MARGIN = 1.01
"""By how much an estimate must beat what it would replace before a confirmation is spent on it."""

TICK_SECONDS = 1.0


class Display(Protocol):
    """Whoever shows a run; all calls are quick and none may fail the run."""

    def started(self, info: dict[str, Any]) -> None:
        """The run begins, or says what it is preparing (`say`)."""
        ...

    def event(self, event: Event) -> None:
        """Something was written to the journal."""
        ...

    def tick(self, status: dict[str, Any]) -> None:
        """About once a second, with the document of `evokern status`."""
        ...

    def say(self, text: str) -> None:
        """Something takes time."""
        ...

    def ended(self, summary: dict[str, Any]) -> None:
        """The run is over."""
        ...


class Silent:
    """A display that shows nothing."""

    def started(self, info: dict[str, Any]) -> None:
        """See `Display`."""

    def event(self, event: Event) -> None:
        """See `Display`."""

    def tick(self, status: dict[str, Any]) -> None:
        """See `Display`."""

    def say(self, text: str) -> None:
        """See `Display`."""

    def ended(self, summary: dict[str, Any]) -> None:
        """See `Display`."""


@dataclass
class Ledger:
    """What a run has used and found, kept up event by event.

    Attributes:
        settled: Ids of kernels with a verdict.
        verdicts: Counts by verdict.
        calls: Counts, tokens and money of model calls.
        before_s: Search time of earlier legs.
        since: Monotonic time at which this leg's clock started; None while it stands.
    """

    settled: set[str] = field(default_factory=set)
    verdicts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unknown: int = 0
    before_s: float = 0.0
    since: float | None = None

    def take_call(self, call: ModelCall) -> None:
        """Count a model call, whatever came of it."""
        self.calls += 1
        self.tokens += call.prompt_tokens + call.completion_tokens
        self.usd += call.usd or 0.0
        self.unknown += call.usd is None

    def spent(self) -> Spent:
        """In the budget's units."""
        leg = 0.0 if self.since is None else time.monotonic() - self.since
        return Spent(self.before_s + leg, len(self.settled), self.tokens, self.usd, self.unknown)


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
            raise UsageError("the task's files changed since the run began", where=str(self.task.folder), mend="Start a new run, or restore them")
        self.run_id = run_id or new_run_id(self.task.name)
        self._resumed, self._changes = run_id is not None, changes
        self._display: Display = display or Silent()
        self._executor, self._given_operators = executor, operators
        self._ledger = Ledger()
        self._tried: set[str] = set()
        self._numbers = 0
        self._legs = 0
        self._begun = 0
        self._working = 0
        self._reason = ""
        self._seed: Kernel | None = None
        self._preparation: Preparation | None = None

    @classmethod
    def resume(cls, run: str, *, home: Path, changes: Mapping[str, Any], display: Display | None = None) -> Engine:
        """The engine of a run that stopped, with the settings that it had.

        Args:
            run: Id or unique prefix; empty for the newest.
            home: Where it is.
            changes: New values by setting; `budget` and `model` may change.
            display: Who shows it.

        Raises:
            UsageError: There is no such run, or a setting cannot change.
        """
        with Journal(home, read_only=True) as journal:
            found = journal.run(run)
            kept = [events.read(e) for e in journal.events(found.id, EventKind.RUN_STARTED, EventKind.RUN_RESUMED)]
        settings = kept[-1]
        assert isinstance(settings, RunSettings)
        refused = set(changes) - {"budget", "model"}
        if refused:
            raise UsageError(f"'{sorted(refused)[0]}' cannot change on a resume: earlier verdicts depend on it", mend="Start a new run")
        lines = [f"{name} is now {value}" for name, value in changes.items() if getattr(settings, name) != value]
        return cls(replace(settings, **changes), home=home, display=display, run_id=found.id, changes=lines)

    async def run(self) -> dict[str, Any]:
        """Search until the budget ends.

        Returns:
            The summary that the closing table is made of.

        Raises:
            EvokernError: Something needed is missing, or the journal cannot be written; what was committed is kept.
            asyncio.CancelledError: The caller gave up; the run can be resumed.
        """
        with Journal(self.home) as self._journal, RunLease(self.home, self.run_id):
            async with self._ready():
                try:
                    await self._search()
                except asyncio.CancelledError:
                    await self._append(events.run_ended(self.run_id, self._legs, "interrupted", self._stop_clock()))
                    raise
                return await self._close()

    async def evolve(self, island: Island) -> None:
        """The loop: propose, judge, place, until the budget ends."""
        while not self._finished():
            ask = await self._next_ask(island)
            if ask is None:
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
        history = list(self._journal.replay(self.run_id))
        self._legs = sum(e.kind is EventKind.RUN_RESUMED for e in history) + self._resumed
        model = self._model()
        self._operators = {o.name: o for o in self._given_operators or self._chosen_operators(model)}
        self._islands = [self._island(i, has_model=model is not None) for i in range(self.settings.islands)]
        self._migration = Migration(ring(self.settings.islands))
        self._restore(history)
        executor = self._executor or LocalExecutor(self._opening(history), in_flight=self.settings.builds + 2)
        self._executor = executor
        self._evaluating = asyncio.Semaphore(executor.capacity())
        self._telling = asyncio.Lock()
        self._changed = asyncio.Event()
        try:
            self._display.started(self._info())
            probe = asyncio.create_task(model.probe()) if model is not None else None
            self._preparation = await executor.open(self._display.say)
            if probe is not None:
                await probe
            self._display.started(self._info())
            await self._append(events.baselines(self.run_id, self._preparation.fingerprint.digest, record.to_json(self._preparation)))
            if self._resumed:
                await self._append(events.run_resumed(self.run_id, self.settings, self._legs, self._changes))
            self._ledger.since = time.monotonic()
            yield
        finally:
            await executor.close()
            if model is not None:
                await model.aclose()

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

    def _opening(self, history: Sequence[Event]) -> Opening:
        return Opening(
            task_folder=str(self.task.folder),
            dtype=self.settings.dtype,
            backend=self.settings.backend,
            threads=self.settings.threads,
            home=str(self.home.resolve()),
            key_name=f"{self.run_id}.key",
            builds=self.settings.builds,
            degenerate=self.settings.degenerate,
            epoch=sum(e.kind is EventKind.CLOSED for e in history),
        )

    def _restore(self, history: Sequence[Event]) -> None:
        """Everything that is a function of the journal."""
        self._migration.restore(history, placed=replay(self._islands, history))
        clock_started: float | None = None
        for event in history:
            body = events.read(event)
            if event.kind in (EventKind.BASELINES, EventKind.RUN_RESUMED):
                clock_started = event.at
            elif event.kind is EventKind.RUN_ENDED:
                clock_started = None
                self._ledger.before_s = body.spent.seconds  # type: ignore[union-attr]
            elif isinstance(body, events.Proposed):
                self._tried.add(body.candidate.id)
                self._numbers = max(self._numbers, body.number + 1)
                if body.candidate.operator == "seed" and self._seed is None:
                    self._seed = body.candidate.kernel
            elif isinstance(body, events.Refused):
                self._numbers = max(self._numbers, body.number + 1)
                self._ledger.refusals[body.refusal.reason] += 1
            elif isinstance(body, events.Evaluated):
                self._note_verdict(body.evaluation)
            elif isinstance(body, ModelCall):
                self._ledger.take_call(body)
            if clock_started is not None and event.kind in (EventKind.EVALUATED, EventKind.REFUSED, EventKind.PLACED):
                # A leg that was killed wrote no end: what it spent reaches to its last event.
                self._ledger.before_s += event.at - clock_started
                clock_started = event.at
        self._begun = len(self._ledger.settled)

    # Searching

    async def _search(self) -> None:
        """Founders first, then all islands at once until the budget ends."""
        left = None if self.settings.budget.seconds is None else self.settings.budget.seconds - self._ledger.before_s
        try:
            async with asyncio.timeout(left):
                await self._all_islands()
        except TimeoutError:
            self._reason = self._reason or "seconds"
        except BaseExceptionGroup as group:
            raise _first(group) from None

    async def _all_islands(self) -> None:
        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(self._tick())
            await self._judge_unfinished()
            await self._found()
            async with asyncio.TaskGroup() as evolving:
                for island in self._islands:
                    for _ in range(self._coroutines()):
                        evolving.create_task(self.evolve(island))
            ticking.cancel()

    def _coroutines(self) -> int:
        """Per island: enough to keep the executor and the model busy, each up to its own limit."""
        assert self._executor is not None
        wanted = self._executor.capacity() + (self.settings.model_calls if self.settings.model else 0)
        return -(-wanted // len(self._islands))

    async def _judge_unfinished(self) -> None:
        """Proposals that were in flight when the run stopped."""
        for candidate in self._journal.unfinished(self.run_id):
            proposal = self._journal.candidate(self.run_id, candidate.id)
            if proposal is not None and not self._finished():
                await self._judge_and_place(candidate, proposal.seconds)

    async def _found(self) -> None:
        """Every seed judged once, and an elite on every island."""
        seeds = [k for k in self._seeds() if k.id not in self._tried]
        for kernel in seeds:
            candidate = Candidate(kernel, self.task.name, self.settings.dtype)
            self._tried.add(kernel.id)
            await self._append(events.proposed(self.run_id, -1, candidate))
            self._seed = self._seed or kernel
        if seeds:
            await self._judge_founders([Candidate(kernel, self.task.name, self.settings.dtype) for kernel in seeds])
        for elite in list(self._islands[0].archive):
            if elite.candidate.operator == "seed":
                for island in self._islands[1:]:
                    if elite.candidate.id not in island.archive and not len(island.archive):
                        await self._welcome(elite, 0, island)
        if not any(len(island.archive) for island in self._islands):
            raise EvokernError("no seed kernel passed", where=self.run_id, mend=f"See `evokern status {self.run_id}` and `evokern show`")

    async def _judge_founders(self, candidates: Sequence[Candidate]) -> None:
        """Bounded fan-out over independent candidates; the pool hands exceptions back as values."""
        from asyncio_pool import AioPool

        assert self._executor is not None
        async with AioPool(size=self._executor.capacity()) as pool:
            for outcome in await pool.map(lambda c: self._judge_and_place(c, 0.0), candidates):
                if isinstance(outcome, BaseException):
                    raise outcome

    def _seeds(self) -> list[Kernel]:
        given = [Kernel(dialect, source) for dialect, source in self.settings.seeds]
        for dialect in plugins.load("backend", self.settings.backend).dialects if not given else ():
            path = self.task.folder / "seeds" / f"{dialect}-{self.settings.dtype}{SUFFIXES[dialect]}"
            if path.is_file():
                given.append(Kernel(dialect, path.read_text()))
        if not given:
            raise UsageError(f"the task has no {self.settings.dtype} seed for backend {self.settings.backend}", where=self.task.name, mend="Give one with --seed-kernel")
        return given

    def _finished(self) -> bool:
        """Whether no further evaluation may begin."""
        budget, spent = self.settings.budget, self._ledger.spent()
        if not self._reason:
            self._reason = spent.exceeds(budget)
        full = budget.evaluations is not None and self._begun >= budget.evaluations
        return bool(self._reason) or full

    async def _next_ask(self, island: Island) -> Ask | None:
        """What the island wants, or None after a wait for something to change; a search with nothing left to try ends."""
        number, self._numbers = self._numbers, self._numbers + 1
        paused = [name for name, o in self._operators.items() if o.needs_model and getattr(o, "pause_s", lambda: 0.0)() > 0]
        ask = island.ask(number, without=paused)
        if ask is None:
            self._numbers -= 1
            if not self._working and not paused:
                self._reason = self._reason or "exhausted"
                self._changed.set()
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), TICK_SECONDS)
        return ask

    @contextlib.contextmanager
    def _at_work(self) -> Any:
        """Counts what is in flight; whoever waits for a change looks again afterwards."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            self._changed.set()
            self._changed = asyncio.Event()

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
        await self._record_calls(ask.number, proposal)
        if proposal.kernel is not None and proposal.kernel.id in self._tried:
            proposal = replace(proposal, kernel=None, refusal=Refusal(RefusalReason.ALREADY_TRIED))
        if proposal.kernel is None:
            await self._refuse(island, ask, proposal, seconds)
            return None, seconds
        self._tried.add(proposal.kernel.id)
        candidate = Candidate(
            proposal.kernel, self.task.name, self.settings.dtype, ask.parent_ids, ask.operator, proposal.edits, (), island.index
        )
        await self._append(events.proposed(self.run_id, ask.number, candidate, proposal, seconds=seconds))
        return candidate, seconds

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
            self._ledger.refusals[refusal.reason] += 1
            island.refuse(ask.operator, ask.parent_ids, refusal, seconds=seconds)

    async def _judge_and_place(self, candidate: Candidate, seconds: float) -> None:
        """Up the ladder, recorded, told to its island."""
        self._begun += 1
        async with self._evaluating:
            evaluation = await self._judged(candidate)
        async with self._telling:
            await self._append(events.evaluated(self.run_id, evaluation, candidate.island))
            self._note_verdict(evaluation)
            island = self._islands[candidate.island]
            placement = island.tell(candidate, evaluation, seconds=seconds)
            if placement is not None:
                await self._append(events.placed(self.run_id, island.index, candidate.id, placement))
                if placement.placed:
                    self._migration.note_placed()
                    await self._migrate()
                    await self._lift_lagging()

    async def _judged(self, candidate: Candidate) -> Evaluation:
        """Screened against the champion; confirmed where it may enter the archive."""
        assert self._executor is not None
        champion = self._champion()
        evaluation = await self._executor.evaluate(candidate, champion.candidate.kernel if champion else None)
        if evaluation.passed and self._worth_confirming(candidate, evaluation, champion):
            evaluation = await self._executor.confirm(candidate, evaluation)
        return evaluation

    def _worth_confirming(self, candidate: Candidate, evaluation: Evaluation, champion: Elite | None) -> bool:
        """Whether its island would keep it if its estimate were true."""
        archive = self._islands[candidate.island].archive
        assert isinstance(archive, GridArchive)
        score = screened_score(evaluation, champion)
        if score is None or champion is None or candidate.operator == "seed":
            return True
        if score.ratio.estimate < WORTH_CONFIRMING * champion.score.ratio.estimate:
            return False
        owner = archive.cells.get(archive.cell_of(evaluation))
        if owner is None:
            return True
        if score.ratio.estimate > MARGIN * owner.score.ratio.estimate:
            return True
        ratios, known = evaluation.versus(INCUMBENT), champion.evaluation.versus(BASELINE)
        return any(
            workload in ratios and workload in known
            and ratios[workload].estimate * known[workload].estimate > MARGIN * holder.evaluation.versus(BASELINE)[workload].estimate
            for workload, holder in archive.titles.items()
        )  # fmt: skip

    async def _migrate(self) -> None:
        for move in self._migration.moves([island.archive for island in self._islands]):
            await self._welcome(move.elite, move.source, self._islands[move.target])

    async def _lift_lagging(self) -> None:
        """Send the champion to islands that are far behind; early gains are large, and a migration's turn comes late."""
        champion = self._champion()
        if champion is None:
            return
        for island in self._islands:
            best = island.archive.best()
            if best is not None and best.score.ratio.estimate < LAGGING * champion.score.ratio.estimate:
                await self._welcome(champion, champion.candidate.island, island)

    async def _welcome(self, elite: Elite, source: int, island: Island) -> None:
        await self._append(events.migrated(self.run_id, events.Migrated(elite.candidate.id, source, island.index)))
        island.welcome(elite)
        self._migration.note_moved(elite.candidate.id)

    def _champion(self) -> Elite | None:
        best = [elite for island in self._islands if (elite := island.archive.best()) is not None]
        return max(best, key=lambda e: (e.score.low, e.score.log, e.candidate.id), default=None)

    def _note_verdict(self, evaluation: Evaluation) -> None:
        self._ledger.settled.add(evaluation.kernel_id)
        self._ledger.verdicts[evaluation.verdict] += 1

    async def _append(self, *written: Event) -> None:
        await self._journal.append(written)
        for event in written:
            self._display.event(event)

    # Closing and showing

    def _stop_clock(self) -> Spent:
        spent = self._ledger.spent()
        self._ledger.before_s, self._ledger.since = spent.seconds, None
        return spent

    async def _close(self) -> dict[str, Any]:
        assert self._executor is not None
        spent = self._stop_clock()
        champion = self._champion()
        await self._append(events.run_ended(self.run_id, self._legs, self._reason or "done", spent))
        closing = await self._executor.finish(champion.candidate.kernel, self._seed) if champion else None
        summary = self._summary(champion, closing)
        if closing is not None:
            await self._append(events.closed(self.run_id, self._legs, {"closing": record.to_json(closing), "summary": summary}))
        self._display.ended(summary)
        return summary

    def _summary(self, champion: Elite | None, closing: Closing | None) -> dict[str, Any]:
        summary: dict[str, Any] = {
            "run": self.run_id, "state": "ended", "reason": self._reason or "done", "task": self.task.name, "dtype": str(self.settings.dtype),
            "evaluated": len(self._ledger.settled), "verdicts": dict(self._ledger.verdicts), "spent": record.to_json(self._ledger.spent()),
            "kernel": None, "resume": f"evokern resume {self.run_id}",
        }  # fmt: skip
        if self._preparation is not None:
            fingerprint = self._preparation.fingerprint
            summary |= {"tier": str(self._preparation.tier), "device": fingerprint.device, "fingerprint": record.to_json(fingerprint)}
        if champion is None or closing is None:
            return summary
        return summary | closing_facts(closing, champion) | {"path": str(self._write_kernel(champion.candidate.kernel))}

    def _write_kernel(self, kernel: Kernel) -> Path:
        path = self.home / "runs" / self.run_id / f"best{SUFFIXES[kernel.dialect]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(kernel.source)
        return path

    def _info(self) -> dict[str, Any]:
        info = {"run": self.run_id, "task": self.task.name, "dtype": str(self.settings.dtype), "backend": self.settings.backend, "model": self.settings.model}
        if self._preparation is not None:
            info |= {"device": self._preparation.fingerprint.device, "tier": str(self._preparation.tier)}
        return info

    async def _tick(self) -> None:
        while True:
            self._display.tick(self.status())
            await asyncio.sleep(TICK_SECONDS)

    def status(self) -> dict[str, Any]:
        """The document of `evokern status`, from memory."""
        spent, champion = self._ledger.spent(), self._champion()
        return status_document(
            self.run_id, "running", self.settings, spent, dict(self._ledger.verdicts), champion,
            [{"index": i.index, "elites": len(i.archive), "ratio": _ratio_of(i.archive.best())} for i in self._islands], self._ledger.calls,
        )  # fmt: skip


def screened_score(evaluation: Evaluation, champion: Elite | None) -> Score | None:
    """Speed-up over the baseline: measured where it was, else through the champion that it was screened against."""
    direct = score_of(evaluation)
    if direct is not None or champion is None:
        return direct
    versus = score_of(evaluation, INCUMBENT)
    return None if versus is None else chain(versus, champion.score)


def status_document(
    run: str, state: str, settings: RunSettings, spent: Spent, verdicts: dict[str, int], champion: Elite | None,
    islands: list[dict[str, Any]], calls: int,
) -> dict[str, Any]:  # fmt: skip
    """The fields of `evokern.status/1`."""
    limits = record.to_json(settings.budget)
    used = record.to_json(spent)
    left = {name: None if limit is None else max(limit - used[name], 0) for name, limit in limits.items()}
    model = None
    if settings.model:
        model = {"name": settings.model, "calls": calls, "tokens": spent.tokens, "usd": None if spent.usd_unknown_calls else spent.usd}
    return {
        "run": run, "state": state, "evaluated": spent.evaluations, "best": _best(champion), "budget": {"limits": limits, "spent": used, "left": left},
        "verdicts": verdicts, "islands": islands, "rate": spent.evaluations * 60 / spent.seconds if spent.seconds > 0 else None, "model": model,
    }  # fmt: skip


def closing_facts(closing: Closing, champion: Elite) -> dict[str, Any]:
    """What the closing table shows of the champion."""
    from evokern.statistics import combine

    rows = [row for row in closing.rows if not row.held_out]
    ratios = [row.versus[row.best] for row in rows]
    seeds = [row.versus["seed"] for row in rows if "seed" in row.versus]
    return {
        "kernel": champion.candidate.id,
        "edits": list(champion.candidate.edits),
        "ratio": record.to_json(combine(ratios).ratio) if ratios else record.to_json(champion.score.ratio),
        "workloads": [_closing_workload(row) for row in rows],
        "held_out": {
            "correct": closing.held_out_passed,
            "speed_kept": closing.speed_kept,
            "checked": list(closing.held_out_checked),
            "workloads": [_closing_workload(row) for row in closing.rows if row.held_out],
        },
        "gain_over_seed": record.to_json(combine(seeds).ratio) if seeds else None,
        "detail": closing.detail,
    }


def _closing_workload(row: Any) -> dict[str, Any]:
    times = {f"{name}_us": value for name, value in row.times_us.items()}
    ratio = record.to_json(row.versus[row.best])
    return {"name": row.workload, "best_us": row.time_us, **times, "fastest_baseline": row.best, "ratio": ratio, "share": row.share}


def _best(champion: Elite | None) -> dict[str, Any] | None:
    if champion is None:
        return None
    workloads = {
        m.workload: {"time_us": m.time_us, "ratio": record.to_json(m.versus[BASELINE])} for m in champion.evaluation.measurements if BASELINE in m.versus
    }
    return {"kernel": champion.candidate.id, "ratio": record.to_json(champion.score.ratio), "workloads": workloads}


def _ratio_of(elite: Elite | None) -> Any:
    return None if elite is None else record.to_json(elite.score.ratio)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def judge_once(kernel: Kernel, opening: Opening) -> Evaluation:
    """One kernel up the whole ladder against the baseline, confirmed where it passed.

    Args:
        kernel: The kernel.
        opening: Task, dtype, backend, home.

    Raises:
        EvokernError: The task or the machine does not allow it.
    """
    executor = LocalExecutor(opening, in_flight=1)
    candidate = Candidate(kernel, Path(opening.task_folder).name, opening.dtype)
    try:
        await executor.open(lambda _: None)
        evaluation = await executor.evaluate(candidate, None)
        return await executor.confirm(candidate, evaluation) if evaluation.passed else evaluation
    finally:
        await executor.close()
