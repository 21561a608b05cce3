"""`evokern mcp` before anything is served."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Shell = Callable[..., Any]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--task", "softmax", "--session", "a/b"], "'a/b' is no name for a session"),
        (["--task", "softmax", "--budget-evals", "0"], "--budget-evals"),
        (["--task", "softmax", "--budget-minutes", "-1"], "--budget-minutes"),
        (["--task", "softmax", "--budget-minutes", "nan"], "--budget-minutes"),
        (["--task", "softmax", "--http", "99999"], "--http"),
        (["--task", "sofmax"], "no task is called 'sofmax'. Did you mean 'softmax'?"),
        (["--task", "softmax", "--backend", "cpuu"], "no backend is called 'cpuu'"),
        ([], "--task"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(shell: Shell, home: Path, argv: list[str], message: str) -> None:
    pytest.importorskip("mcp")
    answer = shell("mcp", *argv)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert not home.exists()


def test_standard_output_is_the_protocol_s(shell: Shell) -> None:
    pytest.importorskip("mcp")
    answer = shell("mcp", "--task", "softmax", "--json")
    assert (answer.code, answer.document["where"]) == (2, "--json")


def test_without_the_sdk_it_is_code_3_and_says_how_to_get_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    answer = shell("mcp", "--task", "softmax", "--http", "0", "--json")
    assert answer.code == 3
    assert (answer.document["error"], answer.document["mend"]) == ("Unavailable", "Install it with `pip install 'evokern[serve]'`")


def test_a_session_s_run_is_not_resumed_as_a_search(shell: Shell, run_in: Path) -> None:
    import asyncio

    from evokern.event import SESSION, Budget, RunSettings
    from evokern.store import Journal, payload
    from evokern.task import DType

    settings = RunSettings("softmax", "d" * 64, DType.FLOAT32, "cpu", 1, Budget(), 0, options={SESSION: "mcp"})

    async def write() -> None:
        with Journal(run_in) as journal:
            await journal.append([payload.run_started("softmax-20261201T1000-aaaa", settings)])

    asyncio.run(write())
    answer = shell("resume", "softmax-20261201")
    assert answer.code == 2
    assert "its kernels came from outside, in session 'mcp'" in answer.err
