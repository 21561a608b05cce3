"""A bench: kernels from outside get what a run's candidates get, each once, and all of it is in the journal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from evokern.engine.sealing import audit
from evokern.evaluation import Verdict
from evokern.event import EventKind
from evokern.serve.bench import Origin
from evokern.store import Journal
from tests.unit.serve.conftest import ORIGIN, NewBench, kernel


async def test_a_kernel_that_passes_is_confirmed_recorded_and_signed(new_bench: NewBench, journal: Journal) -> None:
    bench, _ = new_bench()
    said: list[str] = []
    async with bench:
        first = await bench.evaluate(kernel("0.5"), Origin("agent", (), ("wider loads",)), said.append)
        second = await bench.evaluate(kernel("0.7"), Origin("agent", (first.evaluation.kernel_id,)))

    assert first.evaluation.confirmed
    assert "judging" in said
    assert [entry.kernel_id for entry in journal.top(bench.run_id, 9)] == [kernel("0.7").id, kernel("0.5").id]
    proposed = journal.candidate(bench.run_id, kernel("0.5").id)
    assert proposed is not None
    assert (proposed.candidate.operator, proposed.candidate.edits) == ("agent", ("wider loads",))
    lineage = journal.candidate(bench.run_id, second.evaluation.kernel_id)
    assert lineage is not None
    assert lineage.candidate.parents == (kernel("0.5").id,)


async def test_its_record_is_whole_and_sealed(new_bench: NewBench, journal: Journal) -> None:
    bench, judge = new_bench()
    async with bench:
        for worth in ("0.5", "wrong", "0.7"):
            await bench.evaluate(kernel(worth), ORIGIN)
    found = audit(journal, bench.run_id)
    assert (found.findings, found.signed, found.external) == ([], 3, 0)
    assert found.sealed > 0
    assert journal.run(bench.run_id).state == "ended"
    assert judge.closed


async def test_the_same_kernel_is_judged_once(new_bench: NewBench) -> None:
    bench, judge = new_bench()
    async with bench:
        await bench.evaluate(kernel("wrong"), ORIGIN)
        again = await bench.evaluate(kernel("wrong"), ORIGIN)
    assert (again.reused, again.run) == (True, bench.run_id)
    assert judge.evaluated == [kernel("wrong").id]
    assert bench.meter.spent().evaluations == 1


async def test_two_who_hand_in_the_same_kernel_at_a_time_share_its_verdict(new_bench: NewBench) -> None:
    bench, judge = new_bench()
    async with bench:
        judge.door.clear()
        both = asyncio.gather(bench.evaluate(kernel("0.5"), ORIGIN), bench.evaluate(kernel("0.5"), ORIGIN))
        await judge.until_asked()
        judge.door.set()
        one, other = await both
    assert one is other
    assert len(judge.evaluated) == 1


async def test_a_verdict_of_another_session_is_taken_and_stands_in_this_one(new_bench: NewBench, journal: Journal) -> None:
    before, _ = new_bench(session="batch")
    async with before:
        await before.evaluate(kernel("0.5"), ORIGIN)
    bench, judge = new_bench()
    async with bench:
        answer = await bench.evaluate(kernel("0.5"), ORIGIN)
    assert (answer.reused, answer.run) == (True, before.run_id)
    assert judge.evaluated == []
    assert [entry.kernel_id for entry in journal.top(bench.run_id, 9)] == [kernel("0.5").id]
    assert bench.meter.spent().evaluations == 0


async def test_a_refusal_of_the_gate_cannot_be_asked_for_again_after_the_set_was_retired(new_bench: NewBench) -> None:
    """Each answer is a bit about the set; with room for two, the third kernel meets another one."""
    bench, judge = new_bench(gate_bits=2)
    async with bench:
        for number in range(3):
            await bench.evaluate(kernel("0.5", number), ORIGIN)
        assert bench._ledger.epoch >= 1
        asked = len(judge.evaluated)
        assert (await bench.evaluate(kernel("0.5", 0), ORIGIN)).reused
        assert len(judge.evaluated) == asked


async def test_where_the_set_was_retired_the_best_passes_the_new_one_too(new_bench: NewBench, journal: Journal) -> None:
    bench, judge = new_bench(gate_bits=2)
    async with bench:
        await bench.evaluate(kernel("0.9"), ORIGIN)
        await bench.evaluate(kernel("0.5"), ORIGIN)
    assert judge.evaluated == [kernel("0.9").id, kernel("0.5").id, kernel("0.9").id]
    (again,) = journal.events(bench.run_id, EventKind.REMEASURED)
    assert again.payload["why"] == "rotated"
    assert audit(journal, bench.run_id).findings == []


async def test_a_caller_who_leaves_loses_nothing(new_bench: NewBench, journal: Journal) -> None:
    bench, judge = new_bench()
    async with bench:
        judge.door.clear()
        waiting = asyncio.ensure_future(bench.evaluate(kernel("0.5"), ORIGIN))
        await judge.until_asked()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        judge.door.set()
        answer = await bench.evaluate(kernel("0.5"), ORIGIN)
    assert answer.evaluation.passed
    assert len(judge.evaluated) == 1


async def test_what_was_under_way_at_the_end_is_judged_when_it_is_asked_for_again(new_bench: NewBench, journal: Journal) -> None:
    bench, judge = new_bench()
    async with bench:
        judge.door.clear()
        waiting = asyncio.ensure_future(bench.evaluate(kernel("0.5"), ORIGIN))
        await judge.until_asked()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert journal.unfinished(bench.run_id) != []
    after, _ = new_bench()
    async with after:
        assert not (await after.evaluate(kernel("0.5"), ORIGIN)).reused


async def test_the_machine_s_failure_is_no_verdict_and_is_asked_for_again(new_bench: NewBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, judge = new_bench()
    answer = judge.evaluate

    async def failing(*given: object) -> object:
        from dataclasses import replace

        from evokern.evaluation import Reason

        evaluation = await answer(*given)  # type: ignore[arg-type]
        return judge.signer.sign(replace(evaluation, verdict=Verdict.INFRASTRUCTURE, reason=Reason.OPPONENT, measurements=()))

    async with bench:
        monkeypatch.setattr(judge, "evaluate", failing)
        first = await bench.evaluate(kernel("0.5"), ORIGIN)
        monkeypatch.setattr(judge, "evaluate", answer)
        second = await bench.evaluate(kernel("0.5"), ORIGIN)
    assert first.evaluation.verdict is Verdict.INFRASTRUCTURE
    assert (second.evaluation.passed, second.reused) == (True, False)
    assert bench.meter.spent().evaluations == 1


async def test_nothing_is_recorded_where_nobody_hands_in_a_kernel(new_bench: NewBench, journal: Journal, home: Path) -> None:
    bench, judge = new_bench()
    async with bench:
        pass
    assert journal.runs() == []
    assert not (home / "runs").exists()
    assert judge.closed
