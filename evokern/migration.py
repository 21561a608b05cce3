"""Migration: who visits whom, and when.

Islands form a directed graph; every so many placed candidates the best native of each island visits its neighbour. A
visitor stays a native of its own island: it does not travel on, and no kernel arrives where it already is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from evokern import record
from evokern.evaluation import Elite
from evokern.event import Event, EventKind
from evokern.store.payload import Migrated

if TYPE_CHECKING:
    import networkx

PLACED_BETWEEN = 25
"""Placed candidates between migrations (DESIGN section 8)."""


class Residents(Container[str], Iterable[Elite], Protocol):
    """What migration needs of an archive: to go through it, and to ask whether a kernel is there."""


@dataclass(frozen=True, slots=True)
class Move:
    """One visit.

    Attributes:
        elite: Who.
        source: Index of its island.
        target: Index of the island visited.
    """

    elite: Elite
    source: int
    target: int

    @property
    def body(self) -> Migrated:
        """What the journal keeps of it."""
        return Migrated(self.elite.candidate.id, self.source, self.target)


def ring(islands: int) -> networkx.DiGraph[int]:
    """Islands in a ring, each visiting the next; a single one visits nobody."""
    import networkx

    graph: networkx.DiGraph[int] = networkx.DiGraph()
    graph.add_nodes_from(range(islands))
    if islands > 1:
        graph.add_edges_from((island, (island + 1) % islands) for island in range(islands))
    return graph


@dataclass(slots=True)
class Migration:
    """Counts placements and names the visits that are due; state is a pure function of what was noted, in order.

    Attributes:
        topology: An edge from a to b lets a's elites visit b.
        every: Placed candidates between migrations, at least 1.
        placed: Placed candidates so far.
        rounds: Times it was due so far.
        travelled: Ids of kernels that have visited.
    """

    topology: networkx.DiGraph[int]
    every: int = PLACED_BETWEEN
    placed: int = 0
    rounds: int = 0
    travelled: set[str] = field(default_factory=set)

    @property
    def due(self) -> bool:
        """Whether visits are to be made now."""
        return self.placed // self.every > self.rounds

    def note_placed(self) -> None:
        """An archive kept a candidate of its own island."""
        self.placed += 1

    def moves(self, archives: Sequence[Residents]) -> list[Move]:
        """The visits that are due, at most one along each edge; none where it is not time.

        The caller journals each, welcomes it on its target, and calls `note_moved`. Islands whose natives have all travelled
        send nobody.

        Args:
            archives: By island.
        """
        if not self.due:
            return []
        found: list[Move] = []
        leaving = set(self.travelled)
        for source, target in sorted(self.topology.edges):
            natives = (elite for elite in archives[source] if elite.candidate.island == source)
            able = (elite for elite in natives if elite.candidate.id not in leaving and elite.candidate.id not in archives[target])
            best = max(able, key=lambda elite: (elite.score.low, elite.score.log, elite.candidate.id), default=None)
            if best is not None:
                leaving.add(best.candidate.id)
                found.append(Move(best, source, target))
        self.rounds = self.placed // self.every
        return found

    def note_moved(self, kernel_id: str) -> None:
        """A kernel has visited; it will not again."""
        self.travelled.add(kernel_id)

    def restore(self, events: Iterable[Event], *, placed: int) -> None:
        """Rebuild the state from a run's events.

        Args:
            events: The run's, in the journal's order.
            placed: Candidates that archives kept, as `evokern.island.replay` counts them.
        """
        self.placed = placed
        self.rounds = placed // self.every
        for event in events:
            if event.kind is EventKind.MIGRATED:
                self.note_moved(record.from_json(Migrated, event.payload).kernel_id)
