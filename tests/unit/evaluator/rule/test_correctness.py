"""The correctness rule: cases worked by hand, then honest algorithms, which must pass, and fakes, which must not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evokern.evaluation import Reason
from evokern.evaluator.rule.correctness import (
    Finding,
    RowErrors,
    Scale,
    as_float,
    as_rows,
    judge_output,
    judge_repeat,
    row_errors,
    scale_of,
    student_quantile,
)
from evokern.task import DType, Tolerance, load_task

CORE = Path(__file__).parents[4] / "benchmarks" / "tasks" / "core"
EIGHT_BITS = DType.FLOAT8_E4M3FN
F32 = np.float32
U = 2.0**-24
STANDARD = Tolerance()
ELEMENT_ONLY = Tolerance(rms_floor=1e12, bias_floor=1e12, reason="rule (a) alone")
NO_ERROR = RowErrors(np.zeros(1), np.zeros(1))
Values = NDArray[np.float64]


def rows_without_error(rows: int) -> RowErrors:
    return RowErrors(np.zeros(rows), np.zeros(rows))


def judged(
    actual: NDArray[np.generic], expected: Values, *, tolerance: Tolerance = STANDARD, reduction: int = 1, **more: object
) -> Finding:
    honest = expected.astype(F32)
    errors = [row_errors(honest, expected, DType.FLOAT32)]
    return judge_output(actual, expected, scale_of(expected), reduction, tolerance, DType.FLOAT32, errors, **more)  # type: ignore[arg-type]


# Worked by hand.


def test_scale_is_rms_and_mean_of_each_row() -> None:
    scale = scale_of(np.array([[3.0, -4.0], [0.0, 2.0]]))
    assert scale.row_rms == pytest.approx([math.sqrt(12.5), math.sqrt(2.0)])
    assert scale.row_mean == pytest.approx([3.5, 1.0])
    first = [3 + math.sqrt(12.5), 4 + math.sqrt(12.5)]
    assert scale.row_scale[0] == pytest.approx(math.sqrt((first[0] ** 2 + first[1] ** 2) / 2))


def test_each_element_of_a_vector_is_a_row() -> None:
    assert as_rows(np.zeros(5)).shape == (5, 1)
    assert as_rows(np.zeros((2, 3, 4))).shape == (6, 4)
    assert scale_of(np.array([3.0, -4.0])).row_rms == pytest.approx([3.0, 4.0])


@pytest.mark.parametrize(("share", "ok"), [(0.99, True), (1.01, False)])
def test_element_bound(share: float, ok: bool) -> None:
    expected = np.array([[1.0, 2.0]])
    # 4 (u |y| + u sqrt(K) (|y| + RMS)) at y = 2, K = 9, RMS = sqrt(2.5)
    allowed = 4 * (U * 2 + U * 3 * (2 + math.sqrt(2.5)))
    actual = expected + np.array([[0.0, share * allowed]])
    found = judge_output(actual, expected, scale_of(expected), 9, ELEMENT_ONLY, DType.FLOAT32, [NO_ERROR])
    assert found.ok is ok
    assert found.worst == pytest.approx(share)
    if not ok:
        assert (found.reason, found.where) == (Reason.TOLERANCE, (0, 1))


def test_magnitude_widens_the_bound_where_terms_cancel() -> None:
    expected, magnitude = np.array([1e-4]), np.array([50.0])
    actual = expected + 50 * U
    assert not judge_output(actual, expected, scale_of(expected), 1, ELEMENT_ONLY, DType.FLOAT32, [NO_ERROR]).ok
    found = judge_output(actual, expected, scale_of(expected, magnitude), 1, ELEMENT_ONLY, DType.FLOAT32, [NO_ERROR])
    assert found.ok
    assert found.worst == pytest.approx(50 / (4 * (1e-4 + 50)))


def test_rms_rule_compares_with_the_worst_reference() -> None:
    rows = 1 << 14
    expected = np.ones((rows, 2))
    signs = np.where(np.arange(rows) % 2, 1.0, -1.0)[:, None]
    actual = expected + signs * 6 * U
    few = 4 * U * 2 / math.sqrt(rows)

    def with_references(*rms: float) -> Finding:
        errors = [RowErrors(np.full(rows, (r * U) ** 2), np.zeros(rows)) for r in rms]
        return judge_output(actual, expected, scale_of(expected), 1, STANDARD, DType.FLOAT32, errors)

    assert not with_references(1.0, 3.7).ok
    found = with_references(1.0, 3.85)
    assert found.ok
    assert found.worst == pytest.approx(6 * U / (1.5 * 3.85 * U + 0.3 * U + few))


@pytest.mark.parametrize(("error", "ok"), [(3.2, True), (3.5, False)])
def test_a_few_roundings_need_no_reference_that_has_them(error: float, ok: bool) -> None:
    # As where one element is all of a row of a softmax, and eager is exact: 1.5 times two units, 0.3 more, and the luck of rows.
    rows = 1 << 16
    expected = np.ones((rows, 2))
    actual = expected + np.where(np.arange(rows) % 2, 1.0, -1.0)[:, None] * error * U
    assert judge_output(actual, expected, scale_of(expected), 1, STANDARD, DType.FLOAT32, [rows_without_error(rows)]).ok is ok


@pytest.mark.parametrize(("shift", "ok"), [(0.4, True), (0.6, False)])
def test_bias_below_the_floor_passes(shift: float, ok: bool) -> None:
    rows = 4096
    # Values that all differ, so that rows are what counts.
    expected = 1.0 + np.arange(rows * 2, dtype=np.float64).reshape(rows, 2) * 1e-6
    actual = expected + shift * U
    reference = RowErrors(np.full(rows, U**2), np.zeros(rows))
    found = judge_output(actual, expected, scale_of(expected), 1, STANDARD, DType.FLOAT32, [reference])
    assert found.ok is ok
    assert found.reason is (Reason.NONE if ok else Reason.BIAS)


def test_bias_of_a_reference_is_allowed_to_either_side() -> None:
    rows = 4096
    expected = 1.0 + np.arange(rows * 2, dtype=np.float64).reshape(rows, 2) * 1e-6
    reference = RowErrors(np.full(rows, (2 * U) ** 2), np.full(rows, 1.0 * U))
    for shift, ok in ((1.4, True), (-1.4, True), (-1.6, False)):
        found = judge_output(expected + shift * U, expected, scale_of(expected), 1, STANDARD, DType.FLOAT32, [reference])
        assert found.ok is ok, shift


def cancelling(rows: int) -> tuple[Values, Scale]:
    """Differences of about 1 of terms of 50, all of them distinct."""
    expected = 1.0 + np.arange(rows, dtype=np.float64) * 1e-6
    return expected, scale_of(expected, np.full(rows, 100.0))


@pytest.mark.parametrize(("shift", "ok"), [(0.49, True), (-0.49, True), (0.51, False), (-0.51, False)])
def test_bias_is_measured_by_the_terms_that_cancel(shift: float, ok: bool) -> None:
    expected, scale = cancelling(4096)
    reference = RowErrors(np.full(4096, (100 * U) ** 2), np.zeros(4096))
    found = judge_output(expected + shift * 100 * U, expected, scale, 1, STANDARD, DType.FLOAT32, [reference])
    assert found.ok is ok
    assert found.reason is (Reason.NONE if ok else Reason.BIAS)


@pytest.mark.parametrize(("error", "ok"), [(0.7, True), (0.9, False)])
def test_one_rounding_of_the_terms_that_cancel_counts_as_a_reference(error: float, ok: bool) -> None:
    # Every reference may be exact, as of a loss over a single class: 1.5 times half a unit of 100 is allowed then, and for the
    # luck of 4,096 rows 4 u RMS(s) / 64, a sixteenth of a unit more.
    expected, scale = cancelling(4096)
    signs = np.where(np.arange(4096) % 2, 1.0, -1.0)
    found = judge_output(expected + signs * error * 100 * U, expected, scale, 1, STANDARD, DType.FLOAT32, [rows_without_error(4096)])
    assert found.ok is ok
    assert found.reason is (Reason.NONE if ok else Reason.TOLERANCE)
    plain = judge_output(expected + signs * 5 * U, expected, scale_of(expected), 1, STANDARD, DType.FLOAT32, [rows_without_error(4096)])
    assert plain.reason is Reason.TOLERANCE, "without a magnitude nothing is said of terms"


def test_terms_without_end_are_no_excuse_for_other_rows() -> None:
    rows = 4096
    expected, magnitude = np.linspace(1, 2, rows), np.full(rows, 2.0)
    expected[7] = magnitude[7] = math.inf
    actual = expected + 2 * U
    found = judge_output(actual, expected, scale_of(expected, magnitude), 1, STANDARD, DType.FLOAT32, [rows_without_error(rows)])
    assert found.reason is Reason.BIAS


def test_bias_counts_equal_values_once() -> None:
    # Nine distinct values in 4,096 rows are nine errors, not 4,096.
    kinds = np.linspace(1, 1.2, 9)
    errors = np.array([1.4, -0.3, 1.4, 1.2, -0.4, 1.4, 1.0, 1.4, 0.7]) * U
    which = np.arange(4096) % 9
    expected, actual = kinds[which], kinds[which] + errors[which]
    reference = RowErrors(np.full(4096, U**2), np.zeros(4096))
    assert judge_output(actual, expected, scale_of(expected), 1, STANDARD, DType.FLOAT32, [reference]).ok
    spread = expected + np.arange(4096) * 1e-9
    found = judge_output(spread + errors[which], spread, scale_of(spread), 1, STANDARD, DType.FLOAT32, [reference])
    assert found.reason is Reason.BIAS


@pytest.mark.parametrize(("freedom", "quantile"), [(7, 5.408), (10, 4.587), (30, 3.646), (10**6, 3.2905)])
def test_student_quantile_against_tables(freedom: int, quantile: float) -> None:
    # Student's t at a tail of 0.0005, the normal quantile of which is 3.2905 (any table).
    assert student_quantile(3.2905, freedom) == pytest.approx(quantile, rel=0.04)


def test_shape_is_compared_first() -> None:
    assert judged(np.zeros((2, 3), F32), np.zeros((3, 2))).reason is Reason.SHAPE


@pytest.mark.parametrize(
    ("written", "wanted", "ok"),
    [
        (math.nan, math.nan, True),
        (math.inf, math.inf, True),
        (math.inf, 1e300, True),  # beyond float32
        (-math.inf, math.inf, False),
        (math.nan, math.inf, False),
        (math.nan, 1.0, False),
        (math.inf, 1.0, False),
        (1.0, math.nan, False),
        (1.0, math.inf, False),
    ],
)
def test_pattern_of_non_finite_values(written: float, wanted: float, ok: bool) -> None:
    expected = np.array([[1.0, 2.0, wanted], [1.5, 2.5, 3.5]])
    actual = expected.copy()
    actual[0, 2] = written
    with np.errstate(over="ignore"):
        found = judged(actual.astype(F32), expected)
    assert found.ok is ok
    if not ok:
        assert (found.reason, found.where) == (Reason.NON_FINITE, (0, 2))


def test_sentinel_is_named_before_a_larger_error() -> None:
    expected = np.linspace(1, 2, 12).reshape(3, 4)
    actual = expected.astype(F32)
    actual[1, 1] = 1e9
    actual[2, 3] = 77.0
    sentinel = int(np.array([77.0], F32).view(np.uint32)[0])
    found = judged(actual, expected, sentinel=sentinel)
    assert (found.reason, found.where) == (Reason.SENTINEL_LEFT, (2, 3))
    assert judged(actual, expected).where == (1, 1)


def test_sentinel_that_is_a_nan() -> None:
    expected = np.linspace(1, 2, 12).reshape(3, 4)
    actual = expected.astype(F32)
    bits = 0x7FC12345
    actual.view(np.uint32)[0, 3] = bits
    assert judged(actual, expected, sentinel=bits).reason is Reason.SENTINEL_LEFT


def test_padded_rows_are_judged_in_place() -> None:
    expected = np.random.default_rng(0).standard_normal((50, 33))
    memory = np.full((50, 40), np.nan, F32)
    memory[:, :33] = expected
    assert judged(memory[:, :33], expected).ok
    memory[49, 32] += 1e-3
    assert judged(memory[:, :33], expected).where == (49, 32)


def test_chosen_rows_in_a_secret_order() -> None:
    rng = np.random.default_rng(0)
    expected = rng.standard_normal((200, 17))
    order = rng.permutation(200)
    actual = expected[order].astype(F32)
    assert judged(actual, expected, order=order).ok
    assert not judged(actual, expected).ok
    actual[123, 4] += 1.0
    found = judged(actual, expected, order=order, rows=np.array([7, 123, 160]))
    assert found.where == (123, 4)
    assert judged(actual, expected, order=order, rows=np.array([7, 122, 160])).ok


def test_rows_are_counted_over_all_axes_but_the_last() -> None:
    rng = np.random.default_rng(4)
    expected = rng.standard_normal((40, 3, 16))
    order = (rng.permutation(40)[:, None] * 3 + np.arange(3)).ravel()
    actual = expected.reshape(-1, 16)[order].reshape(expected.shape).astype(F32)
    assert judged(actual, expected, order=order).ok
    assert not judged(actual, expected).ok
    actual[7, 1, 5] += 1.0
    assert judged(actual, expected, order=order, rows=np.array([21, 23, 119])).ok
    found = judged(actual, expected, order=order, rows=np.array([21, 22]))
    assert (found.reason, found.where) == (Reason.TOLERANCE, (7, 1, 5))


def test_whole_numbers_are_exact_or_wrong() -> None:
    expected = np.arange(100_000, 100_064, dtype=np.float64).reshape(8, 8)
    actual = expected.astype(np.int64)
    scale = replace(scale_of(expected), allowance=np.full(8, 1e6))
    said = {"scale": scale, "reduction": 1 << 20, "tolerance": STANDARD, "dtype": DType.INT64}
    assert judge_output(actual, expected, reference_error=[rows_without_error(8)], **said).ok  # type: ignore[arg-type]
    assert judge_repeat(actual, actual, expected, **said).ok  # type: ignore[arg-type]
    changed = actual.copy()
    changed[3, 4] += 1
    found = judge_output(changed, expected, reference_error=[rows_without_error(8)], **said)  # type: ignore[arg-type]
    assert (found.reason, found.where) == (Reason.TOLERANCE, (3, 4))
    assert not judge_repeat(actual, changed, expected, **said).ok  # type: ignore[arg-type]


@pytest.mark.parametrize(("terms", "ok"), [(0.0, False), (4.0, True)])
def test_terms_may_be_rounded_to_the_runs_type_where_a_task_says_so(terms: float, ok: bool) -> None:
    rng = np.random.default_rng(5)
    left, right = rng.standard_normal((64, 256)).astype(F32), rng.standard_normal((256, 64)).astype(F32)
    expected = left.astype(np.float64) @ right
    size = np.sqrt(np.square(left.astype(np.float64)) @ np.square(right))
    actual = (left.astype(np.float16).astype(np.float64) @ right).astype(np.float16)
    errors = [row_errors(actual, expected, DType.FLOAT16)]
    tolerance = Tolerance(terms=terms, reason="terms are rounded")
    assert judge_output(actual, expected, scale_of(expected, size), 256, tolerance, DType.FLOAT16, errors).ok is ok


def test_bfloat16_travels_as_bits() -> None:
    expected = np.random.default_rng(0).standard_normal((64, 64))
    bits = (expected.astype(F32).view(np.uint32) + 0x8000 >> 16).astype(np.uint16)
    errors = [row_errors(bits, expected, DType.BFLOAT16)]
    assert judge_output(bits, expected, scale_of(expected), 64, STANDARD, DType.BFLOAT16, errors).ok
    bits[5, 6] ^= 0x4000
    assert judge_output(bits, expected, scale_of(expected), 64, STANDARD, DType.BFLOAT16, errors).where == (5, 6)


@pytest.mark.torch
def test_eight_bit_floats_travel_as_bits() -> None:
    import torch

    every = np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(every).view(torch.float8_e4m3fn).float().numpy()
    assert np.array_equal(as_float(every, DType.FLOAT8_E4M3FN), expected, equal_nan=True)


def _a_step_towards_zero(bits: NDArray[np.uint8], where: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return bits - (where & (bits & 0x7F > 0)).astype(np.uint8)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("way", "ok"),
    [
        ("nearest", True),
        ("by a rounded reciprocal", True),
        ("from bfloat16", True),
        ("towards zero", False),
        ("a step too low now and then", False),
    ],
)
def test_a_quantised_output_is_the_nearest_one(way: str, ok: bool) -> None:
    """The oracle tells what is to be rounded, so that an output which is off by more than its last rounding shows."""
    import torch

    def rounded(values: torch.Tensor) -> NDArray[np.uint8]:
        bits: NDArray[np.uint8] = values.float().clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
        return bits

    y = torch.randn((64, 1021), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = y / (y.abs().amax(1, keepdim=True) / 448)
    expected, eager = wanted.numpy(), rounded(wanted)
    above, few = np.abs(as_float(eager, EIGHT_BITS)) > np.abs(expected), np.random.default_rng(0).random(eager.shape) < 0.01
    actual = {
        "nearest": eager,
        "by a rounded reciprocal": rounded(y.float() * (448 / y.float().abs().amax(1, keepdim=True))),
        "from bfloat16": rounded(wanted.bfloat16()),
        "towards zero": _a_step_towards_zero(eager, above),
        "a step too low now and then": _a_step_towards_zero(eager, ~above & few),
    }[way]
    tolerance = load_task(CORE / "rmsnorm_quant_fp8").tolerance
    errors = [row_errors(eager, expected, EIGHT_BITS)]
    found = judge_output(actual, expected, scale_of(expected), 1021, tolerance, EIGHT_BITS, errors)
    assert found.ok is ok, found.detail


def test_results_may_be_flushed_to_zero_below_the_smallest_normal() -> None:
    expected = np.full((64, 8), 1e-39)
    assert judged(np.zeros((64, 8), F32), expected).ok
    assert not judged(np.zeros((64, 8), F32), np.full((64, 8), 1e-36)).ok


def test_empty_output_passes() -> None:
    assert judged(np.zeros((0, 4), F32), np.zeros((0, 4))).ok


def repeated(first: NDArray[np.float32], second: NDArray[np.float32], expected: Values, *, deterministic: bool = False) -> Finding:
    return judge_repeat(first, second, expected, scale_of(expected), 1, STANDARD, DType.FLOAT32, deterministic=deterministic)


def test_repeats_may_differ_by_a_quarter_of_the_bound() -> None:
    expected = np.array([[1.0, 1.0]])
    allowed = 0.25 * 4 * (U + U * 2)  # 3 U
    first = expected.astype(F32)
    near, far = first.copy(), first.copy()
    near[0, 1] += F32(2 * U)
    far[0, 1] += F32(4 * U)
    assert repeated(first, first.copy(), expected).worst == 0.0
    found = repeated(first, near, expected)
    assert found.ok
    assert found.worst == pytest.approx(2 * U / allowed)
    assert repeated(first, far, expected).reason is Reason.NOT_REPEATABLE
    assert repeated(first, far, expected).where == (0, 1)
    assert repeated(first, near, expected, deterministic=True).reason is Reason.NOT_REPEATABLE


def test_repeats_with_a_nan_on_one_side_differ() -> None:
    expected = np.array([[1.0, math.nan]])
    first = expected.astype(F32)
    assert repeated(first, first.copy(), expected).ok
    second = first.copy()
    second[0, 0] = math.nan
    assert not repeated(first, second, expected).ok


# Honest algorithms in float32. Lanes are accumulators as a vector register has them.


def lanes(terms: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    rows, columns = terms.shape
    whole = columns // width * width
    sums = terms[:, :whole].reshape(rows, -1, width).sum(axis=1, dtype=F32) if whole else np.zeros((rows, width), F32)
    while sums.shape[1] > 1:
        sums = sums[:, : sums.shape[1] // 2] + sums[:, sums.shape[1] // 2 :]
    total = sums[:, 0]
    for column in range(whole, columns):
        total = total + terms[:, column]
    return total


def polynomial_exp(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cephes' expf: range reduction by ln 2 in two parts and a polynomial of degree 6."""
    x = np.clip(x, F32(-87), F32(88))
    n = np.rint(x * F32(1.44269504088896341)).astype(F32)
    t = x - n * F32(0.693359375) - n * F32(-2.12194440e-4)
    p = F32(1.9875691500e-4)
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * t + F32(c)
    return np.ldexp(p * t * t + t + F32(1), n.astype(np.int32)).astype(F32)


