"""The engine over simulated evaluations: real journal, real islands, scripted operators."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evokern.archive import GridArchive
from evokern.engine import Engine, Silent
from evokern.errors import EvokernError, Unavailable, UsageError
from evokern.evaluation import Evaluation, Reason, Verdict
from evokern.evaluator.statement import Closing, Preparation
from evokern.event import Budget, Event, EventKind, ModelCall, Proposal, RefusalReason, Request, RunSettings
from evokern.island import Island, replay
from evokern.kernel import Candidate, Kernel
from evokern.store import DATABASE, Journal
from evokern.store import payload as events
from evokern.task import DType
from evokern.testing.requests import row_task
from evokern.testing.sim_executor import Landed, SimExecutor

WIDTH, PLANES = 40, 5

MANY = 24
"""Evaluations of a run that is to be long enough for every island."""


def source_of(x: int, plane: int) -> str:
    return f"x {x} plane {plane}"


def landscape(kernel: Kernel) -> Landed:
    """Faster with every step of x; the plane is the cell."""
    _, x, _, plane = kernel.source.split()
    return Landed(0.03 * int(x), descriptors={"passes": plane})


class Step:
    """A step to a place nearby."""

    name, parents_wanted, needs_model = "step", 1, False

    @classmethod
    def for_run(cls, settings: RunSettings, model: Any) -> Step:
        return cls()

    async def propose(self, request: Request) -> Proposal:
        _, x, _, plane = request.parent.candidate.kernel.source.split()
        moved = [(int(x) + far, (int(plane) + aside) % PLANES) for far in (-1, 0, 1, 2, 4) for aside in (0, 1, 2)]
        fresh = [Kernel("cpp", source_of(*place)) for place in moved if 0 <= place[0] < WIDTH]
        fresh = [kernel for kernel in fresh if kernel.id not in request.tried]
        if not fresh:
            return Proposal.refused(RefusalReason.NOT_APPLICABLE)
        return Proposal(request.rng.choice(fresh), edits=("step",))


class Copy(Step):
    """Answers with its parent, and is refused by the engine."""

    name = "copy"

    async def propose(self, request: Request) -> Proposal:
        return Proposal(request.parent.candidate.kernel)


class Priced(Step):
    """A step that was paid for."""

    name = "priced"

    async def propose(self, request: Request) -> Proposal:
        return replace(await super().propose(request), calls=(ModelCall("m", "ok", 60, 40, 0.5),))


class Broke(Step):
    """Its client sends no further call."""

    name, needs_model = "broke", True

    async def propose(self, request: Request) -> Proposal:
        return Proposal.refused(RefusalReason.BUDGET_SPENT)


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    folder = tmp_path / "row_sum"
    folder.mkdir()
    task = row_task(folder)
    return RunSettings(str(folder), task.digest, DType.FLOAT32, "cpu", 1, Budget(evaluations=MANY), 7, seeds=(("cpp", source_of(0, 0)),))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def limited(settings: RunSettings, **budget: Any) -> RunSettings:
    return replace(settings, budget=Budget(**budget))


def run(engine: Engine) -> dict[str, Any]:
    """The summary; a run that hangs is cancelled, which fails the test."""
    return asyncio.run(asyncio.wait_for(engine.run(), 60))


def begin(settings: RunSettings, home: Path, executor: Any = None, operators: Any = None, **more: Any) -> Engine:
    return Engine(settings, home=home, executor=executor or SimExecutor(landscape), operators=operators or [Step()], **more)


def resume(engine: Engine, executor: Any = None, operators: Any = None, **changes: Any) -> Engine:
    return Engine.resume(
        engine.run_id, home=engine.home, changes=changes, executor=executor or SimExecutor(landscape), operators=operators or [Step()]
    )


def journal_of(engine: Engine) -> list[Event]:
    with Journal(engine.home, read_only=True) as journal:
        return list(journal.replay(engine.run_id))


def of(engine: Engine, kind: EventKind) -> list[Any]:
    return [events.read(event) for event in journal_of(engine) if event.kind is kind]


def replayed(engine: Engine, operators: Any = None) -> list[dict[str, Any]]:
    """States of fresh islands that were told the journal."""
    fresh = [Island(i, GridArchive(), operators or [Step()], seed=engine.settings.seed) for i in range(engine.settings.islands)]
    replay(fresh, journal_of(engine))
    return [island.state() for island in fresh]


def states(engine: Engine) -> list[dict[str, Any]]:
    return [island.state() for island in engine.islands]


def assert_once_each(engine: Engine) -> None:
    judged = Counter(body.evaluation.kernel_id for body in of(engine, EventKind.EVALUATED))
    assert set(judged.values()) == {1}


# The loop


def test_it_climbs_places_migrates_and_records_lineage(settings: RunSettings, home: Path) -> None:
    engine = begin(limited(settings, evaluations=60), home)
    summary = run(engine)
    assert (summary["reason"], summary["state"], summary["evaluated"]) == ("evaluations", "ended", 60)
    assert Path(summary["path"]).read_text().startswith("x ")
    best = next(body.candidate for body in of(engine, EventKind.PROPOSED) if body.candidate.id == summary["kernel"])
    assert landscape(best.kernel).log_speedup > 0.03 * 5
    assert best.edits == ("step",)
    proposed = {body.candidate.id: body.candidate for body in of(engine, EventKind.PROPOSED)}
    while best.parents:
        best = proposed[best.parents[0]]
    assert best.operator == "seed"
    assert of(engine, EventKind.PLACED)
    assert any(move.source != 0 for move in of(engine, EventKind.MIGRATED)), "beyond the seed's visits elites travel too"
    assert_once_each(engine)


def test_all_islands_get_children_and_take_parents_of_their_own(settings: RunSettings, home: Path) -> None:
    engine = begin(limited(settings, evaluations=60), home)
    run(engine)
    residents: dict[int, set[str]] = {index: set() for index in range(settings.islands)}
    children: Counter[int] = Counter()
    owner = {}
    for event in journal_of(engine):
        body = events.read(event)
        if isinstance(body, events.Proposed):
            owner[body.candidate.id] = body.candidate.island
            children[body.candidate.island] += bool(body.candidate.parents)
            assert set(body.candidate.parents) <= residents[body.candidate.island]
        elif isinstance(body, events.Evaluated):
            residents[owner[body.evaluation.kernel_id]].add(body.evaluation.kernel_id)
        elif isinstance(body, events.Migrated):
            residents[body.target].add(body.kernel_id)
    assert min(children[index] for index in range(settings.islands)) >= 6


def test_state_is_a_function_of_the_journal(settings: RunSettings, home: Path) -> None:
    engine = begin(settings, home, operators=[Step(), Copy()])
    run(engine)
    assert states(engine) == replayed(engine, [Step(), Copy()])


@pytest.mark.parametrize("limit", [1, 2, 5, 17])
def test_exactly_as_many_are_judged_as_were_allowed(settings: RunSettings, home: Path, limit: int) -> None:
    executor = SimExecutor(landscape, latency_s=0.001)
    engine = begin(limited(settings, evaluations=limit), home, executor)
    assert run(engine)["evaluated"] == limit == len(executor.evaluated)
    assert run(resume(engine, budget=Budget(evaluations=limit + 3)))["evaluated"] == limit + 3
    assert_once_each(engine)
    again = SimExecutor(landscape)
    assert run(resume(engine, again))["reason"] == "evaluations"
    assert again.evaluated == []


def test_more_seeds_than_evaluations_keep_to_the_limit(settings: RunSettings, home: Path) -> None:
    seeds = tuple(("cpp", source_of(0, plane)) for plane in range(4))
    engine = begin(replace(limited(settings, evaluations=2), seeds=seeds), home)
    assert run(engine)["evaluated"] == 2
    assert run(resume(engine, budget=Budget(evaluations=4)))["evaluated"] == 4
    assert {body.candidate.kernel.source for body in of(engine, EventKind.PROPOSED)} == {source for _, source in seeds}


class Stuck(SimExecutor):
    """Answers three times, then never again."""

    def __init__(self) -> None:
        super().__init__(landscape)

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        if len(self.evaluated) >= 3:
            await asyncio.Event().wait()
        return await super().evaluate(candidate, incumbent)


def test_time_ends_a_run_and_what_was_in_flight_is_judged_by_a_resume(settings: RunSettings, home: Path) -> None:
    engine = begin(limited(settings, seconds=2.0), home, Stuck())
    summary = run(engine)
    assert summary["reason"] == "seconds"
    assert summary["kernel"]
    judged = {body.evaluation.kernel_id for body in of(engine, EventKind.EVALUATED)}
    assert summary["evaluated"] == len(judged)
    left = {body.candidate.id for body in of(engine, EventKind.PROPOSED)} - judged
    assert left
    assert states(engine) == replayed(engine)
    executor = SimExecutor(landscape)
    run(resume(engine, executor, budget=Budget(evaluations=len(judged) + len(left))))
    assert set(executor.evaluated) == left
    assert executor.evaluated[0] in left


@pytest.mark.parametrize(("budget", "reason"), [({"tokens": 1000}, "tokens"), ({"usd": 3.0}, "usd")])
def test_a_model_s_budget_ends_the_run(settings: RunSettings, home: Path, budget: dict[str, Any], reason: str) -> None:
    engine = begin(limited(settings, **budget), home, operators=[Priced()])
    summary = run(engine)
    assert summary["reason"] == reason
    calls = of(engine, EventKind.MODEL_CALLED)
    assert summary["spent"][reason] >= budget[reason]
    assert summary["spent"]["tokens"] == 100 * len(calls)
    in_flight = 4 + settings.model_calls
    assert len(calls) <= 10 + in_flight
    again = resume(engine, operators=[Priced()])
    assert run(again)["spent"]["tokens"] == summary["spent"]["tokens"], "what was spent is remembered"


def test_a_client_that_keeps_its_budget_by_sending_no_more_ends_the_run(settings: RunSettings, home: Path) -> None:
    engine = begin(limited(settings, tokens=1000), home, operators=[Broke()])
    assert run(engine)["reason"] == "tokens"


def test_refused_proposals_are_no_generation_and_never_judged(settings: RunSettings, home: Path) -> None:
    executor = SimExecutor(landscape)
    engine = begin(limited(settings, evaluations=30), home, executor, [Copy(), Step()])
    assert run(engine)["evaluated"] == 30
    refused = of(engine, EventKind.REFUSED)
    assert {body.refusal.reason for body in refused if body.operator == "copy"} == {RefusalReason.ALREADY_TRIED}
    assert len(executor.evaluated) == len(set(executor.evaluated)) == 30
    assert sum(island.told for island in engine.islands) == 30


def test_a_search_with_nothing_left_ends_and_does_not_spin(settings: RunSettings, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "WIDTH", 8)
    engine = begin(limited(settings, evaluations=10_000), home)
    summary = run(engine)
    assert summary["reason"] == "exhausted"
    assert 1 < summary["evaluated"] <= WIDTH * PLANES
    assert len(of(engine, EventKind.REFUSED)) <= WIDTH * PLANES * settings.islands * 4
    again = resume(engine)
    assert run(again)["reason"] == "exhausted"
    assert states(again) == replayed(again)


def test_one_island_without_ideas_does_not_end_the_others(settings: RunSettings, home: Path) -> None:
    class OnlyOnTheLast(Step):
        async def propose(self, request: Request) -> Proposal:
            return await super().propose(request) if request.island == 3 else Proposal.refused(RefusalReason.NOT_APPLICABLE)

    engine = begin(limited(settings, evaluations=12), home, operators=[OnlyOnTheLast()])
    assert run(engine)["reason"] == "evaluations"
    assert {body.candidate.island for body in of(engine, EventKind.PROPOSED) if body.candidate.parents} == {3}


# The machine's failures


class Flaky(SimExecutor):
    """The machine fails under some kernels, each so many times."""

    def __init__(self, fails: Callable[[Candidate], int], **more: Any) -> None:
        super().__init__(landscape, **more)
        self.fails, self.asked = fails, Counter[str]()

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        found = await super().evaluate(candidate, incumbent)
        self.asked[candidate.id] += 1
        if self.asked[candidate.id] <= self.fails(candidate):
            return replace(found, verdict=Verdict.INFRASTRUCTURE, reason=Reason.NOISE, measurements=())
        return found


def test_a_failure_of_the_machine_is_tried_once_more_alone_and_a_second_one_is_the_kernel_s_fault(
    settings: RunSettings, home: Path
) -> None:
    order: dict[str, int] = {}
    executor = Flaky(lambda candidate: order.setdefault(candidate.id, len(order)) % 3)
    engine = begin(replace(settings, seeds=tuple(("cpp", source_of(0, plane)) for plane in range(PLANES))), home, executor)
    summary = run(engine)
    assert summary["evaluated"] == MANY
    assert set(executor.asked.values()) == {1, 2}
    twice = {candidate for candidate, place in order.items() if place % 3 == 2}
    assert twice
    assert summary["verdicts"]["flaky"] == len(twice)
    assert {body.evaluation.kernel_id for body in of(engine, EventKind.EVALUATED) if body.evaluation.verdict is Verdict.FLAKY} == twice
    assert_once_each(engine)
    assert states(engine) == replayed(engine)


def test_no_seed_that_passes_is_one_clear_error_and_the_run_says_so(settings: RunSettings, home: Path) -> None:
    engine = begin(settings, home, SimExecutor(lambda _: Landed(0.0, Verdict.WRONG, Reason.TOLERANCE)))
    with pytest.raises(EvokernError, match="no seed kernel passed"):
        run(engine)
    with Journal(home, read_only=True) as journal:
        assert journal.run().reason == "failed: no seed kernel passed"


class Closed(SimExecutor):
    """Cannot be opened, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__(landscape)
        self.times, self.closed = times, 0

    async def open(self, say: Callable[[str], None]) -> Preparation:
        self.times -= 1
        if self.times >= 0:
            raise Unavailable("no C++ compiler is here", mend="Install g++ or clang++")
        return await super().open(say)

    async def close(self) -> None:
        self.closed += 1


