"""The correctness rule: whether an output's error is what rounding explains (EVALUATOR section 4, check).

With e the error against a float64 oracle, y its value, u the unit round-off, K the length of the longest sum and s the size
of what was added up, an output passes where all of these hold:

(a) every |e| <= element (u_out |y| + u_acc sqrt(K) s + c) + terms u_out s, with c what its row moves by where the inputs are
    rounded once, and terms 0 unless the task says otherwise;
(b) RMS(e) <= rms_reference RMS(e_ref) + rms_floor u_out RMS(y), with e_ref the worst of the references' own errors, of one
    rounding of every input, of a few of y in the accumulator's precision, and of one of t where a task tells it;
(c) the mean of e is within bias_sigma standard errors of zero or of a reference's, or it is below bias_floor u_out mean|y|
    or bias_floor u_acc mean t, with t the size of the terms that y is the small difference of, or below rms_reference times
    a reference's own.

Two things follow from errors within a row being correlated (a rounded 1 / sum moves the whole row), so that rows and not
elements are the independent sample:

- (b) compares two estimates. With few rows either may be small by luck, so bias_sigma u_acc RMS(s) / sqrt(rows) is added:
  nothing for the rows of a long workload, about the bound of (a) for one row.
- (c) takes its standard error over row means, with Student's quantile in the place of the normal one, and is left out
  below eight rows. Equal values have equal errors, so an output that holds few distinct values is a small sample however
  many rows it has. `bias_floor` is there because the standard error of millions of elements is far below what an honest
  polynomial costs: a quarter of a unit in the last place is no shift that anybody can use. And a reference's own shift is
  allowed to either side: a float32 sum of positive terms is shifted by its order of addition (a softmax of wide rows by
  1.4 u in eager, by 0.4 u with four times the accumulators), so a better kernel is shifted too, only less.

Where terms cancel, what rounding explains is measured by them and not by their difference: a computed a - b is the exact
difference of a (1 + d) and b (1 + d'), with d and d' of the order of u (backward error, Higham, Accuracy and Stability of
Numerical Algorithms, 2nd edition, 1.5 and 1.7). A constant that is folded in makes d the same in every row, so no mean is
rid of it: log2(e) and ln(2) in float32 multiply to 1 - 0.18 u, by which a logsumexp in base 2 is off, over a single column
too, where every reference is exact. s and t, which a task's `magnitude` tells, are these terms; without it t is |y|.
By the same analysis a kernel is as good as the exact one on inputs that were rounded: exp2(x log2(e) - m log2(e)) is off by
|m| u where exp(x - m) is exact. What that changes the oracle finds by doing it (`oracle`), at the edges of values with
more room (`edges`).

Kernels of the field round the probabilities of an attention, or weights that they dequantise, to the run's type before they
multiply by them; each term is then off by u_out of itself, and a sum that happens to be near 0 by far more than u_out of it. A
task whose terms may be rounded so says `terms`.

Whole numbers, such as indices, are exact or wrong.

Everything is numpy in float64, in blocks of rows that stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evokern.evaluation import Reason
from evokern.task import DType, Tolerance

Floats = NDArray[np.float64]
Array = NDArray[Any]

FLOAT32_ROUNDOFF = 2.0**-24
"""u_acc where sums are kept in float32."""

TF32_ROUNDOFF = 2.0**-11
"""u_acc where products may be rounded to tf32 (10 bits of fraction)."""

BLOCK = 1 << 14
"""Elements judged at a time: three float64 blocks of this size fit in a 512 KiB cache."""

FEWEST_ROWS = 8
"""Rows below which the mean over rows says nothing of a shift."""

FEW_ROUNDINGS = 2.0
"""RMS of an exponential by a polynomial (1), a sum, a reciprocal and its product (a third each), as a share of u times the value.

