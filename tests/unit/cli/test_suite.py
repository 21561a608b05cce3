"""`evokern task check --format`: what needs no process: wrong usage, kept rows, counts and tables."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from evokern.cli import suite
from evokern.errors import EvokernError, Unavailable, UsageError
from evokern.evaluator.reference.published import Module
from evokern.export.suites.kernelbench import find_problems
from evokern.sandbox.slot import Death

Shell = Callable[..., Any]


def row(task: str, published: bool | None, evokern: bool | None, *, skipped: str = "") -> dict[str, Any]:
    columns = {
        name: None if skipped else {"degenerate": flag, "reasons": ["zeros"] * bool(flag), "flaws": [{"kind": "null"}] * bool(flag)}
        for name, flag in (("as_published", published), ("under_evokern", evokern))
    }
    return {"task": task, "name": "T", "key": task, "skipped": skipped, "degenerate": bool(published or evokern), "seconds": 1.0, **columns}


ROWS = [row("L1/1", True, False), row("L1/2", False, None), row("L1/3", None, None, skipped="takes too long")]


def test_wrong_usage_is_code_2(shell: Shell, tmp_path: Path) -> None:
    answer = shell("task", "check", "--format", "kernelbank", str(tmp_path), "--json")
    assert (answer.code, answer.document["mend"]) == (2, "Use kernelbench")
    answer = shell("task", "check", "--format", "kernelbench", str(tmp_path))
    assert answer.code == 2
    assert "holds no KernelBench problems" in answer.err


def test_counts_and_table() -> None:
    counts = suite.summary(ROWS)
    assert (counts["checked"], counts["skipped"]) == (2, 1)
    assert counts["as_published"]["degenerate"] == 1
    assert counts["under_evokern"] | {"kinds": {}} == {"degenerate": 0, "sound": 1, "not_judged": 1, "kinds": {}}
    text = suite.table(ROWS)
    assert "L1/1 as published: zeros" in text
    assert "L1/3 T skipped: takes too long" in text
    assert "2 checked: 1 degenerate as published, 0 degenerate under evokern; 1 skipped" in text
    assert suite.progress(ROWS[0], 1, 3) == "1/3 L1/1 T: as published degenerate, under evokern sound"


def test_rows_are_kept_line_by_line_and_a_torn_one_is_made_again(tmp_path: Path) -> None:
    keep = tmp_path / "rows"
    assert suite._kept(keep) == {}
    suite._keep(keep, ROWS[0])
    with keep.open("a") as stream:
        stream.write('{"key": "L1/2", "tas')
    assert suite._kept(keep) == {"L1/1": ROWS[0]}
    suite._keep(keep, ROWS[1])
    assert [json.loads(line) for line in keep.read_text().splitlines()] == ROWS[:2]
    keep.write_text("[]\n")
    with pytest.raises(UsageError, match="no rows of an earlier check"):
        suite._kept(keep)


def test_a_row_depends_on_the_source(tmp_path: Path) -> None:
    file = tmp_path / "level1" / "1_A.py"
    file.parent.mkdir()
    file.write_text("x = 1\n")
    before = suite._key(find_problems(tmp_path)[0])
    file.write_text("x = 2\n")
    assert suite._key(find_problems(tmp_path)[0]) != before


def test_time_that_is_up_and_a_process_that_ended_are_told() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        with pytest.raises(Unavailable, match="took more than 0 s"):
            Module(ours, 0.02).size("never answered")
        theirs.close()
        with pytest.raises(Unavailable, match="its process ended"):
            Module(ours, 60).size("nobody is there")


@pytest.mark.parametrize(("out_of_memory", "words"), [(True, "needs more than 4 GiB"), (False, "its process ended with status -11")])
def test_a_process_that_ended_is_asked_how(out_of_memory: bool, words: str) -> None:
    class Ended:
        def kill(self) -> Death:
            return Death(-11, out_of_memory, False, False, 0, 0, "")

    assert suite._why(cast(Any, Ended()), Unavailable("its process ended")) == words
    assert suite._why(cast(Any, Ended()), EvokernError("RuntimeError: shapes")) == "RuntimeError: shapes"
