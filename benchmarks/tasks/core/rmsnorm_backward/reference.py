"""The backward pass of root-mean-square normalisation, Zhang and Sennrich 2019, arXiv 1910.07467; 1 / RMS is computed anew."""

import torch

ROUNDINGS = 8
"""What a mean of eight float32 accumulators may be off by, in roundings of it."""


def run(grad_y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, cols], [rows, cols], [cols], scalar -> gradients in x, [rows, cols], and in weight, [cols]."""
    grad, wide, scale = (v if v.dtype is torch.float64 else v.float() for v in (grad_y, x, weight))
    inverse = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps)
    normal, inner = wide * inverse, grad * scale
    grad_x = inverse * (inner - normal * (inner * normal).mean(dim=-1, keepdim=True))
    return grad_x.to(x.dtype), (grad * normal).sum(dim=0).to(x.dtype)


def magnitude(grad_y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Both are sums whose terms cancel: the sums of their sizes. In few rows what 1 / RMS is off by is the same in all columns."""
    inverse = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    normal, inner = (x * inverse).abs(), (grad_y * weight).abs()
    return inverse * (inner + normal * (inner * normal).mean(dim=-1, keepdim=True)), ROUNDINGS * (grad_y.abs() * normal).sum(dim=0)
