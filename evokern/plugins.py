"""Names to classes, by entry point: first-party parts and strangers' use the same groups, `evokern.<kind>s`.

Only what is named is loaded, nothing is imported to be listed, and nothing ever falls back to another part.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from evokern.errors import EvokernError, Unavailable, UsageError

KINDS = ("archive", "backend", "embedder", "executor", "exporter", "model", "operator", "rewrite", "store", "suite")


@dataclass(frozen=True, slots=True)
class Part:
    """An installed part, not loaded.

    Attributes:
        kind: One of `KINDS`.
        name: What it is chosen by.
        target: `module:object` that it stands for.
        distribution: Name and version of the distribution that brings it.
    """

    kind: str
    name: str
    target: str
    distribution: str


def available(kind: str) -> list[Part]:
    """Every installed part of one kind, by name; none is loaded, so some may turn out not to work here.

    Raises:
        UsageError: There is no such kind.
    """
    parts = (Part(kind, point.name, point.value, _distribution(point)) for point in _points(kind))
    return sorted(parts, key=lambda part: (part.name, part.distribution))


def names(kind: str) -> list[str]:
    """Names of the installed parts of one kind, sorted.

    Raises:
        UsageError: There is no such kind.
    """
    return sorted({point.name for point in _points(kind)})


def load(kind: str, name: str) -> Any:
    """The class, or other object, that a name stands for.

    Args:
        kind: One of `KINDS`.
        name: As `names` lists it.

    Raises:
        UsageError: There is no such kind, nothing has that name (the message gives the nearest match), or two
            distributions claim it for different things.
        Unavailable: It is installed but cannot be loaded here; the message gives the cause and the fix.
    """
    found = [point for point in _points(kind) if point.name == name]
    if not found:
        raise UsageError(f"no {kind} is called '{name}'", mend=_nearest(kind, name))
    if len({point.value for point in found}) > 1:
        claims = ", ".join(sorted(f"{_distribution(point)} ({point.value})" for point in found))
        raise UsageError(f"{kind} '{name}' is claimed by several distributions: {claims}", mend="Uninstall all but one")
    return _loaded(kind, found[0])


def _points(kind: str) -> list[EntryPoint]:
    if kind not in KINDS:
        raise UsageError(f"there is no kind of part called '{kind}'", mend=_did_you_mean(kind, list(KINDS)))
    return list(entry_points(group=f"evokern.{kind}s"))


def _loaded(kind: str, point: EntryPoint) -> Any:
    try:
        return point.load()
    except EvokernError:
        raise
    except Exception as error:  # a stranger's module may fail in any way while it is imported
        raise Unavailable(
            f"{kind} '{point.name}' cannot be loaded here: {type(error).__name__}: {error}", where=point.value, mend=_fix(point, error)
        ) from error


def _fix(point: EntryPoint, error: Exception) -> str:
    """What mends a part that failed to load."""
    own = point.module.partition(".")[0]
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if missing and missing != own:
        return f"Install what provides the module '{missing}', such as `pip install {missing}`"
    return f"Reinstall {_distribution(point)}"


def _nearest(kind: str, name: str) -> str:
    known = names(kind)
    return _did_you_mean(name, known) if known else "None is installed; evokern itself must be installed with pip, not only on the path"


def _did_you_mean(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(known)}"


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unnamed distribution"
