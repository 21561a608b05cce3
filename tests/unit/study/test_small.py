from __future__ import annotations

import math
from pathlib import Path

import pytest

from evokern.evaluator.catalogue import find_task
from evokern.study.small import CHECKED_SHARE, HELD_OUT_SHARE, on_device, shrunk
from evokern.task import load_task


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "bias_gelu", "cross_entropy"])
def test_one_workload_is_timed_and_the_others_are_checked(tmp_path: Path, name: str) -> None:
    task = find_task(name, home=tmp_path)

    small = load_task(shrunk(task, tmp_path, max_elements=1 << 18, held_out=5))

    sizes = [math.prod(value for _, value in workload.axes) for workload in small.search]
    assert sizes[0] == 1 << 18
    assert all(size <= sizes[0] / CHECKED_SHARE + 2000 for size in sizes[1:])
    assert [dict(w.axes)["cols"] % 2 for w in small.search[1:]] == [dict(w.axes)["cols"] % 2 for w in task.search[1:]]
    assert (small.held_out.count, small.held_out.max_elements) == (5, HELD_OUT_SHARE * (1 << 18))


def test_whatever_is_not_a_shape_stays(tmp_path: Path) -> None:
    task = find_task("rmsnorm", home=tmp_path)

    small = load_task(shrunk(task, tmp_path))

    assert small.name == "rmsnorm_small"
    assert (small.arguments, small.tolerance, small.cost, small.laws) == (task.arguments, task.tolerance, task.cost, task.laws)
    assert (small.distributions, small.reference, small.held_out.axes) == (task.distributions, task.reference, task.held_out.axes)
    assert small.digest != task.digest


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "transpose"])
def test_a_device_has_the_shapes_that_it_is_given_and_a_processor_its_own(tmp_path: Path, name: str) -> None:
    task = find_task(name, home=tmp_path)

    made = load_task(on_device(task, tmp_path, [(512, 256), (9, 33)], max_elements=1 << 16, held_out=5))

    on_it = made.on("gpu")
    assert made.name == f"{name}_device"
    assert [[dict(workload.axes)[axis] for axis in task.axes] for workload in on_it.search] == [[512, 256], [9, 33]]
    assert (on_it.held_out.count, on_it.held_out.max_elements) == (5, 1 << 16)
    assert on_it.held_out.axes == task.on("gpu").held_out.axes
    assert (made.search, made.held_out) == (task.search, task.held_out)
