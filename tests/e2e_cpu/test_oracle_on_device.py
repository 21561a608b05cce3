"""The oracle's half for devices, on tensors of the host's memory: what it finds is what the other half finds with numpy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evokern.errors import UsageError
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.exchange import Exchange, verify_all, verify_tiles, write
from evokern.evaluator.call.window import Frame
from evokern.evaluator.catalogue import find_task
from evokern.evaluator.device import memory as of_memory
from evokern.evaluator.device.memory import DeviceMemory
from evokern.evaluator.reference import edges, oracle
from evokern.evaluator.reference.admission import admit
from evokern.evaluator.reference.oracle import InputSet, Oracle
from evokern.evaluator.rule import correctness
from evokern.evaluator.rule.laws import refuse_inexact
from evokern.evaluator.secrecy import Secret
from evokern.task import DType, Task, Tolerance
from evokern.testing.served import served

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

F32, BF16 = DType.FLOAT32, DType.BFLOAT16
PARTS = ("row_rms", "row_mean", "row_scale", "row_terms", "allowance")
SAME = {"rtol": 1e-11, "atol": 1e-300}


@contextmanager
def started(name: str, dtype: DType = F32, *, task: Task | None = None, on_device: bool = True, far: bool = False) -> Iterator[Oracle]:
    task = task or find_task(name)
    with served(oracle.ENTRY, oracle.argument(task, dtype, on_device=on_device, device="cpu")) as process:
        one = Oracle(process.sock, task, dtype)
        one.FAR_BYTES = 0 if far else 1 << 40
        yield one
        one.close()


def assert_same(one: InputSet, other: InputSet) -> None:
    assert all(np.array_equal(one.inputs[name], other.inputs[name], equal_nan=True) for name in one.inputs)
    for name in one.expected:
        np.testing.assert_allclose(one.expected[name], other.expected[name], **SAME)
        ours, theirs = one.of(name), other.of(name)
        for part in PARTS:
            np.testing.assert_allclose(getattr(ours.scale, part), getattr(theirs.scale, part), **SAME)
        if theirs.scale.magnitude is not None:
            assert ours.scale.magnitude is not None
            np.testing.assert_allclose(ours.scale.magnitude, theirs.scale.magnitude, **SAME)
        for first, second in zip(ours.reference_error, theirs.reference_error, strict=True):
            np.testing.assert_allclose(first.mean_square, second.mean_square, rtol=1e-9, atol=1e-300)
            # A mean of errors of both signs is the small difference of large sums.
            np.testing.assert_allclose(first.mean, second.mean, rtol=1e-9, atol=float(1e-9 * np.sqrt(second.mean_square).max(initial=0.0)))


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize(
    ("name", "dtype", "axes"),
    [
        ("softmax", BF16, {"rows": 40, "cols": 101}),
        ("softmax", F32, {"rows": 40, "cols": 7}),
        ("rmsnorm", F32, {"rows": 25, "cols": 64}),
        ("cross_entropy", BF16, {"rows": 40, "cols": 33}),
    ],
)
def test_both_halves_find_the_same(name: str, dtype: DType, axes: dict[str, int], far: bool) -> None:
    with started(name, dtype, on_device=False) as host, started(name, dtype, far=far) as device:
        assert (host.on_device, device.on_device) == (False, True)
        for distribution in (*host.task.distributions, edges.NAME):
            ours, theirs = device.draw(axes, distribution, 3), host.draw(axes, distribution, 3)
            assert ours.is_far(host.task.outputs[0].name) == far
            assert_same(ours, theirs)
            ours.release()
            theirs.release()


@pytest.mark.parametrize("name", ["cumsum", "transpose", "top_k", "reduce_sum", "rmsnorm_quant_fp8"])
def test_whole_numbers_and_tasks_of_other_kinds(name: str) -> None:
    task = find_task(name)
    smallest = dict(min((w.axes for w in task.search), key=lambda axes: np.prod([size for _, size in axes])))
    with started(name, on_device=False) as host, started(name, far=True) as device:
        for distribution in task.distributions:
            assert_same(device.draw(smallest, distribution, 1), host.draw(smallest, distribution, 1))


def test_rows_that_are_asked_for_are_those_of_the_whole() -> None:
    axes, rows = {"rows": 40, "cols": 33}, np.array([7, 0, 39, 7])
    with started("softmax", far=True) as device:
        drawn = device.draw(axes, "wide", 5)
        whole, some = drawn.of("y"), drawn.of("y", rows)
        assert np.array_equal(some.expected, whole.expected[rows])
        assert np.array_equal(some.scale.row_rms, whole.scale.row_rms[rows])
        assert some.scale.allowance is not None
        assert whole.scale.allowance is not None
        assert np.array_equal(some.scale.allowance, whole.scale.allowance[rows])
        assert np.array_equal(some.reference_error[0].mean_square, whole.reference_error[0].mean_square[rows])
        actual = whole.expected.astype(np.float32)
        actual[39, 4] *= 1.5
        order = np.roll(np.arange(40), 11)
        chosen = np.array([3, 10, 20])
        for place in (None, order):
            lying = actual if place is None else actual[place]
            source = chosen if place is None else place[chosen]
            rule: Any = (drawn.reduction, Tolerance(), F32)
            plain = correctness.judge_output(lying, whole.expected, whole.scale, *rule, whole.reference_error, rows=chosen, order=place)
            alone = drawn.of("y", source)
            assert plain == correctness.judge_output(
                lying, alone.expected, alone.scale, *rule, alone.reference_error, rows=chosen, order=place, alone=True
            )


def test_an_answer_that_was_forgotten_is_found_again() -> None:
    axes = {"rows": 40, "cols": 33}
    with started("softmax", far=True) as device:
        for distribution in ("spiked", edges.NAME):
            drawn = device.draw(axes, distribution, 5)
            before = drawn.of("y").expected
            device.forget(drawn._request)
            device.draw(axes, "normal", 6)
            assert np.array_equal(drawn.of("y").expected, before)


def test_errors_of_another_reference_are_found_where_the_answer_is() -> None:
    axes = {"rows": 40, "cols": 33}
    for dtype in (F32, BF16):
        with started("softmax", dtype, far=True) as far, started("softmax", dtype, on_device=False) as host:
            there, here = far.draw(axes, "normal", 5), host.draw(axes, "normal", 5)
            actual = np.random.default_rng(1).integers(0x3C00, 0x3F00, (40, 33)).astype(np.uint16)
            outputs = {"y": actual if dtype is BF16 else here.expected["y"].astype(np.float32)}
            there.add_reference(outputs, dtype)
            here.add_reference(outputs, dtype)
            assert_same(there, here)
            assert len(there.reference_error["y"]) == 3


def test_admission_looks_at_all_of_every_output() -> None:
    task = find_task("softmax")
    with started("softmax", far=True) as device:
        assert admit(task, F32, device, Secret(b"k" * 32)) == []
        assert device.draw({"rows": 4, "cols": 8}, "normal", 1).is_far("y")


def test_a_reference_that_fails_leaves_the_process_alive() -> None:
    with started("softmax", far=True) as device:
        with pytest.raises(UsageError, match="make_inputs"):
            device.draw({"rows": 4, "cols": 8}, "task", 1)
        assert device.draw({"rows": 4, "cols": 8}, "normal", 1).of("y").expected.shape == (4, 8)


ONCE_FULL = """
import torch
calls = []
def run(x):
    calls.append(1)
    if len(calls) == 4:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")
    return torch.softmax(x, dim=-1)
