"""Rotary position embedding, Su et al. 2021, arXiv 2104.09864, in the form that turns halves (GPT-NeoX, Llama)."""

import torch


def run(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """[rows, heads, 2 half], [rows, half], [rows, half] -> [rows, heads, 2 half]; a row is a token."""
    wide = [v if v.dtype is torch.float64 else v.float() for v in (x, cos, sin)]
    (first, second), cosine, sine = wide[0].chunk(2, dim=-1), wide[1][:, None], wide[2][:, None]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(x.dtype)


def make_inputs(axes: dict[str, int], dtype: torch.dtype, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Under "task" the angles of real tokens."""
    position = torch.randint(0, 8192, (axes["rows"], 1), generator=generator)
    angle = position * 10000.0 ** (-torch.arange(axes["half"], dtype=torch.float64) / axes["half"])
    return {"cos": angle.cos().to(dtype), "sin": angle.sin().to(dtype)}


def magnitude(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Each element is the sum of two products that may cancel."""
    (first, second), cosine, sine = x.abs().chunk(2, dim=-1), cos.abs()[:, None], sin.abs()[:, None]
    return torch.cat((first * cosine + second * sine, second * cosine + first * sine), dim=-1)