def shifted_exp(x: NDArray[np.float32], exp: Callable[[NDArray[np.float32]], NDArray[np.float32]] = np.exp) -> NDArray[np.float32]:
    return exp(x - x.max(axis=1, keepdims=True))


def exp_by_exp2(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.exp2(x * F32(1.4426950408889634))


def divided(terms: NDArray[np.float32], total: NDArray[np.float32]) -> NDArray[np.float32]:
    return terms / total[:, None]


def scaled(terms: NDArray[np.float32], total: NDArray[np.float32]) -> NDArray[np.float32]:
    return terms * (F32(1) / total)[:, None]


SOFTMAX: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "pairwise": lambda x: divided(shifted_exp(x), shifted_exp(x).sum(axis=1, dtype=F32)),
    "eight lanes": lambda x: scaled(shifted_exp(x), lanes(shifted_exp(x), 8)),
    "thirty-two lanes": lambda x: scaled(shifted_exp(x), lanes(shifted_exp(x), 32)),
    "polynomial": lambda x: scaled(shifted_exp(x, polynomial_exp), lanes(shifted_exp(x, polynomial_exp), 32)),
    "exp2": lambda x: scaled(shifted_exp(x, exp_by_exp2), lanes(shifted_exp(x, exp_by_exp2), 16)),
    "reversed": lambda x: divided(shifted_exp(x), lanes(np.ascontiguousarray(shifted_exp(x)[:, ::-1]), 16)),
    "double sum": lambda x: (shifted_exp(x) / shifted_exp(x).sum(axis=1, keepdims=True, dtype=np.float64)).astype(F32),
}
DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Values]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "wide": lambda rng, shape: 10 * rng.standard_normal(shape),
    "shifted": lambda rng, shape: rng.standard_normal(shape) + 50,
}


