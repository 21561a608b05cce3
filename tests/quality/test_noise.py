"""Promotions under noise: children that are no better stay out, children that are get in. A reduced form of `benchmarks/noise.py`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "noise.py"
DECISIONS = 60


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    result: dict[str, Any] = runpy.run_path(str(SCRIPT))["simulated"](DECISIONS, 7)
    return result


def test_children_that_are_as_fast_as_their_parent_stay_out(found: dict[str, Any]) -> None:
    assert found["false_promotions"]["share"] <= 0.10  # the full run holds the upper end of its interval to 5 %


def test_a_gain_of_eight_percent_gets_in(found: dict[str, Any]) -> None:
    assert found["gain"]["admitted"] >= 0.7


def test_confirmations_are_spent_on_few(found: dict[str, Any]) -> None:
    assert 1.0 < found["evaluations"]["per_child"] <= 1.75
