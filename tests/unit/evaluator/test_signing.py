"""Signatures: what counts as a judge's word, and how its key is kept."""

from __future__ import annotations

import json
import math
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from evokern import record
from evokern.errors import Unavailable
from evokern.evaluation import BASELINE, Clock, Evaluation, Measurement, Ratio, Reason, Sample, Verdict
from evokern.evaluator.signing import ENROLLED, PRIVATE, SEED_BYTES, Judges, Seal, Signer, content, enroll, genuine

RATIO = Ratio(1.5, 1.25, math.inf, 4, 2)
EVALUATION = Evaluation(
    "k", "t", "float32", Verdict.PASSED, log="a\ud800\u00e9\0",
    measurements=(Measurement("w", Clock.JUDGED, 1, 0, 0, None, {BASELINE: RATIO}, (Sample("candidate", 0, 1, 20, 30),)),),
)  # fmt: skip


@pytest.fixture
def signer() -> Signer:
    return Signer(b"s" * SEED_BYTES)


def test_a_signature_outlives_json_and_says_who_made_it(signer: Signer) -> None:
    signed = signer.sign(EVALUATION)
    read = record.from_json(Evaluation, json.loads(json.dumps(record.to_json(signed))))
    assert (read.judge, genuine(read)) == (signer.public, True)
    assert Judges([signer.public]).accept(read)
    assert not Judges().accept(read), "a judge that is not enrolled is nobody"


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": Verdict.WRONG},
        {"reason": Reason.NOISE},
        {"confirmed": True},
        {"kernel_id": "other"},
        {"degenerate": True},
        {"measurements": ()},
        {"measurements": (replace(EVALUATION.measurements[0], versus={BASELINE: replace(RATIO, low=1.26)}),)},
        {"passed_held_out": True},
        {"signature": "00" * 64},
        {"signature": "no hex"},
        {"signature": ""},
        {"judge": ""},
        {"judge": Signer(b"o" * SEED_BYTES).public},
    ],
)
def test_whatever_is_changed_is_no_longer_signed(signer: Signer, change: dict[str, object]) -> None:
    changed = replace(signer.sign(EVALUATION), **change)  # type: ignore[arg-type]
    assert not Judges([signer.public, Signer(b"o" * SEED_BYTES).public]).accept(changed)


def test_one_noun_s_signature_is_none_for_another() -> None:
    assert content(Seal("r", 1, "d")) != content(EVALUATION)
    assert content(Seal("r", 1, "d", "j", "s")) == content(Seal("r", 1, "d", "j", "other"))


def test_a_field_at_its_default_is_not_signed_so_that_later_versions_may_add_some(signer: Signer) -> None:
    assert b'"evidence"' not in content(EVALUATION)
    assert b'"verdict"' in content(EVALUATION)


def test_a_home_keeps_one_key_that_nobody_else_may_read(tmp_path: Path) -> None:
    first, again = Signer.of_home(tmp_path), Signer.of_home(tmp_path)
    assert first.public == again.public != Signer.of_home(tmp_path / "other").public
    assert stat.S_IMODE((tmp_path / PRIVATE).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / PRIVATE).parent.stat().st_mode) == 0o700
    assert [path.name for path in (tmp_path / PRIVATE).parent.iterdir()] == [PRIVATE.name], "nothing half written is left"


def test_a_key_that_is_none_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / PRIVATE).write_bytes(b"short")
    with pytest.raises(Unavailable, match="does not hold a judge's key"):
        Signer.of_home(tmp_path)


def test_judges_are_enrolled_once_and_stay(tmp_path: Path, signer: Signer) -> None:
    assert Judges.of_home(tmp_path).keys == frozenset()
    assert enroll(tmp_path, "").keys == frozenset()
    other = Signer(b"o" * SEED_BYTES)
    for judge in (signer.public, other.public, signer.public):
        known = enroll(tmp_path, judge)
    assert known.keys == Judges.of_home(tmp_path).keys == {signer.public, other.public}
    assert len((tmp_path / ENROLLED).read_text().splitlines()) == 2
