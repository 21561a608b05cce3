"""The store: what happened, kept before anything acts on it.

One SQLite database per home holds one append-only table of events; a run is its events in order, and every other table is a
projection that the same transaction fills. So a resume is a replay, a `kill -9` loses only what was never acknowledged, and
two processes may share a home. SQLite, because it is one file that needs no server and takes a thousand evaluations a
second once concurrent appends share a transaction (about 1,300 transactions a second is its limit alone).

Members:
    Journal: append, replay and queries; in `evokern.store.journal`, loaded only where a journal is opened.
    RunLease: One process at a time works a run.
    home: Where run data lives.
    new_run_id: A run's name.
    payload: The typed form of every event's payload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evokern.store.lease import RunLease
from evokern.store.location import DATABASE, find_home, home, new_run_id

if TYPE_CHECKING:
    from evokern.store.journal import Journal

__all__ = ["DATABASE", "Journal", "RunLease", "find_home", "home", "new_run_id"]


def __getattr__(name: str) -> Any:
    """`Journal` on first use: it brings SQLModel along, which `--help` must not wait for."""
    if name == "Journal":
        from evokern.store.journal import Journal

        return Journal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
