"""What the rule needs to know of an output, found on a device: `rule.correctness` and `edges` in torch instead of numpy.

The same formulas in float64, so that results differ by the order of addition alone. Tensors are of one device; what is returned
stays there. Only the oracle's process imports this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evokern.evaluator.reference import edges
from evokern.evaluator.rule.correctness import FLOAT32_ROUNDOFF, Bound, RowErrors, Scale
from evokern.task import DType, Tolerance

BLOCK = 1 << 26
"""Elements at a time: half a gigabyte for each value that a formula has under way."""

_LARGEST_FLOAT32 = torch.finfo(torch.float32).max


def as_rows(tensor: torch.Tensor) -> torch.Tensor:
    """See `correctness.as_rows`."""
    return tensor.reshape(-1, tensor.shape[-1]) if tensor.ndim > 1 else tensor.reshape(-1, 1)


def scale_of(expected: torch.Tensor, magnitude: torch.Tensor | None = None) -> Scale:
    """See `correctness.scale_of`; a `Scale` of tensors."""
    values = as_rows(expected)
    sizes = None if magnitude is None else as_rows(magnitude)
    rms, mean, scale, terms = (_empty(values) for _ in range(4))
    for block in _blocks(values):
        absolute = values[block].abs()
        absolute.masked_fill_(~(absolute <= _LARGEST_FLOAT32), 0.0)
        rms[block] = _row_square(absolute).sqrt()
        mean[block] = terms[block] = _row_mean(absolute)
        size = None if sizes is None else sizes[block].masked_fill(~(sizes[block] <= _LARGEST_FLOAT32), 0.0)
        if size is not None:
            terms[block] = _row_mean(torch.maximum(absolute, size))
        absolute += rms[block][:, None]
        if size is not None:
            absolute = torch.maximum(absolute, size)
        scale[block] = _row_square(absolute).sqrt()
    whole: tuple[Any, ...] = (rms, mean, scale, terms, magnitude)
    return Scale(*whole)


def row_errors(actual: torch.Tensor, expected: torch.Tensor, dtype: DType) -> RowErrors:
    """See `correctness.row_errors`; a `RowErrors` of tensors. `actual` is in its own type, which `dtype` only names."""
    found, values = as_rows(actual), as_rows(expected)
    square, mean = _empty(values), _empty(values)
    for block in _blocks(values):
        error = _wide(found[block]) - values[block]
        error.masked_fill_(~error.isfinite(), 0.0)
        square[block] = _row_square(error).sqrt() ** 2
        mean[block] = _row_mean(error)
    both: tuple[Any, ...] = (square, mean)
    return RowErrors(*both)


def rows_within(
    actual: torch.Tensor, expected: torch.Tensor, scale: Scale, reduction: int, tolerance: Tolerance, dtype: DType, share: float
) -> torch.Tensor:
    """See `correctness.rows_within`; [rows], on the device."""
    found, values = as_rows(actual), as_rows(expected)
    bound = Bound(scale, reduction, tolerance, dtype, FLOAT32_ROUNDOFF)
    within = torch.empty(len(values), dtype=torch.bool, device=values.device)
    for block in _blocks(values):
        error = (_wide(found[block]) - values[block]).abs()
        allowed = share * _bound_of(bound, values[block], block)
        within[block] = (values[block].isfinite() & allowed.isfinite() & (error <= allowed)).all(dim=1)
    return within


def allowance(expected: torch.Tensor, changed: Sequence[torch.Tensor], edge: NDArray[np.intp]) -> torch.Tensor:
    """See `edges.allowance`."""
    values = as_rows(expected)
    largest = torch.zeros_like(_empty(values))
    for other in changed:
        others = as_rows(other)
        for block in _blocks(values):
            moved = (others[block] - values[block]).abs()
            moved.masked_fill_(~moved.isfinite(), torch.inf)
            largest[block] = torch.maximum(largest[block], moved.amax(dim=1))
    return torch.from_numpy(edges.allowed(largest.cpu().numpy(), values.shape[1], edge)).to(values.device)


def ordinary_allowance(expected: torch.Tensor, changed: torch.Tensor, element: float, row_rms: torch.Tensor) -> torch.Tensor:
    """See `edges.ordinary_allowance`."""
    values, others = as_rows(expected), as_rows(changed)
    largest = _empty(values)
    for block in _blocks(values):
        moved = (others[block] - values[block]).abs()
        moved.masked_fill_(~moved.isfinite(), 0.0)
        largest[block] = moved.amax(dim=1)
    return torch.minimum(element * largest, edges.MOST_ORDINARY * row_rms)


def _bound_of(bound: Bound, values: torch.Tensor, at: slice) -> torch.Tensor:
    """See `correctness.Bound.rows`."""
    if bound.is_exact:
        return torch.full_like(values, bound.smallest)
    scale: Any = bound.scale
    absolute = values.abs()
    size = absolute + scale.row_rms[at][:, None]
    if scale.magnitude is not None:
        size = torch.maximum(size, as_rows(scale.magnitude)[at])
    allowed = absolute * bound.value_factor + size * bound.scale_factor + bound.smallest
    return allowed if scale.allowance is None else allowed + scale.allowance[at][:, None]


def _wide(found: torch.Tensor) -> torch.Tensor:
    """In float64; what has a byte an element by way of float32, the only type that all devices make of it."""
    return found.float().double() if found.is_floating_point() and found.element_size() == 1 else found.double()


def _empty(values: torch.Tensor) -> torch.Tensor:
    return torch.empty(len(values), dtype=torch.float64, device=values.device)


def _blocks(values: torch.Tensor) -> Iterator[slice]:
    rows, columns = values.shape
    step = max(1, BLOCK // max(columns, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _row_square(values: torch.Tensor) -> torch.Tensor:
    return (values * values).sum(dim=1) / values.shape[1]


def _row_mean(values: torch.Tensor) -> torch.Tensor:
    return values.sum(dim=1) / values.shape[1]
