"""Residual addition and root-mean-square normalisation, Zhang and Sennrich 2019, arXiv 1910.07467, as before any layer."""

import torch


def run(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, cols], [rows, cols], [cols], scalar -> the new residual and y, both [rows, cols]."""
    total = x + residual
    wide = total if total.dtype is torch.float64 else total.float()
    normal = wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps)
    return total, (normal * weight).to(x.dtype)
