"""A run's settings over a task that nothing evaluates for real, and its home."""

from __future__ import annotations

from pathlib import Path

import pytest

from evokern.event import Budget, RunSettings
from evokern.task import DType
from evokern.testing.requests import row_task
from tests.unit.test_engine import source_of


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    folder = tmp_path / "row_sum"
    folder.mkdir()
    task = row_task(folder)
    return RunSettings(str(folder), task.digest, DType.FLOAT32, "cpu", 1, Budget(evaluations=20), 7, seeds=(("cpp", source_of(0, 0)),))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"
