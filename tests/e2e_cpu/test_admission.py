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


@pytest.mark.parametrize("name", ["add_rmsnorm", "layernorm", "swiglu", "rope", "cross_entropy_fwd_grad", "rmsnorm_quant_fp8"])
def test_more_core_tasks_are_sound(name: str) -> None:
    assert reasons(load_task(CORE / name), DType.BFLOAT16) == []


def test_a_new_task_is_sound(tmp_path: Path) -> None:
    assert reasons(load_task(new_task("mine", tmp_path))) == []


def spoilt(name: str, source: str, dtype: DType = DType.FLOAT32, **changes: object) -> list[str]:
    small = (Workload((("cols", 257), ("rows", 40))),)
    return reasons(replace(load_task(CORE / name), reference="import torch\n" + source, search=small, **changes), dtype)


def said(found: list[str], *parts: str) -> bool:
    return any(all(part in reason for part in parts) for reason in found)


def test_outputs_that_need_no_computation() -> None:
    for body, fake in (
        ("x * 0", "zeros would pass"),
        ("x * 0 + 1", "ones would pass"),
        ("x * 0 + 3", "the mean of the output would pass"),
        ("x.mean(-1, keepdim=True) + 0 * x", "the mean of each row would pass"),
        ("x.clone()", "copy of input 'x' would pass"),
        ("torch.arange(x.shape[1], dtype=x.dtype) + 0 * x", "the previous call would pass"),
    ):
        found = spoilt("softmax", f"def run(x): return {body}", distributions=("normal",))
        assert said(found, fake, "cols=257", "normal"), body


def test_a_line_that_fits_another_call() -> None:
    """The logarithm of a softmax over values in [0, 1) is those values less a constant, but for less than bfloat16 shows."""
    unit = "{'x': torch.rand(axes['rows'], axes['cols'], generator=generator).to(dtype)}"
    body = "def run(x): return torch.log_softmax(x, dim=-1)"
    drawn = f"{body}\ndef make_inputs(axes, dtype, generator): return {unit}"
    found = spoilt("softmax", drawn, DType.BFLOAT16, distributions=("task",))
    assert said(found, "a straight line through input 'x' would pass", "cols=257")
    assert not said(spoilt("softmax", body, DType.BFLOAT16), "a straight line"), "values that are spread tell"
    assert not said(spoilt("softmax", "def run(x): return 3 * x - 1"), "a straight line"), "that is the task itself"
    clipped = f"def run(x): return torch.nn.functional.hardsigmoid(x)\ndef make_inputs(axes, dtype, generator): return {unit}"
    assert said(spoilt("softmax", clipped, distributions=("task",)), "a straight line"), "of other values it is none"


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


def test_an_operator_that_the_values_never_need() -> None:
    positive = (
        "def make_inputs(axes, dtype, generator): return {'x': torch.rand(axes['rows'], axes['cols'], generator=generator).to(dtype)}"
    )
    source = f"def run(x): return torch.softmax(torch.relu(x), dim=-1)\n{positive}"
    found = spoilt("softmax", source, distributions=("task",))
    assert found == ["dropping `relu` (operator 1 of 2) changes nothing that the rule sees on cols=257,rows=40"]
    assert spoilt("softmax", source, distributions=("task", "normal")) == [], "one distribution that needs it is enough"


def test_one_branch_that_hides_another() -> None:
    found = spoilt("softmax", "def run(x): return torch.sin(x) + 1e-12 * torch.exp(-x.abs())")
    assert said(found, "dropping `add`", "changes nothing")
    assert said(found, "dropping `exp`", "changes nothing")
    assert not said(found, "dropping `sin`")


def test_attention_whose_scores_are_never_needed() -> None:
    """Scores as small as these leave the plain mean of the values."""
    source = "def run(x): return torch.nn.functional.scaled_dot_product_attention(x[None] * 1e-5, x[None] * 1e-5, x[None])[0] + x.sign()"
    assert said(spoilt("softmax", source, distributions=("normal",)), "zeros in the place of `bmm`", "changes nothing")


def test_operators_that_a_good_kernel_leaves_out_do_not_condemn() -> None:
    by_hand = """
def run(x):
    shifted = (x.double() if x.dtype is torch.float64 else x.float()).contiguous() - x.amax(-1, keepdim=True)
    raised = torch.exp(shifted.reshape(x.shape))
    return (raised / (raised.sum(-1, keepdim=True) + 1e-12)).to(x.dtype)
"""
    assert spoilt("softmax", by_hand) == []
    in_place = "def run(x):\n    y = x.clone()\n    y.mul_(3.0).add_(x.abs())\n    return y * y"
    assert spoilt("softmax", in_place) == []
