"""Sum of each row."""

import torch


def run(x: torch.Tensor) -> torch.Tensor:
    """[rows, cols] -> [rows]."""
    return x.sum(dim=-1)


def make_inputs(axes: dict[str, int], dtype: torch.dtype, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Terms of one sign, uniform up to a bound of each row's own, at most 1/16: a long row's sum is no infinity in float16."""
    largest = (1 + torch.rand(axes["rows"], 1, generator=generator)) / 32
    return {"x": (largest * torch.rand(axes["rows"], axes["cols"], generator=generator)).to(dtype)}


def magnitude(x: torch.Tensor) -> torch.Tensor:
    """Terms of both signs cancel: what was added up is as large as the sum of absolute values."""
    return x.abs().sum(dim=-1)
