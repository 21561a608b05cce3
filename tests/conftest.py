"""Tiers, and what they share.

Every test carries the mark of its tier, which is its folder under `tests/`. A test that needs a GPU or torch skips where there is
none; `--require-gpu` turns each skip of a GPU test into a failure, so that a machine meant to have one cannot be green on nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
TIERS = ("unit", "e2e_cpu", "quality", "chaos", "attacks", "fuzz", "gpu")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="a GPU test that skips is a failure")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        tier = item.path.relative_to(ROOT).parts[0] if item.path.is_relative_to(ROOT) else ""
        if tier in TIERS:
            item.add_marker(getattr(pytest.mark, tier))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("torch") and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.config.getoption("--require-gpu") and item.get_closest_marker("gpu") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although --require-gpu was given: {report.longrepr}"
    return report
