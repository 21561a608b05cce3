from __future__ import annotations

import asyncio
import dataclasses
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evokern.errors import Unavailable, UsageError
from evokern.evaluation import BASELINE, Clock, Evaluation, Measurement, Ratio, Verdict
from evokern.event import Event, EventKind, Spent
from evokern.kernel import Kernel
from evokern.store import DATABASE, Journal, payload
from evokern.testing.store_contract import RUN, Store, StoreContract, sample_candidate, sample_events, sample_settings


class TestJournalContract(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: Journal(tmp_path / "home")


def passed(number: int, speedup: float, *, key: str = "", confirmed: bool = True) -> Evaluation:
    ratio = Ratio(speedup, speedup * 0.9, speedup * 1.1, 64, 8)
    measurement = Measurement("w", Clock.JUDGED, 10.0, 1.0, 0.1, None, {BASELINE: ratio})
    return Evaluation(
        sample_candidate(number).id,
        "t",
        "float32",
        Verdict.PASSED,
        confirmed=confirmed,
        measurements=(measurement,),
        key=key or f"key-{number}",
    )


def write(home: Path, *events: Event) -> None:
    with Journal(home) as journal:
        asyncio.run(journal.append(events))


def test_top_ranks_confirmed_kernels_by_score_each_once(tmp_path: Path) -> None:
    speedups = {0: 1.5, 1: 3.0, 2: 2.0, 3: 9.0}
    events = [payload.run_started(RUN, sample_settings())]
    for number, speedup in speedups.items():
        events += [
            payload.proposed(RUN, number, sample_candidate(number, island=number)),
            payload.evaluated(RUN, passed(number, speedup, confirmed=number != 3), 0),
        ]
    events.append(payload.evaluated(RUN, passed(2, 2.1, key="another epoch"), 0))
    write(tmp_path, *events)
    with Journal(tmp_path, read_only=True) as journal:
        assert [(row.number, row.confirmed) for row in journal.top(RUN, 10)] == [(1, True), (2, True), (0, True), (3, False)]
        best = journal.best(RUN)
        assert best is not None
        assert (best.kernel_id, best.island, best.edits, best.operator) == (sample_candidate(1).id, 1, ("BLOCK=1",), "retune")
        assert best.score.ratio.estimate == pytest.approx(3.0)
        assert len(journal.top(RUN, 2)) == 2
        assert journal.best("other") is None


def test_verdicts_are_counted_and_unfinished_candidates_listed(tmp_path: Path) -> None:
    events = sample_events(4)
    open_candidate = sample_candidate(99)
    write(tmp_path, *events[:-1], payload.proposed(RUN, 99, open_candidate), payload.evaluated(RUN, passed(0, 2.0, key="again"), 0))
    with Journal(tmp_path, read_only=True) as journal:
        assert journal.verdict_counts(RUN) == {"passed": 1, "wrong": 4}
        assert journal.unfinished(RUN) == [open_candidate]
        assert journal.count(RUN, EventKind.PROPOSED) == 5
        assert [e.verdict for e in journal.evaluations(RUN, sample_candidate(0).id)] == [Verdict.WRONG, Verdict.PASSED]


def test_the_same_program_is_one_candidate_however_often_it_is_proposed(tmp_path: Path) -> None:
    first = payload.proposed(RUN, 1, sample_candidate(0))
    write(tmp_path, first)
    write(tmp_path, payload.proposed(RUN, 2, sample_candidate(0)), payload.proposed("other-run", 0, sample_candidate(0)))
    with Journal(tmp_path, read_only=True) as journal:
        found = journal.candidate(RUN, sample_candidate(0).id)
        assert found is not None
        assert found.number == 1
        assert journal.appearances(sample_candidate(0).id) == [RUN, "other-run"]
        assert journal.candidate(RUN, "f" * 64) is None
    with sqlite3.connect(tmp_path / DATABASE) as raw:
        assert raw.execute("select count(*) from kernel").fetchone() == (1,)
        (stored,) = raw.execute("select payload from event limit 1").fetchone()
    assert "source" not in json.loads(stored)["candidate"]["kernel"]


def test_an_evaluation_is_found_by_its_key_across_runs_but_the_machines_failures_are_not(tmp_path: Path) -> None:
    broken = Evaluation(sample_candidate(5).id, "t", "float32", Verdict.INFRASTRUCTURE, key="broken")
    write(
        tmp_path,
        payload.evaluated("first-run", passed(0, 2.0), 0),
        payload.evaluated("second-run", passed(0, 2.0), 0, reused="first-run"),
        payload.evaluated(RUN, broken, 0, attempt=0),
        payload.evaluated(RUN, broken, 0, attempt=1),
    )
    with Journal(tmp_path, read_only=True) as journal:
        assert journal.evaluation_of("key-0") == ("first-run", passed(0, 2.0))
        assert journal.evaluation_of("broken") is None
        assert journal.evaluation_of("unknown") is None
        assert journal.verdict_counts(RUN) == {"infrastructure": 2}


def test_a_run_follows_its_start_resume_and_end(tmp_path: Path) -> None:
    write(tmp_path, payload.run_started(RUN, sample_settings()), payload.run_ended(RUN, 0, "seconds", Spent(seconds=3.0)))
    with Journal(tmp_path, read_only=True) as journal:
        run = journal.run()
        assert (run.state, run.reason, run.settings) == ("ended", "seconds", sample_settings())
        assert run.ended is not None
    write(tmp_path, payload.run_resumed(RUN, sample_settings(), 1, ["minutes: 2 -> 4"]))
    with Journal(tmp_path, read_only=True) as journal:
        assert (journal.run(RUN).state, journal.run(RUN).ended) == ("running", None)
        assert [run.id for run in journal.runs()] == [RUN]


def test_prefixes_name_runs_and_kernels_and_ambiguous_ones_list_what_fits(tmp_path: Path) -> None:
    ids = ["softmax-20261129T1015-3f2a", "softmax-20261129T1016-aaaa", "rmsnorm-20261129T1015-3f2a"]
    kernels = [Kernel("cpp", f"int x{number};") for number in range(40)]
    events = [payload.run_started(run, sample_settings()) for run in ids]
    events += [
        payload.proposed(ids[0], number, sample_candidate(0).__class__(kernel, "softmax", sample_candidate(0).dtype))
        for number, kernel in enumerate(kernels)
    ]
    write(tmp_path, *events)
    with Journal(tmp_path, read_only=True) as journal:
        assert journal.run("rms").id == ids[2]
        assert journal.run(ids[0]).id == ids[0]
        with pytest.raises(UsageError, match=f"'softmax' fits several runs: {ids[0]}, {ids[1]}"):
            journal.run("softmax")
        with pytest.raises(UsageError, match="no run begins with 'swiglu'"):
            journal.run("swiglu")
        assert journal.kernel(kernels[3].id[:12].upper()) == kernels[3]
        first = next(digit for digit in "0123456789abcdef" if sum(k.id.startswith(digit) for k in kernels) > 1)
        with pytest.raises(UsageError, match=f"'{first}' fits several kernels"):
            journal.kernel(first)
        with pytest.raises(UsageError, match="no kernel begins with '%'"):
            journal.kernel("%")


def test_events_can_be_neither_changed_nor_removed(tmp_path: Path) -> None:
    write(tmp_path, *sample_events(1))
    with sqlite3.connect(tmp_path / DATABASE) as raw:
        for statement in ("delete from event", "update event set payload = '{}'"):
            with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
                raw.execute(statement)
    raw.close()


def test_a_replay_that_is_half_read_sees_what_is_added_meanwhile(tmp_path: Path) -> None:
    """No read transaction stays open between pages, so a slow reader never blocks the log from being cut back."""
    with Journal(tmp_path) as journal:
        asyncio.run(journal.append([Event(RUN, EventKind.BASELINES, str(n), {}) for n in range(600)]))
        events = journal.replay(RUN)
        next(events)
        asyncio.run(journal.append([Event(RUN, EventKind.BASELINES, "late", {})]))
        assert [event.key for event in events][-1] == "late"


def test_looking_makes_nothing_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no run has been made here yet"):
        Journal(tmp_path / "home", read_only=True)
    assert not (tmp_path / "home").exists()
    (tmp_path / DATABASE).touch()
    with pytest.raises(Unavailable, match="no run has been made here yet"):
        Journal(tmp_path, read_only=True)
    write(tmp_path, *sample_events(1))
    with Journal(tmp_path, read_only=True) as journal, pytest.raises(UsageError, match="read only"):
        asyncio.run(journal.append(sample_events(2)))


def test_the_newest_run_of_an_empty_journal_is_a_usage_error(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal, pytest.raises(UsageError, match="no run has been made here yet"):
        journal.run()


def test_a_newer_versions_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    write(tmp_path, *sample_events(1))
    with sqlite3.connect(tmp_path / DATABASE) as raw:
        raw.execute("pragma user_version = 99")
    raw.close()
    for read_only in (False, True):
        with pytest.raises(Unavailable, match=r"written by a newer evokern \(format 99"):
            Journal(tmp_path, read_only=read_only)


def test_another_programs_database_is_never_written_to(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / DATABASE) as raw:
        raw.execute("create table theirs (x)")
    raw.close()
    with pytest.raises(Unavailable, match="another program's"):
        Journal(tmp_path)


@pytest.mark.parametrize("damage", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 8192])
def test_a_damaged_file_is_told_in_one_line(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / DATABASE).write_bytes(damage)
    with pytest.raises(Unavailable) as caught:
        Journal(tmp_path)
    assert str(tmp_path / DATABASE) in caught.value.line
    assert "\n" not in caught.value.line


def test_a_journal_whose_pages_are_damaged_is_told_in_one_line(tmp_path: Path) -> None:
    write(tmp_path, *sample_events(50))
    content = bytearray((tmp_path / DATABASE).read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    (tmp_path / DATABASE).write_bytes(content)
    with Journal(tmp_path, read_only=True) as journal, pytest.raises(Unavailable, match="damaged"):
        list(journal.replay(RUN))


def test_a_proposal_without_its_fields_is_refused_before_it_is_written(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        with pytest.raises(UsageError, match="not a valid Proposed record"):
            asyncio.run(journal.append([Event(RUN, EventKind.PROPOSED, "k", {"number": 1})]))
        assert list(journal.replay(RUN)) == []


def test_importing_the_store_brings_no_sqlmodel() -> None:
    code = "import sys, evokern.store; sys.exit('sqlmodel' in sys.modules or 'sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0


def test_events_of_some_kinds_come_in_order_over_many_pages(tmp_path: Path) -> None:
    events = sample_events(600)
    write(tmp_path, *events)
    with Journal(tmp_path, read_only=True) as journal:
        chosen = list(journal.events(RUN, EventKind.EVALUATED, EventKind.RUN_ENDED))
        assert [event.key for event in chosen] == [e.key for e in events if e.kind in (EventKind.EVALUATED, EventKind.RUN_ENDED)]
        assert list(journal.events("other")) == []


def test_the_last_verdict_before_a_moment_is_dated(tmp_path: Path) -> None:
    verdicts = [payload.evaluated(RUN, passed(number, 2.0), 0) for number in range(3)]
    write(tmp_path, *(dataclasses.replace(event, at=100.0 + number) for number, event in enumerate(verdicts)))
    write(tmp_path, dataclasses.replace(payload.run_ended(RUN, 0, "seconds", Spent()), at=500.0))
    with Journal(tmp_path, read_only=True) as journal:
        assert journal.last_judged(RUN) == 102.0
        assert journal.last_judged(RUN, before=102.0) == 101.0
        assert journal.last_judged("other") == 0.0
