"""Small tasks: a core task with shapes that are judged in about a second, for trials of the evaluator and for tests; and any on a GPU."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from evokern.task import HeldOutSpace, Task, load_task

CHECKED_SHARE = 32
"""A workload that is only checked has at most this fraction of the largest one's elements."""

HELD_OUT_SHARE = 1.5
"""Held-out workloads may have so many times the elements of the largest visible one: some must be larger than any visible."""

_WORKLOADS = re.compile(r"(?:^#.*\n)*^\[\[search(?:_gpu)?\]\]\n(?:^[^\[\n].*\n|^\n)*", re.MULTILINE)
_HELD_OUT = re.compile(r"^\[held_out(?:_gpu)?\]\n(?:^[^\[\n].*\n|^\n)*", re.MULTILINE)
_WORKLOADS_ON_DEVICE = re.compile(_WORKLOADS.pattern.replace("(?:_gpu)?", "_gpu"), re.MULTILINE)
_HELD_OUT_ON_DEVICE = re.compile(_HELD_OUT.pattern.replace("(?:_gpu)?", "_gpu"), re.MULTILINE)
_NAME = re.compile(r'^name = "(.*)"$', re.MULTILINE)


def shrunk(task: Task, folder: Path, *, max_elements: int = 1 << 21, held_out: int = 3) -> Path:
    """A copy of a task with smaller shapes: one workload that is just long enough for a CPU's clock, others that are only checked.

    Ranges of held-out axes stay; their product shrinks. Rows of a visible workload keep their length where they can, so that
    odd lengths stay odd.

    Args:
        task: With at least one search workload.
        folder: Becomes the suite; the task's folder in it is named after the task, with `_small` behind.
        max_elements: Largest product of the axes of a visible workload.
        held_out: How many held-out shapes; nine have one of every kind.

    Returns:
        The new task's folder.
    """
    target = folder / f"{task.name}_small"
    shutil.copytree(task.folder, target)
    text = (task.folder / "task.toml").read_text()
    text = _NAME.sub(f'name = "{task.name}_small"', text, count=1)
    text = _HELD_OUT.sub("", _WORKLOADS.sub("", text))
    (target / "task.toml").write_text(text.rstrip() + "\n\n" + _workloads(task, max_elements) + _held_out(task, max_elements, held_out))
    load_task(target)
    return target


def on_device(task: Task, folder: Path, shapes: Sequence[Sequence[int]], *, max_elements: int = 1 << 20, held_out: int = 4) -> Path:
    """A copy of a task whose visible workloads on a GPU are of these shapes; on a CPU it is as before.

    Args:
        task: With held-out shapes, of a GPU or else of a CPU.
        folder: Becomes the suite; the task's folder in it is named after the task, with `_device` behind.
        shapes: Sizes of the task's axes, in their order.
        max_elements: Largest product of the axes of a held-out workload.
        held_out: How many held-out shapes.

    Returns:
        The new task's folder.
    """
    target = folder / f"{task.name}_device"
    shutil.copytree(task.folder, target)
    text = (task.folder / "task.toml").read_text()
    text = _NAME.sub(f'name = "{task.name}_device"', text, count=1)
    text = _HELD_OUT_ON_DEVICE.sub("", _WORKLOADS_ON_DEVICE.sub("", text))
    tables = [", ".join(f"{axis} = {size}" for axis, size in zip(task.axes, shape, strict=True)) for shape in shapes]
    workloads = "".join(f"[[search_gpu]]\naxes = {{ {table} }}\n\n" for table in tables)
    space = _held_out_table("held_out_gpu", task.held_out_gpu or task.held_out, max_elements, held_out)
    (target / "task.toml").write_text(f"{text.rstrip()}\n\n{workloads}{space}")
    load_task(target)
    return target


def _workloads(task: Task, max_elements: int) -> str:
    """The visible workloads as TOML: the first as large as allowed, the others too short to time."""
    lines, limit = [], max_elements
    for workload in task.search:
        axes = _fitted({axis: dict(workload.axes)[axis] for axis in task.axes}, limit)
        table = ", ".join(f"{axis} = {value}" for axis, value in axes.items())
        lines.append(f'[[search]]\naxes = {{ {table} }}\nresidency = "{workload.residency}"\n\n')
        limit = max_elements // CHECKED_SHARE
    return "".join(lines)


def _held_out(task: Task, max_elements: int, count: int) -> str:
    return _held_out_table("held_out", task.held_out, round(HELD_OUT_SHARE * max_elements), count)


def _held_out_table(name: str, space: HeldOutSpace, max_elements: int, count: int) -> str:
    ranges = ", ".join(f"{axis} = [{low}, {high}]" for axis, low, high in space.axes)
    layouts = ", ".join(f'"{layout}"' for layout in space.layouts)
    return f"[{name}]\naxes = {{ {ranges} }}\ncount = {count}\nmax_elements = {max_elements}\nlayouts = [{layouts}]\n"


def _fitted(axes: dict[str, int], limit: int) -> dict[str, int]:
    """The axes, smaller where their product passes the limit.

    Powers of two are halved in turn, the inner first; else the outer axes take it all.
    """
    inner = list(axes)[-1]
    inwards = list(axes)[::-1]
    if all(value & (value - 1) == 0 for value in axes.values()):
        turn = 0
        while math.prod(axes.values()) > limit:
            axis = inwards[turn % len(inwards)]
            axes, turn = axes | {axis: max(axes[axis] // 2, 1)}, turn + 1
        return axes
    for axis in axes:
        rest = math.prod(value for name, value in axes.items() if name != axis)
        if axis != inner and rest * axes[axis] > limit:
            axes = axes | {axis: max(limit // rest, 1) | 1}
    return axes | {inner: min(axes[inner], limit)}
