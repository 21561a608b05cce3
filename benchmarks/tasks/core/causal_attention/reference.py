"""Attention of each position to itself and those before it, Vaswani et al. 2017, arXiv 1706.03762."""

import math

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

_KINDS = 4


def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Three of [heads, seq, dim] -> [heads, seq, dim]; scores are divided by the root of dim."""
    # With a batch of one: PyTorch's fused attention takes four axes.
    return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


def make_inputs(axes: dict[str, int], dtype: torch.dtype, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """In turn, heads whose scores are plain, peaked, far below zero and far above it; values plain, with outliers, and far from zero."""
    heads, seq, dim = axes["heads"], axes["seq"], axes["dim"]
    q, k, v = (torch.randn(heads, seq, dim, generator=generator) for _ in range(3))
    first = int(torch.randint(_KINDS, (), generator=generator))
    peaked, below, above = (slice((first + turn) % _KINDS, None, _KINDS) for turn in range(1, _KINDS))
    q[peaked] *= 3
    far = 10 * dim**0.25  # its square over the root of dim is 100
    q[below, :, 0] += far
    k[below, :, 0] -= far
    q[above, :, -1] -= far
    k[above, :, -1] -= far
    v[peaked, :, int(torch.randint(dim, (), generator=generator))] *= 20
    v[above] += 8
    return {"q": q.to(dtype), "k": k.to(dtype), "v": v.to(dtype)}


def magnitude(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Root of the sum of squares of what independent roundings of size 1 would add.

    Of each product of a probability and a value; and of each product behind a score, which moves its probability by as much, and the
    result by that times the distance of the value from the result.
    """
    result = torch.empty_like(v)
    later = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool, device=q.device).triu(1)
    for head in range(q.shape[0]):
        scores = (q[head] @ k[head].t() / math.sqrt(q.shape[-1])).masked_fill(later, -torch.inf)
        weight = torch.softmax(scores, dim=-1)
        output, weight = weight @ v[head], weight.square()
        of_scores = weight * (q[head].square() @ k[head].square().t() / q.shape[-1])
        square = (weight + of_scores) @ v[head].square() + output * (output * of_scores.sum(dim=-1, keepdim=True) - 2 * of_scores @ v[head])
        result[head] = square.clamp(min=0).sqrt()
    return result
