"""Cross-entropy against class labels, not reduced over rows."""

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it


def run(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """[rows, cols], [rows] of class indices -> [rows] of losses."""
    wide = logits if logits.dtype is torch.float64 else logits.float()
    return F.cross_entropy(wide, labels, reduction="none").to(logits.dtype)


def make_inputs(axes: dict[str, int], dtype: torch.dtype, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Labels: any class of each row."""
    return {"labels": torch.randint(0, axes["cols"], (axes["rows"],), generator=generator)}


def magnitude(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss is a difference, log(sum(exp(logits))) - logits[label]: both may be far larger than it."""
    return torch.logsumexp(logits, dim=-1).abs() + logits.gather(1, labels[:, None])[:, 0].abs()
