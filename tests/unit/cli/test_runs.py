"""`top`, `show` and `promote` over a real journal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evokern.event import Proposal
from evokern.kernel import Candidate, Kernel
from evokern.model.protocol import Message
from evokern.operators.author import transcript
from evokern.store import Journal, payload
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
    assert [island["elites"] for island in document["islands"]] == [2, 2]
    assert document["model"] is None
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


@pytest.mark.usefixtures("run_in")
def test_an_id_that_fits_nothing_is_code_2(shell: Shell) -> None:
    assert shell("show", "zzzz").code == 2
    assert shell("status", "rmsnorm").code == 2


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
