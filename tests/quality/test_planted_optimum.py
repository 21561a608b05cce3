"""The search finds an optimum that was planted, where random draws of as many kernels do not.

A source is a set of motifs and tunables. Most of the gain needs two motifs of which each alone brings little, tunables matter
only beside the right motifs, a share of all sources does not compile or is wrong, and every measurement is noisy.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evokern.engine import Engine
from evokern.evaluation import Evaluation, Reason, Verdict
from evokern.event import Budget, Proposal, RefusalReason, Request, RunSettings
from evokern.kernel import Candidate, Kernel
from evokern.task import DType
from evokern.testing.requests import row_task
from evokern.testing.sim_executor import Landed, SimExecutor

MOTIFS = ("vector", "poly_exp", "one_pass", "unroll", "prefetch", "nt_store", "restrict", "split")
TILES, LANES = (8, 16, 32, 64, 128, 256), (1, 2, 4, 8, 16)
EVALUATIONS = 200
"""Of 8 motifs on or off, 6 tiles and 5 lanes: 7,680 sources."""

SEEDS = range(8)
FOUND_IN = 5
NOISE = 0.015
NEAR = 0.93
"""Share of the optimum's speed that counts as having found it: one tunable beside its best value is as near as the noise lets tell."""

Genome = dict[str, Any]
START: Genome = {"motifs": [], "tile": 8, "lanes": 1}
OPTIMUM: Genome = {"motifs": ["nt_store", "one_pass", "poly_exp", "vector"], "tile": 64, "lanes": 8}


def written(genome: Genome) -> Kernel:
    return Kernel("cpp", json.dumps({**genome, "motifs": sorted(genome["motifs"])}, sort_keys=True))


def landscape(kernel: Kernel) -> Landed:
    genome = json.loads(kernel.source)
    motifs = set(genome["motifs"])
    cell = {"passes": "1" if "one_pass" in motifs else "3", "simd": str("vector" in motifs), "nt_stores": str("nt_store" in motifs)}
    if {"split", "one_pass"} <= motifs or {"prefetch", "restrict", "unroll"} <= motifs:
        return Landed(0.0, Verdict.WRONG, Reason.TOLERANCE)
    if genome["lanes"] == 16 and "vector" not in motifs:
        return Landed(0.0, Verdict.BUILD_FAILED, Reason.COMPILER)
    log = 0.15 * ("vector" in motifs) + 0.10 * ("poly_exp" in motifs) + 0.12 * ("one_pass" in motifs)
    log += 0.55 * ({"vector", "poly_exp"} <= motifs) + 0.20 * ({"one_pass", "nt_store"} <= motifs)
    log -= 0.04 * len(motifs & {"unroll", "prefetch", "restrict", "split"}) + 0.03 * ("nt_store" in motifs)
    if "vector" in motifs:
        log -= 0.10 * abs(LANES.index(genome["lanes"]) - LANES.index(OPTIMUM["lanes"]))
    if "one_pass" in motifs:
        log -= 0.06 * abs(TILES.index(genome["tile"]) - TILES.index(OPTIMUM["tile"]))
    return Landed(log, descriptors=cell)


BEST = landscape(written(OPTIMUM)).log_speedup


class Evenly(SimExecutor):
    """Every evaluation is said to take a second, so that what the bandit learns does not depend on how busy this machine is."""

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        return self.signer.sign(replace(await super().evaluate(candidate, incumbent), seconds={"measure": 1.0}))


class Motif:
    """Puts one motif in, or takes it out."""

    name, parents_wanted, needs_model = "rewrite", 1, False

    @classmethod
    def for_run(cls, settings: RunSettings, model: Any) -> Motif:
        return cls()

    def neighbours(self, genome: Genome) -> list[Genome]:
        return [{**genome, "motifs": sorted(set(genome["motifs"]) ^ {motif})} for motif in MOTIFS]

    async def propose(self, request: Request) -> Proposal:
        nearby = [written(genome) for genome in self.neighbours(json.loads(request.parent.candidate.kernel.source))]
        fresh = [kernel for kernel in nearby if kernel.id not in request.tried]
        return Proposal(request.rng.choice(fresh)) if fresh else Proposal.refused(RefusalReason.NOT_APPLICABLE)


class Tunable(Motif):
    """Gives one tunable another of its values."""

    name = "retune"

    def neighbours(self, genome: Genome) -> list[Genome]:
        values = {"tile": TILES, "lanes": LANES}
        return [{**genome, name: value} for name, allowed in values.items() for value in allowed if value != genome[name]]


class Useless(Motif):
    """Changes what does not matter: the bandit must learn to leave it."""

    name = "mutate"

    def neighbours(self, genome: Genome) -> list[Genome]:
        return [{**genome, "comment": number} for number in range(1000)]


def searched(folder: Path, seed: int) -> float:
    """True speed of the champion as a share of the optimum's."""
    (folder / "task").mkdir(parents=True)
    task = row_task(folder / "task")
    budget = Budget(evaluations=EVALUATIONS)
    settings = RunSettings(str(task.folder), task.digest, DType.FLOAT32, "cpu", 1, budget, seed, seeds=(("cpp", written(START).source),))
    engine = Engine(
        settings, home=folder / "home", executor=Evenly(landscape, noise=NOISE, seed=seed), operators=[Motif(), Tunable(), Useless()]
    )
    summary = asyncio.run(engine.run())
    assert summary["evaluated"] == EVALUATIONS
    return share(landscape(Kernel("cpp", Path(summary["path"]).read_text())))


def drawn(seed: int) -> float:
    """The same for the best of as many random draws, measured without noise."""
    chance = random.Random(seed)
    genomes = [
        {"motifs": [m for m in MOTIFS if chance.random() < 0.5], "tile": chance.choice(TILES), "lanes": chance.choice(LANES)}
        for _ in range(EVALUATIONS)
    ]
    return max(share(landed) for landed in map(landscape, map(written, genomes)) if landed.verdict is Verdict.PASSED)


def share(landed: Landed) -> float:
    return math.exp(landed.log_speedup - BEST)


def test_the_planted_optimum_is_the_optimum() -> None:
    every = [
        landscape(written({"motifs": [m for bit, m in enumerate(MOTIFS) if chosen >> bit & 1], "tile": tile, "lanes": lanes}))
        for chosen in range(2 ** len(MOTIFS))
        for tile in TILES
        for lanes in LANES
    ]
    passed = [landed for landed in every if landed.verdict is Verdict.PASSED]
    assert max(landed.log_speedup for landed in passed) == pytest.approx(BEST)
    assert 0.1 < 1 - len(passed) / len(every) < 0.6


def test_the_search_finds_it_and_random_draws_do_not(tmp_path: Path) -> None:
    found = [searched(tmp_path / str(seed), seed) for seed in SEEDS]
    by_chance = [drawn(seed) for seed in SEEDS]
    assert sum(reached >= NEAR for reached in found) >= FOUND_IN, (found, by_chance)
    assert sum(reached >= NEAR for reached in by_chance) <= 1, by_chance
