"""GridArchive: one owner per cell, and whoever is best on some workload beside it."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from evokern.evaluation import BASELINE, Elite, Evaluation
from evokern.event import Placement, PlacementKind
from evokern.statistics import MARGIN_FLOOR

Cell = tuple[str, ...]

UNKNOWN = "?"
"""Coordinate of a kernel that lacks a descriptor."""

DESCRIPTORS = ("passes", "simd", "libm", "nt_stores", "row_map", "residence", "launches")
"""Axes of the grid (DESIGN section 8): passes over memory, width of the instructions, calls of the maths library, stores past
the cache, how rows are shared out, where a row lives between passes, kernels launched. Backends name those that they can read
off a product; an axis that none of a run's kernels has is the same for all and costs nothing."""

ELITE_SHARE = 1 / 2
"""Share of parents taken from the best (SEARCH.md, Population)."""

CROWDING_SHARE = 1 / 3
"""Share of parents weighted by how alone their cell is; the rest is uniform over cells."""

NEIGHBOURS = 3
"""Nearest cells whose mean distance says how alone a cell is."""


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """What an archive is made of.

    Attributes:
        descriptors: Names of the descriptors that are the grid's axes, in order; at least one.
        delta: Noise margin: a newcomer's lower bound must exceed the incumbent's estimate times 1 + delta.
        reach: Share of the champion's speed below which an elite is drawn only after all the others: a child would have to make
            up for all of it in one step. 0 makes no difference between them.
    """

    descriptors: tuple[str, ...] = DESCRIPTORS
    delta: float = MARGIN_FLOOR
    reach: float = 0.5


@dataclass(frozen=True, slots=True)
class Exemplars:
    """Two elites that show the archive's span.

    Attributes:
        champion: The best.
        farthest: The one whose cell differs most from the champion's; the champion itself where it is alone.
    """

    champion: Elite
    farthest: Elite


