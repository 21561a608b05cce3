"""Group normalisation, Wu and He 2018, arXiv 1803.08494."""

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

ROUNDINGS = 8
"""What a mean of eight float32 accumulators may be off by, in roundings of it."""


def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """[rows, groups, depth, cols], [groups depth], [groups depth], scalar -> [rows, groups, depth, cols]."""
    return F.group_norm(x.flatten(1, 2), x.shape[1], weight, bias, eps).view(x.shape)


def magnitude(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """A mean cancels where a group is far from 0: what it is off by counts for its own size."""
    variance, mean = torch.var_mean(x, dim=(2, 3), correction=0, keepdim=True)
    scale, shift = (v.abs().view(1, x.shape[1], x.shape[2], 1) for v in (weight, bias))
    return (x.abs() + ROUNDINGS * mean.abs()) * torch.rsqrt(variance + eps) * scale + shift
