from __future__ import annotations

from pathlib import Path

import pytest

from evokern.event import RefusalReason
from evokern.kernel import Candidate, Kernel
from evokern.operators.retune import Retune
from evokern.syntax import tunables_of
from evokern.task import DType, Task
from evokern.testing.requests import evaluated, request_for, row_task

SOURCE = """\
#define TILE 64  // tune: 32 64 128 256
constexpr int LANES = 4;  // tune: 1 2 4
extern "C" int run() { return 0; }
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return row_task(tmp_path)


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(20))
async def test_one_or_two_values_change_and_nothing_else(task: Task, seed: int) -> None:
    proposal = await Retune().propose(request_for(task, evaluated(SOURCE, task), seed=seed))
    assert proposal.kernel is not None
    assert proposal.kernel.source != SOURCE
    old, new = tunables_of(SOURCE, "cpp"), tunables_of(proposal.kernel.source, "cpp")
    changed = [b for a, b in zip(old, new, strict=True) if a.value != b.value]
    assert list(proposal.edits) == sorted((f"retune:{t.name}={t.value}" for t in changed), key=list(proposal.edits).index)
    assert 1 <= len(changed) <= 2


@pytest.mark.asyncio
async def test_the_same_chance_gives_the_same_kernel(task: Task) -> None:
    one, other = [await Retune().propose(request_for(task, evaluated(SOURCE, task), seed=7)) for _ in range(2)]
    assert one == other
    many = {(await Retune().propose(request_for(task, evaluated(SOURCE, task), seed=s))).edits for s in range(30)}
    assert len(many) > 4


@pytest.mark.asyncio
async def test_every_combination_of_two_is_proposed_once_and_then_none(task: Task) -> None:
    tried = {Kernel("cpp", SOURCE).id}
    for seed in range(11):
        proposal = await Retune().propose(request_for(task, evaluated(SOURCE, task), tried=tried, seed=seed))
        assert proposal.kernel is not None
        assert proposal.kernel.id not in tried
        tried.add(proposal.kernel.id)
    assert len(tried) == 4 * 3
    last = await Retune().propose(request_for(task, evaluated(SOURCE, task), tried=tried))
    assert last.kernel is None
    assert last.refusal is not None
    assert last.refusal.reason is RefusalReason.ALREADY_TRIED


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("source", "detail"),
    [("int x;\n", "no tunables"), ("#define A 1  // tune: 1\n", "no tunables"), ("#define A 3  // tune: 1 2\n", "A is 3")],
)
async def test_sources_without_tunables_are_refused(task: Task, source: str, detail: str) -> None:
    proposal = await Retune().propose(request_for(task, evaluated(source, task)))
    assert proposal.refusal is not None
    assert proposal.refusal.reason is RefusalReason.NOT_APPLICABLE
    assert detail in proposal.refusal.detail


@pytest.mark.asyncio
async def test_python_kernels_are_retuned_too(task: Task) -> None:
    parent = evaluated(SOURCE, task)
    kernel = Kernel("triton", "BLOCK = 64  # tune: 64 128\n")
    parent = type(parent)(Candidate(kernel, task.name, DType.FLOAT32), parent.evaluation)
    proposal = await Retune().propose(request_for(task, parent))
    assert proposal.kernel == Kernel("triton", "BLOCK = 128  # tune: 64 128\n")
