"""Edges of values: what a kernel that is right on ordinary numbers may still get wrong (EVALUATOR section 4, check).

A maximum that starts from 0 or from -1e9, a running rescale that meets -inf first, a variance taken as a difference, a table
that ends: each is right on normal draws. Nothing here knows of any of them. Rows of a task's own inputs are replaced by rows
at the ends of what its element type holds, parameters get large entries, and both stay only where the reference is finite and
eager's own error is well within the rule, so what a task leaves undefined is never asked.

Far from 0 an honest kernel may be off by what its inputs' own rounding would explain: exp2(x log2(e) - m log2(e)) is off by
|m| u where exp(x - m) is exact. The oracle therefore evaluates the reference on `NEARBY` inputs a unit round-off away, and what
that changes is allowed too (`allowance`): the backward error of Higham, Accuracy and Stability of Numerical Algorithms, 1.5.

Runs in the oracle's process; torch is handed in. Values are drawn on the device that chance is of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]

NAME = "edges"
"""How a draw of edges is asked for; no task names it among its distributions."""

SCALARS = "other scalars"
"""How a draw with other scalars than the task's own is asked for (`sets.Shelf`)."""

SHARE = 0.5
"""Share of the element bound that eager's error may take on a row that stays."""

LOW, LOWEST = 1e4, 4e9
"""Far below 0 where float16 still has whole numbers, and below every finite stand-in for -inf that is in use but the largest. Only parts of
a row lie at the latter: a whole row there says nothing, for one unit round-off of it is more than exp can hold."""

LARGE_FACTOR = 16.0
"""Most that a large parameter is, as a multiple of their RMS; the least is half of it: what has few bits before the point ends there."""

NEARBY = 2
"""Inputs around a set's own on which the reference is evaluated too."""

ROUNDINGS = 8.0
"""How many roundings of an input, each as large as `NEARBY` inputs were moved by, a kernel may make: to fold a factor in, of the factor
itself, to undo it, to rescale once or twice, with as many to spare."""

MOST_ALLOWED = 0.125
"""Share of an output row's RMS that these may add up to; beyond it the row says nothing, and is drawn from ordinary values instead."""

MOST_ORDINARY = 2.0**-15
"""The same for ordinary values, 512 roundings in float32: a softmax in base 2 of values around 50, whose shift is a rounded product, needs
300 of them, and one that is off by more than a few thousand is a cheap one."""

FEW = 16
"""Elements of an output row below which the largest change may be small by luck: rows at the same edge are then taken together."""

_ROOM = 0.9
"""Share of the largest number up to which values go, so that one more rounding does not make an infinity."""