def test_a_preparation_that_fails_ends_the_run_with_the_reason_and_a_resume_tries_again(settings: RunSettings, home: Path) -> None:
    executor = Closed(3)
    engine = begin(limited(settings, evaluations=5), home, executor)
    with pytest.raises(Unavailable, match="no C\\+\\+ compiler"):
        run(engine)
    for _ in range(2):
        with pytest.raises(Unavailable):
            run(resume(engine, executor))
    assert executor.closed == 3
    with Journal(home, read_only=True) as journal:
        found = journal.run(engine.run_id)
        assert (found.state, found.reason) == ("ended", "failed: no C++ compiler is here")
    assert run(resume(engine, executor))["evaluated"] == 5
    reasons = [body.reason for body in of(engine, EventKind.RUN_ENDED)]
    assert reasons == ["failed: no C++ compiler is here"] * 3 + ["evaluations"]


class Striking(SimExecutor):
    """Does something once, when so many evaluations were made."""

    def __init__(self, at: int, strike: Callable[[], Awaitable[None]]) -> None:
        super().__init__(landscape, latency_s=0.002)
        self.at, self.strike, self.struck = at, strike, False

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        if len(self.evaluated) >= self.at and not self.struck:
            self.struck = True
            await self.strike()
        return await super().evaluate(candidate, incumbent)


