"""The chain over a run's events: what was changed or taken out is named."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from evokern.errors import Unavailable
from evokern.event import Event, EventKind
from evokern.store import DATABASE, Journal
from evokern.store.chain import Broken, breaks
from evokern.testing.store_contract import RUN, sample_events


@pytest.fixture
def home(tmp_path: Path) -> Path:
    async def write() -> None:
        with Journal(tmp_path) as journal:
            events = sample_events(6)
            await journal.append(events[:3])
            await asyncio.gather(*(journal.append([event]) for event in events[3:]), journal.append(sample_events(2, run="other")))
            await journal.append(events[:5])

    asyncio.run(write())
    return tmp_path


def found(home: Path, run: str = RUN) -> list[Broken]:
    with Journal(home, read_only=True) as journal:
        return list(breaks(journal.links(run)))


def tamper(home: Path, statement: str) -> None:
    with closing(sqlite3.connect(home / DATABASE)) as raw, raw:
        raw.execute("DROP TRIGGER event_no_update")
        raw.execute("DROP TRIGGER event_no_delete")
        raw.execute(statement)


def test_what_was_written_holds_for_every_run(home: Path) -> None:
    assert found(home) == found(home, "other") == found(home, "none") == []
    with Journal(home, read_only=True) as journal:
        links = list(journal.links(RUN))
        assert [link.position for link in links] == list(range(len(sample_events(6))))
        assert (journal.head(RUN).position, journal.head(RUN).digest) == (links[-1].position, links[-1].digest)
        assert journal.head("none").position == -1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET payload = replace(payload, 'wrong', 'passed') WHERE run = '{run}' AND position = 4",
        "UPDATE event SET at = at + 1 WHERE run = '{run}' AND position = 4",
        "UPDATE event SET key = 'other' WHERE run = '{run}' AND position = 4",
        "UPDATE event SET kind = 'refused' WHERE run = '{run}' AND position = 4",
    ],
)
def test_the_row_that_was_changed_is_named_and_no_other(home: Path, statement: str) -> None:
    tamper(home, statement.format(run=RUN))
    (broken,) = found(home)
    assert (broken.position, "changed" in broken.what) == (4, True)
    assert broken.sequence > 0
    assert found(home, "other") == []


def test_a_row_that_is_missing_is_told_from_one_that_was_changed(home: Path) -> None:
    tamper(home, f"DELETE FROM event WHERE run = '{RUN}' AND position IN (4, 5)")
    assert found(home) == [Broken(4, 0, "is missing, and 1 after it")]


def test_a_row_that_was_moved_to_another_place_or_run_shows(home: Path) -> None:
    tamper(home, f"UPDATE event SET position = 99 WHERE run = '{RUN}' AND position = 4")
    assert 4 in {broken.position for broken in found(home)}


def test_a_row_of_another_run_shows_in_both(home: Path) -> None:
    tamper(home, f"UPDATE event SET run = 'other', key = 'moved' WHERE run = '{RUN}' AND position = 3")
    assert {broken.position for broken in found(home)} == {3}
    assert {broken.position for broken in found(home, "other")} & {3}


def test_an_event_that_was_there_already_takes_no_place(home: Path) -> None:
    async def again() -> None:
        with Journal(home) as journal:
            await journal.append(sample_events(6))
            await journal.append([Event(RUN, EventKind.BASELINES, "new", {}), Event(RUN, EventKind.BASELINES, "new", {})])

    before = len(sample_events(6))
    asyncio.run(again())
    with Journal(home, read_only=True) as journal:
        assert journal.head(RUN).position == before
    assert found(home) == []


def test_two_processes_that_write_one_run_make_one_chain(tmp_path: Path) -> None:
    async def both() -> None:
        with Journal(tmp_path) as one, Journal(tmp_path) as other:
            for start in range(0, 12, 4):
                pairs = [(journal, f"{start}-{n}-{k}") for n, journal in enumerate((one, other)) for k in range(4)]
                await asyncio.gather(*(journal.append([Event(RUN, EventKind.BASELINES, key, {})]) for journal, key in pairs))

    asyncio.run(both())
    assert found(tmp_path) == []


def test_a_journal_of_the_first_format_is_refused_in_one_line(tmp_path: Path) -> None:
    with Journal(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / DATABASE)) as raw:
        raw.execute("PRAGMA user_version = 1")
    for read_only in (False, True):
        with pytest.raises(Unavailable, match=r"written by an older evokern \(format 1, this one reads 2\)"):
            Journal(tmp_path, read_only=read_only)