def rows(torch: Any, base: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The tensor with every row drawn anew at some edge.

    Args:
        torch: The module.
        base: Ordinary values, [rows, ...], in their own type.
        generator: Chance; which row gets which edge comes from it too.
    """
    flat = base.double().reshape(base.shape[0], -1)
    result = flat.clone()
    kinds = list(_EDGES.values())
    first = int(torch.randint(len(kinds), (), generator=generator, device=generator.device))
    for number in range(len(kinds)):
        chosen = slice((number + first) % len(kinds), None, len(kinds))
        if flat[chosen].numel():
            result[chosen] = kinds[number](torch, flat[chosen], generator, base.dtype)
    most = _ROOM * torch.finfo(base.dtype).max
    infinite = result == -torch.inf
    result = result.clamp(-most, most)
    result[infinite] = -torch.inf
    return result.to(base.dtype).reshape(base.shape)


def whole(torch: Any, base: torch.Tensor, generator: torch.Generator, kind: str) -> torch.Tensor:
    """The tensor drawn anew at one edge, for tasks whose rows are not independent.

    Args:
        torch: The module.
        base: Ordinary values.
        generator: Chance.
        kind: From `KINDS`.
    """
    flat = base.double().reshape(1, -1)
    most = _ROOM * torch.finfo(base.dtype).max
    result: torch.Tensor = _EDGES[kind](torch, flat, generator, base.dtype)
    return torch.where(result == -torch.inf, result, result.clamp(-most, most)).to(base.dtype).reshape(base.shape)


def some_large(torch: Any, values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Parameters of which a quarter, by chance, and one at least is up to `LARGE_FACTOR` times the RMS of all; signs stay.

    Args:
        torch: The module.
        values: Ordinary ones.
        generator: Chance.
    """
    flat = values.double().reshape(-1)
    chosen = torch.randperm(flat.numel(), generator=generator, device=generator.device)[: max(1, flat.numel() // 4)]
    share = 1 - _uniform(torch, chosen.double(), generator) / 2
    flat[chosen] = flat[chosen].sign() * share * LARGE_FACTOR * flat.square().mean().sqrt()
    return flat.to(values.dtype).reshape(values.shape)


def nearby(torch: Any, values: torch.Tensor, unit: float, generator: torch.Generator) -> torch.Tensor:
    """Values in float64, each moved up or down by a unit round-off; the two largest of a row in opposite ways.

    Where two values decide a row, as in a softmax, the same way for both would say that rounding changes nothing.

    Args:
        torch: The module.
        values: Of an input.
        unit: Unit round-off.
        generator: Chance of the signs.
    """
    signs = 2 * torch.randint(2, values.shape, generator=generator, device=generator.device, dtype=torch.int8) - 1
    if values.ndim and values.shape[-1] > 1:
        largest = values.topk(2, dim=-1).indices
        signs.scatter_(-1, largest[..., 1:], -signs.gather(-1, largest[..., :1]))
    moved: torch.Tensor = values.double() * (1 + unit * signs.double())  # in float32 1 + unit would be 1
    return moved


def allowance(expected: Floats, changed: Sequence[Floats], edge: NDArray[np.intp]) -> Floats:
    """How far an output may be off beyond the rule, because its inputs are rounded; one entry per output row, [rows].

    Args:
        expected: Oracle's values, [..., elements of a row].
        changed: The same on inputs nearby.
        edge: Which edge each row of the inputs is at, -1 for none; one entry where all of a tensor is at one.
    """
    rows = expected.reshape(-1, expected.shape[-1]) if expected.ndim > 1 else expected.reshape(-1, 1)
    largest = np.zeros(len(rows))
    with np.errstate(invalid="ignore", over="ignore"):
        for values in changed:
            moved = np.abs(values.reshape(rows.shape) - rows)
            moved[~np.isfinite(moved)] = np.inf
            np.maximum(largest, moved.max(axis=1, initial=0.0), out=largest)
    return allowed(largest, rows.shape[1], edge)


def allowed(largest: Floats, columns: int, edge: NDArray[np.intp]) -> Floats:
    """The same from the largest change of each output row.

    Args:
        largest: [rows].
        columns: Elements of an output row.
        edge: See `allowance`.
    """
    if columns < FEW:
        largest = _over_rows_alike(largest, np.repeat(edge, len(largest) // len(edge)))
    return ROUNDINGS * largest


def ordinary_allowance(expected: Floats, changed: Floats, element: float, row_rms: Floats) -> Floats:
    """The same for ordinary values, where one rounding of the inputs moves rows as little as the rule's own formula allows for most tasks.

    Args:
        expected: Oracle's values, [..., elements of a row].
        changed: The same on inputs nearby.
        element: How many such roundings a kernel may make, the task's `Tolerance.element`.
        row_rms: Of `expected`, [rows].

    Returns:
        [rows]; of what is not finite in either nothing is allowed.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        moved = np.abs(changed - expected).reshape(len(row_rms), -1)
    moved[~np.isfinite(moved)] = 0.0
    allowed: Floats = np.minimum(element * moved.max(axis=1, initial=0.0), MOST_ORDINARY * row_rms)
    return allowed


def of_rows(count: int) -> NDArray[np.intp]:
    """A number for the edge that each row of `rows` is at."""
    return np.arange(count) % len(KINDS)


def _over_rows_alike(largest: Floats, edge: NDArray[np.intp]) -> Floats:
    """For each row, the largest finite value of all at the same edge; its own where it is at none."""
    most, at_one = np.zeros(len(KINDS)), edge >= 0
    np.maximum.at(most, edge[at_one], np.where(np.isfinite(largest), largest, 0.0)[at_one])
    return np.where(at_one, np.maximum(largest, most[edge]), largest)


def _uniform(torch: Any, like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    values: torch.Tensor = torch.rand(like.shape, generator=generator, device=generator.device, dtype=like.dtype)
    return values


def _masked(torch: Any, z: torch.Tensor, generator: torch.Generator, dtype: Any) -> torch.Tensor:
    hidden = _uniform(torch, z, generator) < 0.5  # noqa: PLR2004 - half
    hidden[:, int(torch.randint(z.shape[1], (), generator=generator, device=generator.device))] = False
    return z.masked_fill(hidden, -torch.inf)


def _masked_from(torch: Any, z: torch.Tensor, *, head: bool) -> torch.Tensor:
    """The first half at -inf, or all but the first element."""
    result = z.clone()
    if head:
        result[:, : z.shape[1] // 2] = -torch.inf
    else:
        result[:, 1:] = -torch.inf
    return result


def _mixed(torch: Any, z: torch.Tensor, generator: torch.Generator, dtype: Any) -> torch.Tensor:
    result: torch.Tensor = z * 10 ** (12 * _uniform(torch, z, generator) - 6)
    return result


_EDGES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "low": lambda torch, z, generator, dtype: z - LOW,
    "lowest": lambda torch, z, generator, dtype: _masked(torch, z, generator, dtype).clamp(min=-LOWEST),
    "high": lambda torch, z, generator, dtype: z + LOW,
    "constant": lambda torch, z, generator, dtype: 10 * z[:, :1].expand_as(z),
    "zero": lambda torch, z, generator, dtype: torch.zeros_like(z),
    "masked": _masked,
    "masked head": lambda torch, z, generator, dtype: _masked_from(torch, z, head=True),
    "masked tail": lambda torch, z, generator, dtype: _masked_from(torch, z, head=False),
    "tiny": lambda torch, z, generator, dtype: z * torch.finfo(dtype).tiny * 1024,
    "mixed": _mixed,
    "rising": lambda torch, z, generator, dtype: z.sort(dim=1).values,
    "falling": lambda torch, z, generator, dtype: z.sort(dim=1, descending=True).values,
}

KINDS = tuple(_EDGES)
"""Names of the edges."""
