"""Activations times 8-bit weights that have one scale per output channel.

Weight-only quantisation as in LLM.int8()'s and PyTorch's int8 weight-only linear layers, Dettmers et al. 2022, arXiv 2208.07339.
"""

import torch


def run(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """[m, k], [n, k], [n] -> [m, n]."""
    return (x @ weight.to(x.dtype).t()) * scale


def make_inputs(axes: dict[str, int], dtype: torch.dtype, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Weights as quantised from normal ones, one of a row at the end of the range; scales as of a trained layer; outliers among x."""
    m, n, k = axes["m"], axes["n"], axes["k"]
    weight = (torch.randn(n, k, generator=generator) * 24).round().clamp(-127, 127)
    weight[torch.arange(n), torch.randint(k, (n,), generator=generator)] = 127
    x = torch.randn(m, k, generator=generator)
    x[:, int(torch.randint(61, (), generator=generator)) :: 61] *= 20
    return {
        "x": x.to(dtype),
        "weight": weight.to(torch.int8),
        "scale": ((0.5 + torch.rand(n, generator=generator)) / 512).to(dtype),
    }


def magnitude(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Root of the sum of squared products: what independent roundings of each of them are measured by."""
    return (x.square() @ weight.to(x.dtype).square().t()).sqrt() * scale.abs()
