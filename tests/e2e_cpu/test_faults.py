"""Candidates that break things among honest ones, and twins, judged by a real judge several at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.faults import OFFENCES, Case, Counting, below, honest, judged, mixture, orphans_come_here
from evokern.engine.steward import Steward
from evokern.evaluation import Evaluation, Rung, Verdict
from evokern.evaluator.session import Session
from evokern.evaluator.signing import Judges, Seal
from evokern.evaluator.statement import Health, Opening, charged
from evokern.kernel import Candidate, Kernel
from evokern.task import DType
from tests.e2e_cpu.offenders import HONEST, OFFENDERS, kernel

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

RIGHT = "softmax(args);"
TWINS = [
    (kernel(RIGHT + " evokern::data<float>(args[1])[0] += 0.0f;"), kernel(RIGHT + " evokern::data<float>(args[1])[0] += 9.0f;")),
    (kernel(RIGHT + " evokern::data<float>(args[1])[0] /= 1 + 0;"), kernel(RIGHT + " evokern::data<float>(args[1])[0] /= 1 - 3;")),
    (
        Kernel("cpp", kernel(RIGHT + " if (LINE != __LINE__) evokern::data<float>(args[1])[0] = 9;").source),
        Kernel("cpp", "\n" + kernel(RIGHT + " if (LINE != __LINE__) evokern::data<float>(args[1])[0] = 9;").source),
    ),
]
"""Pairs that are equal in some normal form; the first of each is right."""


def with_its_line(twin: Kernel, source: str) -> Kernel:
    """The line number that makes `source` right, written into both of its twins."""
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "LINE" in text)
    return Kernel("cpp", twin.source.replace("LINE !=", f"{line} !="))


def test_offenders_are_typed_honest_ones_pass_and_twins_get_their_own_verdicts(small_task: Path, tmp_path: Path) -> None:
    last = TWINS[-1]
    pairs = [*TWINS[:-1], (with_its_line(last[0], last[0].source), with_its_line(last[1], last[0].source))]
    executor = Counting(Opening(str(small_task), DType.FLOAT32, "cpu", 1, str(tmp_path), baselines=("eager",)), in_flight=4)
    cases = [case for case in mixture(3 * len(OFFENCES)) if case.offence] + honest(2)
    assert len(cases) == 8

    async def scene() -> None:
        earlier = set(below())
        try:
            preparation = await executor.open(lambda _: None)
            judges = Judges([preparation.judge])
            assert judges.accept(preparation)
            resident = len(below())
            assert (await judged(executor, cases, "softmax_small")).wrong == []
            assert executor.deaths == 0
            await twins(judges)
            assert len(below()) == resident, "slots are gone"
            assert await executor.probe() == Health(ok=True, seconds=pytest.approx(0, abs=600))
            assert judges.accept(await executor.seal(Seal("run", 3, "d")))
            rotated = await executor.rotate(1)
            assert (rotated.fingerprint.held_out_epoch, judges.accept(rotated)) == (1, True)
        finally:
            await executor.close()
        assert {pid: line for pid, line in below().items() if pid not in earlier} == {}

    async def twins(judges: Judges) -> None:
        steward = Steward(executor, lambda _: None)

        async def pair(turn: int, right: Kernel, wrong: Kernel) -> None:
            found: dict[str, Evaluation] = {}
            for one in (right, wrong) if turn % 2 else (wrong, right):
                found[one.id] = await steward.evaluate(Candidate(one, "softmax_small", DType.FLOAT32), None)
            assert found[right.id].verdict is Verdict.PASSED, found[right.id].detail
            assert found[wrong.id].verdict is Verdict.WRONG, (turn, found[wrong.id].reason)
            assert all(judges.accept(one) for one in found.values())

        await asyncio.gather(*(pair(turn, *both) for turn, both in enumerate(pairs)))

    with orphans_come_here():
        asyncio.run(scene())


def test_a_judge_that_would_die_in_the_gate_tells_no_more_of_a_kernel_than_its_failure_there(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Evaluation] = []
    monkeypatch.setattr(session.ladder, "reached", told.append)
    fails = OFFENDERS["knows visible shapes only"].kernel
    evaluation = session.ladder.judge(fails, session.build(fails), None)
    assert evaluation.verdict is Verdict.HELD_OUT_FAILED
    assert [charged(known) for known in told] == [evaluation]
    told.clear()
    assert session.ladder.judge(HONEST, session.build(HONEST), None).passed
    assert [(known.rung, known.passed_held_out) for known in told] == [(Rung.GATE, None), (Rung.MEASURE, True)]


def test_a_case_knows_its_verdicts() -> None:
    case = Case(Kernel("cpp", ""), "hang")
    assert not case.is_right(Evaluation("k", "t", "float32", Verdict.PASSED))
    assert Case(Kernel("cpp", "")).is_right(Evaluation("k", "t", "float32", Verdict.PASSED))
