"""The whole ladder on real processes: honest kernels pass, every offender gets its verdict, and nothing is left behind."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from evokern import record
from evokern.evaluation import BASELINE, INCUMBENT, REASONS, Evaluation, Reason, Rung, Verdict
from evokern.evaluator.reference.held_out import draw
from evokern.evaluator.rule import check, gate
from evokern.evaluator.session import Session
from evokern.evaluator.signing import PRODUCTS
from evokern.kernel import Kernel
from tests.e2e_cpu.offenders import HONEST, OFFENDERS, kernel


def judged(session: Session, kernel: Kernel) -> Evaluation:
    return session.ladder.judge(kernel, session.build(kernel), None)


def test_an_honest_kernel_passes_and_is_confirmed(session: Session) -> None:
    evaluation = judged(session, HONEST)

    assert (evaluation.verdict, evaluation.reason, evaluation.detail) == (Verdict.PASSED, Reason.NONE, "")
    assert evaluation.passed_held_out
    assert not evaluation.confirmed
    assert len(evaluation.measurements) == len(session.ladder.timed) == 1

    confirmed = session.ladder.confirm(HONEST, session.build(HONEST), evaluation)

    assert confirmed.confirmed
    ratio = confirmed.measurements[0].versus[BASELINE]
    assert ratio.low <= ratio.estimate <= ratio.high
    assert ratio.clusters >= 8
    assert record.from_json(Evaluation, json.loads(json.dumps(record.to_json(confirmed)))) == confirmed


def test_the_incumbent_is_the_opponent_where_there_is_one(session: Session) -> None:
    slower = kernel("softmax(args); softmax(args);")

    evaluation = session.ladder.judge(slower, session.build(slower), (HONEST, session.build(HONEST)))

    ratio = evaluation.measurements[0].versus[INCUMBENT]
    assert BASELINE not in evaluation.measurements[0].versus
    assert 0.4 < ratio.estimate < 0.7  # it does the work twice


KNOWS_VISIBLE_SHAPES = "knows visible shapes only"
HARMFUL = ("takes 40 GB", "leaves a grandchild", "loops for ever")
ALONE = [name for name in OFFENDERS if name not in (KNOWS_VISIBLE_SHAPES, *HARMFUL)]
"""Offenders of whom nothing more is asked than their verdict."""


def judged_offender(session: Session, name: str) -> Evaluation:
    """What an offender got, which is right, and after which nothing of it is left."""
    offender = OFFENDERS[name]
    resident = session.spawner.processes()

    evaluation = judged(session, offender.kernel)

    assert (evaluation.verdict, evaluation.reason) in offender.outcomes, (evaluation.reason, evaluation.detail)
    assert not evaluation.confirmed
    assert session.spawner.processes() == resident
    return evaluation


@pytest.mark.parametrize("name", ALONE)
def test_an_offender_gets_its_verdict_and_leaves_nothing(session: Session, name: str) -> None:
    judged_offender(session, name)


def test_the_next_candidate_is_judged_as_if_the_offenders_had_not_been_there(session: Session) -> None:
    for name in HARMFUL:
        judged_offender(session, name)

    assert judged(session, HONEST).verdict is Verdict.PASSED


def test_the_gate_lets_one_bit_out(session: Session) -> None:
    evaluation = judged_offender(session, KNOWS_VISIBLE_SHAPES)

    assert evaluation.passed_held_out is False
    assert evaluation.log == ""
    assert "gate" not in evaluation.seconds
    text = json.dumps(record.to_json(evaluation))
    for workload in draw(session.task, session.secret.key, 0):
        visible = {dict(w.axes)["cols"] for w in session.task.search}
        columns = dict(workload.axes)["cols"]
        assert columns in visible or columns < 100 or f"={columns}" not in text


def test_a_kernel_that_waits_for_another_process_is_not_timed_as_fast(session: Session) -> None:
    # The work is done by a thread that the clock counts; the caller sleeps meanwhile. Its time is what the work takes.
    threaded = kernel("std::thread t([=] { softmax(args); }); t.join();")

    evaluation = session.ladder.judge(threaded, session.build(threaded), (HONEST, session.build(HONEST)))

    assert evaluation.verdict is Verdict.PASSED
    assert 0.7 < evaluation.measurements[0].versus[INCUMBENT].estimate < 1.2


def test_a_kernel_that_sleeps_is_charged(session: Session) -> None:
    sleeper = kernel("softmax(args); if (args[0]->shape[0] * args[0]->shape[1] > 1000000) usleep(150000);")

    evaluation = judged(session, sleeper)

    # Where no call of either side counts there is no number at all; asked again alone, that is the kernel's fault too.
    assert (evaluation.verdict, evaluation.reason) in {
        (Verdict.QUARANTINED, Reason.CLOCK_MISMATCH),
        (Verdict.INFRASTRUCTURE, Reason.NOISE),
    }


def test_workspace_is_given_as_asked_for(session: Session) -> None:
    body = "if (size < 4096 || !space) return 9; std::memset(space, 1, size); softmax(args);"
    source = kernel(body, 'extern "C" size_t workspace_size(DLTensor* const*, int) { return 4096; }').source
    roomy = Kernel(
        "cpp",
        source.replace(
            "run(DLTensor* const* args, int, void*, size_t, void*)", "run(DLTensor* const* args, int, void* space, size_t size, void*)"
        ),
    )

    assert judged(session, roomy).verdict is Verdict.PASSED


def test_finishing_shows_and_retires_the_held_out_set(session: Session) -> None:
    closing = session.finish(HONEST, None)

    assert closing.held_out_passed
    assert len(closing.held_out_checked) == session.task.held_out.count
    assert {row.held_out for row in closing.rows} == {False, True}
    assert closing.speed_kept is not None and closing.speed_kept > 0
    assert all(row.best == "eager" for row in closing.rows)


def test_home_holds_no_key_of_a_session_without_a_name(session: Session) -> None:
    assert [path.relative_to(session.opening.home) for path in Path(session.opening.home).glob("keys/*")] == [PRODUCTS]


def test_a_product_that_the_judge_did_not_seal_is_built_anew(session: Session) -> None:
    built, wrong = session.build(HONEST), session.build(kernel("(void)args;"))
    assert built.artefact is not None and wrong.artefact is not None
    shutil.rmtree(built.artefact.parent)
    shutil.copytree(wrong.artefact.parent, built.artefact.parent)

    again = session.build(HONEST)

    assert (again.ok, again.digest) == (True, built.digest)
    assert again.digest != wrong.digest
    assert again.seconds > 0


TALKER = kernel('std::printf("value %.9g ", evokern::data<float>(args[0])[0]); std::fflush(stdout); softmax(args); return 77;')


def test_nothing_that_a_timed_call_prints_or_returns_is_told(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    built = session.build(TALKER)
    seen = session.ladder.judge(TALKER, built, None)
    assert (seen.reason, seen.rung) == (Reason.REFUSED, Rung.CHECK)
    assert "77" in seen.detail and "value" in seen.log  # what visible calls say its author may read

    monkeypatch.setattr(check, "check", lambda *_: check.Checked(0.0, {}))
    monkeypatch.setattr(gate, "gate", lambda *_: gate.Answer(True, 1))
    measured = session.ladder.judge(TALKER, built, None)
    passed = replace(measured, verdict=Verdict.PASSED, reason=Reason.NONE, detail="")
    confirmed = session.ladder.confirm(TALKER, built, passed)
    for found, rung in ((measured, Rung.MEASURE), (confirmed, Rung.CONFIRM)):
        assert (found.verdict, found.reason, found.rung) == (Verdict.CRASHED, Reason.REFUSED, rung)
        assert (found.detail, found.log) == (REASONS[Reason.REFUSED], "")


def test_a_champions_words_are_not_told_to_its_challenger(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "check", lambda *_: check.Checked(0.0, {}))
    monkeypatch.setattr(gate, "gate", lambda *_: gate.Answer(True, 1))

    found = session.ladder.judge(HONEST, session.build(HONEST), (TALKER, session.build(TALKER)))

    assert (found.verdict, found.reason, found.log) == (Verdict.INFRASTRUCTURE, Reason.OPPONENT, "")
    assert found.detail == "the opponent 'incumbent' failed: crashed, refused"
