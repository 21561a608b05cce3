"""Rewrite: one to eight motifs applied to a parent's syntax tree."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from evokern.event import Proposal, RefusalReason, Request, RunSettings
from evokern.kernel import Kernel

if TYPE_CHECKING:
    from evokern.operators.rewrites import Motif, Variant

STEPS = (1, 2, 3, 5, 8)
STEP_WEIGHTS = (0.3, 0.2, 0.2, 0.15, 0.15)
"""How many motifs a proposal composes. Some pay only together: a sum in float lanes needs an exponential without branches first."""

ATTEMPTS = 8
"""Compositions tried before every single motif is tried in turn."""


class Rewrite:
    """Applies motifs of `evokern.operators.rewrites` to the parent; C++ only.

    Motifs are drawn by their weight among those that apply, and then one of the motif's variants, so that a motif with many
    sites is not drawn more often. What the run has proposed already is not proposed again, whatever came of it.

    Args:
        threads: Threads that the run grants a kernel; motifs that need more are left out.
        motifs: Names of the motifs to use; all where None.

    Attributes:
        name: As in lineage.
        parents_wanted: 1.
        needs_model: False.
    """

    name = "rewrite"
    parents_wanted = 1
    needs_model = False

    def __init__(self, threads: int = 1, motifs: tuple[str, ...] | None = None) -> None:
        self._threads = threads
        self._names = motifs

    @classmethod
    def for_run(cls, settings: RunSettings, model: object) -> Rewrite:
        """The operator as a run uses it."""
        return cls(threads=settings.threads)

    async def propose(self, request: Request) -> Proposal:
        """A rewritten kernel with the labels of its edits, or the typed reason why there is none."""
        if len(request.parents) < self.parents_wanted:
            return Proposal.refused(RefusalReason.NOT_APPLICABLE, "needs a parent")
        kernel = request.parent.candidate.kernel
        if kernel.dialect != "cpp":
            return Proposal.refused(RefusalReason.NOT_APPLICABLE, f"rewrites C++, not {kernel.dialect}")
        motifs = self._motifs()
        for _ in range(ATTEMPTS):
            steps = request.rng.choices(STEPS, STEP_WEIGHTS)[0]
            proposal = _composed(kernel, motifs, steps, request)
            if proposal is not None:
                return proposal
        return _first_untried(kernel, motifs, request)

    def _motifs(self) -> list[Motif]:
        from evokern.operators.rewrites import load_motifs

        return [m for m in load_motifs() if m.threads <= self._threads and (self._names is None or m.name in self._names)]


def _composed(kernel: Kernel, motifs: list[Motif], steps: int, request: Request) -> Proposal | None:
    """A chain of `steps` motifs, shorter where none applies any more; None where its end was proposed before."""
    source, labels = kernel.source, []
    for _ in range(steps):
        variant = _drawn(source, motifs, request.rng)
        if variant is None:
            break
        source = variant.source
        labels.append(f"rewrite:{variant.label}")
    child = Kernel(kernel.dialect, source, kernel.entry)
    if source == kernel.source or child.id in request.tried:
        return None
    return Proposal(child, edits=tuple(labels))


def _drawn(source: str, motifs: list[Motif], rng: random.Random) -> Variant | None:
    """A variant of the first motif, in an order drawn by weight, that applies; all sites at once in half of the draws."""
    for motif in sorted(motifs, key=lambda m: rng.random() ** (1.0 / m.weight), reverse=True):
        variants = motif.variants(source)
        if variants:
            return variants[0] if rng.random() < 0.5 else rng.choice(variants)  # noqa: PLR2004 - half
    return None


def _first_untried(kernel: Kernel, motifs: list[Motif], request: Request) -> Proposal:
    """Any single rewrite that the run has not proposed, in an order drawn by chance."""
    applies = False
    for motif in request.rng.sample(motifs, len(motifs)):
        variants = motif.variants(kernel.source)
        applies = applies or bool(variants)
        for variant in request.rng.sample(variants, len(variants)):
            child = Kernel(kernel.dialect, variant.source, kernel.entry)
            if child.id not in request.tried:
                return Proposal(child, edits=(f"rewrite:{variant.label}",))
    if applies:
        return Proposal.refused(RefusalReason.ALREADY_TRIED, "every rewrite of the parent was proposed before")
    return Proposal.refused(RefusalReason.NOT_APPLICABLE, "no motif applies to the parent")
