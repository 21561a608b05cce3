"""Rows of a journal that somebody else wrote: payloads of every kind, and the chain over them."""

from __future__ import annotations

from evokern import record
from evokern.engine import sealing
from evokern.errors import EvokernError
from evokern.event import Event, EventKind
from evokern.store import payload
from evokern.store.chain import Link, breaks
from tests.fuzz.harness import text_of

_KINDS = list(EventKind)


def once(data: bytes) -> None:
    kind, text = _KINDS[(data[0] if data else 0) % len(_KINDS)], text_of(data[1:])
    sealing._seal(text)
    assert len(list(breaks([Link(1, "run", 0, kind, "key", text, 0.0, "")]))) == 1
    try:
        found = payload.read(Event("run", kind, "key", record.parse(text)))
    except EvokernError as error:
        assert "\n" not in error.line
        return
    if found is not None:
        assert record.from_json(type(found), record.to_json(found)) is not None
