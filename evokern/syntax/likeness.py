"""How much of one source stands in another, whatever its names and numbers are called.

Fingerprints are the hashes of all runs of `RUN` tokens with names and literals made equal, as plagiarism detectors take them
(Schleimer, Wilkerson and Aiken, Winnowing, SIGMOD 2003; sources here are short enough that no run is left out).
"""

from __future__ import annotations

import functools
import re
import tokenize

from evokern.syntax.normal import tokens

RUN = 12
"""Tokens of one fingerprint; shorter runs are the language's idioms and found in any two sources."""

MOST_TOKENS = 50_000
"""Tokens that are looked at: fifty times a long kernel, and some tens of milliseconds."""

_NAME = re.compile(r"(?:\d+:)?[A-Za-z_]\w*")
_LITERAL = re.compile(r"""(?:\d+:)?(?:\.?\d|[uULR8]*["'])""")
_KEPT = frozenset("if else for while do return switch case break continue const static struct template def in not and or".split())


@functools.lru_cache(maxsize=32)
def fingerprint(source: str, dialect: str) -> frozenset[int]:
    """Hashes of the token runs of a source; valid within this process. Empty where it is too short or cannot be read as tokens."""
    classes = [_class(token) for token in _read(source, dialect)[:MOST_TOKENS]]
    return frozenset(hash(tuple(classes[at : at + RUN])) for at in range(len(classes) - RUN + 1))


def bare(source: str, dialect: str) -> str:
    """A source's tokens in one line, without comments; empty where it cannot be read as tokens."""
    return " ".join(_read(source, dialect)).replace(" :: ", "::")


def contained(part: frozenset[int], whole: frozenset[int]) -> float:
    """Share of one fingerprint that another holds, 0 to 1; 0 for an empty one."""
    return len(part & whole) / len(part) if part else 0.0


def _read(source: str, dialect: str) -> list[str]:
    try:
        return tokens(source, dialect)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return []


def _class(token: str) -> str:
    if _NAME.fullmatch(token):
        word = token.rpartition(":")[2]
        return word if word in _KEPT else "name"
    return "literal" if _LITERAL.match(token) else token
