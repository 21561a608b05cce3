from __future__ import annotations

from typing import Any

import pytest

from evokern.report import tables

RATIO = {"estimate": 1.4249, "low": 1.38, "high": 1.47}


def test_columns_line_up() -> None:
    text = tables.aligned(["name", "us"], [["a", "1"], ["long name", "1,000"]])
    assert text.splitlines() == ["name          us", "---------  -----", "a              1", "long name  1,000"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0, "0 s"), (-3, "0 s"), (59.6, "1 min 00 s"), (250, "4 min 10 s"), (3720, "1 h 02 min")]
)
def test_spans(seconds: float | None, text: str) -> None:
    assert tables.span_text(seconds) == text


def test_a_ratio_shows_its_interval_and_an_open_end() -> None:
    assert tables.ratio_text(RATIO) == "1.42x [1.38, 1.47]"
    assert tables.ratio_text({"estimate": 2.0, "low": 1.0, "high": "inf"}) == "2.00x [1.00, inf]"
    assert tables.ratio_text(None) == "-"


def test_what_is_left_of_a_budget_names_each_limit() -> None:
    left = {"seconds": 100.0, "evaluations": 1200, "tokens": None, "usd": 0.5}
    assert tables.budget_text({"left": left}) == "1 min 40 s and 1,200 evaluations and 0.50 usd left"
    assert tables.budget_text({"left": dict.fromkeys(left)}) == "no limit"


def test_counts_come_largest_first_and_without_zeros() -> None:
    assert tables.counts_text({"wrong": 2, "passed": 31, "flaky": 0}) == "passed 31, wrong 2"
    assert tables.counts_text({}) == "none yet"


def summary(**changes: Any) -> dict[str, Any]:
    workload = {
        "name": "cols=4096,rows=2048",
        "best_us": 5100.0,
        "eager_us": 11000.0,
        "compile_us": 13000.0,
        "copy_us": 2800.0,
        "ratio": RATIO,
    }
    whole = {
        "run": "softmax-20261129T1015-3f2a",
        "state": "ended",
        "evaluated": 31,
        "kernel": "ab" * 32,
        "path": "/home/u/.evokern/best.cpp",
        "workloads": [workload],
        "ratio": RATIO,
        "held_out": {"correct": True, "speed_kept": 0.931},
        "gain_over_seed": {"estimate": 9.0, "low": 8.5, "high": 9.5},
        "tier": "isolated",
        "device": "AMD EPYC",
    }
    return whole | changes


def test_the_closing_table_says_how_much_how_sure_and_where() -> None:
    text = tables.closing_text(summary())
    times = ("5,100", "11,000", "13,000", "2,800")
    facts = ("1.42x [1.38, 1.47]", "geometric mean", "correct, speed kept 0.93", "9.00x [8.50, 9.50]", "isolated", "AMD EPYC")
    for part in (*times, *facts, "abababababab: /home/u/.evokern/best.cpp"):
        assert part in text


def test_a_run_without_a_kernel_says_so_and_where_to_look() -> None:
    text = tables.closing_text(summary(kernel=None))
    assert "No kernel passed" in text
    assert "evokern status softmax-20261129T1015-3f2a" in text


def test_a_wrong_held_out_result_cannot_be_overlooked() -> None:
    assert "WRONG" in tables.closing_text(summary(held_out={"correct": False, "speed_kept": None}))


def test_status_text_holds_budget_verdicts_and_islands() -> None:
    status = {
        "run": "r",
        "state": "running",
        "evaluated": 4,
        "best": None,
        "budget": {"left": {"seconds": 8}},
        "verdicts": {"passed": 4},
        "islands": [{"index": 0, "elites": 2, "ratio": RATIO}],
        "rate": None,
        "model": None,
    }
    text = tables.status_text(status)
    for part in ("run r  running  4 evaluated, no rate yet", "8 s left", "passed 4", "island 0  2 elites, best 1.42x", "none: LLM-free"):
        assert part in text
