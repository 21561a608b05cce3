"""Rotary position embedding of keys, Su et al. 2021, arXiv 2104.09864, and a write into a cache of keys and values by slot."""

import torch


def run(
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    slots: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Twice [rows, heads, 2 half], twice [rows, half], [rows], then the caches, [2 rows, heads, 2 half], changed in place."""
    wide = [v if v.dtype is torch.float64 else v.float() for v in (key, cos, sin)]
    (first, second), cosine, sine = wide[0].chunk(2, dim=-1), wide[1][:, None], wide[2][:, None]
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    key_cache.index_copy_(0, slots, turned.to(key.dtype))
    value_cache.index_copy_(0, slots, value)
    return key_cache, value_cache


def make_inputs(axes: dict[str, int], dtype: torch.dtype, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Distinct slots in any order; under "task" the angles of real tokens."""
    position = torch.randint(0, 8192, (axes["rows"], 1), generator=generator)
    angle = position * 10000.0 ** (-torch.arange(axes["half"], dtype=torch.float64) / axes["half"])
    slots = torch.randperm(2 * axes["rows"], generator=generator)[: axes["rows"]]
    return {"cos": angle.cos().to(dtype), "sin": angle.sin().to(dtype), "slots": slots}


def magnitude(
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    slots: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each element of a turned key is the sum of two products that may cancel; all others are copies."""
    (first, second), cosine, sine = key.abs().chunk(2, dim=-1), cos.abs()[:, None], sin.abs()[:, None]
    turned = torch.cat((first * cosine + second * sine, second * cosine + first * sine), dim=-1)
    return key_cache.abs().index_copy(0, slots, turned), value_cache.abs()
