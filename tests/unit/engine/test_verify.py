"""`evokern verify` and `evokern promote`, as a shell calls them, on runs whose record is whole or is not."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evokern.cli.app import answer
from evokern.cli.promote import refusal_of
from evokern.errors import EvokernError
from evokern.evaluation import Evaluation, Reason, Tier, Verdict
from evokern.evaluator.signing import SEED_BYTES, Judges, Signer
from evokern.event import Budget, RunSettings
from evokern.store import DATABASE
from evokern.testing.requests import evaluated, row_task
from evokern.testing.sim_executor import SIM, Landed, SimExecutor
from tests.unit.test_engine import begin, run

SIGNER, STRANGER = Signer(b"s" * SEED_BYTES), Signer(b"x" * SEED_BYTES)
JUDGES = Judges([SIGNER.public])


@pytest.fixture
def run_id(settings: RunSettings, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("EVOKERN_HOME", str(home))
    engine = begin(replace(settings, budget=Budget(evaluations=4)), home)
    run(engine)
    return engine.run_id


def verified(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = answer(["verify", *argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_whole_record_is_verified_in_words_and_as_a_document(run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = verified(capsys, run_id[:12])
    assert (code, document["schema"], document["whole"]) == (0, "evokern.verify/1", True)
    (found,) = document["runs"]
    assert (found["run"], found["findings"], found["external"], found["signed"]) == (run_id, [], 0, 4)
    assert found["events"] == found["sealed"] + 1
    assert answer(["verify"]) == 0
    assert f"{run_id}: whole" in capsys.readouterr().out


def test_a_changed_and_a_missing_row_are_named_and_the_exit_code_says_so(
    run_id: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(home / DATABASE)) as raw, raw:
        raw.execute("DROP TRIGGER event_no_update")
        raw.execute("DROP TRIGGER event_no_delete")
        raw.execute("UPDATE event SET at = 0 WHERE position = 2")
        raw.execute("DELETE FROM event WHERE position = 5")
    code, document = verified(capsys)
    assert (code, document["whole"]) == (1, False)
    findings = document["runs"][0]["findings"]
    assert [(one["position"], bool(one["row"])) for one in findings][:2] == [(2, True), (5, False)]
    assert answer(["verify"]) == 1
    said = capsys.readouterr().out
    assert "event 2 (row " in said
    assert "event 5 is missing" in said


def test_what_is_not_sealed_yet_and_a_run_that_is_gone_are_said(
    run_id: str, settings: RunSettings, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "runs" / "gone-20261130T1200-abcd.seal").write_text("{}")
    engine = begin(settings, home, SimExecutor(lambda _: Landed(0.0, Verdict.WRONG, Reason.TOLERANCE)))
    with pytest.raises(EvokernError):
        run(engine)
    capsys.readouterr()
    assert answer(["verify", engine.run_id]) == 0
    assert "events not sealed yet" in capsys.readouterr().out
    assert answer(["verify", "gone"]) == 1
    assert "gone-20261130T1200-abcd: NOT as it was written" in capsys.readouterr().out
    assert verified(capsys)[1]["whole"] is False


def test_a_run_that_is_not_there_is_a_usage_error(run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_id
    assert answer(["verify", "nothing"]) == 2
    assert "no run begins with 'nothing'" in capsys.readouterr().err


@pytest.fixture
def elite(tmp_path: Path) -> Evaluation:
    found = evaluated("int x;", row_task(tmp_path), ratio=2.0).evaluation
    return replace(found, confirmed=True, fingerprint=replace(SIM, tier=Tier.ISOLATED))


def test_only_what_a_judge_of_the_home_signed_of_a_sound_task_is_promoted(elite: Evaluation) -> None:
    assert refusal_of([SIGNER.sign(elite)], JUDGES) == ""
    assert "was not signed" in refusal_of([elite], JUDGES)
    assert "was not signed" in refusal_of([STRANGER.sign(elite)], JUDGES)
    assert "was not signed" in refusal_of([replace(SIGNER.sign(elite), key="other")], JUDGES)
    assert "cannot tell good kernels" in refusal_of([SIGNER.sign(replace(elite, degenerate=True))], JUDGES)


def test_what_was_withdrawn_is_not_promoted(elite: Evaluation) -> None:
    withdrawn = SIGNER.sign(replace(elite, verdict=Verdict.FLAKY, reason=Reason.OPPONENT, confirmed=False))
    assert refusal_of([SIGNER.sign(elite), withdrawn], JUDGES) == "its verdict is flaky: opponent"
