"""Genomes of attacks: chance stays within its ranges, operators make genomes, and each becomes one source."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from evokern import record
from evokern.study.attack_genome import (
    BASES,
    CONDITIONS,
    DEEPEST,
    EFFECTS,
    JOINTS,
    MOST_DEFECTS,
    NOTHING,
    TASKS,
    Defect,
    Genome,
    When,
    crossed,
    drawn,
    honest,
    mutated,
    rendered,
)

pytestmark = pytest.mark.unit
INCLUDE = Path(__file__).parents[3] / "evokern" / "include"


def some(count: int) -> Iterator[Genome]:
    rng = random.Random(5)
    last = drawn(rng)
    for _ in range(count):
        last = rng.choice((mutated(last, rng), crossed(last, drawn(rng), rng), drawn(rng)))
        yield last


def nodes(when: When) -> Iterator[When]:
    yield when
    for part in when.parts:
        yield from nodes(part)


def test_every_descendant_is_a_genome_within_its_ranges() -> None:
    for genome in some(500):
        assert 1 <= len(genome.defects) <= MOST_DEFECTS
        for defect in genome.defects:
            limits = EFFECTS[defect.what][0]
            assert limits is NOTHING or limits.low <= defect.amount <= limits.high
            assert defect.when.depth <= DEEPEST
            for node in nodes(defect.when):
                assert len(node.parts) == (JOINTS[node.kind][0] if node.kind in JOINTS else 0)
                limits = JOINTS[node.kind][1] if node.kind in JOINTS else CONDITIONS[node.kind][0]
                assert limits is NOTHING or limits.low <= node.number <= limits.high


def test_the_same_chance_gives_the_same_source() -> None:
    assert [rendered(g) for g in some(20)] == [rendered(g) for g in some(20)]


def test_a_genome_survives_its_record() -> None:
    for genome in some(50):
        assert record.from_json(Genome, json.loads(json.dumps(record.to_json(genome)))) == genome


def test_an_honest_genome_holds_no_defect() -> None:
    for task in TASKS:
        for base in BASES:
            source = rendered(honest(task, base))
            assert "when0" not in source
            assert 'extern "C" int run(' in source


def test_every_effect_condition_and_joint_compiles(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler
    rng = random.Random(1)
    leaves = [When(kind, CONDITIONS[kind][0].draw(rng) if CONDITIONS[kind][0] is not NOTHING else 0.0) for kind in CONDITIONS]
    joints = [When(kind, max(limits.low, 3.0), (leaves[0], leaves[1])[:parts]) for kind, (parts, limits, _) in JOINTS.items()]
    everything = [*leaves, *joints]
    effects = [*EFFECTS, *list(EFFECTS)[: max(0, len(everything) - len(EFFECTS))]]
    defects = tuple(
        Defect(what, max(EFFECTS[what][0].low, 0.5 if EFFECTS[what][0] is not NOTHING else 0.0), everything[i % len(everything)])
        for i, what in enumerate(effects)
    )
    for task, base in zip(TASKS, BASES, strict=True):
        (tmp_path / "kernel.cpp").write_text(rendered(Genome(task, base, defects)))
        ended = subprocess.run(
            [compiler, "-std=c++17", "-fsyntax-only", f"-I{INCLUDE}", str(tmp_path / "kernel.cpp")],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ended.returncode == 0, ended.stderr