class GridArchive:
    """A quality-diversity grid.

    An elite enters an empty cell; it takes an occupied one only if the lower bound of its score beats the owner's
    estimate by the noise margin, so that noise seldom replaces anything. Titles are kept per workload by the same rule, and a
    kernel that holds one is never evicted: it stays beside its cell's owner until it has lost its last title.

    What it holds is a pure function of the elites placed, in order.

    Args:
        settings: Axes and margin.
    """

    def __init__(self, settings: ArchiveSettings | None = None) -> None:
        self.settings = settings or ArchiveSettings()
        if not self.settings.descriptors:
            raise ValueError("an archive needs at least one descriptor")
        self._margin = math.log1p(self.settings.delta)
        self._elites: dict[str, Elite] = {}
        self._owners: dict[Cell, str] = {}
        self._titles: dict[str, str] = {}

    def empty(self) -> GridArchive:
        """An archive of the same kind that holds nothing."""
        return GridArchive(self.settings)

    def __len__(self) -> int:
        return len(self._elites)

    def __iter__(self) -> Iterator[Elite]:
        """Every elite kept, owners and title holders, in the order in which they came."""
        return iter(tuple(self._elites.values()))

    def __contains__(self, kernel_id: object) -> bool:
        return kernel_id in self._elites

    def get(self, kernel_id: str) -> Elite | None:
        """An elite that is kept, or None."""
        return self._elites.get(kernel_id)

    @property
    def cells(self) -> dict[Cell, Elite]:
        """The owner of every occupied cell."""
        return {cell: self._elites[owner] for cell, owner in self._owners.items()}

    @property
    def titles(self) -> dict[str, Elite]:
        """The elite that is best on each workload."""
        return {workload: self._elites[holder] for workload, holder in self._titles.items()}

    def cell_of(self, evaluation: Evaluation) -> Cell:
        """Coordinates of a kernel: its descriptors in the order of the axes, `?` for those that it lacks."""
        return tuple(evaluation.descriptors.get(name, UNKNOWN) for name in self.settings.descriptors)

    def place(self, elite: Elite) -> Placement:
        """Keep an elite or turn it down.

        Args:
            elite: A confirmed candidate.

        Returns:
            Where it went. `REPLACED` without a replaced kernel means that it holds a title beside its cell's owner.
        """
        kernel_id, cell = elite.candidate.id, self.cell_of(elite.evaluation)
        if kernel_id in self._elites:
            return Placement(PlacementKind.REJECTED, cell)
        owner = self._owners.get(cell)
        won = [workload for workload, ratio in elite.evaluation.versus(BASELINE).items() if self._takes(workload, ratio.low)]
        takes_cell = owner is None or self._beats(elite.score.low, self._elites[owner].score.log)
        if not takes_cell and not won:
            return Placement(PlacementKind.REJECTED, cell)
        self._elites[kernel_id] = elite
        losers = [self._titles[workload] for workload in won if workload in self._titles]
        self._titles |= dict.fromkeys(won, kernel_id)
        if takes_cell:
            self._owners[cell] = kernel_id
            losers = [owner, *losers] if owner is not None else losers
        left = [loser for loser in dict.fromkeys(losers) if self._leaves(loser)]
        kind = PlacementKind.NEW_CELL if owner is None else PlacementKind.REPLACED
        best = self.best()
        return Placement(kind, cell, replaced=left[0] if left else "", champion=best is elite)

    def sample(self, rng: random.Random, count: int) -> list[Elite]:
        """Parents: half of the draws from the best, a third by how alone their cell is, the rest uniform over cells.

        Args:
            rng: The only source of chance.
            count: How many distinct elites are wanted, at least 1.

        Returns:
            Up to `count` distinct elites in the order drawn; fewer where the archive keeps fewer.
        """
        chosen: dict[str, Elite] = {}
        for members in self._by_reach():
            while members and len(chosen) < count:
                drawn = self._draw(rng, members)
                chosen[drawn.candidate.id] = drawn
                cell = self.cell_of(drawn.evaluation)
                members[cell].remove(drawn)
                if not members[cell]:
                    del members[cell]
        return list(chosen.values())

    def best(self) -> Elite | None:
        """The champion: the highest lower bound, because the highest estimate is often the luckiest one."""
        return max(self._elites.values(), key=_rank, default=None)

    def exemplars(self, *, without: Collection[str] = ()) -> Exemplars | None:
        """The champion and the elite farthest from it, the better one of equals; None while the archive is empty.

        Args:
            without: Ids that may not be the farthest, unless there is no other elite.
        """
        champion = self.best()
        if champion is None:
            return None
        home = self.cell_of(champion.evaluation)
        others = [elite for elite in self._elites.values() if elite.candidate.id not in without]
        farthest = max(others, key=lambda elite: (distance(home, self.cell_of(elite.evaluation)), *_rank(elite)), default=champion)
        return Exemplars(champion, farthest)

    def _beats(self, low: float, incumbent: float) -> bool:
        return low > incumbent + self._margin

    def _takes(self, workload: str, low: float) -> bool:
        """Whether a lower bound (a ratio) takes a workload's title."""
        holder = self._titles.get(workload)
        return holder is None or self._beats(math.log(low), math.log(self._elites[holder].evaluation.versus(BASELINE)[workload].estimate))

    def _leaves(self, kernel_id: str) -> bool:
        """Evict a kernel that neither owns its cell nor holds a title; whether it was."""
        evicted = kernel_id not in self._titles.values() and kernel_id not in self._owners.values()
        if evicted:
            del self._elites[kernel_id]
        return evicted

    def _members(self) -> dict[Cell, list[Elite]]:
        members: dict[Cell, list[Elite]] = {}
        for elite in self._elites.values():
            members.setdefault(self.cell_of(elite.evaluation), []).append(elite)
        return members

    def _by_reach(self) -> list[dict[Cell, list[Elite]]]:
        """Members near the champion, then the others."""
        best = self.best()
        least = best.score.log + math.log(self.settings.reach) if best is not None and self.settings.reach > 0 else -math.inf
        members = self._members().items()
        near = {cell: [elite for elite in elites if elite.score.log >= least] for cell, elites in members}
        far = {cell: [elite for elite in elites if elite.score.log < least] for cell, elites in members}
        return [{cell: elites for cell, elites in part.items() if elites} for part in (near, far)]

    def _draw(self, rng: random.Random, members: dict[Cell, list[Elite]]) -> Elite:
        way = rng.random()
        if way < ELITE_SHARE:
            front = self._front([elite for elites in members.values() for elite in elites])
            return front[rng.randrange(len(front))]
        cells = list(members)
        if way < ELITE_SHARE + CROWDING_SHARE:
            weights = [loneliness(cell, cells) for cell in cells]
            cell = rng.choices(cells, weights)[0]
        else:
            cell = cells[rng.randrange(len(cells))]
        return members[cell][rng.randrange(len(members[cell]))]

    def _front(self, elites: list[Elite]) -> list[Elite]:
        """The best of those given, and whoever of them is best on some workload."""
        holders = set(self._titles.values())
        best = max(elites, key=_rank)
        return [elite for elite in elites if elite is best or elite.candidate.id in holders]


def _rank(elite: Elite) -> tuple[float, float, str]:
    """Order of elites; the id makes it total, so that a replay agrees with the run."""
    return elite.score.low, elite.score.log, elite.candidate.id


def distance(one: Cell, other: Cell) -> int:
    """On how many axes two cells differ; values have no order in common, so nothing finer is meant."""
    return sum(a != b for a, b in zip(one, other, strict=True))


def loneliness(cell: Cell, cells: list[Cell]) -> float:
    """Mean distance to the nearest few other cells; 1.0 where there is none."""
    nearest = sorted(distance(cell, other) for other in cells if other != cell)[:NEIGHBOURS]
    return sum(nearest) / len(nearest) if nearest else 1.0
