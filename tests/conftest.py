"""Tiers, and what they share.

Every test carries the mark of its tier, which is its folder under `tests/`. A test that needs a GPU or torch skips where there is
none; `--require-gpu` turns each skip of a GPU test into a failure, so that a machine meant to have one cannot be green on nothing.

Tests that time kernels or kill processes may fail by what else the machine does. One that fails is run once more, with fixtures of
wider scope as they are; more than `MOST_RERUNS` in a session are no noise. The summary names each with what it said at first.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
TIERS = ("unit", "e2e_cpu", "quality", "chaos", "attacks", "fuzz", "gpu")
NOISY = ("e2e_cpu", "quality", "chaos", "attacks", "gpu")
"""Tiers that time or kill."""

MOST_RERUNS = 6
"""In a session; `--max-suite-reruns` says otherwise."""

NO_NOISE = (r"^Skipped", r"Timeout \(>")
"""Failures that another run would not mend: what is missing, and a test that hung, whose time is spent."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="a GPU test that skips is a failure")


def pytest_configure(config: pytest.Config) -> None:
    if reruns(config) and config.option.max_suite_reruns is None:
        config.option.max_suite_reruns = MOST_RERUNS


def reruns(config: pytest.Config) -> bool:
    """Whether tests may be run again: not without the plugin, nor beside a debugger, which it refuses."""
    return config.pluginmanager.hasplugin("rerunfailures") and not config.getoption("usepdb")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        tier = item.path.relative_to(ROOT).parts[0] if item.path.is_relative_to(ROOT) else ""
        if tier in TIERS:
            item.add_marker(getattr(pytest.mark, tier))
        if tier in NOISY and reruns(config):
            item.add_marker(pytest.mark.flaky(reruns=1, rerun_except=list(NO_NOISE)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("torch") and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")


@pytest.hookimpl(wrapper=True, trylast=True)  # innermost: whoever runs a failure again must see it
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.config.getoption("--require-gpu") and item.get_closest_marker("gpu") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although --require-gpu was given: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = terminalreporter.stats.get("rerun", [])
    if found:
        terminalreporter.write_sep("=", f"run again: {len(found)}, each a finding to be looked into")
    for report in found:
        terminalreporter.write_line(f"{report.nodeid} ({report.when}): {first_message(report)}")


def first_message(report: pytest.TestReport) -> str:
    """The first line of what a failure said."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return (str(crash.message if crash else report.longrepr).splitlines() or [""])[0]
