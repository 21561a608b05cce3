"""What is written around a call and read back after it, on windows of this process and no runner's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evokern.evaluation import Reason
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.exchange import PREFILLS, Exchange, verify_all, write
from evokern.evaluator.call.window import Frame, words
from evokern.evaluator.reference import edges
from evokern.evaluator.reference.oracle import InputSet
from evokern.evaluator.rule.correctness import row_errors, scale_of
from evokern.evaluator.rule.laws import refuse_inexact
from evokern.task import Argument, DType, Role, Task, load_task

CORE = Path(__file__).parents[4] / "benchmarks" / "tasks" / "core"
AXES = {"rows": 7, "cols": 33}
F32 = DType.FLOAT32


def with_arguments(*roles: Role) -> Task:
    """Softmax's task with further arguments of these roles, shaped like its input."""
    task = load_task(CORE / "softmax")
    return replace(task, arguments=(*task.arguments, *(Argument(f"more_{role}", ("rows", "cols"), "dtype", role, None) for role in roles)))


class Bench:
    """A frame, values, and a kernel that is a function."""

    def __init__(self, task: Task, *, distribution: str = "normal", seed: int = 0) -> None:
        self.task, self.frame = task, Frame(task, F32, [AXES])
        self.caller: Any = SimpleNamespace(frame=self.frame, slot=SimpleNamespace(thaw=lambda: None, freeze=lambda: None))
        rng = np.random.default_rng(seed)
        draw = (lambda: rng.integers(-4, 5, (7, 33))) if distribution == "integers" else (lambda: rng.standard_normal((7, 33)))
        inputs = {a.name: draw().astype(np.float32) for a in task.inputs}
        expected = {a.name: 2.0 * inputs["x"].astype(np.float64) for a in task.outputs}
        self.values: Any = SimpleNamespace(
            inputs=inputs,
            expected=expected,
            scale={n: scale_of(v) for n, v in expected.items()},
            reduction=1,
            reference_error={n: [row_errors(v.astype(np.float32), v, F32)] for n, v in expected.items()},
            distribution=distribution,
            is_far=lambda name: False,
            of=lambda name, rows=None: InputSet.of(self.values, name, rows),
        )

    def written(self, seed: int, **how: Any) -> Exchange:
        return write(self.task, self.caller, AXES, self.values, np.random.default_rng(seed), **{"layout": "padded", **how})

    def verified(self, exchange: Exchange) -> float:
        return verify_all(self.task, self.caller, exchange)


def double(exchange: Exchange) -> dict[str, np.ndarray[Any, Any]]:
    """An honest kernel for the bench's values."""
    views = {one.argument.name: one.view for one in exchange.placed}
    for one in exchange.placed:
        if one.argument.role in (Role.OUT, Role.INOUT):
            one.view[...] = 2 * views["x"]
    return views


ALL_ROLES = with_arguments(Role.INOUT, Role.WORKSPACE, Role.WORKSPACE_ZEROED, Role.STATIC)


@pytest.mark.parametrize("layout", ["contiguous", "offset", "padded"])
def test_an_honest_call_passes_with_arguments_of_every_role(layout: str) -> None:
    bench = Bench(ALL_ROLES)
    bench.frame.add_workspace(1000)
    for seed in range(20):
        exchange = bench.written(seed, layout=layout, permute=bool(seed % 2))
        views = double(exchange)
        views["more_workspace"][...] = seed
        assert not views["more_workspace_zeroed"].any()
        assert bench.verified(exchange) < 1


SPOILS: dict[str, tuple[Callable[[Exchange, dict[str, Any]], object], Reason]] = {
    "an input": (lambda exchange, views: views["x"].__setitem__((0, 0), 9), Reason.INPUT_CHANGED),
    "a static input": (lambda exchange, views: views["more_static"].__setitem__((6, 32), 9), Reason.INPUT_CHANGED),
    "the sign of a zero": (
        lambda exchange, views: words(views["x"]).__setitem__((0, 0), words(views["x"])[0, 0] ^ 1),
        Reason.INPUT_CHANGED,
    ),
    "a zeroed workspace": (lambda exchange, views: views["more_workspace_zeroed"].__setitem__((3, 3), 1), Reason.WORKSPACE_DIRTY),
    "what was in and out": (lambda exchange, views: views["more_inout"].__setitem__((3, 3), 1), Reason.TOLERANCE),
    "room between rows of an input": (lambda exchange, views: beside(exchange, "x", 33), Reason.CANARY),
    "room before an output": (lambda exchange, views: beside(exchange, "y", -1), Reason.CANARY),
    "room behind a workspace argument": (lambda exchange, views: beside(exchange, "more_workspace", -1), Reason.CANARY),
}


