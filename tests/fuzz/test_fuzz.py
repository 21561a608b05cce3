"""No input that was ever found crashes a parser; ten seconds of fuzzing each find no new one; and a crash that is there is found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.fuzz import harness

SECONDS = 10
CAN_FUZZ = sys.version_info[:2] == (3, 11) and sys.platform == "linux" and os.uname().machine == "x86_64"
"""Where the dev extra installs atheris; there it must be."""

fuzzing = pytest.mark.skipif(not CAN_FUZZ, reason="atheris has wheels for Python 3.11 on x86_64 Linux")

BROKEN = """
def once(data):
    if data[:2] == b"ev" and data[2:4] == b"ok":
        raise KeyError("found")
"""


@pytest.mark.parametrize("target", harness.names())
def test_kept_inputs_crash_nothing(target: str) -> None:
    once, kept = harness.load(target), harness.corpus(target)

    assert kept, "every target has a corpus"
    for held in kept:
        once(held)


@fuzzing
@pytest.mark.timeout(600)
def test_ten_seconds_each_find_no_crash() -> None:
    found = harness.fuzz_all(harness.names(), SECONDS, at_a_time=4)

    assert [(row.target, row.crash, row.input) for row in found if not row.held] == []
    assert all(row.edges > 0 for row in found)


@fuzzing
def test_a_crash_that_is_there_is_found(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(BROKEN)

    found = harness.fuzz(str(broken), 60)

    assert not found.held
    assert "KeyError" in found.crash
    assert found.input.startswith("b'evok")
