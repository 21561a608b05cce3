"""Admission: sound tasks pass; each way of being degenerate is found and named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evokern.evaluator.catalogue import new_task
from evokern.evaluator.reference import oracle
from evokern.evaluator.reference.admission import admit
from evokern.evaluator.reference.oracle import Oracle
from evokern.evaluator.secrecy import Secret
from evokern.task import DType, Task, Workload, load_task
from evokern.testing.served import served

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

CORE = Path(__file__).parents[2] / "benchmarks" / "tasks" / "core"


def reasons(task: Task, dtype: DType = DType.FLOAT32) -> list[str]:
    with served(oracle.ENTRY, oracle.argument(task, dtype)) as process:
        return admit(task, dtype, Oracle(process.sock, task, dtype), Secret(b"k" * 32))


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "cross_entropy", "bias_gelu"])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_core_tasks_are_sound(name: str, dtype: DType) -> None:
    assert reasons(load_task(CORE / name), dtype) == []


def test_a_new_task_is_sound(tmp_path: Path) -> None:
    assert reasons(load_task(new_task("mine", tmp_path))) == []


def spoilt(name: str, source: str, **changes: object) -> list[str]:
    small = (Workload((("cols", 257), ("rows", 40))),)
    return reasons(replace(load_task(CORE / name), reference="import torch\n" + source, search=small, **changes))


def said(found: list[str], *parts: str) -> bool:
    return any(all(part in reason for part in parts) for reason in found)


def test_outputs_that_need_no_computation() -> None:
    assert said(spoilt("softmax", "def run(x): return x * 0"), "zeros would pass", "cols=257", "normal")
    assert said(spoilt("softmax", "def run(x): return x * 0 + 1"), "ones would pass")
    assert said(spoilt("softmax", "def run(x): return x * 0 + 3"), "the mean of the output would pass")
    assert said(spoilt("softmax", "def run(x): return x.mean(-1, keepdim=True) + 0 * x"), "the mean of each row would pass")
    assert said(spoilt("softmax", "def run(x): return x.clone()"), "copy of input 'x' would pass")
    assert said(spoilt("softmax", "def run(x): return torch.arange(x.shape[1], dtype=x.dtype) + 0 * x"), "the previous call would pass")


def test_a_softmax_of_one_column_is_degenerate() -> None:
    task = replace(load_task(CORE / "softmax"), search=(Workload((("cols", 1), ("rows", 40))),))
    found = reasons(task)
    assert said(found, "ones would pass", "cols=1,rows=40")
    assert said(found, "no output depends on input 'x'")


def test_an_input_without_effect() -> None:
    found = spoilt("bias_gelu", "def run(x, bias): return x * x")
    assert found == ["no output depends on input 'bias'"]
    found = spoilt("rmsnorm", "def run(x, weight, eps): return x * x * weight")
    assert found == ["no output depends on input 'eps'"]


def test_a_parameter_at_its_identity() -> None:
    source = "def run(x, bias): return torch.tanh(x + bias)\ndef make_inputs(axes, dtype, generator): return {}"
    assert spoilt("bias_gelu", source, distributions=("normal",)) == []
    made = "{'x': torch.randn(axes['rows'], axes['cols'], generator=generator).to(dtype), 'bias': torch.zeros(axes['cols'], dtype=dtype)}"
    source = f"def run(x, bias): return torch.tanh(x + bias)\ndef make_inputs(axes, dtype, generator): return {made}"
    assert said(spoilt("bias_gelu", source, distributions=("task",)), "parameter 'bias' does nothing", "zeros")


def test_a_reference_that_is_not_repeatable() -> None:
    assert said(spoilt("softmax", "def run(x): return x + torch.rand(x.shape, dtype=x.dtype)"), "two runs of the reference disagree")


def test_a_reference_that_cancels_needs_a_magnitude() -> None:
    body = "def run(x): return (x + 1e4) - 1e4"
    assert said(spoilt("softmax", body), "the reference itself fails", "magnitude")
    assert not said(spoilt("softmax", body + "\ndef magnitude(x): return x.abs() + 1e4"), "the reference itself fails")


def test_a_reference_that_overflows() -> None:
    assert said(spoilt("softmax", "def run(x): return 1 / torch.zeros_like(x)"), "infinities or NaNs")
