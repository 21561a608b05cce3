"""Tunables: constants whose line ends in a comment that lists the allowed values (DESIGN section 4).

The same in every language: `BLOCK = 1024  # tune: 256 512 1024`, `#define TILE 64  // tune: 32 64 128` and
`constexpr int LANES = 4;  // tune: 1 2 4`. Values are whole numbers, or decimal numbers written as such.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from evokern.errors import SourceError

_NAME = r"(?P<name>[A-Za-z_]\w*)"
_VALUE = r"(?P<value>[-+]?\d+(?:\.\d+)?)"
_LIST = r"tune:(?P<allowed>[^\n]*)"
_C_DEFINE = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+{_NAME}[ \t]+{_VALUE}[ \t]*//[ \t]*{_LIST}$", re.MULTILINE)
_C_CONSTANT = re.compile(rf"^[ \t]*(?:[A-Za-z_][\w:]*[ \t]+)+{_NAME}[ \t]*=[ \t]*{_VALUE}[ \t]*;[ \t]*//[ \t]*{_LIST}$", re.MULTILINE)
_PYTHON = re.compile(rf"^[ \t]*{_NAME}[ \t]*(?::[^=\n]*)?=[ \t]*{_VALUE}[ \t]*#[ \t]*{_LIST}$", re.MULTILINE)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?\Z")


@dataclass(frozen=True, slots=True)
class Tunable:
    """A constant of a source with the values it may take.

    Attributes:
        name: Its name.
        value: As written.
        allowed: As written, in the order of the comment, each once; `value` is among them.
        start: Index of the first character of the value in the source.
        stop: Index after its last.
    """

    name: str
    value: str
    allowed: tuple[str, ...]
    start: int
    stop: int


def tunables_of(source: str, dialect: str) -> tuple[Tunable, ...]:
    """The tunables of a source, in the order of their lines.

    Args:
        source: Text of a kernel.
        dialect: "triton" for Python, else a C dialect.

    Raises:
        SourceError: A list of values is empty or holds something else than numbers, the constant's own value is not listed, or a
            name is tuned twice.
    """
    patterns = (_PYTHON,) if dialect == "triton" else (_C_DEFINE, _C_CONSTANT)
    matches = sorted((m for p in patterns for m in p.finditer(source)), key=lambda m: m.start())
    found: dict[str, Tunable] = {}
    for match in matches:
        where = f"line {source.count(chr(10), 0, match.start('name')) + 1}"
        allowed = tuple(dict.fromkeys(match.group("allowed").replace(",", " ").split()))
        name, value = match.group("name"), match.group("value")
        if not allowed or any(not _NUMBER.match(a) for a in allowed):
            raise SourceError(f"'tune:' of {name} must list numbers", where=where, mend="Write: tune: 32 64 128")
        if value not in allowed:
            raise SourceError(f"{name} is {value}, which its 'tune:' list does not hold", where=where, mend="Add it to the list")
        if name in found:
            raise SourceError(f"{name} is tuned twice", where=where, mend="Give each tunable its own name")
        found[name] = Tunable(name, value, allowed, match.start("value"), match.end("value"))
    return tuple(found.values())


def with_values(source: str, dialect: str, values: Mapping[str, str]) -> str:
    """The source with some tunables set to other allowed values; every other character stays.

    Args:
        source: Text of a kernel.
        dialect: Its dialect.
        values: New value by name.

    Raises:
        SourceError: A name is no tunable of the source, a value is not allowed, or the source's tunables are malformed.
    """
    tunables = {t.name: t for t in tunables_of(source, dialect)}
    for name, value in values.items():
        if name not in tunables:
            raise SourceError(f"has no tunable {name}", mend=f"It has: {', '.join(tunables) or 'none'}")
        if value not in tunables[name].allowed:
            raise SourceError(f"{name} may not be {value}", mend=f"Allowed: {' '.join(tunables[name].allowed)}")
    for tunable in sorted((tunables[name] for name in values), key=lambda t: -t.start):
        source = source[: tunable.start] + values[tunable.name] + source[tunable.stop :]
    return source
