"""Check and gate: whether a kernel is right, on shapes it may know and on shapes it may not (EVALUATOR section 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evokern.errors import Unavailable
from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Caller, Fault
from evokern.evaluator.call.contestant import KernelContestant
from evokern.evaluator.call.exchange import Exchange, outputs, verify_all, write
from evokern.evaluator.reference.held_out import HeldOutWorkload
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.rule import correctness
from evokern.evaluator.secrecy import Secret
from evokern.task import DType, Task

SETS = 5
"""Sets per visible workload; all distributions occur."""

LARGE = 1 << 20
"""Elements from which a workload is checked on `SETS_LARGE` sets only: its timed calls are checked too."""

SETS_LARGE = 2

ENDURANCE = 96
"""Further calls on the smallest workload: a kernel that counts its calls, or remembers pointers, has something to trip over."""

SAME_PLACE = 4
"""Of these, so many in a row at the same addresses, with other values."""

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
    """

    axes: tuple[tuple[str, int], ...]
    layout: str
    distribution: str
    index: int


def deadline(task: Task, axes: dict[str, int], dtype: DType) -> float:
    """Seconds a checked call on a workload may take."""
    return DEADLINE_SECONDS + SECONDS_PER_GIGABYTE * sum(task.bytes_moved(axes, dtype)) / 1e9


def visible_points(task: Task) -> list[Point]:
    """Every visible workload with its sets; distributions go round, so that each occurs."""
    points, turn = [], 0
    for workload in task.search:
        elements = max(math.prod(a.shape_for(dict(workload.axes))) for a in task.arguments if not a.is_scalar)
        for index in range(SETS_LARGE if elements >= LARGE else SETS):
            layout = ("contiguous", "offset")[index % 2]
            points.append(Point(workload.axes, layout, task.distributions[turn % len(task.distributions)], index))
            turn += 1
    return points


def held_out_points(task: Task, workloads: Sequence[HeldOutWorkload]) -> list[Point]:
    """Every held-out workload, and one visible one for every two of them, so that order tells nothing."""
    chosen = [Point(w.axes, w.layout, task.distributions[i % len(task.distributions)], 0) for i, w in enumerate(workloads)]
    small = [p for p in visible_points(task) if p.index == 0]
    return chosen + small[: len(workloads) // 2]


def check(task: Task, dtype: DType, contestant: KernelContestant, shelf: Shelf, secret: Secret) -> float:
    """All visible workloads in secret order, one of them twice.

    Returns:
        The worst error as a share of what the rule allows.

    Raises:
        Fault: The kernel is wrong, crashed, timed out or cheated.
    """
    points = visible_points(task)
    rng = secret.stream("check")
    with contestant.started([dict(w.axes) for w in task.search]) as caller:
        worst = max(_calls(task, dtype, caller, points, shelf, rng))
        repeated = min(points, key=lambda p: math.prod(v for _, v in p.axes))
        worst = max(worst, _endurance(task, dtype, caller, [p for p in points if p.axes == repeated.axes], shelf, secret))
        _refuse_unrepeatable(task, dtype, caller, repeated, shelf, rng)
        return worst


def gate(
    task: Task, dtype: DType, contestant: KernelContestant, workloads: Sequence[HeldOutWorkload], shelf: Shelf, secret: Secret
) -> None:
    """The held-out workloads, shuffled among visible ones.

    Raises:
        Fault: `held_out_failed`, and nothing else: text, class and place of the error are destroyed here.
    """
    points = held_out_points(task, workloads)
    rng = secret.stream("gate")
    failed = broken = False
    try:
        with contestant.started([dict(p.axes) for p in points]) as caller:
            for _ in _calls(task, dtype, caller, points, shelf, rng):
                pass
    except Fault as fault:
        failed = fault.verdict is not Verdict.INFRASTRUCTURE
        broken = not failed
    except Unavailable:
        raise
    except Exception:  # its text may name a held-out shape
        broken = True
    if broken:
        raise Fault(Verdict.INFRASTRUCTURE, Reason.HOST_ERROR, "the machine failed during the gate") from None
    if failed:
        raise Fault(Verdict.HELD_OUT_FAILED, Reason.HELD_OUT, "wrong on a shape or layout it had not seen") from None


def _calls(task: Task, dtype: DType, caller: Caller, points: Sequence[Point], shelf: Shelf, rng: np.random.Generator) -> Iterator[float]:
    for i in rng.permutation(len(points)):
        yield _call(task, dtype, caller, points[i], shelf, rng)[1]


def _call(
    task: Task,
    dtype: DType,
    caller: Caller,
    point: Point,
    shelf: Shelf,
    rng: np.random.Generator,
    places: np.random.Generator | None = None,
) -> tuple[Exchange, float]:
    """One call, checked whole: what was exchanged, and the worst error as a share of what is allowed."""
    axes = dict(point.axes)
    values = shelf.checked(axes, point.distribution, point.index)
    exchange = write(task, caller, axes, values, rng, layout=point.layout, permute=False, places=places)
    caller.call(exchange.placed, deadline(task, axes, dtype))
    return exchange, verify_all(task, caller, exchange)


def _endurance(task: Task, dtype: DType, caller: Caller, points: Sequence[Point], shelf: Shelf, secret: Secret) -> float:
    """Many short calls, several in a row at the same addresses."""
    rng, worst = secret.stream("endurance"), 0.0
    for number in range(ENDURANCE):
        point = replace(points[number % len(points)], layout="contiguous")
        worst = max(worst, _call(task, dtype, caller, point, shelf, rng, secret.stream("place", number // SAME_PLACE))[1])
    return worst


def _refuse_unrepeatable(task: Task, dtype: DType, caller: Caller, point: Point, shelf: Shelf, rng: np.random.Generator) -> None:
    """Two more calls on the same values, at other addresses and with other sentinels."""
    chosen = replace(point, layout="contiguous")
    found = []
    for _ in range(2):
        exchange, _error = _call(task, dtype, caller, chosen, shelf, rng)
        # Copied at once: the next call writes into the same windows.
        found.append(outputs(exchange))
    values = exchange.values
    for argument in task.outputs:
        finding = correctness.judge_repeat(
            found[0][argument.name],
            found[1][argument.name],
            values.expected[argument.name],
            values.scale[argument.name],
            values.reduction,
            task.tolerance,
            argument.dtype_for(dtype),
            deterministic=task.deterministic,
        )
        if not finding.ok:
            raise Fault(Verdict.FLAKY, finding.reason, f"'{argument.name}': {finding.detail}")
