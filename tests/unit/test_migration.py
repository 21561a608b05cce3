from __future__ import annotations

import random
from collections import Counter

import pytest

from evokern.archive import ArchiveSettings, GridArchive
from evokern.event import Event
from evokern.migration import Migration, ring
from evokern.store import payload
from evokern.testing.archive_contract import AXES, elite

RUN = "sim-20261129T1015-3f2a"


def archives(count: int) -> list[GridArchive]:
    return [GridArchive(ArchiveSettings(AXES)) for _ in range(count)]


def test_a_ring_visits_the_next_and_comes_round() -> None:
    assert sorted(ring(4).edges) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert sorted(ring(1).edges) == []


def test_visits_are_due_every_so_many_placed_candidates_and_once_each_time() -> None:
    migration = Migration(ring(2), every=25)
    homes = archives(2)
    homes[0].place(elite("a", 2.0, island=0))
    rounds = []
    for number in range(80):
        migration.note_placed()
        due = migration.due
        moves = migration.moves(homes)
        assert bool(moves) <= due
        if due:
            rounds.append(number + 1)
    assert rounds == [25, 50, 75]


def test_the_best_native_visits_its_neighbour() -> None:
    migration = Migration(ring(3), every=1)
    homes = archives(3)
    homes[0].place(elite("slow", 1.5, cell="00", island=0))
    homes[0].place(elite("fast", 2.5, cell="11", island=0))
    migration.note_placed()
    (move,) = migration.moves(homes)
    assert (move.elite.candidate.kernel.source, move.source, move.target) == ("// fast", 0, 1)
    assert migration.moves(homes) == []


def test_a_migrant_does_not_migrate_again_and_arrives_once() -> None:
    migration = Migration(ring(3), every=1)
    homes = archives(3)
    homes[0].place(elite("fast", 9.0, island=0))
    travelled = []
    for _ in range(10):
        migration.note_placed()
        for move in migration.moves(homes):
            travelled.append((move.elite.candidate.id, move.target))
            migration.note_moved(move.elite.candidate.id)
            homes[move.target].place(move.elite)
    assert travelled == [(elite("fast", 9.0, island=0).candidate.id, 1)]
    assert len(homes[2]) == 0


def test_a_kernel_never_visits_where_it_already_is() -> None:
    migration = Migration(ring(2), every=1)
    homes = archives(2)
    homes[0].place(elite("same", 2.0, island=0))
    homes[1].place(elite("same", 2.0, island=0))
    migration.note_placed()
    assert migration.moves(homes) == []


def grown(count: int) -> tuple[Migration, list[GridArchive], list[Event], Counter[str], list[int]]:
    """Four islands with kernels of their own, migrating as they grow; how often each kernel arrived, and children by island."""
    rng = random.Random(4)
    migration, homes = Migration(ring(4)), archives(4)
    events: list[Event] = []
    arrivals: Counter[str] = Counter()
    children = [0] * 4
    for number in range(count):
        index = number % 4
        one = elite(f"k{number}", 1.0 + number / 50 + rng.random(), cell=f"{rng.randrange(3)}{rng.randrange(3)}", island=index)
        children[index] += 1
        if homes[index].place(one).placed:
            migration.note_placed()
        for move in migration.moves(homes):
            events.append(payload.migrated(RUN, move.body))
            migration.note_moved(move.elite.candidate.id)
            homes[move.target].place(move.elite)
            arrivals[move.elite.candidate.id] += 1
    return migration, homes, events, arrivals, children


def test_islands_stay_apart_but_for_single_visits() -> None:
    migration, homes, events, arrivals, children = grown(600)
    assert children == [150] * 4
    assert migration.rounds >= 4
    assert len(events) == len(arrivals) == len(migration.travelled) > 4
    assert max(arrivals.values()) == 1
    for index, home in enumerate(homes):
        assert all(one.candidate.island in (index, (index - 1) % 4) for one in home)
        assert all(one.candidate.id in migration.travelled for one in home if one.candidate.island != index)


def test_a_replay_rebuilds_who_travelled_and_when_the_next_is_due() -> None:
    live, _, events, _, _ = grown(300)
    again = Migration(ring(4))
    again.restore(events, placed=live.placed)
    assert (again.placed, again.rounds, again.travelled, again.due) == (live.placed, live.rounds, live.travelled, live.due)


@pytest.mark.parametrize("islands", [1, 2, 5])
def test_any_number_of_islands_works(islands: int) -> None:
    migration, homes = Migration(ring(islands), every=1), archives(islands)
    for index in range(islands):
        homes[index].place(elite(f"k{index}", 2.0, island=index))
    migration.note_placed()
    assert len(migration.moves(homes)) == (islands if islands > 1 else 0)
