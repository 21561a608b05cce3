"""The largest elements of each row, in falling order, and where they are."""

import torch

K = 32
_SHAPES_OF_ROWS = 5


def run(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, cols] -> [rows, K] of values, [rows, K] of indices."""
    values, indices = torch.topk(x, K, dim=-1)
    return values, indices


def make_inputs(axes: dict[str, int], dtype: torch.dtype, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Rows without ties among their K + 1 largest elements, so that indices are defined.

    In turn they are normal, rising, falling, below zero, and wide with half of what is not among the largest at -inf.
    """
    x = torch.randn(axes["rows"], axes["cols"], generator=generator)
    first = int(torch.randint(_SHAPES_OF_ROWS, (), generator=generator))
    rising, falling, below, masked = (slice((first + turn) % _SHAPES_OF_ROWS, None, _SHAPES_OF_ROWS) for turn in range(1, _SHAPES_OF_ROWS))
    x[rising] = x[rising].sort(dim=-1).values
    x[falling] = x[falling].sort(dim=-1, descending=True).values
    x[below] = -1 - x[below].abs()
    x[masked] *= 10
    x = x.to(dtype)
    hidden = torch.rand(x[masked].shape, generator=generator) < 0.5  # noqa: PLR2004 - half
    hidden.scatter_(-1, _largest(x[masked]).indices, False)
    x[masked] = x[masked].masked_fill(hidden, -torch.inf)
    return {"x": _without_ties(x)}


def _largest(x: torch.Tensor) -> torch.return_types.topk:
    """One more than are asked for: the last of them must differ from the next too."""
    return torch.topk(x, min(K + 1, x.shape[-1]), dim=-1)


def _without_ties(x: torch.Tensor) -> torch.Tensor:
    """The same with each of a row's largest elements, from the least up, at least one step of its type above the one before."""
    values, indices = _largest(x)
    rank = torch.arange(values.shape[-1])
    steps = _steps(values).flip(-1)
    steps = (steps - rank).cummax(dim=-1).values + rank
    return x.scatter(-1, indices, _at(steps.flip(-1), x.dtype))


def _steps(x: torch.Tensor) -> torch.Tensor:
    """How many numbers of the type lie between zero and each element, negative below zero; both zeros are at 0."""
    bits = x.view(torch.int32 if x.dtype is torch.float32 else torch.int16).long()
    return torch.where(bits < 0, -(bits & (2 ** (8 * x.element_size() - 1) - 1)), bits)


def _at(steps: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The number so many steps from zero."""
    whole = torch.int32 if dtype is torch.float32 else torch.int16
    return torch.where(steps < 0, -steps + torch.iinfo(whole).min, steps).to(whole).view(dtype)
