"""Cross: a model joins two parents."""

from __future__ import annotations

from collections.abc import Callable

from evokern import syntax
from evokern.event import Proposal, RefusalReason, Request, RunSettings
from evokern.model.protocol import Model
from evokern.operators.author import Author, AuthorSettings
from evokern.operators.prompt import conversation


class Cross:
    """Two parents, joined by a model.

    Args:
        model: Who writes.
        settings: How it is asked.
        normal_form: See `Author`; also tells whether the parents differ at all.

    Attributes:
        name: As in lineage.
        parents_wanted: 2.
        needs_model: True.
    """

    name = "cross"
    parents_wanted = 2
    needs_model = True

    def __init__(
        self, model: Model, settings: AuthorSettings | None = None, normal_form: Callable[[str, str], str] = syntax.normal_form
    ) -> None:
        self._author = Author(model, settings, normal_form)
        self._normal_form = normal_form

    @classmethod
    def for_run(cls, settings: RunSettings, model: Model) -> Cross:
        """The operator as a run uses it."""
        return cls(model)

    def pause_s(self) -> float:
        """Seconds until it makes sense to ask: above 0 while the model is left alone."""
        return self._author.model.pause_s()

    async def propose(self, request: Request) -> Proposal:
        """A joined kernel, or the typed reason why there is none."""
        if len(request.parents) < self.parents_wanted:
            return Proposal.refused(RefusalReason.NOT_APPLICABLE, "needs two parents")
        first, second = (p.candidate.kernel for p in request.parents[:2])
        if self._normal_form(first.source, first.dialect) == self._normal_form(second.source, second.dialect):
            return Proposal.refused(RefusalReason.NOT_APPLICABLE, "the two parents are the same kernel")
        return await self._author.write(conversation("cross", request), request, "cross")
