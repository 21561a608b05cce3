"""Cross-entropy against class labels, not reduced over rows, and its gradient: softmax(logits) less 1 at the label."""

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it


def run(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, cols], [rows] of class indices -> gradients, [rows, cols], and losses, [rows]."""
    wide = logits if logits.dtype is torch.float64 else logits.float()
    gradient = torch.softmax(wide, dim=-1)
    gradient.scatter_add_(1, labels[:, None], torch.full_like(labels[:, None], -1, dtype=wide.dtype))
    return gradient.to(logits.dtype), F.cross_entropy(wide, labels, reduction="none")


def make_inputs(axes: dict[str, int], dtype: torch.dtype, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Labels: any class of each row."""
    return {"labels": torch.randint(0, axes["cols"], (axes["rows"],), generator=generator)}


def magnitude(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient at the label is a difference, elsewhere it is a softmax; the loss is log(sum(exp(logits))) - logits[label].

    The logarithm of a sum that is 1 and little more is off by a rounding of 1.
    """
    column, share = labels[:, None], torch.softmax(logits, dim=-1)
    terms = torch.logsumexp(logits, dim=-1).abs() + logits.gather(1, column)[:, 0].abs() + 1
    chosen = torch.zeros_like(share).scatter(1, column, 1.0)
    return share + share.square().mean(dim=-1, keepdim=True).sqrt() + chosen, terms
