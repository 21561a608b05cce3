"""The journal's one writer: a thread that puts whatever waits into one transaction.

Committing costs an fsync however many rows it covers, so appends that arrive while one transaction is written share the
next. Each waits until its own is durable, and they wake in the order of their rows: whoever acts on events right after
`append` acts in the journal's order, which is what makes a replay exact.
"""

from __future__ import annotations

import asyncio
import functools
import json
import queue
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, tuple_, update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError
from sqlmodel import col, select

from evokern import record
from evokern.errors import EvokernError, Unavailable, UsageError
from evokern.event import Event, EventKind
from evokern.kernel import Kernel
from evokern.statistics import GEOMEAN, score_of
from evokern.store.chain import Head, digest_of
from evokern.store.failure import unavailable
from evokern.store.payload import VERDICTS, Proposed, Verdictful
from evokern.store.schema import CandidateRow, EvaluationRow, EventRow, KernelRow, RunRow

BATCH_EVENTS = 1000
"""Events per transaction at most, so that another process waits milliseconds for its turn."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """An event ready to be written: its row, and those of its projections that do not depend on the sequence."""

    row: dict[str, Any]
    kernel: dict[str, Any] | None = None
    candidate: dict[str, Any] | None = None
    evaluation: dict[str, Any] | None = None


@dataclass(slots=True)
class _Append:
    events: list[Encoded]
    done: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop


def encode(event: Event) -> Encoded:
    """An event's rows.

    Raises:
        UsageError: The payload is not JSON, or not that of its kind.
    """
    at = float(event.at or time.time())
    payload, kernel, candidate, evaluation = event.payload, None, None, None
    if event.kind is EventKind.PROPOSED:
        body = record.from_json(Proposed, payload)
        kernel, candidate = _kernel_row(body.candidate.kernel), _candidate_row(event.run, body, at)
        payload = without_source(payload, body.candidate.kernel)
    elif event.kind in VERDICTS:
        evaluation = evaluation_row(event.run, event.kind, _judged(event.kind, payload), at)
    try:
        text = json.dumps(payload, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the payload of a '{event.kind.value}' event is not JSON: {error}") from error
    row = {"run": event.run, "kind": event.kind.value, "key": event.key, "payload": text, "at": at}
    return Encoded(row, kernel, candidate, evaluation)


def _judged(kind: EventKind, payload: dict[str, Any]) -> Verdictful:
    """A verdict without its bulk (samples, log, fingerprint), which no projection needs and which takes long to read."""
    try:
        whole = payload["evaluation"]
        measurements = [{**measurement, "samples": []} for measurement in whole.get("measurements", ())]
        slim = {**payload, "evaluation": {**whole, "measurements": measurements, "log": "", "fingerprint": None}}
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"not a valid {VERDICTS[kind].__name__} record: {error}") from error
    body: Verdictful = record.from_json(VERDICTS[kind], slim)
    return body


def without_source(payload: dict[str, Any], kernel: Kernel) -> dict[str, Any]:
    """A proposal's payload with the kernel's id where its source stood."""
    named = {"id": kernel.id, "dialect": kernel.dialect, "entry": kernel.entry}
    return {**payload, "candidate": {**payload["candidate"], "kernel": named}}


def _kernel_row(kernel: Kernel) -> dict[str, Any]:
    source = kernel.source.encode("utf-8", "surrogatepass")
    return {"id": kernel.id, "dialect": kernel.dialect, "entry": kernel.entry, "source": source}


def stored_candidate_row(run: str, payload: dict[str, Any], at: float) -> dict[str, Any]:
    """The projection of a proposal as it is stored, its kernel named by id.

    Raises:
        UsageError: It is no such payload.
    """
    try:
        named = payload["candidate"]["kernel"]
        kernel = {"dialect": named["dialect"], "source": "", "entry": named["entry"]}
        body = record.from_json(Proposed, {**payload, "candidate": {**payload["candidate"], "kernel": kernel}})
        return {**_candidate_row(run, body, at), "kernel_id": named["id"]}
    except (KeyError, TypeError) as error:
        raise UsageError(f"not a stored proposal: {error}") from error


def _candidate_row(run: str, body: Proposed, at: float) -> dict[str, Any]:
    candidate = body.candidate
    return {
        "run": run,
        "kernel_id": candidate.id,
        "number": body.number,
        "operator": candidate.operator,
        "island": candidate.island,
        "parents": json.dumps(candidate.parents),
        "edits": json.dumps(candidate.edits),
        "at": at,
    }


def evaluation_row(run: str, kind: EventKind, body: Verdictful, at: float) -> dict[str, Any]:
    """The projection of a verdict, without its sequence."""
    evaluation, score = body.evaluation, score_of(body.evaluation)
    return {
        "run": run,
        "kernel_id": evaluation.kernel_id,
        "kind": kind.value,
        "external": body.external,
        "key": evaluation.key,
        "verdict": evaluation.verdict.value,
        "reason": evaluation.reason.value,
        "confirmed": evaluation.confirmed,
        "score_log": score.log if score else None,
        "score_low": score.low if score else None,
        "score_high": score.high if score else None,
        "score_name": GEOMEAN if score else "",
        "at": at,
    }


class Writer:
    """Writes events in one thread, many appends to a transaction.

    Args:
        database: The journal's engine.
        path: Its file, for messages.
    """

    def __init__(self, database: Engine, path: Path) -> None:
        self._database, self._path = database, path
        self._waiting: queue.SimpleQueue[_Append | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="evokern-journal", daemon=True)
        self._closed = False
        self._thread.start()

    async def append(self, events: Iterable[Event]) -> None:
        """Write events and return once they are durable; all of one call share a transaction.

        Raises:
            UsageError: A payload is not that of its kind, or the journal is closed.
            Unavailable: The file cannot be written; none of the call's events is in it, and a later call may work.
        """
        encoded = [encode(event) for event in events]
        if self._closed:
            raise UsageError("the journal is closed", where=str(self._path))
        if not encoded:
            return
        loop = asyncio.get_running_loop()
        waiting = _Append(encoded, loop.create_future(), loop)
        self._waiting.put(waiting)
        await waiting.done

    def close(self) -> None:
        """Write what waits, then end the thread; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)
            self._thread.join()

    def _work(self) -> None:
        open_ = True
        while open_:
            batch, open_ = self._take()
            for append, error in self._outcomes(batch):
                _wake(append, error)

    def _take(self) -> tuple[list[_Append], bool]:
        """Every append that waits, up to the batch's size, and whether more may come."""
        batch: list[_Append] = []
        size = 0
        item = self._waiting.get()
        while item is not None:
            batch.append(item)
            size += len(item.events)
            if size >= BATCH_EVENTS:
                return batch, True
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _outcomes(self, batch: list[_Append]) -> list[tuple[_Append, EvokernError | None]]:
        error = self._write([event for append in batch for event in append.events]) if batch else None
        if error is None or isinstance(error, Unavailable) or len(batch) == 1:
            return [(append, error) for append in batch]
        # Some append has rows that the database refuses; its neighbours must not fail with it.
        return [(append, self._write(append.events)) for append in batch]

    def _write(self, events: list[Encoded]) -> EvokernError | None:
        """One transaction; the error it failed with, after which nothing of it is in the file."""
        try:
            with self._database.connect() as link:
                link.exec_driver_sql("BEGIN IMMEDIATE")
                try:
                    _insert(link, events)
                    link.exec_driver_sql("COMMIT")
                except BaseException:
                    _roll_back(link)
                    raise
        except DBAPIError as error:
            return self._said(error.orig, error)
        except sqlite3.Error as error:
            return self._said(error, error)
        except Exception as error:  # the thread must outlive any one event
            return UsageError(f"an event cannot be written: {error}", where=str(self._path))
        return None

    def _said(self, cause: object, error: Exception) -> EvokernError:
        if isinstance(cause, sqlite3.OperationalError) or (
            isinstance(cause, sqlite3.DatabaseError) and type(cause) is sqlite3.DatabaseError
        ):
            return unavailable(cause, self._path)
        return UsageError(f"an event cannot be written: {error}", where=str(self._path))


