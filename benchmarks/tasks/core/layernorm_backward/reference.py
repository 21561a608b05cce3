"""The backward pass of layer normalisation, Ba, Kiros and Hinton 2016, arXiv 1607.06450; mean and variance are computed anew."""

import torch

ROUNDINGS = 8
"""What a mean of eight float32 accumulators may be off by, in roundings of it."""


def run(grad_y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """[rows, cols], [rows, cols], [cols], scalar -> gradients in x, [rows, cols], in weight and in bias, [cols] each."""
    grad, wide, scale = (v if v.dtype is torch.float64 else v.float() for v in (grad_y, x, weight))
    away = wide - wide.mean(dim=-1, keepdim=True)
    inverse = torch.rsqrt(away.pow(2).mean(dim=-1, keepdim=True) + eps)
    normal, inner = away * inverse, grad * scale
    along = normal * (inner * normal).mean(dim=-1, keepdim=True)
    grad_x = inverse * (inner - inner.mean(dim=-1, keepdim=True) - along)
    return grad_x.to(x.dtype), (grad * normal).sum(dim=0).to(x.dtype), grad.sum(dim=0).to(x.dtype)


def magnitude(grad_y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All are sums whose terms cancel, x - mean among them: the sums of their sizes."""
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    inverse = torch.rsqrt(variance + eps)
    normal, inner = (x.abs() + ROUNDINGS * mean.abs()) * inverse, (grad_y * weight).abs()
    along = normal * (inner * normal).mean(dim=-1, keepdim=True)
    grad_x = inverse * (inner + inner.mean(dim=-1, keepdim=True) + along)
    return grad_x, ROUNDINGS * (grad_y.abs() * normal).sum(dim=0), grad_y.abs().sum(dim=0)
