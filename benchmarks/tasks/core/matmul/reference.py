"""Product of two matrices."""

import torch


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """[m, k], [k, n] -> [m, n]."""
    return a @ b


def magnitude(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Products of both signs cancel: what was added up is as large as the product of absolute values."""
    return a.abs() @ b.abs()
