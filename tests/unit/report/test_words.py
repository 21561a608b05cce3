"""Every verdict has words, and the page for users says the same as the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evokern.evaluation import REASONS, Reason, Tier, Verdict
from evokern.report import words
from tests.unit.test_docs import TARGETS, commands, quoted

ROOT = Path(__file__).parents[3]
TRUST = (ROOT / "docs" / "trust.md").read_text()


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_words_that_tell_what_to_do(reason: Reason) -> None:
    told = words.words(Verdict.WRONG, reason)
    assert told.happened
    assert told.next.endswith(".")
    assert told.happened != told.next


def test_nothing_else_has_words() -> None:
    assert set(words.NEXT) == set(Reason) == set(REASONS)
    assert set(words.VERDICTS) == set(Verdict)
    assert set(words.TIERS) == set(Tier)


def test_a_held_out_failure_says_that_no_more_is_told() -> None:
    told = words.words(Verdict.HELD_OUT_FAILED, Reason.HELD_OUT)
    assert "No more is told" in told.next


@pytest.mark.parametrize("name", ["tiers", "verdicts", "reasons"])
def test_a_table_of_the_page_is_the_codes(name: str) -> None:
    table = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end -->", TRUST, flags=re.DOTALL)
    assert table is not None
    expected: str = getattr(words, f"{name}_table")()
    assert table.group(1) == expected, "put this into docs/trust.md"


@pytest.mark.parametrize("line", sorted(set(quoted(TRUST))))
def test_a_command_that_the_page_shows_exists(line: str) -> None:
    name, *rest = line.split()[1:]
    assert {word for word in rest if word.startswith("--")} <= commands()[name], line


def test_targets_and_modules_that_the_page_names_exist() -> None:
    assert set(re.findall(r"^make ([a-z]+)", TRUST, flags=re.MULTILINE)) <= TARGETS
    assert all((ROOT / path).exists() for path in re.findall(r"`(tests/[\w/]+)`", TRUST))
