"""The five tools: what they tell, what they do not, and that whatever goes wrong is an answer."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from evokern.errors import Unavailable
from evokern.event import Budget
from evokern.serve.bench import Bench
from evokern.serve.tools import Told, Tools
from evokern.store import Journal
from tests.unit.serve.conftest import ORIGIN, SECONDS, NewBench, kernel

HELD_OUT = ("70001", "90007", "1234567")
"""Numbers of the task's held-out ranges, which stand nowhere else."""


@pytest.fixture
def bench(new_bench: NewBench) -> Bench:
    return new_bench(budget=Budget(evaluations=9, seconds=600.0))[0]


@pytest.fixture
def tools(bench: Bench, journal: Journal) -> Tools:
    return Tools(bench, journal)


async def evaluated(tools: Tools, worth: str, **more: str) -> Told:
    return await tools.call("evaluate", {"source": kernel(worth).source, **more})


async def test_an_evaluation_is_told_with_interval_profile_and_what_is_left(tools: Tools) -> None:
    async with tools.bench:
        told = await evaluated(tools, "0.5", change="wider\n loads")
        again = await evaluated(tools, "0.5")
    document = told.document
    assert (told.failed, document["schema"], document["verdict"], document["confirmed"]) == (False, "evokern.eval/1", "passed", True)
    assert document["ratio"]["low"] < document["ratio"]["estimate"] < document["ratio"]["high"]
    assert document["budget"]["left"] == {"evaluations": 8, "seconds": 600.0 - SECONDS}
    assert document["profile"]["traits"] == {"simd": "wide"}
    assert "9 min 58 s and 8 evaluations left" in told.text
    assert again.document["reused"]
    assert again.document["budget"] == document["budget"]


async def test_a_refused_kernel_says_why_and_what_to_do(tools: Tools) -> None:
    async with tools.bench:
        told = await evaluated(tools, "wrong")
    assert (told.document["verdict"], told.document["reason"], told.failed) == ("wrong", "tolerance", False)
    assert "what to do:" in told.text


async def test_top_show_and_profile_agree_with_it(tools: Tools) -> None:
    async with tools.bench:
        slow = await evaluated(tools, "0.2")
        await evaluated(tools, "wrong")
        fast = await evaluated(tools, "0.9", parent=slow.document["kernel"][:9], change="wider loads")
        top = (await tools.call("top", {"count": 1})).document
        run = (await tools.call("top", {"run": fast.document["run"]})).document
        shown = await tools.call("show", {"kernel": fast.document["kernel"][:12]})
        profiled = await tools.call("profile", {"kernel": fast.document["kernel"]})
    assert [entry["kernel"] for entry in top["kernels"]] == [fast.document["kernel"]]
    assert [entry["kernel"] for entry in run["kernels"]] == [fast.document["kernel"], slow.document["kernel"]]
    assert shown.document["source"] == kernel("0.9").source
    (appearance,) = shown.document["runs"]
    assert (appearance["parents"], appearance["edits"]) == ([slow.document["kernel"]], ["wider loads"])
    assert profiled.document["rung"] == "resources"


async def test_the_task_says_how_a_kernel_must_look(tools: Tools) -> None:
    told = await tools.call("task", {})
    document = told.document
    assert [argument["role"] for argument in document["arguments"]] == ["in", "out"]
    assert document["tolerance"]["element"] == 4.0
    assert 'extern "C" int run' in told.text
    assert "evokern.h" in told.text
    assert document["budget"]["left"]["evaluations"] == 9


async def test_nothing_of_the_held_out_set_is_told(tools: Tools) -> None:
    async with tools.bench:
        kernel_id = (await evaluated(tools, "0.5")).document["kernel"]
        answers = [await tools.call("evaluate", {"source": kernel("0.5").source})]
        for name, arguments in (("task", {}), ("top", {}), ("show", {"kernel": kernel_id}), ("profile", {"kernel": kernel_id})):
            answers.append(await tools.call(name, arguments))
    for told in answers:
        whole = json.dumps(told.document) + told.text
        assert not [number for number in HELD_OUT if number in whole]
        assert "epoch" not in whole
        assert "gate_bits" not in whole


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("evaluat", {}, "UsageError", "no tool is called 'evaluat'. Did you mean 'evaluate'?"),
        ("evaluate", {}, "UsageError", "argument 'source' is missing"),
        ("evaluate", {"source": "x", "timeout": 5}, "UsageError", "unknown argument 'timeout'"),
        ("evaluate", {"source": "x", "file": "k.txt"}, "UsageError", "no dialect has this file ending"),
        ("evaluate", {"source": "x", "file": "k.cu"}, "UsageError", "backend cpu takes no cuda"),
        ("evaluate", {"source": "x", "file": "k.cu", "dialect": "cpp"}, "UsageError", "'file' is cuda, 'dialect' is cpp"),
        ("evaluate", {"source": "x", "parent": "0123"}, "UsageError", "no kernel begins with '0123'"),
        ("show", {"kernel": "0123"}, "UsageError", "no kernel begins with '0123'"),
        ("profile", {"kernel": "%"}, "UsageError", "no kernel begins with '%'"),
        ("top", {"run": "other"}, "UsageError", "no run begins with 'other'"),
        ("task", {"dialect": "cuda"}, "UsageError", "must be one of cpp"),
    ],
)
async def test_a_malformed_call_is_a_typed_answer(tools: Tools, name: str, arguments: dict[str, Any], error: str, message: str) -> None:
    told = await tools.call(name, arguments)
    assert told.failed
    assert (told.document["schema"], told.document["error"]) == ("evokern.error/1", error)
    first = told.text.splitlines()[0]
    assert message in first
    assert told.document["budget"]["left"]["evaluations"] == 9, "and costs nothing"


async def test_a_kernel_that_was_not_timed_has_no_profile(tools: Tools) -> None:
    async with tools.bench:
        wrong = await evaluated(tools, "wrong")
        told = await tools.call("profile", {"kernel": wrong.document["kernel"]})
    assert told.failed
    assert "its verdict is wrong: tolerance" in told.text


async def test_a_spent_budget_is_a_typed_answer(new_bench: NewBench, journal: Journal) -> None:
    tools = Tools(new_bench(budget=Budget(evaluations=1))[0], journal)
    async with tools.bench:
        await evaluated(tools, "0.5")
        told = await evaluated(tools, "0.6")
    assert (told.failed, told.document["error"]) == (True, "BudgetSpent")
    assert told.document["budget"]["left"]["evaluations"] == 0


@pytest.mark.parametrize("failure", [Unavailable("no compiler", mend="Install one"), ZeroDivisionError("oh")])
async def test_a_failure_of_ours_is_one_line_and_no_traceback(tools: Tools, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    async def failing(*_: object) -> None:
        raise failure

    monkeypatch.setattr(tools.bench, "evaluate", failing)
    told = await evaluated(tools, "0.5")
    assert told.failed
    assert "Traceback" not in json.dumps(told.document) + told.text
    assert re.fullmatch(
        r"(Unavailable: no compiler\. Install one|EvokernError: unexpected ZeroDivisionError: oh\. .*)", told.text.splitlines()[0]
    )


async def test_a_run_of_another_task_is_not_shown(tools: Tools, new_bench: NewBench, journal: Journal) -> None:
    other, _ = new_bench()
    other.settings = replace(other.settings, task_digest="0" * 64)
    async with other:
        await other.evaluate(kernel("0.5"), ORIGIN)
    told = await tools.call("top", {"run": other.run_id})
    assert "that run is of another task" in told.text
    assert (await tools.call("show", {"kernel": kernel("0.5").id})).document["runs"] == []
