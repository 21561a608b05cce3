"""Mutate: a model rewrites one parent."""

from __future__ import annotations

from collections.abc import Callable

from evokern import syntax
from evokern.event import Proposal, RefusalReason, Request, RunSettings
from evokern.model.protocol import Model
from evokern.operators.author import Author, AuthorSettings
from evokern.operators.prompt import conversation

DIRECTIONS = {
    "focus": "Find the largest cost in the parent (passes over memory, special functions, chains of dependent additions, branches, "
    "unaligned or scattered access) and make the one change that removes it. Keep the rest.",
    "restructure": "Change the structure of the parent: another order of loops, passes fused, an online formulation, blocking to a level "
    "of the memory hierarchy, or another division of the work.",
    "inner_loop": "Keep the structure and work on the innermost loops of the parent: explicit vectors, several independent accumulators, "
    "a cheaper special function that is accurate enough, prefetch, stores that do not disturb the cache, unrolling.",
    "surprise": "Write the kernel that you would write if you had not seen the parent, then take from the parent what it does better.",
}
"""What a model is asked to try, by label. Chosen by the request's own chance, so that answers to one parent differ."""

MEND = "The parent failed. Find the cause in the text above and make the smallest change that mends it. Do not work on speed."


class Mutate:
    """One parent, rewritten by a model.

    Args:
        model: Who writes.
        settings: How it is asked.
        normal_form: See `Author`.

    Attributes:
        name: As in lineage.
        parents_wanted: 1.
        needs_model: True.
    """

    name = "mutate"
    parents_wanted = 1
    needs_model = True

    def __init__(
        self, model: Model, settings: AuthorSettings | None = None, normal_form: Callable[[str, str], str] = syntax.normal_form
    ) -> None:
        self._author = Author(model, settings, normal_form)

    @classmethod
    def for_run(cls, settings: RunSettings, model: Model) -> Mutate:
        """The operator as a run uses it."""
        return cls(model)

    def pause_s(self) -> float:
        """Seconds until it makes sense to ask: above 0 while the model is left alone."""
        return self._author.model.pause_s()

    async def propose(self, request: Request) -> Proposal:
        """A rewritten kernel, or the typed reason why there is none."""
        if len(request.parents) < self.parents_wanted:
            return Proposal.refused(RefusalReason.NOT_APPLICABLE, "needs a parent")
        label = request.rng.choice(list(DIRECTIONS))
        direction = DIRECTIONS[label]
        if not request.parent.evaluation.passed:
            label, direction = "mend", MEND
        return await self._author.write(conversation("mutate", request, direction=direction), request, f"mutate:{label}")
