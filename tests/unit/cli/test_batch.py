"""`evokern eval --batch`: lines in, answers in their order, and no line ends it; verdicts come from a landscape."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evokern.cli.lines import parse_line
from evokern.errors import Unavailable
from evokern.evaluator.statement import Preparation
from evokern.kernel import SUFFIXES
from evokern.testing.requests import row_task
from tests.unit.serve.conftest import Judge, kernel

Shell = Callable[..., Any]
Batch = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "row_sum"
    folder.mkdir()
    row_task(folder)
    return folder


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Judge]:
    """Every judge that a batch starts."""
    from evokern.evaluator.catalogue import find_task
    from evokern.serve import bench

    made: list[Judge] = []

    def start(opening: Any, in_flight: int) -> Judge:
        judge = Judge(find_task(opening.task_folder).digest, capacity=in_flight)
        made.append(judge)
        return judge

    monkeypatch.setattr(bench, "LocalExecutor", start)
    return made


@pytest.fixture
def batch(shell: Shell, task: Path, tmp_path: Path, judges: list[Judge]) -> Batch:
    """Runs lines, given as objects or as they are, and gives code, answers and what was said."""

    def run(*lines: object, file: str = "batch.jsonl", argv: tuple[str, ...] | None = None) -> tuple[int, list[dict[str, Any]], str]:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (tmp_path / file).write_text("\n".join(texts) + "\n")
        answer = shell("eval", "--batch", file, *(("--task", str(task)) if argv is None else argv), "--json")
        return answer.code, [json.loads(line) for line in answer.out.splitlines()], answer.err

    return run


def source(worth: str, number: int = 0) -> dict[str, str]:
    return {"source": kernel(worth, number).source}


def test_answers_come_in_order_with_a_summary_and_a_bad_line_ends_nothing(batch: Batch, judges: list[Judge]) -> None:
    code, answers, _ = batch(
        {**source("0.5", 0), "id": "first"},
        "no json",
        source("wrong", 1),
        {"sauce": "x"},
        "",
        {"path": "none.cpp"},
        source("0.7", 2),
    )
    assert code == 1
    assert [(a["schema"], a.get("line")) for a in answers] == [
        ("evokern.eval/1", 1), ("evokern.error/1", 2), ("evokern.eval/1", 3), ("evokern.error/1", 4), ("evokern.error/1", 6),
        ("evokern.eval/1", 7), ("evokern.eval_batch/1", None),
    ]  # fmt: skip
    assert answers[0]["id"] == "first"
    assert [a["verdict"] for a in answers if a["schema"] == "evokern.eval/1"] == ["passed", "wrong", "passed"]
    assert answers[3]["mend"] == "Did you mean 'source'?"
    assert answers[-1]["verdicts"] == {"passed": 2, "wrong": 1}
    assert answers[-1]["errors"] == {"UsageError": 3}
    assert len(judges) == 1


def test_where_all_passed_the_code_is_0(batch: Batch) -> None:
    code, answers, _ = batch(source("0.5"), source("0.6"))
    assert (code, answers[-1]["exit_code"]) == (0, 0)


def test_the_same_batch_again_is_answered_from_the_journal(batch: Batch, judges: list[Judge]) -> None:
    _, before, _ = batch(source("0.5"), source("wrong"))
    code, after, _ = batch(source("0.5"), source("wrong"), source("0.9"))
    assert [a.get("reused") for a in before[:-1]] == [False, False]
    assert [a.get("reused") for a in after[:-1]] == [True, True, False]
    assert after[0]["run"] == before[0]["run"]
    assert (code, after[-1]["reused"]) == (1, 2)
    assert [len(judge.evaluated) for judge in judges] == [2, 1]


def test_a_kernel_twice_in_a_batch_is_judged_once(batch: Batch, judges: list[Judge]) -> None:
    batch(*[source("0.5")] * 5)
    assert len(judges[0].evaluated) == 1


def test_a_folder_s_kernels_are_judged_by_name(shell: Shell, task: Path, tmp_path: Path, judges: list[Judge]) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    for name, worth in (("b.cpp", "0.5"), ("a.cpp", "wrong"), ("notes.txt", "0.1")):
        (folder / name).write_text(kernel(worth).source)
    answer = shell("eval", "--batch", "kernels", "--task", str(task), "--json")
    documents = [json.loads(line) for line in answer.out.splitlines()]
    assert [(d["id"], d["verdict"]) for d in documents[:-1]] == [("a.cpp", "wrong"), ("b.cpp", "passed")]


def test_a_line_may_name_its_task_and_judges_of_two_are_not_at_work_at_once(batch: Batch, task: Path, judges: list[Judge]) -> None:
    other = task.parent / "other"
    other.mkdir()
    (other / "task.toml").write_text((task / "task.toml").read_text().replace('"row_sum"', '"other"'))
    (other / "reference.py").write_text((task / "reference.py").read_text())
    lines = [{**source("0.5", n), "task": str(task if n % 2 else other)} for n in range(4)]
    code, answers, _ = batch(*lines, {"source": "x", "task": "nowhere"}, source("0.5", 9), argv=())
    assert [a.get("verdict") for a in answers[:4]] == ["passed"] * 4
    assert [a["task"] for a in answers[:4]] == [str(other), str(task)] * 2
    assert "no task is called 'nowhere'" in answers[4]["what"]
    assert answers[5]["what"] == "no task is named"
    assert (code, len(judges)) == (1, 2)
    assert all(judge.closed for judge in judges)


def test_what_is_not_here_is_told_for_each_line_and_tried_once(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    async def failing(self: Judge, say: Callable[[str], None]) -> Preparation:
        tries.append(1)
        raise Unavailable("no compiler", mend="Install one")

    monkeypatch.setattr(Judge, "open", failing)
    code, answers, _ = batch(*[source("0.5", n) for n in range(30)])
    assert (code, len(answers)) == (3, 31)
    assert {a["error"] for a in answers[:-1]} == {"Unavailable"}
    assert len(tries) < 20


def test_people_get_a_line_a_kernel(shell: Shell, task: Path, tmp_path: Path, judges: list[Judge]) -> None:
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps({**source(w), "id": f"k-{w}"}) for w in ("0.5", "wrong")) + "\n{}\n")
    answer = shell("eval", "--batch", "b.jsonl", "--task", str(task))
    first, second, third = answer.out.splitlines()
    assert first.startswith("    1  k-0.5  passed 1.6")
    assert "wrong: tolerance" in second
    assert "UsageError: line 3: must hold either 'source' or 'path'" in third
    assert "3 kernels in" in answer.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--batch", "none.jsonl"], "none.jsonl: cannot be read"),
        (["--batch", "empty"], "empty: holds no kernel"),
        (["k.cpp", "--batch", "-"], "a kernel and a batch are both given"),
        ([], "Missing argument 'FILE'"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(shell: Shell, tmp_path: Path, home: Path, argv: list[str], message: str) -> None:
    (tmp_path / "empty").mkdir()
    answer = shell("eval", *argv, "--task", "softmax")
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[]", "not a JSON object but a list"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"source": 1}', "'source' must be a text, not int"),
        (b'{"source": "x", "path": "y"}', "must hold either"),
        (b'{"source": "\\ud800"}', "'source' is not Unicode text"),
        (b'{"id": "x"}', "must hold either"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_a_wrong_line_carries_its_fault(text: bytes, message: str) -> None:
    line = parse_line(7, text, Path())
    assert line.fault is not None
    assert line.fault.where == "line 7"
    assert message in line.fault.what


def test_every_dialect_s_name_is_known(tmp_path: Path) -> None:
    for dialect in SUFFIXES:
        assert parse_line(1, json.dumps({"source": "x", "dialect": dialect}).encode(), tmp_path).kernel(()).dialect == dialect
