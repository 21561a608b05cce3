"""Which calls a kernel is asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from evokern.evaluator.call.window import PADDINGS, has_room
from evokern.evaluator.reference import edges
from evokern.evaluator.reference.held_out import HeldOutWorkload, draw, sweep
from evokern.evaluator.rule.trial import LARGE, SCALAR_SETS, elements, held_out_points, visible_points
from evokern.task import Task, load_task

CORE = Path(__file__).parents[4] / "benchmarks" / "tasks" / "core"


@pytest.fixture(scope="module", params=["softmax", "rmsnorm", "cross_entropy", "bias_gelu"])
def task(request: pytest.FixtureRequest) -> Task:
    return load_task(CORE / request.param)


def test_every_visible_workload_meets_ordinary_values_and_edges(task: Task) -> None:
    points = visible_points(task)
    assert {p.distribution for p in points} - {edges.SCALARS} == {*task.distributions, edges.NAME}
    assert {p.layout for p in points} == {"contiguous", "offset", "padded"}
    for workload in task.search:
        mine = [p for p in points if p.axes == workload.axes and p.distribution != edges.SCALARS]
        assert {p.distribution == edges.NAME for p in mine} == {True, False}
        # A timed call is contiguous: on the shapes that are timed, checked calls are so too.
        assert Counter(p.layout for p in mine)["contiguous"] >= 2
        assert len(mine) == (3 if elements(task, workload.axes) >= LARGE else 7)


def test_a_task_that_wants_contiguous_gets_contiguous(task: Task) -> None:
    only = replace(task, held_out=replace(task.held_out, layouts=("contiguous",)))
    assert {p.layout for p in visible_points(only)} == {"contiguous"}


def test_a_task_that_draws_its_own_values_has_no_edges(task: Task) -> None:
    assert edges.NAME not in {p.distribution for p in visible_points(replace(task, distributions=("task",)))}


def test_scalars_of_fixed_value_have_others_on_the_smallest_workload(task: Task) -> None:
    points = [p for p in visible_points(task) if p.distribution == edges.SCALARS]
    assert len(points) == (SCALAR_SETS if task.name == "rmsnorm" else 0)
    assert {p.axes for p in points} <= {min(task.search, key=lambda w: elements(task, w.axes)).axes}
    whole = replace(task, arguments=tuple(replace(a, dtype="int32") if a.is_scalar else a for a in task.arguments))
    assert edges.SCALARS not in {p.distribution for p in visible_points(whole)}  # an integer may be a size


def test_visible_workloads_are_among_the_held_out_ones(task: Task) -> None:
    drawn = draw(task, b"k" * 32, 0)
    points = held_out_points(task, drawn)
    held_out = {w.axes: w.layout for w in drawn}
    assert {p.axes: p.layout for p in points if p.axes in held_out} == held_out
    twice = sum(elements(task, w.axes) < LARGE for w in drawn)
    assert len(points) == len(drawn) + twice + min(len(drawn) // 2, len(task.search))
    assert {p.axes for p in points} - set(held_out) <= {w.axes for w in task.search}


def test_no_way_of_padding_is_left_to_chance(task: Task) -> None:
    gates = [held_out_points(task, [*draw(task, b"k" * 32, epoch), *sweep(task, b"k" * 32, epoch)]) for epoch in range(40)]
    for points in [visible_points(task), *gates]:
        padded = [p for p in points if p.layout == "padded"]
        assert {p.padding for p in padded} == set(PADDINGS)
        assert all(has_room(task, dict(p.axes)) for p in padded if p.padding == "widely")
        # Rows of a few elements have no vector in them.
        assert {p.padding for p in padded if dict(p.axes)["cols"] > 64} >= {"widely", "evenly"}
        assert not any(p.padding for p in points if p.layout != "padded")


def keyed(number: int) -> bytes:
    return number.to_bytes(32, "little")


def gated(task: Task, number: int) -> list[HeldOutWorkload]:
    return [*draw(task, keyed(number), 0), *sweep(task, keyed(number), 0)]


def test_every_small_held_out_shape_meets_ordinary_values_and_edges(task: Task) -> None:
    for number in range(20):
        workloads = gated(task, number)
        points = held_out_points(task, workloads)
        assert held_out_points(task, workloads) == points
        for workload in workloads:
            met = [p.distribution == edges.NAME for p in points if p.axes == workload.axes]
            assert sorted(met) == [False, True] if elements(task, workload.axes) < LARGE else len(met) == 1


def test_edges_are_met_on_wide_and_on_tall_shapes_whatever_the_key(task: Task) -> None:
    for number in range(100):
        at_edges = [dict(p.axes) for p in held_out_points(task, gated(task, number)) if p.distribution == edges.NAME]
        enough = [a for a in at_edges if a["rows"] >= len(edges.KINDS)]
        for columns in (4096, 8192, 16384):
            assert any(a["cols"] > columns for a in enough), columns
        assert any(a["rows"] > 8192 and a["cols"] > 1 for a in at_edges)


def test_every_distribution_is_met_on_large_shapes_sooner_or_later(task: Task) -> None:
    met = Counter(
        p.distribution
        for number in range(60)
        for p in held_out_points(task, draw(task, keyed(number), 0))
        if dict(p.axes)["cols"] > 8192 and elements(task, p.axes) >= LARGE
    )
    assert set(met) == {*task.distributions, edges.NAME}, met


def test_a_task_without_edges_meets_each_held_out_shape_once(task: Task) -> None:
    own = replace(task, distributions=("task",))
    workloads = gated(own, 1)
    assert [p.distribution for p in held_out_points(own, workloads)][: len(workloads)] == ["task"] * len(workloads)
