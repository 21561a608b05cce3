"""The gated activation of SwiGLU, Shazeer 2020, arXiv 2002.05202."""

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it


def run(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """[rows, cols], [rows, cols] -> [rows, cols]."""
    return F.silu(gate) * up


def magnitude(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """For a gate below -88 exp(-gate) is beyond float32 and 0 comes out: what that is off by counts for the size of the gate."""
    return gate.abs() * up.abs()
