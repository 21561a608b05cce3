from __future__ import annotations

import io
from typing import Any

from evokern.event import Event, EventKind
from evokern.report.display import LiveDisplay, PlainDisplay, display_for, event_line

KERNEL = "cd" * 32
INFO = {"run": "r", "task": "softmax", "dtype": "float32", "backend": "cpu", "model": ""}
RATIO = {"estimate": 1.5, "low": 1.4, "high": 1.6}


def evaluated(verdict: str, reason: str = "none", *, confirmed: bool = False) -> Event:
    evaluation = {"kernel_id": KERNEL, "verdict": verdict, "reason": reason, "confirmed": confirmed}
    return Event("r", EventKind.EVALUATED, "k", {"evaluation": evaluation, "island": 2})


def status() -> dict[str, Any]:
    best = {"kernel": KERNEL, "ratio": RATIO, "workloads": {"cols=33,rows=9": {"time_us": 12.5, "ratio": RATIO}}}
    budget = {"left": {"seconds": 61.0}}
    return {"best": best, "evaluated": 7, "rate": 3.5, "budget": budget, "verdicts": {"passed": 7}, "islands": [{"index": 0, "elites": 1}]}


def test_events_that_people_need_not_see_have_no_line() -> None:
    assert event_line(Event("r", EventKind.PROPOSED, "k", {})) == ""
    rejected = {"island": 0, "kernel_id": KERNEL, "placement": {"kind": "rejected", "cell": [], "replaced": "", "champion": False}}
    assert event_line(Event("r", EventKind.PLACED, "k", rejected)) == ""


def test_a_verdict_is_one_line_with_its_reason() -> None:
    assert event_line(evaluated("wrong", "tolerance")) == "wrong (tolerance) cdcdcdcdcdcd, island 2"
    assert event_line(evaluated("passed", confirmed=True)) == "passed and confirmed cdcdcdcdcdcd, island 2"


def test_a_failed_model_call_is_said_and_a_good_one_is_not() -> None:
    assert "rate_limited" in event_line(Event("r", EventKind.MODEL_CALLED, "1:0", {"outcome": "rate_limited"}))
    assert event_line(Event("r", EventKind.MODEL_CALLED, "1:0", {"outcome": "ok"})) == ""


def test_plain_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    display = display_for(stream)
    assert isinstance(display, PlainDisplay)
    display.started(INFO)
    display.say("building the baselines")
    display.started(INFO | {"device": "EPYC", "tier": "isolated"})
    display.event(evaluated("passed"))
    assert stream.getvalue().splitlines() == [
        "run r: softmax float32 on cpu, no model: LLM-free operators alone",
        "building the baselines",
        "search begins on EPYC, sandbox tier isolated",
        "passed cdcdcdcdcdcd, island 2",
    ]


def test_plain_status_lines_come_now_and_then_only() -> None:
    stream, now = io.StringIO(), [0.0]
    display = PlainDisplay(stream, clock=lambda: now[0])
    for second in range(61):
        now[0] = float(second)
        display.tick(status())
    assert stream.getvalue().splitlines() == ["best cdcdcdcdcdcd 1.50x [1.40, 1.60]; 7 evaluated, 3.5 a minute; 1 min 01 s left"] * 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_live_view_holds_what_the_issue_asks_for() -> None:
    from rich.console import Console

    stream = Terminal()
    display = display_for(stream)
    assert isinstance(display, LiveDisplay)
    display.started(INFO)
    assert "\x1b[?25l" not in stream.getvalue(), "the cursor is kept while the run makes ready"
    display.started(INFO | {"device": "EPYC"})
    display.say("compiling the baseline")
    display.started(INFO | {"device": "EPYC"})  # as when a judge was replaced
    display.event(evaluated("wrong", "bias"))
    display.tick(status())
    assert "compiling the baseline" in stream.getvalue()
    drawn = io.StringIO()
    Console(file=drawn, width=120).print(display.view())
    for part in ("cols=33,rows=9", "12.5", "1.50x [1.40, 1.60]", "3.5 a minute", "1 min 01 s left", "passed 7", "island 0", "wrong (bias)"):
        assert part in drawn.getvalue()
    display.ended({})
    display.close()
    assert "\x1b[?25h" in stream.getvalue(), "the cursor is given back"
