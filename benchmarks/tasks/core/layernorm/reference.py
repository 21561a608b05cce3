"""Layer normalisation, Ba, Kiros and Hinton 2016, arXiv 1607.06450."""

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

ROUNDINGS = 8
"""What a mean of eight float32 accumulators may be off by, in roundings of it."""


def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """[rows, cols], [cols], [cols], scalar -> [rows, cols]."""
    return F.layer_norm(x, (x.shape[-1],), weight, bias, eps)


def magnitude(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """A mean cancels where a row is far from 0: what it is off by counts for its own size."""
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x.abs() + ROUNDINGS * mean.abs()) * torch.rsqrt(variance + eps) * weight.abs() + bias.abs()
