"""`evokern mcp` by the SDK's own client, over standard streams and HTTP, with a real judge."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e_cpu.conftest import Shell, read_until
from tests.e2e_cpu.small_task import CORE

mcp = pytest.importorskip("mcp")

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

SEED = (CORE / "softmax" / "seeds" / "cpp-float32.cpp").read_text()


def wrong(number: int) -> str:
    """A kernel that is refused as soon as it was checked."""
    return SEED.replace("/ total", f"/ (total + {number})")


def served(shell: Shell, task: Path, *argv: str) -> Any:
    """What the SDK's client starts, and talks to over standard streams."""
    command, *arguments = shell.argv("mcp", "--task", str(task), *argv)
    return mcp.StdioServerParameters(command=command, args=arguments, env=dict(shell.environment))


async def test_an_agent_works_on_a_task_over_standard_streams(fresh_shell: Shell, small_task: Path, tmp_path: Path) -> None:
    said: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        said.append(message or "")

    async with mcp.Client(served(fresh_shell, small_task, "--session", "story", "--budget-evals", "2")) as client:
        contract = (await client.call_tool("task", {})).structured_content
        assert contract["example"] == SEED
        seed = (await client.call_tool("evaluate", {"source": contract["example"]}, progress_callback=hear)).structured_content
        assert (seed["verdict"], seed["confirmed"], seed["held_out"]) == ("passed", True, "passed")
        (workload,) = seed["workloads"]
        assert 0 < workload["ratio"]["low"] <= workload["ratio"]["estimate"]
        assert seed["profile"]["workloads"][0]["gb_per_s"] > 0
        assert "judging" in said
        assert any("baselines" in line for line in said), "what takes long before the first verdict is told"

        broken = await client.call_tool("evaluate", {"source": "int broken(", "parent": seed["kernel"], "change": "cut off"})
        assert (broken.structured_content["verdict"], broken.is_error) == ("build_failed", False)
        assert "error:" in broken.content[0].text
        assert broken.structured_content["budget"]["left"]["evaluations"] == 0

        again = (await client.call_tool("evaluate", {"source": SEED})).structured_content
        assert (again["reused"], again["run"]) == (True, seed["run"])
        refused = await client.call_tool("evaluate", {"source": wrong(1)})
        assert (refused.is_error, refused.structured_content["error"]) == (True, "BudgetSpent")

        top = (await client.call_tool("top", {})).structured_content
        assert [entry["kernel"] for entry in top["kernels"]] == [seed["kernel"]]
        shown = (await client.call_tool("show", {"kernel": broken.structured_content["kernel"][:12]})).structured_content
        assert shown["runs"][0]["parents"] == [seed["kernel"]]
        profile = (await client.call_tool("profile", {"kernel": seed["kernel"]})).structured_content
        assert profile["rung"] == "resources"
        for answer in (contract, seed, shown, profile):
            assert "epoch" not in json.dumps(answer)

    code, status, _ = fresh_shell("status", seed["run"])
    assert (code, status["state"], status["evaluated"]) == (0, "ended", 2)
    code, audited, _ = fresh_shell("verify", seed["run"])
    assert code == 0, audited
    code, promoted, _ = fresh_shell("promote", seed["kernel"], "--into", str(tmp_path))
    assert promoted["promoted"] == (code == 0)
    assert code == 0 or "sandbox" in promoted["reason"] or "lower bound" in promoted["reason"]


async def test_two_servers_of_a_home_share_a_budget_and_take_turns(fresh_shell: Shell, small_task: Path) -> None:
    """Two clients over standard streams are two processes, each with a judge."""
    server = served(fresh_shell, small_task, "--session", "two", "--budget-evals", "3")
    async with mcp.Client(server) as one, mcp.Client(server) as other:
        asked = [client.call_tool("evaluate", {"source": wrong(n)}) for n, client in ((1, one), (2, other))]
        first, second = await asyncio.gather(*asked)
        for answer in (first, second):
            assert (answer.structured_content["verdict"], answer.is_error) == ("wrong", False)
        assert first.structured_content["run"] != second.structured_content["run"]
        third = await one.call_tool("evaluate", {"source": wrong(2)})
        assert third.structured_content["reused"], "what one client learnt the other does not pay for"
        assert third.structured_content["budget"]["spent"]["evaluations"] == 2
        last = await asyncio.gather(*(client.call_tool("evaluate", {"source": wrong(n)}) for n, client in ((3, one), (4, other))))
    assert sorted(answer.is_error for answer in last) == [False, True]
    (refused,) = [answer.structured_content for answer in last if answer.is_error]
    assert refused["error"] == "BudgetSpent"


@pytest.fixture
def listening(fresh_shell: Shell, small_task: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server on the loopback, and its address."""
    argv = fresh_shell.argv("mcp", "--task", str(small_task), "--session", "http", "--budget-evals", "3", "--http", "0")
    process = subprocess.Popen(argv, env=fresh_shell.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = read_until(process.stderr, "listening on")[-1]
    # What it says further on must not fill the pipe.
    reading = threading.Thread(target=process.communicate)
    reading.start()
    yield process, line.split()[-1]
    if process.poll() is None:
        process.kill()
    reading.join()


async def test_two_clients_over_http_share_a_server_and_its_judge(listening: tuple[subprocess.Popen[str], str], fresh_shell: Shell) -> None:
    process, url = listening
    async with mcp.Client(url) as one, mcp.Client(url) as other:
        asked = [(21, one), (22, other), (21, other)]
        answers = await asyncio.gather(*(client.call_tool("evaluate", {"source": wrong(n)}) for n, client in asked))
        assert [answer.structured_content["verdict"] for answer in answers] == ["wrong"] * 3
        assert len({answer.structured_content["run"] for answer in answers}) == 1
        malformed = await other.call_tool("evaluate", {"source": wrong(21), "kernel": "x"})
        assert malformed.structured_content["what"] == "unknown argument 'kernel'"
        assert malformed.structured_content["budget"]["spent"]["evaluations"] == 2
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, 30) == 130
    _, status, _ = fresh_shell("status", answers[0].structured_content["run"])
    assert (status["state"], status["evaluated"], status["verdicts"]) == ("interrupted", 2, {"wrong": 2})


def test_what_is_no_call_is_answered_and_ends_nothing(fresh_shell: Shell, small_task: Path) -> None:
    process = subprocess.Popen(
        fresh_shell.argv("mcp", "--task", str(small_task), "--session", "raw"), env=fresh_shell.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}
    process.stdin.write("nonsense\n" + "[" * 10_000 + "\n")
    _send(process, 1, "initialize", hello)
    assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "evokern"
    process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    for number, arguments in enumerate(([1], "x", 3), start=2):
        _send(process, number, "tools/call", {"name": "evaluate", "arguments": arguments})
        answer = process.stdout.readline()
        assert json.loads(answer)["error"]["code"] == -32602
        assert "Traceback" not in answer
    _send(process, 9, "tools/call", {"name": "task", "arguments": {}})
    assert json.loads(process.stdout.readline())["result"]["structuredContent"]["task"] == "softmax_small"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 130, "though nobody has closed its input"
    _, said = process.communicate()
    assert "Traceback" not in said


def _send(process: subprocess.Popen[str], number: int, method: str, params: object) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
    process.stdin.flush()
