from __future__ import annotations

import dataclasses
import random

import pytest

from evokern.archive import ArchiveSettings, GridArchive
from evokern.archive.grid import distance, loneliness
from evokern.event import PlacementKind
from evokern.testing.archive_contract import AXES, Archive, ArchiveContract, elite


class TestGridArchive(ArchiveContract):
    @pytest.fixture
    def archive(self) -> Archive:
        return GridArchive(ArchiveSettings(AXES, delta=0.01))


def grid() -> GridArchive:
    return GridArchive(ArchiveSettings(AXES))


def test_axes_are_chosen_by_name_and_anything_else_is_ignored() -> None:
    archive = GridArchive(ArchiveSettings(("y",)))
    archive.place(elite("a", 1.0, cell="00"))
    assert archive.place(elite("b", 1.0, cell="10")).kind is PlacementKind.REJECTED
    assert archive.place(elite("c", 1.0, cell="01")).cell == ("1",)


def test_an_archive_without_axes_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one descriptor"):
        GridArchive(ArchiveSettings(()))


def test_owners_and_title_holders_are_always_kept() -> None:
    """Whatever is placed, no cell and no title points at a kernel that left."""
    rng = random.Random(0)
    archive = grid()
    for number in range(400):
        speedups = {workload: rng.uniform(0.5, 4.0) for workload in ("a", "b", "c")}
        archive.place(elite(f"k{number}", speedups, cell=rng.choice(["00", "01", "10", "11"])))
        kept = {one.candidate.id for one in archive}
        owners = {one.candidate.id for one in archive.cells.values()}
        holders = {one.candidate.id for one in archive.titles.values()}
        assert kept == owners | holders
    assert len(archive) <= 4 + 3


def test_a_title_is_lost_only_to_a_lower_bound_above_it() -> None:
    archive = grid()
    holder = elite("holder", {"a": 2.0, "b": 2.0})
    archive.place(holder)
    archive.place(elite("close", {"a": 2.02, "b": 2.02}, cell="11"))
    assert archive.titles["a"] == holder
    archive.place(elite("clear", {"a": 2.2, "b": 1.0}, cell="10"))
    assert (archive.titles["a"].candidate.id, archive.titles["b"]) != (holder.candidate.id, holder)
    assert archive.titles["b"] == holder


def test_lonely_cells_are_drawn_more_often_than_crowded_ones() -> None:
    crowd = ["000", "001", "002", "003", "010"]
    cells = [tuple(cell) for cell in [*crowd, "987"]]
    assert loneliness(cells[-1], cells) > 2 * loneliness(cells[0], cells)
    assert loneliness(cells[0], cells[:1]) == 1.0
    assert distance(("a", "b"), ("a", "c")) == 1


def test_noise_promotes_hardly_anything_and_a_true_gain_enters() -> None:
    """Scores 3 % apart by chance, intervals that cover 95 %: an equal kernel seldom replaces its equal, a 15 % faster one does."""
    rng = random.Random(2)
    sigma = 0.02

    def replaced(gain: float) -> float:
        hits = 0
        for number in range(300):
            archive = grid()
            archive.place(elite("old", 2.0, spread=2 * sigma))
            measured = 2.0 * (1 + gain) * (1 + rng.gauss(0.0, sigma))
            hits += archive.place(elite(f"new{number}", measured, spread=2 * sigma)).placed
        return hits / 300

    assert replaced(0.0) <= 0.05
    assert replaced(0.15) >= 0.9


def test_kernels_as_a_backend_describes_them_fall_into_different_cells() -> None:
    archive = GridArchive()
    described = [("1", "avx2", "no"), ("2", "avx2", "no"), ("2", "none", "scalar"), ("3", "none", "scalar"), ("2", "avx2", "vector")]
    for number, (passes, simd, libm) in enumerate(described):
        one = elite(f"k{number}", 1.0)
        descriptors = {"passes": passes, "simd": simd, "libm": libm, "nt_stores": "no"}
        evaluation = dataclasses.replace(one.evaluation, descriptors=descriptors)
        assert archive.place(dataclasses.replace(one, evaluation=evaluation)).kind is PlacementKind.NEW_CELL
    assert len(archive.cells) == len(described)
