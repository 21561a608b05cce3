"""Running sum along each row, the element itself included."""

import torch


def run(x: torch.Tensor) -> torch.Tensor:
    """[rows, cols] -> [rows, cols]."""
    wide = x if x.dtype is torch.float64 else x.float()
    return torch.cumsum(wide, dim=-1).to(x.dtype)


def magnitude(x: torch.Tensor) -> torch.Tensor:
    """Terms of both signs cancel: what was added up is as large as the sum of absolute values."""
    return torch.cumsum(x.abs(), dim=-1)