They add up where they are the same for a row, and short rows average nothing away: a softmax with Cephes' coefficients is off by
1.4 u, up to 2.6 u, on 300 draws of 16 to 127 columns, and eager by 0.3 u to 1.9 u, by what happens to be exact."""

ROUNDING = 0.5
"""RMS of one rounding, as a share of u times the value: 0.29 to 0.58 by where values lie between powers of two."""

REPEAT_SHARE = 0.25
"""Share of the element bound by which two calls on the same values may differ."""

_SMALLEST = {DType.FLOAT32: 2.0**-126, DType.BFLOAT16: 2.0**-126, DType.FLOAT16: 2.0**-24, DType.FLOAT8_E4M3FN: 2.0**-9}
_LARGEST = {DType.FLOAT32: float(np.finfo(np.float32).max), DType.BFLOAT16: 3.3895313892515355e38, DType.FLOAT16: 65504.0}
_LARGEST |= {DType.FLOAT8_E4M3FN: 448.0}
_WHOLE = 0.5  # whole numbers that differ are off by twice as much
_SMALLEST |= {dtype: _WHOLE for dtype in DType if not dtype.is_float}
_PROBE = 4096


def _e4m3_values() -> Array:
    """What each byte is as float8_e4m3fn, float32 [256]: 4 bits of exponent, 3 of fraction, no infinity, NaN where all seven are set.

    Micikevicius et al., FP8 Formats for Deep Learning, arXiv 2209.05433.
    """
    bits = np.arange(256)
    sign, exponent, fraction = np.where(bits & 0x80, -1.0, 1.0), bits >> 3 & 0xF, bits & 7
    size = np.where(exponent == 0, np.ldexp(fraction, -9), np.ldexp(8 + fraction, exponent - 10))
    return np.where(bits & 0x7F == 0x7F, np.nan, sign * size).astype(np.float32)  # noqa: PLR2004 - all seven


_E4M3_VALUES = _e4m3_values()
_NO_LIMIT = 1e12


@dataclass(frozen=True, slots=True)
class Scale:
    """How large an output and what was added up to it are; float64, one entry per row where not said otherwise.

    Attributes:
        row_rms: RMS of the output over the row, [rows].
        row_mean: Mean of its absolute value, [rows].
        row_scale: RMS of s over the row, [rows].
        row_terms: Mean of t over the row, where t is `magnitude` and at least |y|, [rows].
        magnitude: Size of the largest terms behind each element, in the output's shape, where the reference says it; s is
            never below it. None: s is |y| plus the row's RMS.
        allowance: What (a) allows beyond its formula for rounded inputs, [rows], see `reference.edges`. None: nothing.
    """

    row_rms: Floats
    row_mean: Floats
    row_scale: Floats
    row_terms: Floats
    magnitude: Floats | None = None
    allowance: Floats | None = None


@dataclass(frozen=True, slots=True)
class RowErrors:
    """A reference's own error against the oracle, one entry per row, [rows].

    Attributes:
        mean_square: Mean of the squared error.
        mean: Mean of the signed error.
    """

    mean_square: Floats
    mean: Floats


@dataclass(frozen=True, slots=True)
class Finding:
    """What the rule says of one output.

    Attributes:
        ok: Whether it passes.
        reason: The rule that it breaks; `Reason.NONE` where it passes.
        worst: Largest error as a share of what is allowed, over the parts of the rule; above 1 where one is broken.
        where: Index of the worst element; empty where no single one is at fault.
        detail: One line in words; empty where it passes.
    """

    ok: bool
    reason: Reason = Reason.NONE
    worst: float = 0.0
    where: tuple[int, ...] = ()
    detail: str = ""


def as_rows(array: Array) -> Array:
    """The array as [rows, elements of a row]; a view where strides allow. Of a vector, each element is a row."""
    if array.ndim >= 2:  # noqa: PLR2004 - a matrix
        return array.reshape(-1, array.shape[-1])
    return array.reshape(-1, 1)


def as_float(array: Array, dtype: DType) -> Array:
    """Values of an array that may hold bfloat16 (uint16) or float8_e4m3fn (uint8) as its bits, in a type that numpy can add."""
    if dtype is DType.BFLOAT16 and array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    if dtype is DType.FLOAT8_E4M3FN and array.dtype == np.uint8:
        return _E4M3_VALUES[array]
    return array


def scale_of(expected: Floats, magnitude: Floats | None = None) -> Scale:
    """The scale of an oracle's output.

    Args:
        expected: Oracle's values, float64.
        magnitude: Same shape; see `Scale`.
    """
    values = as_rows(expected)
    sizes = None if magnitude is None else as_rows(magnitude)
    rms, mean, scale, terms = (np.empty(len(values)) for _ in range(4))
    with np.errstate(invalid="ignore", over="ignore"):
        for block in _blocks(values.shape):
            absolute = np.abs(values[block])
            absolute[~(absolute <= _LARGEST[DType.FLOAT32])] = 0.0  # judged by their pattern
            rms[block] = _row_rms(absolute)
            mean[block] = terms[block] = _row_mean(absolute)
            size = None if sizes is None else np.where(sizes[block] <= _LARGEST[DType.FLOAT32], sizes[block], 0.0)
            if size is not None:
                terms[block] = _row_mean(np.maximum(absolute, size))
            absolute += rms[block][:, None]
            if size is not None:
                np.maximum(absolute, size, out=absolute)
            scale[block] = _row_rms(absolute)
    return Scale(rms, mean, scale, terms, magnitude)


def row_errors(actual: Array, expected: Floats, dtype: DType) -> RowErrors:
    """The error of a reference's output, such as eager PyTorch's in the run's dtype.

    Args:
        actual: Output of the reference, in the run's dtype.
        expected: Oracle's values, same shape.
        dtype: Element type of `actual`.
    """
    found, values = as_rows(actual), as_rows(expected)
    square, mean = np.empty(len(values)), np.empty(len(values))
    with np.errstate(invalid="ignore", over="ignore"):
        for block in _blocks(values.shape):
            error = as_float(found[block], dtype) - values[block]
            error[~np.isfinite(error)] = 0.0
            square[block] = _row_rms(error) ** 2
            mean[block] = _row_mean(error)
    return RowErrors(square, mean)


def element_alone(tolerance: Tolerance) -> Tolerance:
    """The rule without its statistics, (b) and (c): for values that are not of one kind, so that no mean speaks of them."""
    return replace(tolerance, rms_floor=_NO_LIMIT, bias_floor=_NO_LIMIT, reason=tolerance.reason or "values of many kinds")


def rows_within(
    actual: Array, expected: Floats, scale: Scale, reduction: int, tolerance: Tolerance, dtype: DType, share: float
) -> NDArray[np.bool_]:
    """On which rows every value is finite, in both, and off by at most a share of what (a) allows; [rows].

    Args:
        actual: Output in the run's dtype.
        expected: Oracle's values, same shape.
        scale: `scale_of(expected)`.
        reduction: K.
        tolerance: Constants of the rule.
        dtype: Element type of `actual`.
        share: Of the bound.
    """
    found, values = as_rows(actual), as_rows(expected)
    bound, within = Bound(scale, reduction, tolerance, dtype, FLOAT32_ROUNDOFF), np.empty(len(values), np.bool_)
    with np.errstate(invalid="ignore", over="ignore"):
        for block in _blocks(values.shape):
            error = np.abs(as_float(found[block], dtype) - values[block])
            allowed = share * bound.rows(values[block], block)
            within[block] = (np.isfinite(values[block]) & np.isfinite(allowed) & (error <= allowed)).all(axis=1)
    return within


def judge_output(
    actual: Array,
    expected: Floats,
    scale: Scale,
    reduction: int,
    tolerance: Tolerance,
    dtype: DType,
    reference_error: Sequence[RowErrors],
    *,
    accumulate: float = FLOAT32_ROUNDOFF,
    sentinel: int | None = None,
    rows: NDArray[np.intp] | None = None,
    order: NDArray[np.intp] | None = None,
    alone: bool = False,
) -> Finding:
    """Whether one output passes the rule.

    Args:
        actual: What the kernel wrote, in the run's dtype (bfloat16 as uint16); rows may be strided.
        expected: Oracle's values, same shape.
        scale: `scale_of(expected)`.
        reduction: K, the length of the longest sum behind an element, >= 1.
        tolerance: Constants of the rule.
        dtype: Element type of `actual`.
        reference_error: Errors of eager and of every other reference on the same values; at least one.
        accumulate: u_acc.
        sentinel: Bit pattern that outputs were filled with, to tell an element that was not written from a wrong one.
        rows: Rows of `actual` to judge, as `as_rows` counts them; None for all. (a) then holds for these only, (b) and (c) over these.
        order: Row of `expected` that each row of `actual` answers to; None where they agree.
        alone: Whether `expected`, `scale` and `reference_error` are of `rows` alone, in that order, [len(rows), elements of a row].

    Returns:
        The finding; `where` and `detail` speak of rows of `actual`.
    """
    if actual.shape != expected.shape and not alone:
        return Finding(False, Reason.SHAPE, math.inf, (), f"has shape {actual.shape}, should be {expected.shape}")
    bound = Bound(scale, reduction, tolerance, dtype, accumulate)
    found, wanted = as_rows(actual), as_rows(expected)
    chosen = np.arange(len(found)) if rows is None else np.asarray(rows)
    source = chosen if order is None else np.asarray(order)[chosen]
    source = np.arange(len(chosen)) if alone else source
    if not chosen.size or not found.shape[1]:
        return Finding(True)

    plain = rows is None and order is None
    square, mean, worst = np.empty(len(chosen)), np.empty(len(chosen)), 0.0
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for block in _blocks((len(chosen), found.shape[1])):
            here, there = (block, block) if plain else (chosen[block], source[block])
            written, values = found[here], wanted[there]
            error = as_float(written, dtype) - values
            mean[block] = _row_mean(error)
            square[block] = _row_square(error)
            if not np.isfinite(square[block]).all():
                fault = _pattern_fault(written, values, dtype)
                if fault is not None:
                    row = int(chosen[block][fault[0]])
                    return _pointed(Reason.NON_FINITE, math.inf, actual.shape, row, written, values, fault, dtype, sentinel)
                error[~np.isfinite(error)] = 0.0
                values = np.where(np.isfinite(values), values, 0.0)
                mean[block], square[block] = _row_mean(error), _row_square(error)
            share = np.abs(error, out=error)
            share /= bound.rows(values, there)
            peak = float(share.max())
            if not peak <= 1.0:
                at = _first_fault(share, written, dtype, sentinel)
                row = int(chosen[block][at[0]])
                return _pointed(Reason.TOLERANCE, peak, actual.shape, row, written, values, at, dtype, sentinel)
            worst = max(worst, peak)
    return _judge_statistics(square, mean, source, scale, tolerance, dtype, accumulate, reference_error, worst, wanted)


def judge_repeat(
    first: Array,
    second: Array,
    expected: Floats,
    scale: Scale,
    reduction: int,
    tolerance: Tolerance,
    dtype: DType,
    *,
    accumulate: float = FLOAT32_ROUNDOFF,
    deterministic: bool = False,
) -> Finding:
    """Whether two calls on the same values agree: their spread is at most a quarter of what one may be off.

    Args:
        first: Output of one call, in the run's dtype.
        second: Output of another.
        expected: Oracle's values.
        scale: `scale_of(expected)`.
        reduction: K.
        tolerance: Constants of the rule.
        dtype: Element type of the outputs.
        accumulate: u_acc.
        deterministic: Whether the task asks for equal bits.

    Returns:
        The finding; `worst` is 0 exactly where the two are equal bit for bit.
    """
    bound = Bound(scale, reduction, tolerance, dtype, accumulate)
    ours, theirs, values, worst = as_rows(first), as_rows(second), as_rows(expected), 0.0
    bits = np.dtype(f"u{first.dtype.itemsize}")
    with np.errstate(invalid="ignore", over="ignore"):
        for block in _blocks(values.shape):
            one, two = np.ascontiguousarray(ours[block]), np.ascontiguousarray(theirs[block])
            differs = one.view(bits) != two.view(bits)
            if not differs.any():
                continue
            spread = np.abs(as_float(one, dtype).astype(np.float64) - as_float(two, dtype))
            spread[~differs | (np.isnan(as_float(one, dtype)) & np.isnan(as_float(two, dtype)))] = 0.0
            share = spread / (bound.rows(values[block], block) * REPEAT_SHARE)
            share[np.isnan(share)] = np.inf
            peak = float(share.max())
            worst = max(worst, peak, float(np.finfo(np.float64).tiny))
            if peak > 1.0 or deterministic:
                row, col = divmod(int(share.argmax()), share.shape[1])
                where = _index(first.shape, block.start + row, col)
                detail = f"{list(where)} was {one[row, col]}, then {two[row, col]}"
                return Finding(False, Reason.NOT_REPEATABLE, max(peak, worst), where, detail)
    return Finding(True, worst=worst)


class Bound:
    """Rule (a): the largest error an element may have.

    Args:
        scale: Of the oracle's output.
        reduction: K.
        tolerance: Constants of the rule.
        dtype: Element type of the output.
        accumulate: u_acc.

    Attributes:
        value_factor: Share of |y| that is allowed.
        scale_factor: Share of s.
        smallest: What is allowed in any case.
        is_exact: Whether nothing but the very value is right.
    """

    def __init__(self, scale: Scale, reduction: int, tolerance: Tolerance, dtype: DType, accumulate: float) -> None:
        self.scale = scale
        self.value_factor = tolerance.element * dtype.unit_roundoff
        self.scale_factor = tolerance.element * accumulate * math.sqrt(max(reduction, 1)) + tolerance.terms * dtype.unit_roundoff
        self.is_exact = not dtype.is_float
        # Below the smallest normal number results may be flushed to zero.
        self.smallest = _SMALLEST[dtype]
        self.magnitude = None if scale.magnitude is None else as_rows(scale.magnitude)

    def rows(self, values: Floats, at: slice | NDArray[np.intp]) -> Floats:
        """Bound of each element of these rows of the oracle's values, [len(at), elements of a row]."""
        if self.is_exact:
            return np.full(values.shape, self.smallest)
        bound = self._by_formula(values, at)
        if self.scale.allowance is not None:
            bound += self.scale.allowance[at][:, None]
        return bound

    def _by_formula(self, values: Floats, at: slice | NDArray[np.intp]) -> Floats:
        bound: Floats = np.abs(values)
        rms = self.scale.row_rms[at][:, None]
        if self.magnitude is None:
            bound *= self.value_factor + self.scale_factor
            bound += self.scale_factor * rms + self.smallest
            return bound
        size = bound + rms
        np.maximum(size, self.magnitude[at], out=size)
        size *= self.scale_factor
        bound *= self.value_factor
        bound += size
        bound += self.smallest
        return bound


