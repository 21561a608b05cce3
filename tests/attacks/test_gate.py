"""The gate lets one bit out, whatever a kernel does on shapes that it has not seen."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evokern import record
from evokern.errors import Unavailable
from evokern.evaluation import Evaluation, HeldOut, Ratio, Reason, Verdict
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.rule import gate
from evokern.evaluator.session import Session
from tests.attacks.planted import kernel

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

SIGNALS = {
    "refuses with the size": "return (int)cols;",
    "prints the size": 'fprintf(stderr, "%ld by %ld\\n", (long)rows, (long)cols); y[0] = 3;',
    "leaves with the size": "_exit((int)(cols % 256));",
    "takes memory": "for (long i = 0; i < 96; ++i) memset(malloc(64 << 20), 1, 64 << 20);",
    "sleeps": "usleep(20 * (cols % 100) * 100);\n  y[0] = 3;",
    "never returns": "for (volatile int i = 0;; ++i) {}",
}
"""What kernels do on a shape that they do not know."""

MASKED = ("kernel_id", "key")


def said(session: Session, number: int) -> str:
    """All that leaves the evaluator about a kernel that was judged, but for its name and what its visible rungs took."""
    cases = " ".join(f"if (!visible && how == {i}) {{ {body} }}" for i, body in enumerate(SIGNALS.values(), start=1))
    one = kernel(f"softmax(args); {cases}", number)
    evaluation = session.ladder.judge(one, session.build(one), None)
    assert (evaluation.verdict, evaluation.reason) == (Verdict.HELD_OUT_FAILED, Reason.HELD_OUT), (evaluation.detail, evaluation.log)
    told = record.to_json(replace(evaluation, seconds=dict.fromkeys(evaluation.seconds, 0.0)))
    return json.dumps({name: value for name, value in told.items() if name not in MASKED}, sort_keys=True)


def test_what_leaves_the_gate_is_the_same_for_every_way_of_failing(primes: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "exits", lambda _: (1.0, 2.0, 8.0))  # a hang is waited for as long as a busy machine's own check would say
    answers = {name: said(primes, number) for number, name in enumerate(SIGNALS, start=1)}

    assert len(set(answers.values())) == 1, answers
    evaluation = record.from_json(Evaluation, {**json.loads(next(iter(answers.values()))), "kernel_id": "", "key": ""})
    assert (evaluation.log, evaluation.detail, evaluation.passed_held_out) == ("", gate.DETAIL, False)
    assert set(evaluation.seconds) == {"build", "check"}


def test_an_answer_leaves_at_a_fixed_time_and_late_ones_are_counted() -> None:
    times = (0.2, 0.4, 0.6)
    for work, exit_, passed in ((0.0, 0, True), (0.1, 0, False), (0.3, 1, True)):
        start = time.monotonic()
        answer = gate.leaving(times, lambda end, work=work, passed=passed: time.sleep(work) or passed)  # type: ignore[func-returns-value]
        assert time.monotonic() - start >= times[exit_]
        # A machine that was busy may have missed an exit, which is then counted.
        assert answer.passed is passed
        assert answer.bits >= 1 + 2 * exit_
    assert not gate.leaving((0.0, 0.0), lambda end: time.sleep(0.01) or True).passed  # type: ignore[func-returns-value]


def test_exits_follow_from_what_everybody_knows() -> None:
    early, late = (gate.QUANTUM_SECONDS * quanta / gate.FIRST_SHARE for quanta in (3.1, 3.9))
    assert gate.exits(early) == gate.exits(late)
    first, *later = gate.exits(early)
    assert first == pytest.approx(4 * gate.QUANTUM_SECONDS)
    assert later == [pytest.approx(first * factor) for factor in gate.EXITS[1:]]


class Flaky:
    """A contestant whose machine fails now and then."""

    def __init__(self, *faults: Exception | None) -> None:
        self.faults, self.asked = list(faults), 0

    def started(self, shapes: object) -> object:
        self.asked += 1
        fault = self.faults.pop(0)
        assert fault is not None
        raise fault


@pytest.mark.parametrize("reason", gate.MACHINE)
def test_what_the_machine_may_have_done_is_tried_again_without_a_word(primes: Session, reason: Reason) -> None:
    fault = Fault(Verdict.CRASHED, reason, "with a text")
    machine = Flaky(fault, fault, fault)

    answer = gate.gate(primes.task, primes.dtype, machine, primes.ladder.held_out, primes._shelf, primes.secret, 0.01)  # type: ignore[arg-type]

    assert (answer.passed, machine.asked) == (False, gate.ATTEMPTS)
    with pytest.raises(Fault) as refused:
        answer.refuse()
    assert (refused.value.verdict, refused.value.detail, refused.value.log) == (Verdict.HELD_OUT_FAILED, gate.DETAIL, "")


def test_a_fault_of_the_kernel_is_not_tried_again_and_one_of_the_evaluator_is_told(primes: Session) -> None:
    arguments = (primes.ladder.held_out, primes._shelf, primes.secret, 0.01)
    machine = Flaky(Fault(Verdict.WRONG, Reason.TOLERANCE, "[15991, 3] is wrong"))
    assert not gate.gate(primes.task, primes.dtype, machine, *arguments).passed  # type: ignore[arg-type]
    assert machine.asked == 1
    assert not gate.gate(primes.task, primes.dtype, Flaky(ValueError("15991"), ValueError("15991")), *arguments).passed  # type: ignore[arg-type]
    with pytest.raises(Unavailable):
        gate.gate(primes.task, primes.dtype, Flaky(Unavailable("the oracle's process ended")), *arguments)  # type: ignore[arg-type]


def test_outcomes_stay_with_the_judge_until_the_set_is_retired() -> None:
    outcomes = gate.Outcomes()
    for name, passed in (("a", True), ("b", True), ("c", False), ("d", False)):
        outcomes.add(name, gate.Answer(passed, 1))
    assert outcomes.between("a", "b") is HeldOut.BOTH_PASS
    assert outcomes.between("a", "c") is HeldOut.REGRESSION
    assert outcomes.between("c", "d") is HeldOut.BOTH_FAIL
    assert outcomes.between("c", "a") is HeldOut.IMPROVEMENT
    assert outcomes.between("a", "never gated") is None
    assert outcomes.bits == 4
    outcomes.retire()
    assert (outcomes.passed, outcomes.bits) == ({}, 0)


def test_a_kernel_is_not_dispatched_where_it_is_slower() -> None:
    ratios = {"faster": Ratio(1.2, 1.1, 1.3, 8, 8), "who knows": Ratio(0.98, 0.9, 1.05, 8, 8), "slower": Ratio(0.8, 0.7, 0.9, 8, 8)}
    assert gate.slower(ratios) == ("slower",)


def test_home_keeps_nothing_of_what_happened_in_the_gate(primes: Session, honest: Evaluation) -> None:
    assert honest.passed_held_out
    home = Path(primes.opening.home)
    for path in (p for p in home.rglob("*") if p.is_file() and p.suffix in ("", ".json", ".log", ".txt")):
        assert b"1599" not in path.read_bytes(), path