@pytest.mark.parametrize("at", [0, 9])
def test_an_executor_that_is_lost_comes_out_as_its_one_error(settings: RunSettings, home: Path, at: int) -> None:
    async def lost() -> None:
        raise Unavailable("the judge died while it made ready")

    engine = begin(settings, home, Striking(at, lost))
    with pytest.raises(Unavailable, match="the judge died"):
        run(engine)
    assert run(resume(engine))["evaluated"] == MANY
    assert_once_each(engine)


def test_a_journal_that_refuses_comes_out_as_its_one_error_and_nothing_is_lost(settings: RunSettings, home: Path) -> None:
    trigger = "CREATE TRIGGER full BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'no room'); END"

    async def fill() -> None:
        with contextlib.closing(sqlite3.connect(home / DATABASE)) as connection:
            connection.execute(trigger)

    engine = begin(settings, home, Striking(12, fill))
    with pytest.raises(EvokernError, match="no room"):
        run(engine)
    with contextlib.closing(sqlite3.connect(home / DATABASE)) as connection:
        connection.execute("DROP TRIGGER full")
    before = journal_of(engine)
    continued = resume(engine)
    assert run(continued)["evaluated"] == MANY
    assert journal_of(continued)[: len(before)] == before
    assert_once_each(engine)
    assert states(continued) == replayed(continued)