def softmax64(x: NDArray[np.float32]) -> Values:
    exps = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    result: Values = exps / exps.sum(axis=1, keepdims=True)
    return result


def softmax_case(seed: int, shape: tuple[int, int], draw: str) -> tuple[NDArray[np.float32], Values, Scale, list[RowErrors]]:
    """Inputs, expected values, scale and eager's errors."""
    import torch

    torch.set_num_threads(1)
    x = DRAWS[draw](np.random.default_rng(seed), shape).astype(F32)
    expected = softmax64(x)
    eager = torch.softmax(torch.from_numpy(x), -1).numpy()
    return x, expected, scale_of(expected), [row_errors(eager, expected, DType.FLOAT32)]


@pytest.mark.torch
@given(
    seed=st.integers(0, 2**31),
    shape=st.sampled_from([(200, 1003), (64, 4096), (300, 31), (9, 33), (1, 257), (3, 2), (40, 1)]),
    draw=st.sampled_from(sorted(DRAWS)),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_honest_softmax_passes(seed: int, shape: tuple[int, int], draw: str) -> None:
    x, expected, scale, errors = softmax_case(seed, shape, draw)
    for name, algorithm in SOFTMAX.items():
        found = judge_output(algorithm(x), expected, scale, shape[1], STANDARD, DType.FLOAT32, errors)
        assert found.ok, (name, found)


def loss_case(seed: int, shape: tuple[int, int], draw: str) -> tuple[NDArray[np.float32], NDArray[np.intp], Values, Scale, list[RowErrors]]:
    """Logits, labels, expected losses, their scale, and eager's errors with those of inputs that were rounded once."""
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    x, labels = DRAWS[draw](rng, shape).astype(F32), rng.integers(shape[1], size=shape[0])
    logits, classes = torch.from_numpy(x), torch.from_numpy(labels)
    expected = cross_entropy(logits.double(), classes, reduction="none").numpy()
    largest = logits.double().logsumexp(1).abs().numpy() + np.abs(x[np.arange(len(x)), labels])
    moved = logits.double() * torch.from_numpy(1 + U * rng.choice([-1.0, 1.0], shape))
    nearby = row_errors(cross_entropy(moved, classes, reduction="none").numpy(), expected, DType.FLOAT32)
    eager = row_errors(cross_entropy(logits, classes, reduction="none").numpy(), expected, DType.FLOAT32)
    return x, labels, expected, scale_of(expected, largest), [eager, replace(nearby, mean=np.zeros(shape[0]))]


def log2_of_sum(x: NDArray[np.float32], exp2: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> NDArray[np.float32]:
    """log2(sum(exp(x))) in float32, with log2(e) folded into maximum and exponents."""
    peak = x.max(axis=1) * F32(1.4426950408889634)
    result: NDArray[np.float32] = peak + np.log2(lanes(exp2(x * F32(1.4426950408889634) - peak[:, None]), 16))
    return result


def short_exp2(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """2^x by a polynomial of degree 3, off by 1e-4: what nobody may call rounding."""
    whole = np.floor(np.maximum(x, F32(-120)))
    t = np.maximum(x, F32(-120)) - whole
    result: NDArray[np.float32] = np.ldexp(F32(1) + t * (F32(0.6958) + t * (F32(0.2251) + t * F32(0.0791))), whole.astype(np.int32))
    return result


@pytest.mark.torch
@pytest.mark.parametrize("draw", sorted(DRAWS))
@pytest.mark.parametrize("shape", [(512, 2048), (61, 1021), (9, 33), (4096, 1)])
def test_a_loss_in_base_two_passes_with_room_and_a_short_polynomial_does_not(shape: tuple[int, int], draw: str) -> None:
    for seed in range(3):
        x, labels, expected, scale, errors = loss_case(seed, shape, draw)
        of_labels = x[np.arange(len(x)), labels]
        for exp2, honest in ((np.exp2, True), (short_exp2, False)):
            actual = log2_of_sum(x, exp2) * F32(0.6931471805599453) - of_labels
            found = judge_output(actual, expected, scale, shape[1], STANDARD, DType.FLOAT32, errors)
            if honest:
                assert found.worst < 0.8, (seed, found)
            elif draw == "normal" and shape[1] > 1:
                assert not found.ok, seed


def to_bfloat16(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return (x.view(np.uint32) + 0x8000 & 0xFFFF0000).astype(np.uint32).view(F32)


def without_last(y: NDArray[np.float32]) -> NDArray[np.float32]:
    y = y.copy()
    y[-1, -1] = 0
    return y


def without_a_row(y: NDArray[np.float32]) -> NDArray[np.float32]:
    y = y.copy()
    y[len(y) // 2] = y[len(y) // 2 - 1]
    return y


def two_up(y: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.nextafter(np.nextafter(y, F32(np.inf)), F32(np.inf))


FAKES: dict[str, Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]]] = {
    "zeros": lambda x, y: np.zeros_like(y),
    "ones": lambda x, y: np.ones_like(y),
    "mean": lambda x, y: np.full_like(y, y.mean()),
    "mean of rows": lambda x, y: np.broadcast_to(y.mean(axis=1, keepdims=True), y.shape),
    "copy": lambda x, y: x,
    "a row skipped": lambda x, y: without_a_row(y),
    "last element not written": lambda x, y: without_last(y),
    "bfloat16 inside": lambda x, y: softmax64(to_bfloat16(x)).astype(F32),
    "bfloat16 result": lambda x, y: to_bfloat16(y),
    "a thousandth more": lambda x, y: y * F32(1.001),
    "two units up": lambda x, y: two_up(y),
    "maximum of another row": lambda x, y: (
        np.exp(x - x.max(axis=1, keepdims=True)) / np.roll(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1), 1)[:, None]
    ),
    "columns shuffled": lambda x, y: np.roll(y, 1, axis=1),
    "terms dropped": lambda x, y: softmax64(np.where(np.arange(x.shape[1]) < x.shape[1] - 1, x, -np.inf)).astype(F32),
}


@pytest.mark.torch
@given(seed=st.integers(0, 2**31), shape=st.sampled_from([(200, 1003), (64, 4096), (300, 31)]), draw=st.sampled_from(["normal", "shifted"]))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_fakes_fail(seed: int, shape: tuple[int, int], draw: str) -> None:
    x, expected, scale, errors = softmax_case(seed, shape, draw)
    honest = expected.astype(F32)
    for name, fake in FAKES.items():
        found = judge_output(fake(x, honest), expected, scale, shape[1], STANDARD, DType.FLOAT32, errors)
        assert not found.ok, name
        assert found.worst > 1.0


def gelu_forms(x: NDArray[np.float32], inner: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    return [
        F32(0.5) * x * (F32(1) + np.tanh(inner)),
        x / (F32(1) + np.exp(F32(-2) * inner)),
        x / (F32(1) + polynomial_exp(F32(-2) * inner)),
        x * (F32(1) / (F32(1) + polynomial_exp(F32(-2) * inner))),
    ]


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(300, 1003), (64, 4096), (4096, 1), (127, 31)])
def test_honest_gelu_passes(shape: tuple[int, int]) -> None:
    import torch

    x = np.random.default_rng(1).standard_normal(shape).astype(F32) * 3
    expected = torch.nn.functional.gelu(torch.from_numpy(x).double(), approximate="tanh").numpy()
    scale = scale_of(expected, np.abs(x.astype(np.float64)))
    errors = [row_errors(torch.nn.functional.gelu(torch.from_numpy(x), approximate="tanh").numpy(), expected, DType.FLOAT32)]
    inner = F32(0.7978845608) * (x + F32(0.044715) * x * x * x)
    with np.errstate(over="ignore"):
        actuals = gelu_forms(x, inner)
    for actual in actuals:
        assert judge_output(actual, expected, scale, 1, STANDARD, DType.FLOAT32, errors).ok
    erf_form = torch.nn.functional.gelu(torch.from_numpy(x)).numpy()
    assert not judge_output(erf_form, expected, scale, 1, STANDARD, DType.FLOAT32, errors).ok


@pytest.mark.torch
def test_a_looser_constant_lets_a_plain_float_sum_pass() -> None:
    # One float32 accumulator over 4,096 columns is off by some 16 u where eager is off by 2.
    x, expected, scale, errors = softmax_case(0, (200, 4096), "normal")
    terms = shifted_exp(x)
    actual = divided(terms, np.add.accumulate(terms, axis=1, dtype=F32)[:, -1])
    assert judge_output(actual, expected, scale, 4096, STANDARD, DType.FLOAT32, errors).reason is Reason.TOLERANCE
    assert judge_output(actual, expected, scale, 4096, replace(STANDARD, rms_floor=40.0), DType.FLOAT32, errors).ok
