"""Every way of ending is an exit code, one line, and with `--json` one document."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evokern
from evokern.cli import app as application
from evokern.engine import Engine

Shell = Callable[..., Any]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no-such-command"], "No such command"),
        (["run", "--taks", "softmax"], "--taks"),
        (["run", "--minutes", "soon"], "--minutes"),
        (["run"], "no task is named"),
        (["run", "--task", "softmax", "--evals", "0"], "'evals' must be above 0"),
        (["run", "--task", "softmax", "--hours", "1", "--minutes", "1"], "hours and minutes"),
        (["run", "--config", "none.toml"], "none.toml: cannot be read"),
        (["eval", "k.cpp"], "--task"),
        (["eval", "none.cpp", "--task", "softmax"], "none.cpp: cannot be read"),
        (["show"], "Missing argument"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(shell: Shell, argv: list[str], message: str) -> None:
    plain = shell(*argv)
    assert (plain.code, plain.out) == (2, "")
    assert message in plain.err
    assert plain.err.count("\n") == 1

    told = shell(*argv, "--json")
    assert told.code == 2
    assert told.document["schema"] == "evokern.error/1"
    assert told.document["exit_code"] == 2


@pytest.mark.parametrize("name", ["kernel.txt", "kernel"])
def test_a_file_of_no_dialect_is_refused(shell: Shell, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    answer = shell("eval", name, "--task", "softmax")
    assert answer.code == 2
    assert "no dialect has this file ending" in answer.err


def test_a_file_that_is_not_text_is_refused(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text" in shell("eval", "kernel.cpp", "--task", "softmax").err


@pytest.mark.parametrize("command", [["status"], ["top"], ["show", "ab"], ["promote", "ab"]])
def test_a_home_without_runs_is_code_3_and_says_how_to_begin(shell: Shell, home: Path, command: list[str]) -> None:
    answer = shell(*command, "--json")
    assert answer.code == 3
    assert "evokern run --task softmax" in answer.document["mend"]
    assert not home.exists(), "looking makes nothing"


def test_a_home_that_cannot_be_written_is_code_3(shell: Shell, home: Path) -> None:
    home.write_text("a file where the home should be")
    answer = shell("run", "--task", "softmax", "--evals", "1")
    assert answer.code == 3
    assert answer.err.count("\n") == 1
    assert str(home) in answer.err


def raising(error: BaseException) -> Callable[..., int]:
    def command(*_: object, **__: object) -> int:
        raise error

    return command


def test_a_defect_is_one_line_that_says_how_to_see_more(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "app", raising(ZeroDivisionError("division by zero")))
    answer = shell("status")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "ZeroDivisionError" in answer.err
    assert "EVOKERN_DEBUG=1" in answer.err
    monkeypatch.setenv("EVOKERN_DEBUG", "1")
    assert "Traceback" in shell("status").err


def test_a_full_disk_is_code_3_wherever_it_shows(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/home/u/.evokern/evokern.db")
    monkeypatch.setattr(application, "app", raising(ExceptionGroup("unhandled", [full])))
    answer = shell("run", "--json")
    assert answer.code == 3
    assert "No space left" in answer.document["what"]
    assert "Free some space" in answer.document["mend"]
    assert "resume" not in answer.document["mend"], "nothing says that a run was recorded"


@pytest.mark.parametrize("recorded", [True, False])
def test_a_disk_that_fills_while_a_run_is_on_says_to_resume_where_the_run_is_recorded(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    async def full(engine: Engine) -> None:
        engine.recorded = recorded
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Engine, "run", full)
    answer = shell("run", "--task", "softmax", "--evals", "1")
    assert (answer.code, answer.err.count("\n")) == (3, 1)
    assert ("evokern resume softmax-" in answer.err) is recorded


def test_more_threads_than_processors_are_refused_before_a_run_is_recorded(shell: Shell) -> None:
    answer = shell("run", "--task", "softmax", "--threads", "9999")
    assert answer.code == 2
    assert "9999 threads on" in answer.err
    assert shell("status").code == 3, "no run has been made"


def test_flags_that_choose_attacks_are_refused_where_none_are_judged(shell: Shell) -> None:
    answer = shell("doctor", "--sample", "3")
    assert answer.code == 2
    assert "--attacks" in answer.err


@pytest.mark.parametrize(("argv", "code"), [([], 0), (["task"], 2)])
def test_bare_commands_print_their_help(shell: Shell, argv: list[str], code: int) -> None:
    answer = shell(*argv)
    assert (answer.code, answer.err) == (code, "")
    assert answer.out.startswith("Usage: evokern")


def test_the_version_is_printed(shell: Shell) -> None:
    answer = shell("--version")
    assert (answer.code, answer.out) == (0, f"evokern {evokern.__version__}\n")


def test_ctrl_c_is_code_130(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "app", raising(KeyboardInterrupt()))
    assert shell("status").code == 130


def test_help_is_code_0(shell: Shell) -> None:
    answer = shell("--help")
    assert answer.code == 0
    assert "Exit codes" in answer.out
