"""Text that others wrote, made fit for a terminal or a log line.

A kernel, a compiler or a language model decides what it prints; it may not move a cursor, hide or reorder what stands beside
it, or begin a line of its own. Colour sequences are dropped, since compilers use them honestly; every other character that does
not show as itself stands there as its escape, so that nothing is hidden by being removed. What is stored stays exact: this is
for the way out. Cleaning twice changes nothing more.
"""

from __future__ import annotations

import re
import unicodedata

LINE_CHARACTERS = 300
"""Longest one-line field that is shown."""

BLOCK_CHARACTERS = 1 << 16
"""Longest text of several lines that is shown."""

_COLOURS = re.compile(r"\x1b\[[0-9;:]*[mK]")
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that do not show as themselves: controls, formats (bidirectional overrides, zero widths, tags), surrogates,
private and unassigned code points, and separators of lines and paragraphs."""

_MARKS = 4
"""Combining marks that one character may carry; more would climb over the lines above and below."""

_HALVES = re.compile(r"[\ud800-\udfff]")
_PLAIN = re.compile(r"[ -~]*")


def line(text: str, most: int = LINE_CHARACTERS) -> str:
    """One line: white space becomes single blanks, and what is too long is cut.

    Args:
        text: Anything.
        most: Longest result, characters, at least 1.
    """
    # Cutting first bounds the work; an escape is up to ten characters, so the rest is cut again.
    cleaned = _shown(" ".join(_COLOURS.sub("", text[: 16 * most]).split()), keep="")
    return _cut(cleaned, most)


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8; one that was parsed from JSON may hold halves of a character."""
    return not _HALVES.search(text)


def block(text: str, most: int = BLOCK_CHARACTERS) -> str:
    """Text of several lines: line feeds and tabs stay, carriage returns before a line feed go, and what is too long is cut.

    Args:
        text: Anything.
        most: Longest result, characters, at least 1.
    """
    return _cut(_shown(_COLOURS.sub("", text[: 4 * most]).replace("\r\n", "\n"), keep="\n\t"), most)


def _shown(text: str, keep: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    shown: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        hidden = category in _UNSHOWN and character not in keep
        shown.append(_escaped(character) if hidden or marks > _MARKS else character)
    return "".join(shown)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
