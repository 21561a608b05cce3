"""What is found of outputs on a device: the formulas of the rule in numpy, element by element."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evokern.evaluator.reference import edges
from evokern.evaluator.rule import correctness
from evokern.task import DType, Tolerance

torch = pytest.importorskip("torch")
on_device = pytest.importorskip("evokern.evaluator.reference.on_device")
pytestmark = pytest.mark.torch

SHAPES = [(37, 101), (5, 7, 33), (19,), (64, 1), (3, 20000)]
CLOSE = {"rtol": 1e-13, "atol": 0.0}


def values_of(shape: tuple[int, ...], seed: int, *, odd: bool) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    found = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
    if odd:
        flat = found.reshape(-1)
        for value in (np.inf, -np.inf, np.nan, 1e39, 0.0):
            flat[rng.integers(0, flat.size, 2)] = value
    return found


def same(found: Any, wanted: Any, **how: float) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, **{**CLOSE, **how})


@pytest.fixture(params=[1 << 26, 64])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_device, "BLOCK", request.param)


pytestmark = [pytestmark, pytest.mark.usefixtures("_blocks")]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("has_magnitude", [False, True])
def test_the_scale(shape: tuple[int, ...], odd: bool, has_magnitude: bool) -> None:
    values = values_of(shape, 1, odd=odd)
    magnitude = np.abs(values_of(shape, 2, odd=odd)) if has_magnitude else None
    wanted = correctness.scale_of(values, magnitude)
    found = on_device.scale_of(torch.from_numpy(values), None if magnitude is None else torch.from_numpy(magnitude))
    for part in ("row_rms", "row_mean", "row_scale", "row_terms"):
        same(getattr(found, part), getattr(wanted, part))


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT8_E4M3FN, DType.INT64])
@pytest.mark.parametrize("shape", SHAPES)
def test_errors_of_a_reference(shape: tuple[int, ...], dtype: DType) -> None:
    values = np.clip(values_of(shape, 1, odd=dtype.is_float and dtype is not DType.FLOAT8_E4M3FN), -400, 400)
    actual = torch.from_numpy(np.nan_to_num(values) if dtype is DType.INT64 else values).to(getattr(torch, dtype))
    bits = {DType.BFLOAT16: torch.int16, DType.FLOAT8_E4M3FN: torch.uint8}
    held = actual.view(bits[dtype]).numpy() if dtype in bits else actual.numpy()
    wanted = correctness.row_errors(held.view(np.uint16) if dtype is DType.BFLOAT16 else held, values, dtype)
    found = on_device.row_errors(actual, torch.from_numpy(values), dtype)
    same(found.mean_square, wanted.mean_square)
    same(found.mean, wanted.mean, atol=1e-13 * float(np.sqrt(wanted.mean_square).max()))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT32])
@pytest.mark.parametrize("has_magnitude", [False, True])
def test_rows_within_the_rule(shape: tuple[int, ...], dtype: DType, has_magnitude: bool) -> None:
    values = values_of(shape, 1, odd=True)
    rng = np.random.default_rng(3)
    magnitude = np.abs(values_of(shape, 2, odd=False)) if has_magnitude else None
    actual = (np.nan_to_num(values, posinf=0, neginf=0) * (1 + 2.0**-20 * rng.standard_normal(shape))).clip(-1e9, 1e9)
    actual = actual.astype(np.float32 if dtype is DType.FLOAT32 else np.int32)
    allowance = np.abs(rng.standard_normal(len(correctness.as_rows(values)))) * 1e-6
    scale = replace(correctness.scale_of(values, magnitude), allowance=allowance)
    theirs: Any = {k: None if (v := getattr(scale, k)) is None else torch.from_numpy(v) for k in scale.__slots__}
    there = correctness.Scale(**theirs)
    for share in (0.01, 0.5, 8.0):
        rule: Any = (17, Tolerance(), dtype, share)
        wanted = correctness.rows_within(actual, values, scale, *rule)
        found = on_device.rows_within(torch.from_numpy(actual), torch.from_numpy(values), there, *rule)
        assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("shape", [*SHAPES, (2 * len(edges.KINDS), 4), (2 * len(edges.KINDS),)])
def test_allowances(shape: tuple[int, ...]) -> None:
    values = values_of(shape, 1, odd=True)
    others = [values * (1 + 1e-7 * np.random.default_rng(i).standard_normal(shape)) for i in range(2)]
    there, theirs = torch.from_numpy(values), [torch.from_numpy(one) for one in others]
    for edge in (edges.of_rows(shape[0]), np.array([0])):
        same(on_device.allowance(there, theirs, edge), edges.allowance(values, others, edge))
    rms = correctness.scale_of(values).row_rms
    same(on_device.ordinary_allowance(there, theirs[0], 4.0, torch.from_numpy(rms)), edges.ordinary_allowance(values, others[0], 4.0, rms))
