"""The oracle as a real process: what it draws, what it computes, and what it says of a wrong reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evokern.errors import Unavailable, UsageError
from evokern.evaluator.reference import edges, oracle
from evokern.evaluator.reference.oracle import InputSet, Oracle
from evokern.evaluator.rule.correctness import element_alone, judge_output, scale_of
from evokern.task import DISTRIBUTIONS, DType, Task, load_task
from evokern.testing.served import served

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

CORE = Path(__file__).parents[2] / "benchmarks" / "tasks" / "core"
F32 = DType.FLOAT32


def started(task: Task, dtype: DType = F32) -> Iterator[Oracle]:
    with served(oracle.ENTRY, oracle.argument(task, dtype)) as process:
        one = Oracle(process.sock, task, dtype)
        yield one
        one.close()


@pytest.fixture(scope="module")
def softmax() -> Iterator[Oracle]:
    yield from started(load_task(CORE / "softmax"))


@pytest.fixture(scope="module")
def rmsnorm() -> Iterator[Oracle]:
    yield from started(load_task(CORE / "rmsnorm"))


@pytest.fixture(scope="module")
def cross_entropy() -> Iterator[Oracle]:
    yield from started(load_task(CORE / "cross_entropy"))


def test_softmax_is_computed_in_float64(softmax: Oracle) -> None:
    drawn = softmax.draw({"rows": 37, "cols": 101}, "normal", 5)
    x = drawn.inputs["x"]
    assert (x.shape, x.dtype) == ((37, 101), np.float32)
    exps = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    expected = exps / exps.sum(axis=1, keepdims=True)
    assert drawn.expected["y"].dtype == np.float64
    assert np.abs(drawn.expected["y"] - expected).max() < 1e-15
    own = scale_of(drawn.expected["y"])
    scale = drawn.scale["y"]
    for ours, theirs in ((own.row_rms, scale.row_rms), (own.row_mean, scale.row_mean), (own.row_scale, scale.row_scale)):
        np.testing.assert_allclose(theirs, ours, rtol=1e-12)
    assert scale.magnitude is None
    assert drawn.reduction == 101
    # Eager's own error is that of float32: above 0, below a few roundings.
    rms = np.sqrt(drawn.reference_error["y"][0].mean_square)
    assert (rms > 0).all()
    assert (rms < 8 * F32.unit_roundoff * scale.row_rms).all()
    drawn.release()


def test_scalars_and_parameters(rmsnorm: Oracle) -> None:
    drawn = rmsnorm.draw({"rows": 5, "cols": 64}, "tiny", 1)
    eps = drawn.inputs["eps"]
    assert eps.shape == ()
    assert eps.dtype == np.float32
    assert float(eps) == np.float32(1e-6)
    weight = drawn.inputs["weight"]
    assert 0.3 < weight.std() < 3
    assert np.abs(drawn.inputs["x"]).max() < 1e-2
    x = drawn.inputs["x"].astype(np.float64)
    expected = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + float(eps)) * weight
    np.testing.assert_allclose(drawn.expected["y"], expected, rtol=1e-12)
    drawn.release()


@pytest.mark.parametrize("distribution", ["normal", "wide", "spiked"])
def test_labels_come_from_make_inputs_and_logits_do_not(cross_entropy: Oracle, distribution: str) -> None:
    drawn = cross_entropy.draw({"rows": 400, "cols": 7}, distribution, 1)
    labels, logits = drawn.inputs["labels"], drawn.inputs["logits"].astype(np.float64)
    assert labels.dtype == np.int64
    assert set(labels) == set(range(7))
    lse = np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)) + logits.max(axis=1)
    np.testing.assert_allclose(drawn.expected["loss"], lse - logits[np.arange(400), labels], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(drawn.scale["loss"].magnitude, np.abs(lse) + np.abs(logits[np.arange(400), labels]), rtol=1e-12)
    drawn.release()


def copied(drawn: InputSet) -> dict[str, np.ndarray]:
    result = {**{k: v.copy() for k, v in drawn.inputs.items()}, **{k: v.copy() for k, v in drawn.expected.items()}}
    drawn.release()
    return result


def equal(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(one[name], two[name]) for name in one)


def test_a_draw_follows_from_its_arguments_alone(softmax: Oracle) -> None:
    axes = {"rows": 9, "cols": 33}
    first = copied(softmax.draw(axes, "normal", 7))
    copied(softmax.draw({"rows": 50, "cols": 500}, "wide", 8))
    assert equal(first, copied(softmax.draw(axes, "normal", 7)))
    assert not equal(first, copied(softmax.draw(axes, "normal", 8)))
    for again in started(softmax.task):
        assert equal(first, copied(again.draw(axes, "normal", 7)))


def test_sets_that_are_held_do_not_share_memory(softmax: Oracle) -> None:
    axes = {"rows": 9, "cols": 33}
    one, two = softmax.draw(axes, "normal", 1), softmax.draw(axes, "normal", 2)
    before = one.inputs["x"].copy()
    three = softmax.draw(axes, "normal", 3)
    assert np.array_equal(one.inputs["x"], before)
    assert not np.array_equal(one.inputs["x"], two.inputs["x"])
    for drawn in (one, two, three):
        drawn.release()


def test_memory_is_used_again(softmax: Oracle) -> None:
    axes = {"rows": 9, "cols": 33}
    drawn = softmax.draw(axes, "normal", 1)
    address = drawn.inputs["x"].ctypes.data
    drawn.release()
    drawn = softmax.draw(axes, "normal", 2)
    assert drawn.inputs["x"].ctypes.data == address
    drawn.release()


def test_redraw_changes_one_input(cross_entropy: Oracle, rmsnorm: Oracle) -> None:
    axes = {"rows": 40, "cols": 33}
    first = copied(cross_entropy.draw(axes, "normal", 1))
    for name, other in (("labels", "logits"), ("logits", "labels")):
        changed = copied(cross_entropy.draw(axes, "normal", 1, redraw=name))
        assert np.array_equal(changed[other], first[other])
        assert not np.array_equal(changed[name], first[name])
        assert not np.array_equal(changed["loss"], first["loss"])
    doubled = copied(rmsnorm.draw(axes, "normal", 1, redraw="eps"))
    assert doubled["eps"] == np.float32(2e-6)


def test_distributions(softmax: Oracle) -> None:
    def x(distribution: str) -> np.ndarray:
        return copied(softmax.draw({"rows": 200, "cols": 97}, distribution, 3))["x"]

    assert x("normal").std() == pytest.approx(1, rel=0.05)
    assert x("wide").std() == pytest.approx(10, rel=0.05)
    assert x("tiny").std() == pytest.approx(1e-3, rel=0.05)
    assert x("shifted").mean() == pytest.approx(50, abs=0.1)
    assert set(np.unique(x("integers"))) == set(range(-4, 5))
    spiked = x("spiked").reshape(-1)
    spread = [spiked[start::97].std() for start in range(97)]
    assert sorted(spread)[-1] == pytest.approx(40, rel=0.3)
    assert sorted(spread)[-2] < 2
    with pytest.raises(UsageError, match="make_inputs"):
        softmax.draw({"rows": 2, "cols": 2}, "task", 0)
    assert set(DISTRIBUTIONS) == {"normal", "wide", "tiny", "shifted", "spiked", "integers", "task"}


def test_parameters_have_large_entries_at_the_edges(rmsnorm: Oracle) -> None:
    for seed in range(4):
        drawn = copied(rmsnorm.draw({"rows": 48, "cols": 33}, edges.NAME, seed))
        assert np.isfinite(drawn["y"]).all()
        large = np.abs(drawn["weight"]) > edges.LARGE_FACTOR / 4
        assert large.sum() == 33 // 4


def test_scalars_of_fixed_value_can_be_others(rmsnorm: Oracle) -> None:
    axes = {"rows": 5, "cols": 64}
    plain, changed = copied(rmsnorm.draw(axes, "tiny", 1)), copied(rmsnorm.draw(axes, "tiny", 1, factor=4.0))

    assert changed["eps"] == np.float32(4e-6)
    assert np.array_equal(plain["x"], changed["x"])
    assert np.abs(changed["y"] / plain["y"]).max() < 0.75


def test_edges_hold_what_kernels_get_wrong_and_stay_where_the_reference_is_definite(softmax: Oracle, cross_entropy: Oracle) -> None:
    drawn = copied(softmax.draw({"rows": 48, "cols": 33}, edges.NAME, 1))
    x, y = drawn["x"], drawn["y"]
    assert np.isfinite(y).all()
    assert (x.max(axis=1) < -9e3).any()
    assert ((x == -edges.LOWEST).any(axis=1) & (x.max(axis=1) > -10)).any()
    assert not (x.max(axis=1) < -1e6).any(), "one unit round-off of such a row is more than exp can hold"
    assert (x == x[:, :1]).all(axis=1).any()
    assert np.isneginf(x).any(axis=1).any() and not np.isneginf(x).all(axis=1).any()
    assert (np.isneginf(x[:, :16]).all(axis=1) & np.isfinite(x[:, 16:]).all(axis=1)).any()
    assert 1e3 < np.abs(x[np.isfinite(x)]).max() < np.finfo(np.float32).max
    assert equal(drawn, copied(softmax.draw({"rows": 48, "cols": 33}, edges.NAME, 1)))

    # A masked label costs infinitely much: such rows are drawn as usual.
    drawn = copied(cross_entropy.draw({"rows": 48, "cols": 33}, edges.NAME, 1))
    assert np.isfinite(drawn["loss"]).all()
    assert np.isneginf(drawn["logits"]).any()
    assert not np.isneginf(drawn["logits"][np.arange(48), drawn["labels"]]).any()


@pytest.mark.parametrize("start", [-np.inf, 0.0, -1e3])
def test_rounded_exponents_pass_at_the_edges_and_a_maximum_that_starts_from_a_guess_does_not(softmax: Oracle, start: float) -> None:
    log2e = np.float32(1.44269504)
    for seed in range(6):
        drawn = softmax.draw({"rows": 48, "cols": 33}, edges.NAME, seed)
        x, expected = drawn.inputs["x"], drawn.expected["y"]
        peak = x.max(axis=1, keepdims=True, initial=start)
        with np.errstate(invalid="ignore"):
            # A fused multiply-add, which rounds once; its addend, the scaled maximum, was rounded before.
            exponent = (x.astype(np.float64) * log2e - peak * log2e).astype(np.float32)
            y = np.exp2(exponent)
            y /= y.sum(axis=1, keepdims=True)
        rule = element_alone(softmax.task.tolerance)
        found = judge_output(
            y, expected, drawn.scale["y"], drawn.reduction, rule, DType.FLOAT32, drawn.reference_error["y"],
        )  # fmt: skip
        assert found.ok is bool(start == -np.inf), (seed, found)
        drawn.release()


def test_edges_of_a_reference_that_mixes_rows_are_of_one_kind_and_definite() -> None:
    source = "import torch\ndef run(x):\n    return x - x.mean()"
    for one in started(replace(with_reference("softmax", source), laws=())):
        found = [copied(one.draw({"rows": 6, "cols": 5}, edges.NAME, seed)) for seed in range(12)]
        assert all(np.isfinite(drawn["y"]).all() for drawn in found)
        assert len({round(np.log10(np.abs(drawn["x"]).max() + 1e-30)) for drawn in found}) > 3


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "cross_entropy", "bias_gelu"])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16])
def test_rounded_expected_values_pass_on_odd_shapes(name: str, dtype: DType) -> None:
    task = load_task(CORE / name)
    for one in started(task, dtype):
        for axes in ({"rows": 1, "cols": 1}, {"rows": 1, "cols": 7}, {"rows": 13, "cols": 1}, {"rows": 31, "cols": 257}):
            for distribution in (*task.distributions, edges.NAME):
                drawn = one.draw(axes, distribution, 11)
                output = task.outputs[0].name
                expected = drawn.expected[output]
                found = judge_output(
                    rounded(expected, dtype),
                    expected,
                    drawn.scale[output],
                    drawn.reduction,
                    element_alone(task.tolerance) if distribution == edges.NAME else task.tolerance,
                    dtype,
                    drawn.reference_error[output],
                )
                assert found.ok, (axes, distribution, found)
                drawn.release()


def rounded(values: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype is DType.BFLOAT16:
        bits = values.astype(np.float32).view(np.uint32)
        return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)
    return values.astype(str(dtype))


def with_reference(name: str, source: str) -> Task:
    return replace(load_task(CORE / name), reference=source)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import torch\ndef run(x):\n    return x[:, :1]", "shape"),
        ("import torch\ndef run(x):\n    return x.float()", "float64"),
        ("import torch\ndef run(x):\n    return x, x", "2 values"),
        ("import torch\ndef run(x):\n    return None", "NoneType"),
        ("import torch\ndef run(x):\n    raise ValueError('no such thing')", "no such thing"),
        ("import torch\ndef run(x):\n    return x\ndef make_inputs(axes, dtype, generator):\n    return {'z': 1}", "names of inputs"),
    ],
)
def test_a_reference_that_does_not_do_what_the_task_declares(source: str, said: str) -> None:
    task = with_reference("softmax", source)
    for one in started(task):
        for _ in range(2):  # the process goes on
            with pytest.raises(UsageError, match=said) as caught:
                one.draw({"rows": 3, "cols": 4}, "normal", 0)
            assert caught.value.where == str(task.folder / "reference.py")


def test_a_reference_that_cannot_be_loaded() -> None:
    task = with_reference("softmax", "import no_such_module\ndef run(x):\n    return x")
    with served(oracle.ENTRY, oracle.argument(task, F32)) as process, pytest.raises(UsageError, match="no_such_module"):
        Oracle(process.sock, task, F32)


def test_labels_that_nobody_draws_are_refused() -> None:
    source = "import torch\ndef run(logits, labels):\n    return logits[:, 0]"
    for one in started(with_reference("cross_entropy", source)):
        with pytest.raises(UsageError, match="make_inputs must draw it"):
            one.draw({"rows": 3, "cols": 4}, "normal", 0)


def test_a_reference_that_works_in_place_changes_no_input() -> None:
    source = "import torch\ndef run(x):\n    return x.mul_(2)"
    for one in started(with_reference("softmax", source)):
        drawn = one.draw({"rows": 3, "cols": 4}, "normal", 0)
        assert np.array_equal(drawn.expected["y"], drawn.inputs["x"].astype(np.float64) * 2)
        drawn.release()


def test_the_end_of_the_process_is_said() -> None:
    task = with_reference("softmax", "import os\ndef run(x):\n    os._exit(3)")
    for one in started(task):
        with pytest.raises(Unavailable, match="ended"):
            one.draw({"rows": 3, "cols": 4}, "normal", 0)
