"""The tool behind `make holds`: a miss is a miss, whatever its kind."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

HOLDS = Path(__file__).parents[2] / "benchmarks" / "holds"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HOLDS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(HOLDS))
    return load("check")


def test_a_command_holds_where_it_exits_with_0(check: ModuleType) -> None:
    assert check.command(["true"], timeout_s=10).holds
    failed = check.command(["sh", "-c", "echo cause; exit 4"], timeout_s=10)
    assert not failed.holds
    assert failed.value == {"exit": 4, "closing_line": "cause"}
    assert "cause" in failed.detail


def test_a_command_that_does_not_end_is_a_miss(check: ModuleType) -> None:
    assert not check.command(["sleep", "30"], timeout_s=0.2).holds


def test_a_check_that_raises_is_a_miss_with_the_cause(check: ModuleType) -> None:
    def broken() -> None:
        raise ValueError("no such thing")

    row = check.outcome(check.Check("name", "line", "threshold", broken))
    assert (row["holds"], row["detail"]) == (False, "ValueError: no such thing")


def test_a_result_file_counts_only_for_the_code_it_was_made_with(check: ModuleType, tmp_path: Path) -> None:
    def judge(content: dict[str, int]) -> object:
        return check.Measured(content["value"] > 1, content["value"])

    assert "missing" in check.result_file("x.json", judge, folder=tmp_path).detail
    file = tmp_path / "x.json"
    file.write_text(json.dumps({"value": 2, "code": "other", "commit": "abc"}))
    assert "stale" in check.result_file("x.json", judge, folder=tmp_path).detail
    file.write_text(json.dumps({"value": 2, "code": check.code_digest()}))
    assert check.result_file("x.json", judge, folder=tmp_path).holds


def test_an_issue_without_checks_is_an_error() -> None:
    ended = subprocess.run([sys.executable, str(HOLDS / "run.py"), "999"], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert "no checks are registered" in ended.stderr


@pytest.mark.parametrize("issue", sorted(int(file.stem.removeprefix("issue")) for file in HOLDS.glob("issue*.py")))
def test_the_checks_of_an_issue_can_be_told_apart(check: ModuleType, issue: int) -> None:
    checks = load(f"issue{issue}").CHECKS
    assert len({entry.name for entry in checks}) == len(checks) > 0
    assert all(entry.line and entry.threshold for entry in checks)