# Stopping and resuming


class Announcing(Silent):
    """Lets a test wait for the n-th event of a kind."""

    def __init__(self, kind: EventKind, count: int) -> None:
        self.kind, self.left, self.reached = kind, count, asyncio.Event()

    def event(self, event: Event) -> None:
        if event.kind is self.kind:
            self.left -= 1
            if self.left == 0:
                self.reached.set()


async def cancelled_at(engine: Engine, reached: asyncio.Event) -> None:
    task = asyncio.ensure_future(engine.run())
    await asyncio.wait_for(reached.wait(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)


@pytest.mark.parametrize(
    ("kind", "count"), [(EventKind.PROPOSED, 1), (EventKind.PROPOSED, 9), (EventKind.EVALUATED, 12), (EventKind.PLACED, 3)]
)
def test_a_run_that_is_cancelled_goes_on_where_it_was(settings: RunSettings, home: Path, kind: EventKind, count: int) -> None:
    async def scene() -> Engine:
        display = Announcing(kind, count)
        engine = begin(settings, home, SimExecutor(landscape, latency_s=0.003), display=display)
        await cancelled_at(engine, display.reached)
        return engine

    engine = asyncio.run(scene())
    before = journal_of(engine)
    assert before[-1].kind is EventKind.RUN_ENDED
    assert before[-1].payload["reason"] == "interrupted"
    assert states(engine) == replayed(engine)
    executor = SimExecutor(landscape)
    continued = resume(engine, executor)
    assert continued.settings == settings
    assert run(continued)["evaluated"] == MANY
    assert journal_of(continued)[: len(before)] == before
    assert_once_each(continued)
    assert states(continued) == replayed(continued)
    judged = {body.evaluation.kernel_id for body in of(continued, EventKind.EVALUATED)}
    assert judged == {body.candidate.id for body in of(continued, EventKind.PROPOSED)}
    assert len(executor.evaluated) == MANY - sum(event.kind is EventKind.EVALUATED for event in before)


@pytest.mark.parametrize("seeds", [1, 7])
def test_a_cancelled_run_does_not_wait_for_its_founders(settings: RunSettings, home: Path, seeds: int) -> None:
    given = tuple(("cpp", source_of(x, 0)) for x in range(seeds))

    async def scene() -> None:
        display = Announcing(EventKind.PROPOSED, seeds)
        engine = begin(replace(settings, seeds=given), home, SimExecutor(landscape, latency_s=3600), display=display)
        task = asyncio.ensure_future(engine.run())
        await display.reached.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)

    asyncio.run(scene())
    with Journal(home, read_only=True) as journal:
        assert journal.run().reason == "interrupted"


