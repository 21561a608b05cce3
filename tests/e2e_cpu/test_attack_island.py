"""The attack island on the real ladder: a hole that is made on purpose is found, and closed it is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evokern.evaluation import Verdict
from evokern.evaluator.rule import correctness
from evokern.evaluator.session import Session
from evokern.study.attack_genome import Defect, Genome, When
from evokern.study.attack_island import AttackIsland, Court, summary
from evokern.study.attack_referee import Class

pytestmark = [pytest.mark.e2e_cpu, pytest.mark.torch]

LARGER = Genome("softmax", "fast", (Defect("scaled_all", 0.5, When("always")),))
UNWRITTEN = Genome("softmax", "fast", (Defect("half_rows", 0.5, When("always")),))


@pytest.fixture
def court(session: Session, tmp_path: Path) -> Iterator[Court]:
    court = Court(tmp_path, lambda _: None, lives=(60,), again=1, sessions={"softmax": session})
    yield court
    court.close()


def searched(court: Court, seeds: list[Genome], attempts: int) -> AttackIsland:
    island = AttackIsland(court, seed=0, seeds=seeds, tasks=("softmax",))
    for _ in island.search(lambda: len(island.attempts) >= attempts):
        pass
    return island


def test_a_hole_is_found_and_the_rule_closes_it(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as weakened:
        weakened.setattr(correctness, "judge_output", lambda *_, **__: correctness.Finding(True))
        (found,) = searched(court, [LARGER], 1).attempts

    assert (found.verdict, found.kind) == (Verdict.PASSED, Class.BLATANT), found
    (escape,) = summary([found])["escapes"]
    assert (escape["kernel_id"], escape["what"], escape["when"]) == (LARGER.kernel.id, "scaled_all", "always")

    closed = searched(court, [LARGER, UNWRITTEN], 2).attempts

    assert [(attempt.verdict, attempt.escaped) for attempt in closed] == [(Verdict.WRONG, False)] * 2
