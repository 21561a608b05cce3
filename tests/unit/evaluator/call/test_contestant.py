"""What a kernel is asked before its first call: nothing that tells what comes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evokern.evaluator.call.contestant import QUESTIONS, questions
from evokern.evaluator.call.window import shape_of
from evokern.evaluator.reference.held_out import draw, most_workloads, sweep
from evokern.task import load_task

CORE = Path(__file__).parents[4] / "benchmarks" / "tasks" / "core"


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "cross_entropy", "bias_gelu"])
def test_every_start_asks_as_often(name: str) -> None:
    task = load_task(CORE / name)
    visible = [dict(w.axes) for w in task.search]
    drawn = [dict(w.axes) for w in [*draw(task, b"key", 0), *sweep(task, b"key", 0)]]
    known = {shape_of(axes) for axes in visible}
    phases = ([visible[0]], [visible[-1]], visible, visible + drawn)
    for shapes in phases:
        orders = set()
        for seed in range(10):
            asked = questions(task, shapes, np.random.default_rng(seed))
            orders.add(tuple(asked))
            assert len(asked) == max(QUESTIONS, len(visible) + most_workloads(task))
            assert set(asked) == known | {shape_of(axes) for axes in shapes}
        assert len(orders) > 5


def test_phases_on_visible_shapes_are_asked_the_same() -> None:
    task = load_task(CORE / "softmax")
    one, every = [dict(task.search[0].axes)], [dict(w.axes) for w in task.search]
    assert questions(task, one, np.random.default_rng(7)) == questions(task, every, np.random.default_rng(7))