"""
"""A reference whose fourth call, the first of a second draw, meets a device that is full."""


def test_what_is_kept_makes_room_where_the_device_is_full() -> None:
    task, axes = replace(find_task("softmax"), reference=ONCE_FULL), {"rows": 40, "cols": 33}
    with started("softmax", far=True) as device, started("softmax", task=task, far=True) as full:
        for seed in (1, 2):
            assert_same(full.draw(axes, "normal", seed), device.draw(axes, "normal", seed))


def test_a_device_that_is_full_of_other_things_is_the_references_failure() -> None:
    task, axes = replace(find_task("softmax"), reference=ONCE_FULL.replace("4", "1")), {"rows": 40, "cols": 33}
    with started("softmax", task=task, far=True) as full, pytest.raises(UsageError, match="out of memory"):
        full.draw(axes, "normal", 1)


class Block:
    """Stands for an allocation on a device."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // 4096) * 4096
        self.bytes = torch.zeros(self.size, dtype=torch.uint8)
        self.descriptor = os.open(os.devnull, os.O_RDONLY)

    def close(self) -> None:
        os.close(self.descriptor)


@pytest.mark.parametrize(("name", "axes"), [("softmax", {"rows": 700, "cols": 33}), ("cumsum", {"rows": 60, "cols": 64})])
def test_a_far_call_is_judged_by_rows_that_are_asked_for(name: str, axes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_memory, "FAR_BYTES", 0)
    bench: Any = SimpleNamespace(window=Block, tensor=lambda window: window.bytes)
    task = find_task(name)
    frame = Frame(task, F32, [axes], memory=DeviceMemory(bench))
    caller: Any = SimpleNamespace(frame=frame)
    with started(name, far=True) as device:
        for distribution in task.distributions:
            values = device.draw(axes, distribution, 2)
            rng = np.random.default_rng(4)
            exchange = write(task, caller, axes, values, rng, layout="padded", permute=True, prefill="sentinel")
            answered(exchange, values, wrong=0)
            assert verify_all(task, caller, exchange) <= 1.0
            verify_tiles(task, caller, exchange, rng)
            refuse_inexact(task, exchange)
            answered(exchange, values, wrong=60)
            with pytest.raises(Fault):
                verify_all(task, caller, exchange)
    frame.close()


def answered(exchange: Exchange, values: InputSet, wrong: int) -> None:
    """Write the outputs of a kernel that is right but on the first rows of each."""
    for one in exchange.placed:
        if one.argument.name in values.expected:
            assert exchange.rows is not None
            right = values.expected[one.argument.name][exchange.rows].astype(np.float32)
            right[:wrong] += 1.0
            window: Any = one.window
            words = window.tensor[one.place.offset : one.place.offset + one.extent].view(torch.float32)
            words.as_strided(one.place.shape, one.place.strides).copy_(torch.from_numpy(right))
