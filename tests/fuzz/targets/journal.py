"""Rows of a journal that somebody edited, archives and transcripts: read, or refused in words."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from evokern.cli import promote
from evokern.errors import EvokernError
from evokern.event import EventKind
from evokern.operators.author import readable
from evokern.store import queries
from evokern.store.schema import EventRow, RunRow
from tests.fuzz.harness import text_of

_KINDS = [*EventKind, "unknown"]


class _NoKernels:
    def exec(self, _: Any) -> list[Any]:
        return []


def once(data: bytes) -> None:
    kind, text = _KINDS[(data[0] if data else 0) % len(_KINDS)], text_of(data[1:])
    row = EventRow(sequence=1, run="run", kind=str(kind), key="key", payload=text, at=0.0, position=0, digest="")
    _read(lambda: queries._events(_NoKernels(), [row]))  # type: ignore[arg-type]
    if kind in queries.VERDICTS:
        _read(lambda: queries._verdict(row))
    _read(lambda: queries._run(RunRow(id="run", settings=text, state="", started=0.0)))
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(data)
        file.flush()
        _read(lambda: promote._read(Path(file.name)))
    assert isinstance(readable(text), str)


def _read(read: Any) -> None:
    try:
        read()
    except EvokernError as error:
        assert "\n" not in error.line
