"""Root-mean-square normalisation, Zhang and Sennrich 2019, arXiv 1910.07467."""

import torch


def run(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """[rows, cols], [cols], scalar -> [rows, cols]."""
    wide = x if x.dtype is torch.float64 else x.float()
    normal = wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (normal * weight).to(x.dtype)
