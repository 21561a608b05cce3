"""A matrix of 4-bit weights times a vector: groups of 128 weights along k share a scale and a zero point.

The layout and the formula of AWQ's and GPTQ's kernels, Lin et al. 2023, arXiv 2306.00978, less their interleaving: byte j of a
row holds weight 2 j in its low nibble and weight 2 j + 1 in its high one, both from 0 to 15.
"""

import torch

GROUP = 128


def run(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """[k], [n, k / 2] of two weights a byte, [n, k / 128], [n, k / 128] -> [n]."""
    return _dequantised(weight, scale, zero) @ x


def make_inputs(axes: dict[str, int], dtype: torch.dtype, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Any weights and zero points; scales as of a trained layer, and activations of which one in 61 is an outlier."""
    n, groups = axes["n"], axes["groups"]
    x = torch.randn(groups * GROUP, generator=generator)
    x[int(torch.randint(61, (), generator=generator)) :: 61] *= 20
    return {
        "x": x.to(dtype),
        "weight": torch.randint(-128, 128, (n, groups * GROUP // 2), dtype=torch.int8, generator=generator),
        "scale": ((0.5 + torch.rand(n, groups, generator=generator)) / 128).to(dtype),
        "zero": torch.randint(0, 16, (n, groups), dtype=torch.int8, generator=generator),
    }


def magnitude(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """Root of the sum of squared products: what independent roundings of each of them are measured by."""
    return (_dequantised(weight, scale, zero).square() @ x.square()).sqrt()


def _dequantised(weight: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """[n, k] in the type of the scales."""
    nibbles = torch.stack((weight & 15, (weight >> 4) & 15), dim=-1).reshape(*scale.shape, GROUP)
    return ((nibbles - zero[..., None]).to(scale.dtype) * scale[..., None]).reshape(scale.shape[0], -1)
