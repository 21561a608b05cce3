"""What travels between the engine and its judge; the judge itself is met in the e2e and chaos tiers."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evokern import errors, record
from evokern.evaluation import BASELINE, REASONS, Evaluation, Ratio, Reason, Rung, Verdict
from evokern.evaluator.statement import Assignment, Closing, ClosingRow, Finish, Opening, Preparation, WorkloadTimes, charged
from evokern.executor.local import LocalExecutor, _error, _Judge
from evokern.kernel import Kernel
from evokern.task import DType
from evokern.testing.requests import evaluated, row_task
from evokern.testing.sim_executor import SIM

KERNEL = Kernel("cpp", "int x; // \u00e9 \ud800\r\n")
ROW = ClosingRow("a", True, 10.5, {"eager": 20.0, "copy": 9.0}, "eager", {"eager": Ratio(1.9, 1.8, math.inf, 3, 1)}, 0.8)


def over_the_wire(kind: type, value: object) -> object:
    return record.from_json(kind, json.loads(json.dumps(record.to_json(value))))


@pytest.mark.parametrize(
    "value",
    [
        Opening("folder", DType.FLOAT32, "cpu", 1, "home", "run.key", baselines=("eager",), epoch=3),
        Preparation(SIM, SIM.tier, (WorkloadTimes("a", True, {"eager": 12.5, "copy": math.inf}, "eager"),), 0.25, 0.5, ("why",), 7.5),
        Assignment(KERNEL, Kernel("cpp", "int y;")),
        Finish(KERNEL, None),
        Closing((ROW,), ("a", "b"), True, None, "detail"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_statement_comes_back_as_it_went(value: object) -> None:
    assert over_the_wire(type(value), value) == value


def test_an_evaluation_comes_back_as_it_went(tmp_path: Path) -> None:
    evaluation = evaluated("int x;", row_task(tmp_path)).evaluation
    assert over_the_wire(Evaluation, evaluation) == evaluation
    assert over_the_wire(Assignment, Assignment(KERNEL, None, evaluation)) == Assignment(KERNEL, None, evaluation)
    assert evaluation.versus(BASELINE)


@pytest.mark.parametrize("kind", [errors.UsageError, errors.Unavailable, errors.SourceError, errors.EvokernError])
def test_an_error_of_the_judge_is_the_same_error_here(kind: type[errors.EvokernError]) -> None:
    sent = kind("what", where="where", mend="mend")
    heard = _error(sent.to_json())
    assert (type(heard), heard.line, heard.exit_code) == (kind, sent.line, sent.exit_code)


@pytest.mark.parametrize("name", ["SlotError", "annotations", "__doc__", "NoSuchError"])
def test_an_error_that_is_not_known_here_keeps_its_words(name: str) -> None:
    heard = _error({"error": name, "what": "what", "where": "", "mend": ""})
    assert (type(heard), heard.line) == (errors.EvokernError, "what")


@pytest.mark.parametrize("previous", [False, True])
def test_a_kernel_under_which_the_judge_died_is_the_machine_s_failure(tmp_path: Path, *, previous: bool) -> None:
    task = row_task(tmp_path)
    before = evaluated("int x;", task).evaluation
    executor = LocalExecutor(Opening(str(task.folder), DType.FLOAT32, "cpu", 1, str(tmp_path)))
    found = executor._infrastructure(Assignment(Kernel("cpp", "int x;"), None, before if previous else None))
    assert (found.verdict, found.reason, found.confirmed) == (Verdict.INFRASTRUCTURE, Reason.HOST_ERROR, False)
    assert found.kernel_id == before.kernel_id
    assert found.measurements == (before.measurements if previous else ())


def test_an_executor_that_was_never_opened_can_be_closed(tmp_path: Path) -> None:
    executor = LocalExecutor(Opening("folder", DType.FLOAT32, "cpu", 1, str(tmp_path)), in_flight=3)
    assert executor.capacity() == 3
    asyncio.run(executor.close())


async def heard(executor: LocalExecutor, message: dict[str, Any]) -> _Judge:
    """A judge of the executor that says one thing and is gone."""
    reader = asyncio.StreamReader()
    reader.feed_data(json.dumps(message).encode() + b"\n")
    reader.feed_eof()
    judge = _Judge(None, reader, None, str, executor._reached)  # type: ignore[arg-type] - listens only
    await judge._listener
    return judge


@pytest.mark.parametrize(("rung", "passed", "verdict"), [(Rung.GATE, None, Verdict.HELD_OUT_FAILED), (Rung.MEASURE, True, Verdict.CRASHED)])
def test_of_a_judge_that_dies_in_the_gate_the_kernel_s_bit_is_all_that_is_told(
    tmp_path: Path, rung: Rung, passed: bool | None, verdict: Verdict
) -> None:
    task = row_task(tmp_path)
    known = replace(evaluated("int x;", task).evaluation, measurements=(), confirmed=False, rung=rung, passed_held_out=passed)
    executor = LocalExecutor(Opening(str(task.folder), DType.FLOAT32, "cpu", 1, str(tmp_path)))
    asyncio.run(heard(executor, {"reached": record.to_json(known)}))
    found = charged(executor._infrastructure(Assignment(Kernel("cpp", "int x;"))))
    assert (found.verdict, found.passed_held_out) == (verdict, verdict is Verdict.CRASHED)
    if rung is Rung.GATE:
        refused = replace(known, verdict=verdict, reason=Reason.HELD_OUT, detail=REASONS[Reason.HELD_OUT], passed_held_out=False)
        assert found == refused, "as of every other that failed there"


def test_a_judge_may_ask_for_another_held_out_set_of_the_epoch_that_it_is_in(tmp_path: Path) -> None:
    executor = LocalExecutor(Opening("folder", DType.FLOAT32, "cpu", 1, str(tmp_path), epoch=3))

    def worn_after(message: dict[str, Any]) -> bool:
        executor._judge = asyncio.run(heard(executor, message))
        return executor.is_worn()

    assert not executor.is_worn()
    assert worn_after({"worn": 3})
    assert not worn_after({"worn": 2}), "that one was retired already"
