"""The gated activation of GeGLU, Shazeer 2020, arXiv 2002.05202; GELU in its tanh form, Hendrycks and Gimpel 2016, arXiv 1606.08415."""

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it


def run(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """[rows, cols], [rows, cols] -> [rows, cols]."""
    return F.gelu(gate, approximate="tanh") * up


def magnitude(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """For a negative gate 1 + tanh(...) cancels, so an error of the tanh counts for the size of the gate, not of the result."""
    return gate.abs() * up.abs()