def _judge_statistics(
    square: Floats,
    mean: Floats,
    source: NDArray[np.intp],
    scale: Scale,
    tolerance: Tolerance,
    dtype: DType,
    accumulate: float,
    reference_error: Sequence[RowErrors],
    worst: float,
    wanted: Floats,
) -> Finding:
    """Rules (b) and (c) from the squares and means of rows."""
    count, unit = len(square), dtype.unit_roundoff
    rms = math.sqrt(square.mean())
    reference = max(math.sqrt(r.mean_square[source].mean()) for r in reference_error)
    reference = max(reference, FEW_ROUNDINGS * accumulate * _rms(scale.row_rms[source]))
    if scale.magnitude is not None:
        reference = max(reference, ROUNDING * accumulate * _rms(scale.row_terms[source]))
    few_rows = tolerance.bias_sigma * accumulate * _rms(scale.row_scale[source]) / math.sqrt(count)
    allowed = tolerance.rms_reference * reference + tolerance.rms_floor * unit * _rms(scale.row_rms[source]) + few_rows + _SMALLEST[dtype]
    share = max(worst, rms / allowed)
    if rms > allowed:
        return Finding(False, Reason.TOLERANCE, share, (), f"RMS error {rms:.3g}, the reference's {reference:.3g}, allowed {allowed:.3g}")
    if count < FEWEST_ROWS:
        return Finding(True, worst=share)

    shift, spread = float(mean.mean()), _standard_error(mean)
    rounding = max(unit * float(scale.row_mean[source].mean()), accumulate * float(scale.row_terms[source].mean()))
    floor = tolerance.bias_floor * rounding + _SMALLEST[dtype]
    sigma = student_quantile(tolerance.bias_sigma, count - 1)
    theirs = [(float(r.mean[source].mean()), _standard_error(r.mean[source])) for r in reference_error]
    limits = [(0.0, max(sigma * spread, floor, *(tolerance.rms_reference * abs(there) for there, _ in theirs)))]
    limits += [(there, max(sigma * math.hypot(spread, error), floor)) for there, error in theirs]
    bias = min(abs(shift - centre) / limit for centre, limit in limits)
    if bias > 1.0:
        few_values = sigma * rms / math.sqrt(_distinct(wanted, source))
        bias = min(bias, abs(shift) / max(few_values, floor))
    if bias > 1.0:
        return Finding(False, Reason.BIAS, max(share, bias), (), f"mean error {shift:.3g} where {limits[0][1]:.3g} is allowed")
    return Finding(True, worst=max(share, bias))


