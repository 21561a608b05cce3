"""Cross: two parents in one prompt, one kernel or a typed refusal out."""

from __future__ import annotations

from pathlib import Path

import pytest

from evokern.event import Operator, RefusalReason
from evokern.operators.cross import Cross
from evokern.operators.mutate import Mutate
from evokern.task import Task
from evokern.testing.requests import SOURCE, evaluated, request_for, row_task
from evokern.testing.scripted_model import ScriptedModel, prose, whole_file

OTHER = SOURCE.replace("float sum = 0.0f", "double sum = 0.0")
CHILD = SOURCE.replace("LANES 4", "LANES 8")


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return row_task(tmp_path)


@pytest.mark.asyncio
async def test_both_parents_are_shown_with_their_times_and_joined(task: Task) -> None:
    model = ScriptedModel([whole_file(CHILD)])
    request = request_for(task, evaluated(SOURCE, task, ratio=1.25), evaluated(OTHER, task, ratio=2.5))
    proposal = await Cross(model).propose(request)
    assert proposal.kernel is not None
    assert proposal.kernel.source == CHILD
    assert proposal.edits == ("cross",)
    shown = model.conversations[0][1].content
    for part in (SOURCE, OTHER, "1.250x", "2.500x"):
        assert part in shown
    assert shown.index(SOURCE) < shown.index(OTHER)


@pytest.mark.asyncio
@pytest.mark.parametrize("child", [SOURCE, OTHER, "// joined\n" + OTHER])
async def test_a_child_that_equals_either_parent_is_no_change(child: str, task: Task) -> None:
    model = ScriptedModel([whole_file(child)])
    proposal = await Cross(model).propose(request_for(task, evaluated(SOURCE, task), evaluated(OTHER, task)))
    assert proposal.kernel is None
    assert proposal.refusal is not None
    assert proposal.refusal.reason is RefusalReason.NO_CHANGE
    assert len(model.conversations) == 2


@pytest.mark.asyncio
async def test_prose_twice_is_refused(task: Task) -> None:
    proposal = await Cross(ScriptedModel([prose()])).propose(request_for(task, evaluated(SOURCE, task), evaluated(OTHER, task)))
    assert proposal.refusal is not None
    assert proposal.refusal.reason is RefusalReason.NO_BLOCK
    assert proposal.response == prose().text


@pytest.mark.asyncio
@pytest.mark.parametrize("sources", [[], [SOURCE], [SOURCE, SOURCE], [SOURCE, "// the same\n" + SOURCE]])
async def test_fewer_than_two_different_parents_cost_no_call(sources: list[str], task: Task) -> None:
    model = ScriptedModel([whole_file(CHILD)])
    proposal = await Cross(model).propose(request_for(task, *(evaluated(s, task) for s in sources)))
    assert proposal.refusal is not None
    assert proposal.refusal.reason is RefusalReason.NOT_APPLICABLE
    assert model.conversations == []


def test_both_are_operators_that_need_a_model() -> None:
    operators: list[Operator] = [Mutate(ScriptedModel([prose()])), Cross(ScriptedModel([prose()]))]
    assert [(o.name, o.parents_wanted, o.needs_model) for o in operators] == [("mutate", 1, True), ("cross", 2, True)]
