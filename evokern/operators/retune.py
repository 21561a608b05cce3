"""Retune: another value for one or two of a parent's tunables."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

from evokern.errors import SourceError
from evokern.event import Proposal, RefusalReason, Request, RunSettings
from evokern.kernel import Kernel
from evokern.syntax import Tunable, tunables_of, with_values

NEIGHBOURS = 0.7
"""Share of proposals that try values next to the parent's before others."""

PAIRS = 0.25
"""Share of proposals that try changes of two tunables before changes of one."""

MOST_PAIRS = 400
"""Changes of two tunables that are looked at for one proposal."""


class Retune:
    """Changes one or two tunables of the parent to other allowed values; works on every dialect.

    Attributes:
        name: As in lineage.
        parents_wanted: 1.
        needs_model: False.
    """

    name = "retune"
    parents_wanted = 1
    needs_model = False

    @classmethod
    def for_run(cls, settings: RunSettings, model: object) -> Retune:
        """The operator as a run uses it."""
        return cls()

    async def propose(self, request: Request) -> Proposal:
        """The parent with other values, never one that the run has proposed already; or the typed reason why there is none."""
        if len(request.parents) < self.parents_wanted:
            return Proposal.refused(RefusalReason.NOT_APPLICABLE, "needs a parent")
        kernel = request.parent.candidate.kernel
        try:
            tunables = [t for t in tunables_of(kernel.source, kernel.dialect) if len(t.allowed) > 1]
        except SourceError as error:
            return Proposal.refused(RefusalReason.NOT_APPLICABLE, error.line)
        if not tunables:
            return Proposal.refused(RefusalReason.NOT_APPLICABLE, "the parent has no tunables")
        for values in _choices(tunables, request.rng):
            child = Kernel(kernel.dialect, with_values(kernel.source, kernel.dialect, values), kernel.entry)
            if child.source != kernel.source and child.id not in request.tried:
                return Proposal(child, edits=tuple(f"retune:{name}={value}" for name, value in values.items()))
        return Proposal.refused(RefusalReason.ALREADY_TRIED, "every value of the parent's tunables was proposed before")


def _choices(tunables: list[Tunable], rng: random.Random) -> Iterator[dict[str, str]]:
    """Changes in the order in which they are tried; each is in exactly one of the four groups."""
    near = [(t.name, value) for t in tunables for value in _neighbours(t)]
    far = [(t.name, value) for t in tunables for value in t.allowed if value != t.value and value not in _neighbours(t)]
    rng.shuffle(near)
    rng.shuffle(far)
    singles = near + far if rng.random() < NEIGHBOURS else far + near
    groups: list[Iterator[Any]] = [({name: value} for name, value in singles), _pairs(singles)]
    if rng.random() < PAIRS:
        groups.reverse()
    return itertools.chain(*groups)


def _pairs(singles: list[tuple[str, str]]) -> Iterator[dict[str, str]]:
    """Two changes of different tunables, those early in the list first."""
    both = (pair for pair in itertools.combinations(singles, 2) if pair[0][0] != pair[1][0])
    return (dict(pair) for pair in itertools.islice(both, MOST_PAIRS))


def _neighbours(tunable: Tunable) -> list[str]:
    """The allowed values right before and after the present one."""
    place = tunable.allowed.index(tunable.value)
    return [tunable.allowed[i] for i in (place - 1, place + 1) if 0 <= i < len(tunable.allowed)]
