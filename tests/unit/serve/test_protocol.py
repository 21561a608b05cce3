"""The protocol, by the SDK's own client in this process; standard streams and HTTP are in tests/e2e_cpu/test_mcp.py."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from evokern.errors import Unavailable
from evokern.kernel import Kernel
from evokern.serve import protocol
from evokern.serve.tools import Tools
from evokern.store import Journal
from tests.unit.serve.conftest import ORIGIN, NewBench, kernel

mcp = pytest.importorskip("mcp")


@pytest.fixture
def tools(new_bench: NewBench, journal: Journal) -> Tools:
    return Tools(new_bench()[0], journal)


async def test_the_tools_are_listed_with_closed_schemas(tools: Tools) -> None:
    async with mcp.Client(protocol.server(tools)) as client:
        listed = (await client.list_tools()).tools
    assert sorted(tool.name for tool in listed) == ["evaluate", "profile", "show", "task", "top"]
    for tool in listed:
        assert tool.input_schema["additionalProperties"] is False
        assert tool.description
        assert tool.annotations.read_only_hint == (tool.name != "evaluate")
        assert all(argument["description"] for argument in tool.input_schema["properties"].values())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_is_answered_as_text_and_document(tools: Tools, mode: str) -> None:
    """Clients of both generations of the protocol."""
    async with tools.bench, mcp.Client(protocol.server(tools), mode=mode) as client:
        answer = await client.call_tool("evaluate", {"source": kernel("0.5").source})
        wrong = await client.call_tool("evaluate", {"source": kernel("0.5").source, "sauce": 1})
    assert not answer.is_error
    assert answer.structured_content["verdict"] == "passed"
    assert answer.content[0].text.startswith("passed")
    assert wrong.is_error
    assert wrong.structured_content["mend"] == "Did you mean 'source'?"


async def test_what_takes_time_is_told_while_it_does(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEARTBEAT_SECONDS", 0.05)
    bench, told = tools.bench, list[tuple[float, str]]()
    judge: Any = bench._executor
    judge.door.clear()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message or ""))

    async with bench, mcp.Client(protocol.server(tools)) as client:
        asking = asyncio.ensure_future(client.call_tool("evaluate", {"source": kernel("0.5").source}, progress_callback=hear))
        await judge.until_asked()
        await asyncio.sleep(0.3)
        judge.door.set()
        await asking
    said = [message for _, message in told]
    assert "simulated evaluations: no device is measured" in said
    assert said.count("judging") >= 3
    assert [progress for progress, _ in told] == sorted(progress for progress, _ in told)


async def test_nothing_in_an_answer_is_beyond_json(tools: Tools) -> None:
    async with tools.bench, mcp.Client(protocol.server(tools)) as client:
        answer = await client.call_tool("evaluate", {"source": kernel("800").source})
    json.dumps(answer.structured_content, allow_nan=False)


async def test_text_that_would_steer_a_terminal_does_not_leave(tools: Tools) -> None:
    source = kernel("0.5").source + "// \x1b[2J\x07\n"
    async with tools.bench, mcp.Client(protocol.server(tools)) as client:
        made = await client.call_tool("evaluate", {"source": source})
        shown = await client.call_tool("show", {"kernel": made.structured_content["kernel"]})
    assert shown.structured_content["source"] == source
    assert "\x1b" not in shown.content[0].text


async def test_half_a_character_that_a_model_wrote_does_not_break_an_answer(tools: Tools) -> None:
    odd = Kernel("cpp", kernel("0.5").source + "// \ud800\n")
    async with tools.bench, mcp.Client(protocol.server(tools)) as client:
        await tools.bench.evaluate(odd, ORIGIN)
        shown = await client.call_tool("show", {"kernel": odd.id})
    assert shown.structured_content["source"].endswith("// ?\n")


@pytest.mark.parametrize("missing", ["mcp", "mcp.server.lowlevel"])
def test_without_the_sdk_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(Unavailable, match=r"pip install 'evokern\[serve\]'"):
        protocol.require_mcp()
