"""Trials: which calls a kernel is asked for, and one such call checked whole.

Check, gate, repeats, twins and endurance are all made of the same call: written, run, and verified by the same code with the
same chances, so that a kernel cannot tell from what it finds which of them it is in.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle

import numpy as np

from evokern.evaluator.call.caller import Call, Caller, Fault
from evokern.evaluator.call.exchange import Exchange, Rows, verify_all, write
from evokern.evaluator.call.window import PADDINGS, has_room
from evokern.evaluator.reference import edges
from evokern.evaluator.reference.held_out import HeldOutWorkload
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.rule.laws import refuse_inexact
from evokern.task import DType, Task

SETS = 5
"""Sets per visible workload; all distributions occur."""

EDGE_SETS = 2
"""Further sets at the edges of values."""

SCALAR_SETS = 2
"""Further sets of the smallest workload where scalars of fixed value have others (`Shelf.checked`)."""

LARGE = 1 << 20
"""Elements from which a workload has two sets of ordinary values, contiguous as in timed calls, and one at the edges: its timed calls are
checked too."""

DEADLINE_SECONDS = 3.0
SECONDS_PER_GIGABYTE = 60.0
"""Deadline of a checked call: three seconds, and a minute per gigabyte moved, some hundred times what a fair kernel takes."""


@dataclass(frozen=True, slots=True)
class Point:
    """One call to check.

    Attributes:
        axes: Of the workload.
        layout: How its tensors lie.
        distribution: How its values are drawn.
        index: Which set of that kind.
        padding: How its rows are padded, of `window.PADDINGS`.
    """

    axes: tuple[tuple[str, int], ...]
    layout: str
    distribution: str
    index: int
    padding: str = ""

    @property
    def lying(self) -> str:
        """How its tensors lie, such as "widely padded"."""
        return f"{self.padding} {self.layout}".strip()

    @property
    def words(self) -> str:
        """Which call it is, for the author of a kernel that failed it."""
        return f"{','.join(f'{name}={size}' for name, size in self.axes)}, {self.lying}, values '{self.distribution}'"


def deadline(task: Task, axes: dict[str, int], dtype: DType) -> float:
    """Seconds a checked call on a workload may take."""
    return DEADLINE_SECONDS + SECONDS_PER_GIGABYTE * sum(task.bytes_moved(axes, dtype)) / 1e9


def elements(task: Task, axes: Sequence[tuple[str, int]]) -> int:
    """Elements of the largest tensor of a workload."""
    return max(math.prod(a.shape_for(dict(axes))) for a in task.arguments if not a.is_scalar)


def layouts(task: Task) -> tuple[str, ...]:
    """How tensors may lie, contiguous first; a task that says so has no other."""
    return ("contiguous", *(layout for layout in task.held_out.layouts if layout != "contiguous"))


def has_edges(task: Task) -> bool:
    """Whether values at the edges make sense: floats that the task does not draw by itself alone, and outputs that can be near."""
    return set(task.distributions) != {"task"} and all(not a.is_scalar and a.dtype in ("dtype", *_FLOATS) for a in task.outputs)


_FLOATS = tuple(dtype for dtype in DType if dtype.is_float)


def visible_points(task: Task) -> list[Point]:
    """Every visible workload with its sets; distributions and layouts go round, so that each occurs."""
    points: list[Point] = []
    ways, kinds = layouts(task), task.distributions
    turn = 0
    for number, workload in enumerate(task.search):
        large = elements(task, workload.axes) >= LARGE
        chosen = [(kinds[(turn + i) % len(kinds)], i) for i in range(2 if large else SETS)]
        turn += len(chosen)
        edge_sets = (1 if large else EDGE_SETS) if has_edges(task) else 0
        for i, (kind, index) in enumerate([*chosen, *((edges.NAME, i) for i in range(edge_sets))]):
            way = ways[(number + 1) % len(ways) if kind == edges.NAME else 0] if large else ways[i % len(ways)]
            points.append(Point(workload.axes, way, kind, index))
    smallest = min(task.search, key=lambda w: elements(task, w.axes))
    points += [Point(smallest.axes, "contiguous", edges.SCALARS, i) for i in range(SCALAR_SETS if _has_fixed_floats(task) else 0)]
    return _padded_in_turn(task, points)


def _has_fixed_floats(task: Task) -> bool:
    return any(a.is_scalar and a.value is not None and a.dtype in ("dtype", *_FLOATS) for a in task.inputs)


def held_out_points(task: Task, workloads: Sequence[HeldOutWorkload]) -> list[Point]:
    """Every held-out workload, and one visible one for every two of them, so that order tells nothing.

    Small ones meet ordinary values and edges, large ones either. Values go round from a secret kind on, so that at no size is any
    of them always left out.
    """
    turn, at_edges = _turn(workloads), (edges.NAME,) if has_edges(task) else ()
    small = [w for w in workloads if elements(task, w.axes) < LARGE]
    large = [w for w in workloads if elements(task, w.axes) >= LARGE]
    chosen = _going_round(small, task.distributions, turn)
    chosen += _going_round(large, (*task.distributions, *at_edges), turn)
    chosen += [Point(w.axes, w.layout, kind, 0) for w in small for kind in at_edges]
    first = {p.axes: p for p in reversed(visible_points(task))}
    return _padded_in_turn(task, chosen) + list(first.values())[::-1][: len(workloads) // 2]


def _going_round(workloads: Sequence[HeldOutWorkload], kinds: Sequence[str], turn: int) -> list[Point]:
    return [Point(w.axes, w.layout, kinds[(turn + i) % len(kinds)], 0) for i, w in enumerate(workloads)]


def _turn(workloads: Sequence[HeldOutWorkload]) -> int:
    """A number that is as secret as the shapes and follows from them, so that a resumed run has the same."""
    return int.from_bytes(hashlib.sha256("\n".join(w.name for w in workloads).encode()).digest()[:8], "little")


def _padded_in_turn(task: Task, points: Sequence[Point]) -> list[Point]:
    """The same points, where padded ones go through all ways of padding that they have room for: none is left to chance."""
    turns = {True: cycle(PADDINGS), False: cycle([way for way in PADDINGS if way != "widely"])}
    return [replace(p, padding=next(turns[has_room(task, dict(p.axes))])) if p.layout == "padded" else p for p in points]


@dataclass(frozen=True, slots=True)
class Trial:
    """One runner that is being checked.

    Attributes:
        task: What it should do.
        dtype: Element type.
        caller: The runner.
        shelf: Sets of inputs with their expected outputs.
        calls: What was called so far, and what it took.
    """

    task: Task
    dtype: DType
    caller: Caller
    shelf: Shelf
    calls: list[tuple[Point, Call]] = field(default_factory=list)

    def call(
        self,
        point: Point,
        rng: np.random.Generator,
        *,
        rows: Rows | None = None,
        places: np.random.Generator | None = None,
        prefill: str = "",
        seconds: float = math.inf,
    ) -> tuple[Exchange, float]:
        """One call, checked whole.

        Args:
            point: Which.
            rng: Secret chance.
            rows: See `exchange.write`.
            places: See `exchange.write`.
            prefill: See `exchange.write`.
            seconds: Most time that it may take, where that is less than its deadline.

        Returns:
            What was exchanged, still in the windows, and the worst error as a share of what is allowed.

        Raises:
            Fault: The kernel is wrong, crashed, timed out or cheated.
        """
        axes = dict(point.axes)
        values = self.shelf.checked(axes, point.distribution, point.index)
        self.caller.move(rng)
        exchange = write(
            self.task, self.caller, axes, values, rng, layout=point.layout, padding=point.padding, rows=rows, places=places, prefill=prefill
        )
        try:
            call = self.caller.call(exchange.placed, min(deadline(self.task, axes, self.dtype), seconds))
            self.calls.append((point, call))
            worst = verify_all(self.task, self.caller, exchange)
            refuse_inexact(self.task, exchange)
        except Fault as fault:
            # Where it happened is what an author looks for first; of the gate's trials nothing is told at all.
            # A layout other than the plain one comes first: strides are the likeliest cause then.
            layout = "" if point.layout == "contiguous" else f"with {point.lying} tensors: "
            raise Fault(fault.verdict, fault.reason, f"{layout}{fault.detail} (on {point.words})", fault.log) from None
        return exchange, worst
