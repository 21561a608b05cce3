"""Ids, records and closed lists."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math

import pytest

from evokern import record
from evokern.errors import UsageError
from evokern.evaluation import REASONS, Fingerprint, HeldOut, Ratio, Reason, Tier, evaluation_key, held_out_outcome
from evokern.event import Budget, Spent
from evokern.kernel import Candidate, Kernel, dialect_of
from evokern.task import DType

FINGERPRINT = Fingerprint("evokern/1", "cpu", "CPU", "6.1", "g++ 12", "-O3", "torch 2", "ieee", 1, Tier.ISOLATED, "", ("eager",), 0)


def test_a_kernels_id_is_that_of_its_exact_bytes() -> None:
    expected = hashlib.sha256(b"evokern.kernel/1\0cpp\0run\0int x;\n").hexdigest()

    assert Kernel("cpp", "int x;\n").id == expected
    assert (
        len({Kernel("cpp", "int x;\n").id, Kernel("cpp", "int x;").id, Kernel("hip", "int x;\n").id, Kernel("cpp", "int x;\n", "go").id})
        == 4
    )
    assert Kernel("cpp", "\udcff").id  # text that is no UTF-8 has an id too


def test_an_evaluations_key_depends_on_everything_that_a_verdict_depends_on() -> None:
    keys = {evaluation_key("k", "t", "float32", FINGERPRINT)}
    for field in dataclasses.fields(Fingerprint):
        old = getattr(FINGERPRINT, field.name)
        new = {"threads": 2, "held_out_epoch": 1, "tier": Tier.SANDBOXED, "baselines": ()}.get(field.name, f"{old}!")
        keys.add(evaluation_key("k", "t", "float32", dataclasses.replace(FINGERPRINT, **{field.name: new})))
    keys |= {evaluation_key("l", "t", "float32", FINGERPRINT), evaluation_key("k", "u", "float32", FINGERPRINT)}

    assert len(keys) == 1 + len(dataclasses.fields(Fingerprint)) + 2


def test_every_reason_has_a_sentence() -> None:
    assert set(REASONS) == set(Reason)


@pytest.mark.parametrize(
    ("parent", "child", "outcome"),
    [
        (True, True, HeldOut.BOTH_PASS),
        (True, False, HeldOut.REGRESSION),
        (False, False, HeldOut.BOTH_FAIL),
        (False, True, HeldOut.IMPROVEMENT),
    ],
)
def test_the_four_held_out_outcomes(parent: bool, child: bool, outcome: HeldOut) -> None:
    assert held_out_outcome(parent=parent, child=child) is outcome


def test_records_survive_json() -> None:
    candidate = Candidate(Kernel("cpp", "int x;"), "softmax", DType.FLOAT32, ("p",), "rewrite", ("a@1",), (), 2)
    ratio = Ratio(1.5, 1.2, math.inf, 16, 8)

    for noun in (candidate, ratio, FINGERPRINT):
        text = json.dumps(record.to_json(noun), allow_nan=False)
        assert record.from_json(type(noun), json.loads(text)) == noun


@pytest.mark.parametrize(
    "data", [{"estimate": 1.0}, {"who": 1}, [], None, {"estimate": "x", "low": 1, "high": 1, "pairs": 1, "clusters": 1}]
)
def test_a_record_of_another_shape_is_refused_in_one_line(data: object) -> None:
    with pytest.raises(UsageError, match="Ratio"):
        record.from_json(Ratio, data)


def test_file_endings_name_dialects() -> None:
    assert [dialect_of(name) for name in ("a.cpp", "a.hip.cpp", "a.cu", "a.py")] == ["cpp", "hip", "cuda", "triton"]
    with pytest.raises(UsageError, match=r"a\.rs"):
        dialect_of("a.rs")


def test_budgets_end_at_the_first_limit() -> None:
    assert Spent(seconds=10, evaluations=3).exceeds(Budget(seconds=11, evaluations=3)) == "evaluations"
    assert Spent(seconds=10, evaluations=2).exceeds(Budget(seconds=11, evaluations=3)) == ""
    assert Spent(tokens=5, usd=1.0).exceeds(Budget(tokens=6, usd=1.0)) == "usd"
