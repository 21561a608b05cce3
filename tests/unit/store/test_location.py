from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evokern.errors import Unavailable, UsageError
from evokern.store import RunLease, find_home, home, new_run_id
from evokern.store.lease import is_worked


def test_the_variable_wins_then_the_nearest_folder_upward_then_here(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_home(below, {}) == below / ".evokern"
    (tmp_path / ".evokern").mkdir()
    assert find_home(below, {}) == tmp_path / ".evokern"
    (tmp_path / "a" / ".evokern").mkdir()
    assert find_home(below, {}) == tmp_path / "a" / ".evokern"
    assert find_home(below, {"EVOKERN_HOME": "/elsewhere"}) == Path("/elsewhere")
    assert find_home(below, {"EVOKERN_HOME": ""}) == tmp_path / "a" / ".evokern"


def test_a_file_named_like_the_folder_is_not_a_home(tmp_path: Path) -> None:
    (tmp_path / ".evokern").touch()
    below = tmp_path / "a"
    below.mkdir()
    assert find_home(below, {}) == below / ".evokern"
    with pytest.raises(Unavailable, match="cannot be written here"):
        home(tmp_path, {})


def test_home_is_made_and_left_empty(tmp_path: Path) -> None:
    made = home(tmp_path, {"EVOKERN_HOME": str(tmp_path / "x" / "y")})
    assert made.is_dir()
    assert list(made.iterdir()) == []


def test_run_ids_hold_task_minute_and_chance() -> None:
    now = datetime(2026, 11, 29, 10, 15, tzinfo=UTC)
    assert re.fullmatch(r"softmax-20261129T1015-[0-9a-f]{4}", new_run_id("softmax", now=now))
    assert new_run_id("/some/Path/My Task!/", now=now).startswith("my_task-")
    assert new_run_id("/", now=now).startswith("task-")
    assert len({new_run_id("softmax", now=now) for _ in range(20)}) > 15


def test_a_run_is_worked_by_one_at_a_time(tmp_path: Path) -> None:
    assert not is_worked(tmp_path, "run-1")
    with RunLease(tmp_path, "run-1"):
        assert is_worked(tmp_path, "run-1")
        assert not is_worked(tmp_path, "run-2")
        with pytest.raises(UsageError, match=r"process \d+ is working this run"):
            RunLease(tmp_path, "run-1")
    assert not is_worked(tmp_path, "run-1")
    RunLease(tmp_path, "run-1").release()
