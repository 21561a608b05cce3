"""The backward pass of the gated activation of SwiGLU, Shazeer 2020, arXiv 2002.05202."""

import torch


def run(grad_y: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, cols], [rows, cols], [rows, cols] -> gradients in gate and in up, [rows, cols] each."""
    grad, wide, other = (v if v.dtype is torch.float64 else v.float() for v in (grad_y, gate, up))
    share = torch.sigmoid(wide)
    silu = wide * share
    return (grad * other * (share + silu * (1 - share))).to(gate.dtype), (grad * silu).to(gate.dtype)


def magnitude(grad_y: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Around -1.28 two terms cancel, 1 - sigmoid does for a large gate, and below -88 exp(-gate) is beyond float32 and 0 comes out."""
    return (grad_y * up).abs() * (1 + gate.abs() * torch.sigmoid(gate)), (grad_y * gate).abs()
