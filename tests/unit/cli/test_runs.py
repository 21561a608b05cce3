"""`top`, `show` and `promote` over a real journal."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from evokern import record
from evokern.engine import Engine
from evokern.evaluation import Ratio
from evokern.evaluator.signing import Signer
from evokern.evaluator.statement import Closing, ClosingRow
from evokern.event import Event, Proposal, RunSettings
from evokern.kernel import Candidate, Kernel
from evokern.model.protocol import Message
from evokern.operators.author import transcript
from evokern.store import DATABASE, Journal, payload
from evokern.task import DType

Shell = Callable[..., Any]
RUN = "softmax-20261129T1015-3f2a"


def kernel(number: int) -> Kernel:
    """The kernels of the fixture `run_in`: 0 seed, 1 confirmed child, 2 unconfirmed, 3 unsandboxed, 4 wrong, 5 a slower confirmed child."""
    return Kernel("cpp", f'extern "C" int run() {{ return {number}; }}\n')


@pytest.mark.usefixtures("run_in")
def test_top_lists_confirmed_kernels_first(shell: Shell) -> None:
    document = shell("top", "--json").document
    assert document["schema"] == "evokern.top/1"
    assert [entry["kernel"] for entry in document["kernels"]] == [kernel(n).id for n in (1, 5, 3, 0, 2)]
    first = document["kernels"][0]
    assert first["ratio"]["estimate"] == pytest.approx(1.35)
    assert (first["operator"], first["edits"], first["parents"]) == ("rewrite", ["fuse passes"], [kernel(0).id])
    assert "fuse passes" in shell("top", "softmax", "--count", "1").out
    assert kernel(3).short not in shell("top", "--count", "1").out


@pytest.mark.usefixtures("run_in")
def test_status_says_how_the_run_stands(shell: Shell) -> None:
    document = shell("status", "--json").document
    assert document["schema"] == "evokern.status/1"
    assert (document["run"], document["state"], document["reason"]) == (RUN, "ended", "seconds")
    assert document["best"]["kernel"] == kernel(1).id
    assert document["best"]["workloads"]["cols=4096,rows=2048"]["ratio"]["estimate"] == pytest.approx(1.35)
    assert document["verdicts"] == {"passed": 5, "wrong": 1}
    assert document["evaluated"] == 6
    assert document["budget"]["left"] == {"seconds": 0.0, "evaluations": 44, "tokens": None, "usd": None}
    assert [island["elites"] for island in document["islands"]] == [1, 1], "the others lost their cell to a faster one"
    assert [island["best"] for island in document["islands"]] == [kernel(3).id, kernel(1).id]
    assert document["model"] is document["closing"] is None
    text = shell("status", RUN[:12]).out
    assert kernel(1).short in text
    assert "passed 5, wrong 1" in text


@pytest.mark.usefixtures("run_in")
def test_show_gives_source_lineage_and_verdicts(shell: Shell) -> None:
    document = shell("show", kernel(1).short, "--json").document
    assert document["source"] == kernel(1).source
    (appearance,) = document["runs"]
    assert appearance["parents"] == [kernel(0).id]
    assert [evaluation["confirmed"] for evaluation in appearance["evaluations"]] == [True]
    text = shell("show", kernel(4).short).out
    assert "wrong: tolerance" in text
    assert text.endswith(kernel(4).source)


def test_show_prints_what_a_model_was_asked_turn_by_turn_and_the_document_keeps_it_exact(shell: Shell, run_in: Path) -> None:
    asked = transcript([Message("system", "You write kernels."), Message("user", "Make it\nfaster.")])
    written = Candidate(kernel(7), "softmax", DType.FLOAT32, (kernel(1).id,), "mutate")

    async def write() -> None:
        with Journal(run_in) as journal:
            await journal.append([payload.proposed(RUN, 9, written, Proposal(kernel(7), prompt=asked, response="```cpp\n```"))])

    asyncio.run(write())
    text = shell("show", kernel(7).short, "--prompt").out
    assert "asked:\n[system]\nYou write kernels.\n\n[user]\nMake it\nfaster.\n\nanswered:\n```cpp" in text
    assert "You write" not in shell("show", kernel(7).short).out
    (appearance,) = shell("show", kernel(7).short, "--prompt", "--json").document["runs"]
    assert appearance["prompt"] == asked


def write(home: Path, *events: Event) -> None:
    async def append() -> None:
        with Journal(home) as journal:
            await journal.append(events)

    asyncio.run(append())


def closing_of(home: Path, ratio: float, *, signed: bool = True) -> Event:
    """The closing of the run: one workload, measured once more."""
    versus = {"eager": Ratio(ratio, ratio * 0.97, ratio * 1.03, 40, 8)}
    row = ClosingRow("cols=4096,rows=2048", False, 4000.0, {"eager": 5000.0}, "eager", versus, 0.5)
    closing = Closing((row,), (), True, 0.9, "")
    closing = Signer.of_home(home).sign(closing) if signed else closing
    return payload.closed(RUN, 0, {"closing": record.to_json(closing), "summary": {"kernel": kernel(1).id}})


def test_status_counts_visitors_and_shows_what_the_end_measured(shell: Shell, run_in: Path) -> None:
    write(run_in, payload.migrated(RUN, payload.Migrated(kernel(1).id, 1, 0)), closing_of(run_in, 1.25))
    document = shell("status", "--json").document
    assert [island["best"] for island in document["islands"]] == [kernel(1).id, kernel(1).id]
    assert document["closing"]["ratio"]["estimate"] == pytest.approx(1.25)
    assert (document["closing"]["kernel"], document["closing"]["held_out_correct"]) == (kernel(1).id, True)
    assert "measured once more at the end: 1.25x [1.21, 1.29]" in shell("status").out


def test_a_closing_that_no_judge_of_this_home_signed_is_not_shown(shell: Shell, run_in: Path) -> None:
    write(run_in, closing_of(run_in, 9.0, signed=False))
    assert shell("status", "--json").document["closing"] is None


@pytest.mark.usefixtures("run_in")
def test_an_id_that_fits_nothing_is_code_2(shell: Shell) -> None:
    assert shell("show", "zzzz").code == 2
    assert shell("status", "rmsnorm").code == 2
    assert f"There are {RUN}" in shell("status", "rmsnorm").err


def test_a_row_that_is_no_json_is_one_line_that_names_it(shell: Shell, run_in: Path) -> None:
    with closing(sqlite3.connect(run_in / DATABASE)) as raw, raw:
        raw.execute("DROP TRIGGER event_no_update")
        (row,) = raw.execute("UPDATE event SET payload = '{' WHERE kind = 'evaluated' AND position = 4 RETURNING sequence").fetchone()
    for command in (["status"], ["top"], ["show", kernel(1).short]):
        answer = shell(*command)
        assert answer.code == 3
        assert answer.err.count("\n") == 1
        assert all(word in answer.err for word in (RUN, f"row {row} ", "evokern verify"))
    assert f"(row {row}) " in shell("verify").out


def test_a_run_whose_budget_is_used_up_is_not_resumed(shell: Shell, run_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "__init__", _of_no_task)
    write(run_in, closing_of(run_in, 1.25))
    before = (run_in / DATABASE).read_bytes()
    answer = shell("resume", RUN)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "nothing is left of its budget of seconds" in answer.err
    assert "--minutes" in answer.err
    assert (run_in / DATABASE).read_bytes() == before


def _of_no_task(engine: Engine, settings: RunSettings, *, home: Path, run_id: str, **_: object) -> None:
    """An engine whose task is not looked for."""
    engine.settings, engine.home, engine.run_id = settings, home, run_id


@pytest.mark.usefixtures("run_in")
def test_promote_writes_the_runs_best_and_again_changes_nothing(shell: Shell, tmp_path: Path) -> None:
    first = shell("promote", RUN, "--json")
    assert first.code == 0
    folder = tmp_path / "archives" / "softmax" / "amd-epyc-zen-3" / "float32"
    assert (folder / "kernels" / f"{kernel(1).short}.cpp").read_text() == kernel(1).source
    elite = json.loads((folder / "elites.jsonl").read_text())
    assert elite["kernel"] == kernel(1).id == Kernel(elite["dialect"], kernel(1).source, elite["entry"]).id
    assert elite["ratio"]["estimate"] == pytest.approx(1.35)

    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    again = shell("promote", kernel(1).short, "--json")
    assert (first.document["changed"], again.document["changed"]) == (True, False)
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


@pytest.mark.usefixtures("run_in")
def test_promoting_in_another_order_gives_the_same_bytes(shell: Shell, tmp_path: Path) -> None:
    for into, order in (("a", (5, 1)), ("b", (1, 5))):
        for number in order:
            shell("promote", kernel(number).short, "--into", into)
    files = [sorted(file.relative_to(tmp_path / into) for file in (tmp_path / into).rglob("*") if file.is_file()) for into in "ab"]
    assert files[0] == files[1]
    assert len(files[0]) == 3, "two kernels and their list"
    assert all((tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes() for file in files[0])


@pytest.mark.usefixtures("run_in")
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (2, "no second, independent measurement"),
        (3, "judged without a sandbox"),
        (4, "verdict is wrong: tolerance"),
        (0, "not above 1"),
    ],
)
def test_promote_refuses_with_the_reason_and_code_1(shell: Shell, tmp_path: Path, number: int, reason: str) -> None:
    answer = shell("promote", kernel(number).short, "--json")
    assert answer.code == 1
    assert reason in answer.document["reason"]
    assert not (tmp_path / "archives").exists()


@pytest.mark.usefixtures("run_in")
def test_promote_into_something_that_is_no_archive_is_code_2(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "archives" / "softmax" / "amd-epyc-zen-3" / "float32"
    folder.mkdir(parents=True)
    (folder / "elites.jsonl").write_text("not json\n")
    answer = shell("promote", RUN)
    assert answer.code == 2
    assert "not an archive" in answer.err
