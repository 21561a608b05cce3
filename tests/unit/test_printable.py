from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokern.printable import block, line

TEXT = st.text(st.characters(exclude_categories=()), max_size=80)
HOSTILE = st.lists(
    st.one_of(
        TEXT, st.sampled_from(["\x1b[31m", "\x1b[2J", "\x1b[0m", "\x1b]0;t\x07", "\u202e", "\r", "\n", "\x9b", "\u2028", "\U000e0041"])
    )
).map("".join)
UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def unshown(text: str) -> set[str]:
    return {character for character in text if unicodedata.category(character) in UNSHOWN}


@given(HOSTILE)
def test_a_line_is_one_line_of_characters_that_show(text: str) -> None:
    cleaned = line(text)
    assert unshown(cleaned) == set()
    assert len(cleaned.splitlines()) <= 1
    assert len(cleaned) <= 300
    assert line(cleaned) == cleaned


@given(HOSTILE)
def test_a_block_keeps_line_feeds_and_tabs_alone(text: str) -> None:
    cleaned = block(text)
    assert unshown(cleaned) <= {"\n", "\t"}
    assert block(cleaned) == cleaned


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_plain_text_stays(text: str) -> None:
    assert block(text) == text
    assert line(text, 10_000) == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31merror:\x1b[0m no", "error: no"),
        ("done\rfailed", "done failed"),
        ("\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),
        ("\x1b[\x1b[0m2J", r"\x1b[2J"),  # what is left when a sequence is taken out is no sequence
        ("\x1b]8;;http://x\x07here", r"\x1b]8;;http://x\x07here"),
        ("if (\u202e user) \u2066", r"if (\u202e user) \u2066"),
        ("a\nb\u2028c", "a b c"),
        ("naïve 矩阵 ✓", "naïve 矩阵 ✓"),
        ("\ud800", r"\ud800"),
        ("x" + "\u0301" * 6, "x" + "\u0301" * 4 + r"\u0301" * 2),
    ],
)
def test_what_would_not_show_as_itself_shows_as_its_escape(text: str, shown: str) -> None:
    assert line(text) == shown


def test_what_is_too_long_is_cut_and_says_so() -> None:
    assert line("x" * 1000, 10) == "x" * 9 + "…"
    assert block("x\n" * 1000, 10) == "x\n" * 4 + "x…"
    assert block("a\r\nb\rc") == "a\nb\\rc"