def student_quantile(normal: float, freedom: int) -> float:
    """Student's quantile at the tail probability of a normal one.

    The Cornish-Fisher expansion to the third order (Abramowitz and Stegun 26.7.5); within 6 % for 4 sigma and at least
    seven degrees of freedom.

    Args:
        normal: Standard deviations of a normal variable.
        freedom: Degrees of freedom, >= 1.
    """
    x = normal
    first = (x**3 + x) / 4
    second = (5 * x**5 + 16 * x**3 + 3 * x) / 96
    third = (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384
    return x + first / freedom + second / freedom**2 + third / freedom**3


def _blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    rows, columns = shape
    step = max(1, BLOCK // max(columns, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _row_square(values: Floats) -> Floats:
    result: Floats = np.einsum("ij,ij->i", values, values) / values.shape[1]
    return result


def _row_rms(values: Floats) -> Floats:
    result: Floats = np.sqrt(_row_square(values))
    return result


def _row_mean(values: Floats) -> Floats:
    if values.shape[1] == 1:
        return values[:, 0].copy()
    result: Floats = np.add.reduce(values, axis=1) / values.shape[1]
    return result


def _rms(values: Floats) -> float:
    return math.sqrt(float(np.dot(values, values)) / len(values))


def _standard_error(means: Floats) -> float:
    return float(means.std(ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else math.inf


def _distinct(wanted: Floats, source: NDArray[np.intp]) -> float:
    """How many distinct values an output holds, from a sample of it; infinite where most of the sample are."""
    columns = wanted.shape[1]
    flat = np.linspace(0, len(source) * columns - 1, min(_PROBE, len(source) * columns)).astype(np.intp)
    sample = wanted[source[flat // columns], flat % columns]
    count = len(np.unique(sample))
    return math.inf if 2 * count > len(sample) else float(count)


def _pattern_fault(written: Array, values: Floats, dtype: DType) -> tuple[int, int] | None:
    """First element whose infinity or NaN is not the oracle's; None where all agree."""
    found = as_float(written, dtype).astype(np.float64)
    rounded = np.where(np.abs(values) > _LARGEST[dtype], np.copysign(np.inf, values), values)
    both = np.isfinite(found) & np.isfinite(rounded)
    same = both | (np.isnan(found) & np.isnan(rounded)) | (found == rounded)
    if same.all():
        return None
    row, column = divmod(int(np.argmin(same)), same.shape[1])
    return row, column


def _first_fault(share: Floats, written: Array, dtype: DType, sentinel: int | None) -> tuple[int, int]:
    """The element to name: one that was not written if there is one, else the worst."""
    if sentinel is not None:
        left = (share > 1.0) & (_bits(written, dtype) == sentinel)
        if left.any():
            row, column = divmod(int(left.argmax()), share.shape[1])
            return row, column
    row, column = divmod(int(share.argmax()), share.shape[1])
    return row, column


def _bits(values: Array, dtype: DType) -> Array:
    return np.ascontiguousarray(values).view(np.dtype(f"u{dtype.itemsize}"))


def _pointed(
    reason: Reason,
    worst: float,
    shape: tuple[int, ...],
    row: int,
    written: Array,
    values: Floats,
    at: tuple[int, int],
    dtype: DType,
    sentinel: int | None,
) -> Finding:
    where = _index(shape, row, at[1])
    if sentinel is not None and int(_bits(written[at[0]], dtype)[at[1]]) == sentinel:
        return Finding(False, Reason.SENTINEL_LEFT, worst, where, f"{list(where)} was never written")
    found = float(as_float(written[at[0] : at[0] + 1], dtype)[0, at[1]])
    detail = f"{list(where)} is {found:.9g}, should be {values[at]:.9g}: {worst:.3g} times the allowed error"
    return Finding(False, reason, worst, where, detail)


def _index(shape: tuple[int, ...], row: int, column: int) -> tuple[int, ...]:
    columns = shape[-1] if len(shape) > 1 else 1
    return tuple(int(i) for i in np.unravel_index(row * columns + column, shape)) if shape else ()
