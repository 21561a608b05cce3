from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evokern.evaluation import Evaluation, Fingerprint, Tier, Verdict
from evokern.evaluator.signing import Judges, Signer
from evokern.report import tables
from evokern.report.display import started_line, status_line
from evokern.report.standing import Standing, standing, standing_of

FINGERPRINT = Fingerprint("e", "cpu", "CPU", "6", "g++", "-O3", "torch", "ieee", 1, Tier.ISOLATED, "", ("eager",), 0)
EVALUATION = Evaluation("ab" * 32, "t", "float32", Verdict.PASSED, fingerprint=FINGERPRINT)
BARE = replace(EVALUATION, fingerprint=replace(FINGERPRINT, tier=Tier.UNSANDBOXED))


def test_a_signature_counts_where_its_judge_is_enrolled_and_the_verdict_is_what_was_signed(tmp_path: Path) -> None:
    signer = Signer.of_home(tmp_path)
    signed = signer.sign(EVALUATION)
    judges = Judges([signer.public])
    assert standing(signed, judges).official
    assert standing(signed, Judges()).lacks == ("external",)
    assert standing(replace(signed, error=0.5), judges).lacks == ("external",)
    assert standing(EVALUATION, judges).lacks == ("unsigned",)


@pytest.mark.parametrize(
    ("evaluation", "lacks"),
    [
        (EVALUATION, ()),
        (BARE, ("unsandboxed",)),
        (replace(EVALUATION, fingerprint=None), ("unsandboxed",)),
        (replace(BARE, degenerate=True), ("unsandboxed", "degenerate")),
    ],
)
def test_what_takes_the_standing_away_is_named(evaluation: Evaluation, lacks: tuple[str, ...]) -> None:
    found = standing(evaluation)
    assert found.lacks == lacks
    assert found.official == (not lacks)
    assert bool(found.line) == bool(lacks)


def best(found: Standing) -> dict[str, object]:
    ratio = {"estimate": 1.5, "low": 1.4, "high": 1.6}
    return {"kernel": "ab" * 32, "ratio": ratio, "workloads": {"w": {"time_us": 1.0, "ratio": ratio}}, "standing": found.document()}


def status(found: Standing) -> dict[str, object]:
    return {"run": "r", "state": "ended", "evaluated": 1, "best": best(found), "budget": {}, "verdicts": {}}


def test_a_figure_that_does_not_count_is_no_headline() -> None:
    assert "1.50x [1.40, 1.60] over the faster baseline" in tables.status_text(status(Standing()))
    text = tables.status_text(status(Standing(("degenerate",))))
    assert "over the faster baseline" not in text
    assert "NOT OFFICIAL: the task cannot tell" in text


def test_a_live_view_says_loudly_that_nothing_counts() -> None:
    info = {"device": "EPYC", "tier": "unsandboxed", "degenerate": ["zeros pass"]}
    assert "NOT OFFICIAL: judged without a sandbox" in started_line(info)
    assert "1.50x" not in status_line(status(Standing()), standing_of(info))
    assert "1.50x" in status_line(status(Standing()), standing_of(info | {"tier": "isolated", "degenerate": []}))


def test_the_closing_table_of_a_run_that_does_not_count_has_no_mean() -> None:
    ratio = {"estimate": 1.5, "low": 1.4, "high": 1.6}
    workload = {"name": "w", "best_us": 1.0, "ratio": ratio}
    summary = {"run": "r", "state": "ended", "kernel": "ab" * 32, "workloads": [workload], "ratio": ratio, "tier": "isolated"}
    assert "geometric mean" in tables.closing_text(summary)
    text = tables.closing_text(summary | {"degenerate": ["zeros pass"]})
    assert "geometric mean" not in text
    assert "NOT OFFICIAL" in text