def beside(exchange: Exchange, name: str, elements: int) -> None:
    """Change a word so many elements from a tensor's first."""
    one = next(p for p in exchange.placed if p.argument.name == name)
    assert one.window is not None
    at = one.place.offset + 4 * elements
    if at < 0:  # flush with the start of its window: behind it, then
        at = one.place.offset + one.extent
    one.window.bytes[at] ^= 1


@pytest.mark.parametrize("what", SPOILS)
def test_what_a_call_may_not_touch_is_compared(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    bench = Bench(ALL_ROLES)
    spoil, reason = SPOILS[what]
    for seed in range(8):
        exchange = bench.written(seed)
        spoil(exchange, double(exchange))
        with pytest.raises(Fault) as fault:
            bench.verified(exchange)
        assert fault.value.reason is reason


def test_memory_beside_the_workspace_is_compared() -> None:
    bench = Bench(with_arguments())
    bench.frame.add_workspace(64)
    exchange = bench.written(0)
    double(exchange)
    assert bench.frame.workspace is not None
    before = bench.frame.workspace_offset - 1
    bench.frame.workspace.bytes[before if before >= 0 else bench.frame.workspace_offset + 64] ^= 1
    with pytest.raises(Fault, match="workspace"):
        bench.verified(exchange)


def test_outputs_hold_what_a_kernel_cannot_foresee_in_every_phase() -> None:
    bench, other = Bench(with_arguments()), Bench(with_arguments(), seed=1)
    met = set()
    for seed in range(60):
        left = double(bench.written(seed, permute=True))["y"].copy()
        bench.values, other.values = other.values, bench.values
        exchange = bench.written(1000 + seed, permute=True)
        y = next(one.view for one in exchange.placed if one.argument.name == "y")
        met.add(exchange.prefill)
        assert {"zeros": not y.any(), "stale": np.array_equal(y, left)}.get(exchange.prefill, True)
    assert met == set(PREFILLS)


def test_an_answer_to_the_same_question_is_never_left_in_an_output() -> None:
    bench = Bench(with_arguments())
    for seed in range(20):
        exchange = bench.written(seed, prefill="stale")
        assert exchange.prefill == "sentinel"
        double(exchange)


def test_chosen_rows_are_written_and_verified_as_such() -> None:
    bench = Bench(with_arguments())
    rows = np.array([3, 3, 0, 6, 5, 4, 1])
    exchange = bench.written(0, rows=rows)
    views = double(exchange)
    assert np.array_equal(views["x"], bench.values.inputs["x"][rows])
    assert bench.verified(exchange) < 1


def test_whole_numbers_must_come_out_exactly_where_the_task_says_so() -> None:
    task = replace(with_arguments(), laws=("rows", "integers"))
    bench = Bench(task, distribution="integers")
    exchange = bench.written(0, permute=True)
    y = double(exchange)["y"]
    refuse_inexact(task, exchange)
    y[2, 2] = np.nextafter(y[2, 2], np.float32(np.inf))
    refuse_inexact(replace(task, laws=("rows",)), exchange)
    with pytest.raises(Fault) as fault:
        refuse_inexact(task, exchange)
    assert fault.value.reason is Reason.LAW


def test_at_the_edges_only_the_bound_of_an_element_counts() -> None:
    for distribution, passes in (("normal", False), (edges.NAME, True)):
        bench = Bench(with_arguments(), distribution=distribution)
        exchange = bench.written(0)
        y = double(exchange)["y"]
        y *= np.float32(1 + 2.0**-21)
        if passes:
            assert bench.verified(exchange) < 1
        else:
            with pytest.raises(Fault):
                bench.verified(exchange)