def _roll_back(link: Connection) -> None:
    try:
        link.exec_driver_sql("ROLLBACK")
    except (DBAPIError, sqlite3.Error):
        # SQLite has rolled back by itself, as it does on a full disk.
        link.invalidate()


def _wake(append: _Append, error: EvokernError | None) -> None:
    try:
        append.loop.call_soon_threadsafe(functools.partial(_settle, append.done, error))
    except RuntimeError:
        # The loop is gone, and whoever waited with it.
        return


def _settle(done: asyncio.Future[None], error: EvokernError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _insert(link: Connection, events: list[Encoded]) -> None:
    """Write events that are not there yet, each after the last of its run, and their projections."""
    fresh = _chained(link, _fresh(link, events))
    if not fresh:
        return
    statement = insert(EventRow).returning(col(EventRow.sequence), col(EventRow.run), col(EventRow.position))
    written = link.execute(statement, [event.row for event in fresh]).all()
    sequences = {(run, position): sequence for sequence, run, position in written}
    kernels = [event.kernel for event in fresh if event.kernel]
    if kernels:
        link.execute(insert(KernelRow).on_conflict_do_nothing(), kernels)
    candidates = [event.candidate for event in fresh if event.candidate]
    if candidates:
        link.execute(insert(CandidateRow), candidates)
    evaluations = [
        {**event.evaluation, "sequence": sequences[event.row["run"], event.row["position"]]} for event in fresh if event.evaluation
    ]
    if evaluations:
        link.execute(insert(EvaluationRow), evaluations)
    for event in fresh:
        _follow_run(link, event.row)


def _fresh(link: Connection, events: list[Encoded]) -> list[Encoded]:
    """Those whose (run, kind, key) is not there yet, each once."""
    by_key = {(e.row["run"], e.row["kind"], e.row["key"]): e for e in reversed(events)}
    identity = tuple_(col(EventRow.run), col(EventRow.kind), col(EventRow.key))
    there = {tuple(row) for row in link.execute(select(EventRow.run, EventRow.kind, EventRow.key).where(identity.in_(list(by_key))))}
    chosen = {id(event) for key, event in by_key.items() if key not in there}
    return [event for event in events if id(event) in chosen]


def _chained(link: Connection, events: list[Encoded]) -> list[Encoded]:
    """The events with their places in the chains of their runs; nobody else writes before the transaction ends."""
    heads = {run: head_of(link, run) for run in dict.fromkeys(event.row["run"] for event in events)}
    chained = []
    for event in events:
        row, head = event.row, heads[event.row["run"]]
        position = head.position + 1
        digest = digest_of(head.digest, row["run"], position, row["kind"], row["key"], row["payload"], row["at"])
        heads[row["run"]] = Head(position, digest)
        chained.append(replace(event, row={**row, "position": position, "digest": digest}))
    return chained


def head_of(link: Connection, run: str) -> Head:
    """Where a run's chain ends."""
    last = select(EventRow.position, EventRow.digest).where(EventRow.run == run).order_by(col(EventRow.sequence).desc()).limit(1)
    found = link.execute(last).first()
    return Head() if found is None else Head(found[0], found[1])


def _follow_run(link: Connection, row: dict[str, Any]) -> None:
    """Keep the run's row in step with the events that begin and end it."""
    values = run_values(row["kind"], row["payload"], row["at"])
    if row["kind"] == EventKind.RUN_STARTED:
        link.execute(insert(RunRow).values({"id": row["run"], **values}))
    elif values:
        link.execute(update(RunRow).where(col(RunRow.id) == row["run"]).values(values))


def run_values(kind: str, payload: str, at: float) -> dict[str, Any]:
    """Columns of a run's row that an event sets; none for most kinds.

    Args:
        kind: What happened.
        payload: JSON text.
        at: When, seconds since the epoch.
    """
    if kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED):
        settings = json.dumps(json.loads(payload).get("settings"))
        values = {"settings": settings, "state": "running", "reason": "", "ended": None}
        return values | {"started": at} if kind == EventKind.RUN_STARTED else values
    if kind == EventKind.RUN_ENDED:
        return {"state": "ended", "reason": str(json.loads(payload).get("reason", "")), "ended": at}
    return {}
