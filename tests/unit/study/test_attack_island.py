"""The search for attacks, with a court that makes its verdicts up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evokern import record
from evokern.evaluation import Reason, Rung, Verdict
from evokern.statistics import score_of
from evokern.study.attack_genome import EFFECTS, Genome
from evokern.study.attack_island import SEEDS, AttackIsland, Attempt, Court, fitness, standing, summary
from evokern.study.attack_referee import Class, Seen

pytestmark = pytest.mark.unit

NOTHING_SEEN = Seen(0, {}, {}, {}, None, None, None, 0.0, 0, None, "", False)


class Scripted(Court):
    """What it says follows from the genome alone: whatever leaves the answer as it is gets through."""

    def judged(self, genome: Genome, number: int, operator: str, parents: tuple[str, ...]) -> Attempt:
        passes = genome.what in ("sleeps", "keeps_memory", "repeats_work")
        attempt = Attempt(number, operator, parents, genome, genome.kernel.id, Verdict.WRONG, Reason.TOLERANCE, rung=Rung.CHECK)
        if passes:
            attempt = Attempt(
                number, operator, parents, genome, genome.kernel.id, Verdict.PASSED, Reason.NONE, rung=Rung.CONFIRM,
                kind=Class.GAINFUL, seen=NOTHING_SEEN,
            )  # fmt: skip
        return record.from_json(Attempt, {**record.to_json(attempt), "fitness": fitness(attempt)})


def searched(folder: Path, attempts: int, before: list[Attempt] | None = None) -> list[Attempt]:
    island = AttackIsland(Scripted(folder, lambda _: None), seed=3)
    island.restore(before or [])
    for _ in island.search(lambda: len(island.attempts) >= attempts):
        pass
    return island.attempts


def test_every_effect_is_tried_before_the_search_begins(tmp_path: Path) -> None:
    attempts = searched(tmp_path, SEEDS)

    assert {attempt.operator for attempt in attempts} == {"seed"}
    assert {attempt.genome.defects[0].what for attempt in attempts} == set(EFFECTS)


def test_the_search_turns_to_what_gets_through(tmp_path: Path) -> None:
    attempts = searched(tmp_path, SEEDS + 80)
    begun, later = attempts[:SEEDS], attempts[SEEDS:]

    assert len({attempt.kernel_id for attempt in attempts}) == len(attempts)
    assert {"attack_mutate", "attack_cross"} <= {attempt.operator for attempt in later}
    assert sum(a.escaped for a in later) / len(later) > sum(a.escaped for a in begun) / len(begun)


def test_a_search_goes_on_from_its_lines(tmp_path: Path) -> None:
    first = searched(tmp_path, SEEDS + 10)
    lines = [json.dumps(record.to_json(attempt)) for attempt in first]

    again = searched(tmp_path, SEEDS + 20, [record.from_json(Attempt, json.loads(line)) for line in lines])

    assert again[: len(first)] == first
    assert len({attempt.kernel_id for attempt in again}) == SEEDS + 20
    assert [attempt.number for attempt in again] == sorted({attempt.number for attempt in again})


def test_the_archive_takes_fitness_for_speed_and_a_failure_of_the_machine_for_nothing(tmp_path: Path) -> None:
    passed = next(attempt for attempt in searched(tmp_path, SEEDS) if attempt.escaped)

    score = score_of(standing(passed))
    assert score is not None
    assert score.log == pytest.approx(passed.fitness)
    machine = Attempt(0, "seed", (), passed.genome, passed.kernel_id, Verdict.INFRASTRUCTURE, Reason.HOST_ERROR)
    assert standing(machine).verdict is Verdict.INFRASTRUCTURE
    assert not standing(machine).confirmed


def test_a_summary_counts_everything(tmp_path: Path) -> None:
    attempts = searched(tmp_path, SEEDS)
    document = summary(attempts)

    assert document["attempts"] == SEEDS == sum(document["by_verdict"].values())
    assert document["passed"]["gainful"] == len(document["escapes"]) == sum(attempt.escaped for attempt in attempts)
    json.dumps(document)
