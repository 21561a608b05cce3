"""The calls of `run` that a build stands for: those of visible workloads, and others with the hints that hidden ones will have.

Triton compiles a kernel anew where an argument's type, its divisibility by 16, its being 1, or a constant changes. Visible workloads are
compiled for whatever they ask. Around each stand calls with other sizes, layouts and offsets, as they may be drawn from the ranges
that a task tells everybody; of these only what needs no constant that no visible workload has is compiled ahead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from evokern.task import Argument, DType, Task, constraints_hold

PAGE = 4096
ODD_STRIDE, EVEN_STRIDE = 5, 16
"""Elements by which rows are padded: to a distance that is no multiple of 16, and to one that is."""

_LARGEST_ELEMENT = 8

MOST_AROUND = 60
"""Sizes around the visible ones, for tasks of many axes: an even choice of all."""

_MOST_PRODUCTS = 1 << 16

_ODD, _EVEN = 33, 48
"""Sizes that stand for all others of an axis beside the visible ones and 1."""


@dataclass(frozen=True, slots=True)
class Value:
    """One argument of one call.

    Attributes:
        name: As in the task.
        dtype: Its element type.
        shape: Elements per dimension; empty for a number.
        strides: Elements between neighbours.
        address: Of the first element, in nobody's memory; only its divisibility matters.
        number: A scalar's value.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    number: float | int | bool | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of `run`.

    Attributes:
        name: For messages: axes and layout.
        visible: Whether a visible workload is called so.
        values: Arguments, in the task's order.
    """

    name: str
    visible: bool
    values: tuple[Value, ...]


def calls_for(task: Task, dtype: DType) -> tuple[Call, ...]:
    """The calls of a task, the visible ones first.

    Args:
        task: Gives workloads, ranges and arguments.
        dtype: Element type of the run.
    """
    visible = [dict(workload.axes) for workload in task.search]
    found = [_call(task, dtype, axes, "contiguous", visible=True) for axes in visible]
    for layout in ("padded evenly", "padded", "offset"):
        found += [_call(task, dtype, axes, layout, visible=False) for axes in visible]
    for axes in _around(task):
        found += [_call(task, dtype, axes, layout, visible=False) for layout in ("contiguous", "padded evenly", "padded", "offset")]
    return tuple(found)


def largest(calls: Sequence[Call]) -> int:
    """Number of the visible call that moves the most elements."""
    sizes = [sum(math.prod(value.shape) for value in call.values) for call in calls if call.visible]
    return sizes.index(max(sizes)) if sizes else 0


def encoded(calls: Sequence[Call]) -> list[dict[str, object]]:
    """As JSON."""
    return [asdict(call) for call in calls]


def _around(task: Task) -> Iterator[dict[str, int]]:
    """Sizes with every mix of hints: each axis odd, divisible by 16, 1, and as large as it may be."""
    sizes = [_sizes(low, high) for _, low, high in task.held_out.axes]
    names = [axis for axis, _, _ in task.held_out.axes]
    every = list(itertools.islice(itertools.product(*sizes), _MOST_PRODUCTS))
    for chosen in every[:: -(-len(every) // MOST_AROUND)]:
        axes = dict(zip(names, chosen, strict=True))
        if constraints_hold(task.constraints, axes):
            yield axes


def _sizes(low: int, high: int) -> list[int]:
    found = [size for size in (_ODD, _EVEN, 1, high) if low <= size <= high]
    return found or [low | 1 if low | 1 <= high else low, -(-low // 16) * 16 if -(-low // 16) * 16 <= high else low]


def _call(task: Task, dtype: DType, axes: Mapping[str, int], layout: str, *, visible: bool) -> Call:
    name = f"{','.join(f'{axis}={value}' for axis, value in sorted(axes.items()))} {layout}"
    values, at = [], 1 << 32
    for argument in task.arguments:
        value = _value(argument, dtype, axes, layout, at)
        values.append(value)
        # Far beyond its last element, so that no two lie within each other.
        last = sum((extent - 1) * step for extent, step in zip(value.shape, value.strides, strict=True)) if value.shape else 0
        at += -(-(last + 2) * _LARGEST_ELEMENT // PAGE) * PAGE + PAGE
    return Call(name, visible, tuple(values))


def _value(argument: Argument, dtype: DType, axes: Mapping[str, int], layout: str, address: int) -> Value:
    kind = argument.dtype_for(dtype)
    if argument.is_scalar:
        return Value(argument.name, kind.value, (), (), 0, _number(argument, kind))
    shape = argument.shape_for(axes)
    offset = kind.itemsize if layout != "contiguous" else 0
    return Value(argument.name, kind.value, shape, _strides(shape, layout), address + offset)


def _number(argument: Argument, kind: DType) -> float | int | bool:
    value = 0.5 if argument.value is None else argument.value
    return value if kind.is_float else bool(value) if kind is DType.BOOL else int(value) if argument.value is not None else _ODD


def _strides(shape: Sequence[int], layout: str) -> tuple[int, ...]:
    strides, step = [], 1
    for index, extent in enumerate(reversed(shape)):
        strides.append(step)
        step *= max(extent, 1)
        if index == 0 and len(shape) > 1 and layout.startswith("padded"):
            step = -(-(step + 1) // EVEN_STRIDE) * EVEN_STRIDE
            step += ODD_STRIDE if layout == "padded" else 0
    return tuple(reversed(strides))
