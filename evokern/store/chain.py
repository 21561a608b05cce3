"""The chain: every event of a run keeps the hash of the one before it, so that none can be changed or taken out unseen.

The digest of an event is SHA-256 over the previous one's digest and the event's own content. A run's events are numbered
from 0, which tells a row that was changed from one that is missing. Who can write the file can also write a whole new chain;
what they cannot make is a judge's seal over its head (`evokern.evaluator.signing.Seal`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

ORIGIN = ""
"""What stands for the digest before a run's first event."""


@dataclass(frozen=True, slots=True)
class Link:
    """One event as the file holds it.

    Attributes:
        sequence: Number of the row, over all runs.
        run: Id of the run.
        position: Number of the event within its run, from 0.
        kind: What happened.
        key: Unique within (run, kind).
        payload: JSON text, as stored.
        at: Seconds since the epoch.
        digest: What the row says that its digest is.
    """

    sequence: int
    run: str
    position: int
    kind: str
    key: str
    payload: str
    at: float
    digest: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where a run's chain ends.

    Attributes:
        position: Of the last event; -1 where there is none.
        digest: Of the last event.
    """

    position: int = -1
    digest: str = ORIGIN


@dataclass(frozen=True, slots=True)
class Broken:
    """A place where a chain does not hold.

    Attributes:
        position: Of the event within its run.
        sequence: Of the row; 0 where it is missing.
        what: In words.
    """

    position: int
    sequence: int
    what: str


def digest_of(previous: str, run: str, position: int, kind: str, key: str, payload: str, at: float) -> str:
    """The digest of an event, hex.

    Args:
        previous: Digest of the event before it; `ORIGIN` for the first.
        run: Id of the run.
        position: Number within the run.
        kind: What happened.
        key: Unique within (run, kind).
        payload: JSON text, exactly as stored.
        at: Seconds since the epoch.
    """
    fields = json.dumps(["evokern.chain/1", previous, run, position, kind, key, payload, at], separators=(",", ":"))
    return hashlib.sha256(fields.encode("ascii")).hexdigest()


def breaks(links: Iterable[Link]) -> Iterator[Broken]:
    """Where a run's chain does not hold.

    After a break the chain is followed from what the row says, so that one change is one finding.

    Args:
        links: All events of one run, in the order of their rows.
    """
    previous, position = ORIGIN, 0
    for link in links:
        if link.position > position:
            missing = link.position - position
            yield Broken(position, 0, "is missing" if missing == 1 else f"is missing, and {missing - 1} after it")
        elif link.position < position:
            yield Broken(link.position, link.sequence, "is out of order, or a copy")
        content = (link.run, link.position, link.kind, link.key, link.payload, link.at)
        if link.position == position and digest_of(previous, *content) != link.digest:
            yield Broken(link.position, link.sequence, "was changed, or does not follow the one before it")
        previous, position = link.digest, max(position, link.position) + 1
