"""The meter: what a session may use, over every process that serves it."""

from __future__ import annotations

import asyncio

import pytest

from evokern.event import Budget
from evokern.report.status import status_of
from evokern.serve.bench import Bench
from evokern.serve.meter import BudgetSpent
from evokern.store import Journal
from tests.unit.serve.conftest import ORIGIN, SECONDS, NewBench, kernel


async def test_a_budget_of_evaluations_ends(new_bench: NewBench) -> None:
    bench, judge = new_bench(budget=Budget(evaluations=2))
    async with bench:
        await bench.evaluate(kernel("wrong", 0), ORIGIN)
        await bench.evaluate(kernel("0.5", 1), ORIGIN)
        with pytest.raises(BudgetSpent, match="budget of 2 evaluations is spent"):
            await bench.evaluate(kernel("0.5", 2), ORIGIN)
        assert (await bench.evaluate(kernel("0.5", 1), ORIGIN)).reused, "what is known costs nothing"
    assert len(judge.evaluated) == 2


async def test_a_restart_gets_no_budget_twice(new_bench: NewBench) -> None:
    for number in range(2):
        bench, _ = new_bench(budget=Budget(evaluations=2))
        async with bench:
            await bench.evaluate(kernel("0.5", number), ORIGIN)
    bench, _ = new_bench(budget=Budget(evaluations=2))
    async with bench:
        with pytest.raises(BudgetSpent):
            await bench.evaluate(kernel("0.5", 2), ORIGIN)
    elsewhere, _ = new_bench(session="another", budget=Budget(evaluations=2))
    async with elsewhere:
        assert not (await elsewhere.evaluate(kernel("0.5", 2), ORIGIN)).reused


async def test_two_processes_share_it_while_both_are_at_work(new_bench: NewBench, journal: Journal) -> None:
    """Two runs, each with a lease of its own; what has begun counts before it has ended."""
    one, judge = new_bench(budget=Budget(evaluations=4))
    other, second = new_bench(budget=Budget(evaluations=4))
    async with one, other:
        await other.evaluate(kernel("0.5", 9), ORIGIN)
        judge.door.clear()
        begun = [asyncio.ensure_future(one.evaluate(kernel("0.5", number), ORIGIN)) for number in range(2)]
        await judge.until_asked(2)
        begun.append(asyncio.ensure_future(other.evaluate(kernel("0.5", 2), ORIGIN)))
        while not journal.appearances(kernel("0.5", 2).id):  # noqa: ASYNC110 - it waits for its turn
            await asyncio.sleep(0.005)
        with pytest.raises(BudgetSpent):
            await one.evaluate(kernel("0.5", 3), ORIGIN)
        judge.door.set()
        await asyncio.gather(*begun)
        assert one.meter.spent() == other.meter.spent()
    assert one.meter.spent().evaluations == 4
    assert len(second.evaluated) == 2


async def test_however_many_ask_at_once_no_more_are_judged_than_may_be(new_bench: NewBench) -> None:
    bench, judge = new_bench(budget=Budget(evaluations=3))
    async with bench:
        asked = [bench.evaluate(kernel("0.5", number), ORIGIN) for number in range(8)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(outcome, BudgetSpent) for outcome in outcomes) == 5
    assert len(judge.evaluated) == 3


async def test_a_budget_of_time_counts_judging_and_not_thinking(new_bench: NewBench) -> None:
    bench, judge = new_bench(budget=Budget(seconds=1.5 * SECONDS))
    async with bench:
        await bench.evaluate(kernel("0.5", 0), ORIGIN)
        await bench.evaluate(kernel("0.5", 1), ORIGIN)
        with pytest.raises(BudgetSpent, match=r"0\.05 minutes of judging"):
            await bench.evaluate(kernel("0.5", 2), ORIGIN)
    assert bench.meter.spent().seconds == 2 * SECONDS
    assert len(judge.evaluated) == 2


async def test_what_was_under_way_when_a_process_died_is_given_back(new_bench: NewBench) -> None:
    dead, judge = new_bench(budget=Budget(evaluations=1))
    judge.door.clear()
    waiting = asyncio.ensure_future(dead.evaluate(kernel("0.5", 0), ORIGIN))
    await judge.until_asked()
    assert dead._lease is not None
    dead._lease.release()
    alive, _ = new_bench(budget=Budget(evaluations=1))
    dead._turn._release()
    async with alive:
        assert (await alive.evaluate(kernel("0.5", 1), ORIGIN)).evaluation.passed
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_the_status_of_its_run_counts_the_same(new_bench: NewBench, journal: Journal) -> None:
    bench, _ = new_bench(budget=Budget(evaluations=5, seconds=60.0))
    async with bench:
        await bench.evaluate(kernel("0.5"), ORIGIN)
        running = status_of(journal, journal.run(bench.run_id), worked=True)
    ended = status_of(journal, journal.run(bench.run_id), worked=False)
    for status in (running, ended):
        assert (status["budget"]["left"]["evaluations"], status["budget"]["left"]["seconds"]) == (4, 60.0 - SECONDS)
    assert ended["best"]["kernel"] == kernel("0.5").id


def test_sessions_of_other_tasks_have_budgets_of_their_own(new_bench: NewBench) -> None:
    bench: Bench = new_bench()[0]
    assert bench.meter.session.name == "mcp"
    assert bench.meter.runs() == []