class SlowToFinish(SimExecutor):
    """Waits in its closing measurement."""

    def __init__(self) -> None:
        super().__init__(landscape)
        self.finishing = asyncio.Event()

    async def finish(self, champion: Kernel, seed: Kernel | None) -> Closing:
        self.finishing.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


def test_a_run_that_is_cancelled_while_it_closes_is_closed_by_a_resume(settings: RunSettings, home: Path) -> None:
    async def scene() -> Engine:
        executor = SlowToFinish()
        engine = begin(limited(settings, evaluations=10), home, executor)
        await cancelled_at(engine, executor.finishing)
        return engine

    engine = asyncio.run(scene())
    assert of(engine, EventKind.CLOSED) == []
    executor = SimExecutor(landscape)
    summary = run(resume(engine, executor))
    assert (summary["reason"], summary["evaluated"], executor.evaluated) == ("evaluations", 10, [])
    assert len(of(engine, EventKind.CLOSED)) == 1


def test_time_spent_is_carried_over_and_preparation_does_not_count(settings: RunSettings, home: Path) -> None:
    engine = begin(limited(settings, evaluations=20), home, SimExecutor(landscape, latency_s=0.02))
    first = run(engine)["spent"]["seconds"]
    assert first > 0.05
    second = run(resume(engine, budget=Budget(evaluations=25)))["spent"]["seconds"]
    assert second > first


