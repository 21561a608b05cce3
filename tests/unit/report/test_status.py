"""The clock of a run as its events tell it, over a real journal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evokern.evaluation import Evaluation, Verdict
from evokern.event import Budget, Event, ModelCall, RunSettings, Spent
from evokern.report.status import spent_of
from evokern.store import Journal, payload
from evokern.task import DType

RUN = "r-1"
SETTINGS = RunSettings("softmax", "d" * 64, DType.FLOAT32, "cpu", 1, Budget(seconds=60.0), 0, model="m")


def verdict(number: int, at: float) -> Event:
    return replace(payload.evaluated(RUN, Evaluation(f"{number}" * 64, "d" * 64, "float32", Verdict.WRONG, key=str(number)), 0), at=at)


def ended(time: int, seconds: float, at: float) -> Event:
    return replace(payload.run_ended(RUN, time, "interrupted", Spent(seconds=seconds)), at=at)


STARTED = replace(payload.run_started(RUN, SETTINGS), at=100.0)
READY = replace(payload.baselines(RUN, "f", {}), at=130.0)
AGAIN = replace(payload.run_resumed(RUN, SETTINGS, 1), at=500.0)


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        ([STARTED], 0.0),
        ([STARTED, READY, verdict(1, 140.0)], 10.0),
        ([STARTED, READY, verdict(1, 140.0), ended(0, 14.0, 144.0)], 14.0),
        ([STARTED, READY, verdict(1, 140.0), AGAIN, verdict(2, 507.0)], 17.0),
        ([STARTED, READY, ended(0, 14.0, 144.0), AGAIN, verdict(2, 507.0)], 21.0),
        ([STARTED, READY, AGAIN], 0.0),
    ],
    ids=["preparing", "killed", "ended", "killed and resumed", "ended and resumed", "killed before a verdict"],
)
async def test_search_time_is_that_of_all_legs_without_preparation(tmp_path: Path, events: list[Event], seconds: float) -> None:
    with Journal(tmp_path) as journal:
        await journal.append(events)
        assert spent_of(journal, journal.run(RUN), evaluated=0, worked=False).seconds == pytest.approx(seconds)


async def test_tokens_are_exact_and_an_unknown_price_is_counted_as_unknown(tmp_path: Path) -> None:
    calls = [ModelCall("m", "ok", 100, 20, 0.25), ModelCall("m", "rate_limited"), ModelCall("m", "ok", 10, 2, None)]
    with Journal(tmp_path) as journal:
        await journal.append([STARTED, *(payload.model_called(RUN, 1, index, call) for index, call in enumerate(calls))])
        spent = spent_of(journal, journal.run(RUN), evaluated=0, worked=False)
    assert (spent.tokens, spent.usd, spent.usd_unknown_calls) == (132, 0.25, 2)
