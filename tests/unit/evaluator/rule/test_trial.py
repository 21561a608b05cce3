"""Which calls a kernel is asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from evokern.evaluator.reference import edges
from evokern.evaluator.reference.held_out import draw
from evokern.evaluator.rule.trial import LARGE, elements, held_out_points, visible_points
from evokern.task import Task, load_task

CORE = Path(__file__).parents[4] / "benchmarks" / "tasks" / "core"


@pytest.fixture(scope="module", params=["softmax", "rmsnorm", "cross_entropy", "bias_gelu"])
def task(request: pytest.FixtureRequest) -> Task:
    return load_task(CORE / request.param)


def test_every_visible_workload_meets_ordinary_values_and_edges(task: Task) -> None:
    points = visible_points(task)
    assert {p.distribution for p in points} == {*task.distributions, edges.NAME}
    assert {p.layout for p in points} == {"contiguous", "offset", "padded"}
    for workload in task.search:
        mine = [p for p in points if p.axes == workload.axes]
        assert {p.distribution == edges.NAME for p in mine} == {True, False}
        # A timed call is contiguous: on the shapes that are timed, checked calls are so too.
        assert Counter(p.layout for p in mine)["contiguous"] >= 2
        assert len(mine) == (3 if elements(task, workload.axes) >= LARGE else 7)


def test_a_task_that_wants_contiguous_gets_contiguous(task: Task) -> None:
    only = replace(task, held_out=replace(task.held_out, layouts=("contiguous",)))
    assert {p.layout for p in visible_points(only)} == {"contiguous"}


def test_a_task_that_draws_its_own_values_has_no_edges(task: Task) -> None:
    assert edges.NAME not in {p.distribution for p in visible_points(replace(task, distributions=("task",)))}


def test_visible_workloads_are_among_the_held_out_ones(task: Task) -> None:
    drawn = draw(task, b"k" * 32, 0)
    points = held_out_points(task, drawn)
    held_out = {w.axes: w.layout for w in drawn}
    assert {p.axes: p.layout for p in points if p.axes in held_out} == held_out
    assert len(points) == len(drawn) + min(len(drawn) // 2, len(task.search))
    assert {p.axes for p in points} - set(held_out) <= {w.axes for w in task.search}