def test_a_resume_keeps_settings_records_changes_and_refuses_what_verdicts_depend_on(settings: RunSettings, home: Path) -> None:
    engine = begin(limited(settings, evaluations=6), home)
    run(engine)
    for name, value in (("threads", 2), ("dtype", DType.FLOAT16), ("seed", 8), ("backend", "cuda")):
        with pytest.raises(UsageError, match=f"'{name}' cannot change"):
            resume(engine, **{name: value})
    continued = resume(engine, budget=Budget(evaluations=9))
    assert continued.settings == replace(settings, budget=Budget(evaluations=9))
    run(continued)
    (taken,) = [event for event in journal_of(engine) if event.kind is EventKind.RUN_RESUMED]
    assert len(taken.payload["changes"]) == 1
    assert taken.payload["changes"][0] == "limit of evaluations is now 9"
    assert resume(engine).settings.budget == Budget(evaluations=9), "the change holds from then on"


def test_a_resume_refuses_a_task_that_changed(settings: RunSettings, home: Path) -> None:
    engine = begin(limited(settings, evaluations=3), home)
    run(engine)
    reference = Path(settings.task) / "reference.py"
    reference.write_text(reference.read_text() + "# other\n")
    with pytest.raises(UsageError, match="files changed"):
        resume(engine)


def test_operators_may_come_and_go(settings: RunSettings, home: Path) -> None:
    engine = begin(limited(settings, evaluations=20), home, operators=[Step(), Copy()])
    run(engine)
    priced = resume(engine, operators=[Step(), Priced()], budget=Budget(evaluations=40))
    assert run(priced)["evaluated"] == 40
    assert any(body.candidate.operator == "priced" for body in of(engine, EventKind.PROPOSED))


def test_two_processes_cannot_work_one_run(settings: RunSettings, home: Path) -> None:
    async def scene() -> None:
        executor = SlowToFinish()
        engine = begin(limited(settings, evaluations=3), home, executor)
        task = asyncio.ensure_future(engine.run())
        await executor.finishing.wait()
        with pytest.raises(UsageError, match="is working this run"):
            await resume(engine).run()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(scene())


def test_a_search_is_the_same_again_where_verdicts_come_in_the_same_order(settings: RunSettings, tmp_path: Path) -> None:
    def sources(home: Path) -> Iterator[str]:
        engine = begin(replace(settings, islands=1), home, SimExecutor(landscape, capacity=1))
        run(engine)
        yield from (body.candidate.kernel.source for body in of(engine, EventKind.PROPOSED))

    first, second = list(sources(tmp_path / "one")), list(sources(tmp_path / "two"))
    assert first == second


def test_the_baselines_of_a_run_can_be_limited(settings: RunSettings, home: Path) -> None:
    plain = begin(settings, home)._opening()
    assert plain.baselines == ("eager", "compile")
    engine = begin(replace(settings, options={"baselines": "eager"}), home)
    assert engine._opening().baselines == ("eager",)
