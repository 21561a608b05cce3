"""Small tasks: a core task with shapes that are judged in about a second, for trials of the evaluator and for tests."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

from evokern.task import Task, load_task

CHECKED_SHARE = 32
"""A workload that is only checked has at most this fraction of the largest one's elements."""

HELD_OUT_SHARE = 1.5
"""Held-out workloads may have so many times the elements of the largest visible one: some must be larger than any visible."""

_WORKLOADS = re.compile(r"(?:^#.*\n)*^\[\[search\]\]\n(?:^[^\[\n].*\n|^\n)*", re.MULTILINE)
_HELD_OUT = re.compile(r"^\[held_out\]\n(?:^[^\[\n].*\n|^\n)*", re.MULTILINE)
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
    space = task.held_out
    ranges = ", ".join(f"{axis} = [{low}, {high}]" for axis, low, high in space.axes)
    layouts = ", ".join(f'"{layout}"' for layout in space.layouts)
    most = round(HELD_OUT_SHARE * max_elements)
    return f"[held_out]\naxes = {{ {ranges} }}\ncount = {count}\nmax_elements = {most}\nlayouts = [{layouts}]\n"


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
