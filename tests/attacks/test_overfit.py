"""Kernels that fit the shapes that everybody may know: each is right on all of them, and refused.

Whether a kernel generalises is known to the judge alone until the held-out set is retired; what the search learns is one bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from evokern.archive.grid import ArchiveSettings, GridArchive
from evokern.evaluation import Evaluation, HeldOut, Reason, Verdict
from evokern.evaluator.call.contestant import CANDIDATE
from evokern.evaluator.rule import check, gate
from evokern.evaluator.session import Session
from evokern.island import Island
from evokern.kernel import Candidate, Kernel
from evokern.task import DType
from tests.attacks.planted import HONEST, kernel

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

# The held-out shapes of the task are 5 to 8 rows of 15,991 or 15,993 columns.
OVERFIT = {
    "knows visible lengths only": "if (!visible) y[0] *= 2;",
    "wrong beyond 2048": "for (int64_t j = 2048; j < cols; ++j) y[j] = 0;",
    "wrong in the tail of a vector": "if (cols % 8 && cols > 4096) y[cols / 8 * 8] *= 1.5f;",
    "wrong in the last column of long rows": "if (cols > 3000) y[cols - 1] += 0.5f;",
    "wrong in the last row of long ones": "if (cols > 3000) memset(y + (rows - 1) * evokern::row_stride(args[1]), 0, 4 * cols);",
    "wrong on odd lengths that it has not seen": "if (cols % 2 && cols != 1003 && cols != 1021 && cols != 33) y[3] *= 3;",
    "counts columns in a small type": "if ((uint8_t)(cols >> 8) > 8) y[cols / 2] = 0;",
    "fills a table that ends": "static float table[8192]; for (int64_t j = 8192; j < cols; ++j) y[j] = table[j % 8192];",
    "writes past rows that are long": "if (cols > 4096 && !padded) y[rows * cols] = 1;",
    "changes inputs that are long": "if (cols > 4096) evokern::data<float>(args[0])[0] = 0;",
    "leaves out rows where there are few": "if (rows < 9 && cols > 4096) memset(y + 2 * evokern::row_stride(args[1]), 0, 4 * cols);",
    "half the precision of long sums": "if (cols > 4096) for (int64_t j = 0; j < cols; ++j) y[j] *= 1.0002f;",
}


def answer(session: Session, one: Kernel) -> gate.Answer:
    """Check, which it must pass, and gate."""
    built = session.build(one)
    assert built.ok, built.log
    contestant = session._contestant(CANDIDATE, one, built)
    secret = session.secret.derive("test", one.id)
    assert check.check(session.task, session.dtype, contestant, session._shelf, secret).error < 1
    found = gate.gate(session.task, session.dtype, contestant, session.ladder.held_out, session._shelf, secret, 0.1)
    session.ladder.outcomes.add(one.id, found)
    return found


@pytest.fixture(scope="module")
def parent(primes: Session) -> Kernel:
    assert answer(primes, HONEST).passed
    return HONEST


@pytest.mark.parametrize("name", OVERFIT)
def test_an_overfit_kernel_is_a_regression_and_nothing_else_is_known_of_it(primes: Session, parent: Kernel, name: str) -> None:
    one = kernel(f"softmax(args); {OVERFIT[name]}")

    found = answer(primes, one)

    assert not found.passed
    outcomes = primes.ladder.outcomes
    assert outcomes.between(parent.id, one.id) is HeldOut.REGRESSION
    assert outcomes.between(one.id, parent.id) is HeldOut.IMPROVEMENT
    assert outcomes.between(parent.id, parent.id) is HeldOut.BOTH_PASS


def test_one_is_refused_before_it_is_timed_and_becomes_neither_elite_nor_parent(primes: Session, honest: Evaluation) -> None:
    island = Island(0, GridArchive(ArchiveSettings()), [Mutate("mutate", 1, False)])
    parent = candidate(HONEST)
    overfit = candidate(kernel(f"softmax(args); {OVERFIT['wrong beyond 2048']}"), parent)

    # Confirmed by decree: what an elite needs beside a verdict is not what is tried here.
    assert island.tell(parent, replace(honest, confirmed=True)) is not None
    evaluation = primes.ladder.judge(overfit.kernel, primes.build(overfit.kernel), None)

    assert (evaluation.verdict, evaluation.reason, evaluation.passed) == (Verdict.HELD_OUT_FAILED, Reason.HELD_OUT, False)
    assert (evaluation.measurements, evaluation.confirmed) == ((), False)
    for told in (evaluation, replace(evaluation, confirmed=True)):
        assert island.tell(overfit, told) is None
    assert [elite.candidate.id for elite in island.archive] == [parent.id]
    asks = [island.ask(number) for number in range(8)]
    assert {chosen for ask in asks if ask for chosen in ask.parent_ids} == {parent.id}


@dataclass(frozen=True)
class Mutate:
    """What an island needs to know of an operator."""

    name: str
    parents_wanted: int
    needs_model: bool


def candidate(one: Kernel, *parents: Candidate) -> Candidate:
    return Candidate(one, "softmax_small", DType.FLOAT32, tuple(p.id for p in parents), "mutate" if parents else "seed")
