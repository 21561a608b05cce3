from __future__ import annotations

from pathlib import Path

import pytest

from evokern.event import RefusalReason
from evokern.kernel import Candidate, Kernel
from evokern.operators.rewrite import STEPS, Rewrite
from evokern.operators.rewrites import MOTIFS, load_motifs
from evokern.syntax.cpp import Unit
from evokern.task import DType, Task
from evokern.testing.requests import SOURCE, evaluated, request_for, row_task

SEED = Path(__file__).parents[3] / "benchmarks" / "tasks" / "core" / "softmax" / "seeds" / "cpp-float32.cpp"


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return row_task(tmp_path)


def test_there_are_motifs_enough_and_each_says_what_it_does() -> None:
    motifs = load_motifs()
    assert len(motifs) >= len(MOTIFS) >= 18
    assert len({m.name for m in motifs}) == len(motifs)
    for motif in motifs:
        assert motif.precondition.endswith(".")
        assert motif.effect.endswith(".")
        assert motif.weight > 0


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(12))
async def test_a_proposal_is_new_valid_and_labelled(task: Task, seed: int) -> None:
    source = SEED.read_text()
    proposal = await Rewrite().propose(request_for(task, evaluated(source, task), seed=seed))
    assert proposal.kernel is not None
    assert proposal.kernel.source != source
    assert Unit(proposal.kernel.source).is_valid
    assert 1 <= len(proposal.edits) <= max(STEPS)
    names = {m.name for m in load_motifs()}
    for edit in proposal.edits:
        kind, _, rest = edit.partition(":")
        assert kind == "rewrite"
        assert rest.split("@")[0].split("[")[0] in names


@pytest.mark.asyncio
async def test_the_same_chance_gives_the_same_kernel(task: Task) -> None:
    parent = evaluated(SEED.read_text(), task)
    one, other = [await Rewrite().propose(request_for(task, parent, seed=3)) for _ in range(2)]
    assert one == other
    many = {(await Rewrite().propose(request_for(task, parent, seed=s))).edits for s in range(20)}
    assert len(many) > 8


@pytest.mark.asyncio
async def test_nothing_is_proposed_twice_and_the_end_is_said(task: Task) -> None:
    parent, tried = evaluated(SEED.read_text(), task), set[str]()
    operator = Rewrite(motifs=("reciprocal", "omp_simd", "restrict"))
    for seed in range(200):
        proposal = await operator.propose(request_for(task, parent, tried=tried, seed=seed))
        if proposal.kernel is None:
            assert proposal.refusal is not None
            assert proposal.refusal.reason is RefusalReason.ALREADY_TRIED
            break
        assert proposal.kernel.id not in tried
        tried.add(proposal.kernel.id)
    else:
        pytest.fail("never ran out of three motifs")
    # Each alone, in both orders and numbers of sites: far more than three, far fewer than two hundred.
    assert 5 <= len(tried) < 100


@pytest.mark.asyncio
async def test_threads_decide_about_parallel_rows(task: Task) -> None:
    parent = evaluated(SEED.read_text(), task)
    alone = await Rewrite(motifs=("parallel_rows",)).propose(request_for(task, parent))
    assert alone.refusal is not None
    assert alone.refusal.reason is RefusalReason.NOT_APPLICABLE
    shared = await Rewrite(threads=2, motifs=("parallel_rows",)).propose(request_for(task, parent))
    assert shared.kernel is not None
    assert "#pragma omp parallel for" in shared.kernel.source


@pytest.mark.asyncio
@pytest.mark.parametrize(("dialect", "source"), [("triton", "x = 1\n"), ("cuda", SOURCE), ("cpp", "int run( {"), ("cpp", "int x;\n")])
async def test_what_cannot_be_rewritten_is_refused(task: Task, dialect: str, source: str) -> None:
    parent = evaluated(SOURCE, task)
    parent = type(parent)(Candidate(Kernel(dialect, source), task.name, DType.FLOAT32), parent.evaluation)
    proposal = await Rewrite(motifs=("omp_simd", "polynomial_exp", "restrict")).propose(request_for(task, parent))
    assert proposal.refusal is not None
    assert proposal.refusal.reason is RefusalReason.NOT_APPLICABLE


@pytest.mark.asyncio
async def test_a_request_without_parents_is_refused(task: Task) -> None:
    proposal = await Rewrite().propose(request_for(task))
    assert proposal.refusal is not None
