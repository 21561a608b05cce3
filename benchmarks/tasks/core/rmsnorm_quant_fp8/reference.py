"""RMSNorm, Zhang and Sennrich 2019, arXiv 1910.07467, quantised by row to FP8, Micikevicius et al. 2022, arXiv 2209.05433."""

import torch

LARGEST = 448.0
"""The largest number of float8_e4m3fn."""

LEAST = 1e-12
"""What counts as the largest size of a row where that is smaller, so that a row of zeros has a scale too."""

ROUNDINGS = 128
"""What a scale may be off by, about, in roundings of float32."""


def run(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, cols], [cols], scalar -> q, [rows, cols], and scale, [rows]; in float64 q is what is to be rounded."""
    wide = x if x.dtype is torch.float64 else x.float()
    y = wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps) * weight
    scale = y.abs().amax(dim=-1).clamp_min(LEAST) / LARGEST
    quotient = (y / scale[:, None]).clamp(-LARGEST, LARGEST)
    return (quotient if x.dtype is torch.float64 else quotient.to(torch.float8_e4m3fn)), scale


def magnitude(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A float32 sum of few distinct squares is off by K roundings, not sqrt(K): the scale is asked for to 16 bits, q as it is."""
    quotient, scale = run(x, weight, eps)
    return quotient, ROUNDINGS * scale
