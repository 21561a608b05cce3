"""What every archive must do; subclass and give the fixture `archive`."""

# ruff: noqa: D102, PLR2004 - a test's name says what it shows, and its values stand beside the call

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

import pytest

from evokern.evaluation import BASELINE, Clock, Elite, Evaluation, Measurement, Ratio, Verdict
from evokern.event import Placement, PlacementKind
from evokern.kernel import Candidate, Kernel
from evokern.statistics import combine
from evokern.task import DType

AXES = ("x", "y")
"""Descriptors that the archive under test has to use as its axes."""


class Archive(Protocol):
    """The methods under test."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Elite]: ...

    def __contains__(self, kernel_id: object) -> bool: ...

    def get(self, kernel_id: str) -> Elite | None:
        """An elite that is kept, or None."""
        ...

    def place(self, elite: Elite) -> Placement:
        """Keep an elite or turn it down."""
        ...

    def sample(self, rng: random.Random, count: int) -> list[Elite]:
        """Distinct parents."""
        ...

    def best(self) -> Elite | None:
        """The champion."""
        ...

    def exemplars(self, *, without: Collection[str] = ()) -> Any:
        """Champion and farthest."""
        ...


def elite(
    name: str,
    speedups: float | Mapping[str, float],
    *,
    cell: str = "00",
    spread: float = 0.02,
    island: int = 0,
    parents: tuple[str, ...] = (),
) -> Elite:
    """An elite with given speed-ups over the baseline.

    Args:
        name: Makes its source, and so its id, unique.
        speedups: By workload, or one for the single workload "w".
        cell: Value of "x" and "y", a letter each; `-` leaves a descriptor out.
        spread: Half-width of every interval, log units.
        island: Which island asked for it.
        parents: Ids.
    """
    table = speedups if isinstance(speedups, Mapping) else {"w": speedups}
    ratios = {w: Ratio(s, s * math.exp(-spread), s * math.exp(spread), 64, 8) for w, s in table.items()}
    measurements = tuple(Measurement(w, Clock.JUDGED, 100.0 / r.estimate, 1.0, 0.1, None, {BASELINE: r}) for w, r in ratios.items())
    kernel = Kernel("cpp", f"// {name}")
    descriptors = {axis: value for axis, value in zip(AXES, cell, strict=True) if value != "-"}
    evaluation = Evaluation(
        kernel.id, "t", "float32", Verdict.PASSED, confirmed=True, measurements=measurements, descriptors=descriptors, key=kernel.id
    )
    candidate = Candidate(kernel, "softmax", DType.FLOAT32, parents=parents, operator="retune" if parents else "seed", island=island)
    return Elite(candidate, evaluation, combine(ratios))


class ArchiveContract:
    """Subclass it, and give an empty archive with the axes `AXES` and a noise margin of 1 %."""

    @pytest.fixture
    def archive(self) -> Archive:
        """An empty archive with the axes `AXES` and a noise margin of 1 %."""
        raise NotImplementedError

    def test_an_empty_archive_has_nothing(self, archive: Archive) -> None:
        assert (len(archive), list(archive), archive.best(), archive.exemplars()) == (0, [], None, None)
        assert archive.sample(random.Random(0), 3) == []

    def test_every_cell_keeps_its_own(self, archive: Archive) -> None:
        placed = [archive.place(elite(cell, 1.0 + number, cell=cell)) for number, cell in enumerate(("00", "01", "10", "11"))]
        assert [placement.kind for placement in placed] == [PlacementKind.NEW_CELL] * 4
        assert len({placement.cell for placement in placed}) == 4
        assert len(archive) == 4
        assert all(placement.champion for placement in placed)

    def test_a_slow_kernel_of_another_kind_is_kept_and_is_not_the_champion(self, archive: Archive) -> None:
        fast, slow = elite("fast", 3.0, cell="00"), elite("slow", 0.5, cell="11")
        archive.place(fast)
        placement = archive.place(slow)
        assert placement.placed
        assert not placement.champion
        assert archive.best() == fast

    def test_a_missing_descriptor_is_a_coordinate_of_its_own(self, archive: Archive) -> None:
        archive.place(elite("a", 1.0, cell="00"))
        placement = archive.place(elite("b", 1.0, cell="0-"))
        assert placement.kind is PlacementKind.NEW_CELL
        assert placement.cell == ("0", "?")

    def test_a_lower_bound_above_the_incumbent_by_the_margin_replaces_it(self, archive: Archive) -> None:
        old, new = elite("old", 2.0), elite("new", 2.2)
        archive.place(old)
        placement = archive.place(new)
        assert (placement.kind, placement.replaced, placement.champion) == (PlacementKind.REPLACED, old.candidate.id, True)
        assert old.candidate.id not in archive
        assert list(archive) == [new]

    @pytest.mark.parametrize(
        ("speedup", "spread"), [(1.0, 0.02), (2.0, 0.02), (2.035, 0.02), (3.0, 0.5)], ids=["slower", "equal", "margin", "unsure"]
    )
    def test_what_noise_explains_replaces_nothing(self, archive: Archive, speedup: float, spread: float) -> None:
        old = elite("old", 2.0)
        archive.place(old)
        placement = archive.place(elite("new", speedup, spread=spread))
        assert placement.kind is PlacementKind.REJECTED
        assert not placement.placed
        assert list(archive) == [old]

    def test_one_kernel_is_never_kept_twice(self, archive: Archive) -> None:
        first = elite("same", 2.0, cell="00")
        archive.place(first)
        for again in (first, elite("same", 9.0, cell="00"), elite("same", 9.0, cell="11")):
            assert archive.place(again).kind is PlacementKind.REJECTED
        assert list(archive) == [first]

    def test_whoever_is_best_on_one_workload_survives(self, archive: Archive) -> None:
        specialist = elite("specialist", {"short": 4.0, "long": 1.0})
        generalist = elite("generalist", {"short": 3.0, "long": 3.0})
        archive.place(specialist)
        assert archive.place(generalist).placed
        assert specialist.candidate.id in archive
        assert archive.best() == generalist
        better = elite("better", {"short": 5.0, "long": 4.0})
        assert archive.place(better).placed
        assert list(archive) == [better]

    def test_a_specialist_enters_beside_a_better_owner(self, archive: Archive) -> None:
        generalist, specialist = elite("generalist", {"short": 3.0, "long": 3.0}), elite("specialist", {"short": 4.0, "long": 1.0})
        archive.place(generalist)
        placement = archive.place(specialist)
        assert placement.placed
        assert (placement.replaced, placement.champion) == ("", False)
        assert generalist.candidate.id in archive
        assert archive.place(elite("none", {"short": 3.5, "long": 2.0})).kind is PlacementKind.REJECTED

    def test_everything_kept_can_be_sampled(self, archive: Archive) -> None:
        kept = [elite(cell, 1.0 + number / 10, cell=cell) for number, cell in enumerate(("00", "01", "10", "11", "12"))]
        for one in kept:
            archive.place(one)
        archive.place(elite("beside", {"w": 0.1, "other": 9.0}, cell="00"))
        rng = random.Random(0)
        drawn = Counter(archive.sample(rng, 1)[0].candidate.id for _ in range(2000))
        assert set(drawn) == {one.candidate.id for one in archive}

    def test_nothing_evicted_is_sampled_or_found(self, archive: Archive) -> None:
        generations = [elite(f"g{number}", 1.5**number) for number in range(6)]
        for one in generations:
            archive.place(one)
        assert list(archive) == generations[-1:]
        assert archive.sample(random.Random(0), 5) == generations[-1:]
        assert archive.get(generations[0].candidate.id) is None
        assert archive.get(generations[-1].candidate.id) == generations[-1]

    def test_parents_of_one_draw_are_distinct_and_half_of_all_are_the_best(self, archive: Archive) -> None:
        for number, cell in enumerate(("00", "01", "02", "10", "11", "12", "20", "21", "22")):
            archive.place(elite(cell, 1.0 + number, cell=cell))
        rng = random.Random(1)
        assert all(len({one.candidate.id for one in archive.sample(rng, 4)}) == 4 for _ in range(50))
        assert len(archive.sample(rng, 99)) == 9
        best = archive.best()
        share = sum(archive.sample(rng, 1) == [best] for _ in range(2000)) / 2000
        assert 0.5 < share < 0.65

    def test_the_same_chance_draws_the_same_parents(self, archive: Archive) -> None:
        for cell in ("00", "01", "10"):
            archive.place(elite(cell, 1.0, cell=cell))
        assert [archive.sample(random.Random(5), 2) for _ in range(3)] == [archive.sample(random.Random(5), 2)] * 3

    def test_exemplars_are_the_champion_and_the_farthest(self, archive: Archive) -> None:
        champion, near, far = elite("champion", 3.0, cell="00"), elite("near", 2.0, cell="01"), elite("far", 1.0, cell="11")
        archive.place(champion)
        assert archive.exemplars().farthest == champion
        archive.place(near)
        archive.place(far)
        assert (archive.exemplars().champion, archive.exemplars().farthest) == (champion, far)
        assert archive.exemplars(without=[far.candidate.id]).farthest == near

    def test_the_champion_is_the_surest_and_not_the_luckiest(self, archive: Archive) -> None:
        sure, lucky = elite("sure", 2.0, cell="00", spread=0.01), elite("lucky", 2.2, cell="11", spread=0.6)
        archive.place(lucky)
        archive.place(sure)
        assert archive.best() == sure
