"""What `tests/conftest.py` does with tests that fail by noise: once more, a few in a session, and never without a word."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pytest_rerunfailures")

ROOT = Path(__file__).parents[2]

FIXTURES = """
import pytest
from pathlib import Path

CALLS = []

def says(word):
    with Path(__file__).with_name("log").open("a") as log:
        log.write(word + "\\n")

@pytest.fixture(scope="session")
def session():
    says("session made")
    yield
    says("session closed")

@pytest.fixture(scope="module")
def module(session):
    says("module made")
    yield
    says("module closed")

@pytest.fixture(scope="module")
def broken_once(module):
    CALLS.append("fixture")
    assert CALLS.count("fixture") > 1, "a fixture met noise"
    return "made"
"""

ONCE = """
def test_fails_once(module):
    says("asked")
    CALLS.append("once")
    assert CALLS.count("once") > 1, "met noise"
"""


NOISY = ("e2e_cpu", "quality", "chaos", "attacks", "gpu")


def ran(folder: Path, *argv: str, **files: str) -> tuple[int, str, dict[str, list[str]]]:
    """Exit code, what was printed, and what was said by tier, of tests in a file for each tier under the real settings."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    for tier, text in files.items():
        (folder / "tests" / tier).mkdir(parents=True)
        (folder / "tests" / tier / "test_it.py").write_text(FIXTURES + text)
    shutil.copy(ROOT / "tests" / "conftest.py", folder / "tests")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *argv],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    said = {log.parent.name: log.read_text().splitlines() for log in folder.glob("tests/*/log")}
    return ended.returncode, ended.stdout + ended.stderr, said


def test_noise_is_met_once_more_with_the_same_fixtures_and_named(tmp_path: Path) -> None:
    code, said, told = ran(tmp_path, **dict.fromkeys(NOISY, ONCE + "def test_next(module):\n    says('next')\n"))

    assert code == 0, said
    assert "run again: 5, each a finding to be looked into" in said
    for tier in NOISY:
        assert told[tier] == ["session made", "module made", "asked", "asked", "next", "module closed", "session closed"]
        assert f"tests/{tier}/test_it.py::test_fails_once (call): AssertionError: met noise\n" in said


def test_a_fixture_that_failed_is_made_again_and_what_it_stands_on_is_not(tmp_path: Path) -> None:
    code, said, told = ran(tmp_path, attacks="def test_it(broken_once):\n    says(broken_once)\n")

    assert code == 0, said
    assert told["attacks"] == ["session made", "module made", "made", "module closed", "session closed"]
    assert "test_it (setup): AssertionError: a fixture met noise" in said


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    code, said, told = ran(tmp_path, attacks="def test_it(module):\n    says('asked')\n    assert False, 'broken'\n")

    assert code == 1, said
    assert told["attacks"] == ["session made", "module made", "asked", "asked", "module closed", "session closed"]


def test_where_nothing_is_timed_or_killed_a_failure_is_one_and_a_warning_too(tmp_path: Path) -> None:
    warns = "import warnings\n\ndef test_it():\n    says('asked')\n    warnings.warn('a warning')\n"
    code, said, told = ran(tmp_path, fuzz=ONCE, unit=warns)

    assert (code, told["fuzz"].count("asked"), told["unit"].count("asked")) == (1, 1, 1), said
    assert "2 failed" in said and "UserWarning: a warning" in said and "run again" not in said


def test_more_than_a_few_in_a_session_are_no_noise(tmp_path: Path) -> None:
    every = """
import pytest

@pytest.mark.parametrize("number", range(8))
def test_fails_once(module, number):
    says("asked")
    CALLS.append(number)
    assert CALLS.count(number) > 1, "met noise"
"""
    code, said, told = ran(tmp_path, attacks=every)

    assert (code, told["attacks"].count("asked")) == (1, 8 + 6), said
    assert "2 failed, 6 passed, 6 rerun" in said
    assert told["attacks"].count("session made") == told["attacks"].count("session closed") == 1


def test_neither_what_hung_nor_what_is_missing_is_asked_again(tmp_path: Path) -> None:
    lacking = """
import pytest, time

@pytest.mark.timeout(1)
def test_hangs():
    says("asked")
    time.sleep(30)

@pytest.mark.gpu
def test_lacks_a_gpu():
    says("asked")
    pytest.skip("there is none")
"""
    code, said, told = ran(tmp_path, "--require-gpu", gpu=lacking)

    assert (code, told["gpu"]) == (1, ["asked", "asked"]), said
    assert "2 failed" in said and "run again" not in said


def test_marks_stay_strict(tmp_path: Path) -> None:
    code, said, _ = ran(tmp_path, attacks="import pytest\n\n@pytest.mark.unheard_of\ndef test_it():\n    pass\n")

    assert code == 2 and "'unheard_of' not found in `markers`" in said
