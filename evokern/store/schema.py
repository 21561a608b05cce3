"""Tables of the journal, and how a connection to them is opened.

`event` is the truth and is only ever added to (triggers refuse anything else); the other tables can be filled from it again.
A kernel's source stands once, in `kernel`, whichever runs proposed it: payloads of proposals name it by id.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from sqlalchemy import Engine, Index, LargeBinary, UniqueConstraint, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool
from sqlmodel import Field, SQLModel

from evokern.errors import Unavailable
from evokern.store.failure import unavailable

SCHEMA_VERSION = 2
"""In SQLite's user_version; any other is refused. 2 chained the events."""

APPLICATION = 0x45564B4E
"""In SQLite's application_id ("EVKN"), so that another program's database is never written to."""

FIRST_RUN = "Start one with `evokern run --task softmax`"

BUSY_SECONDS = 30.0
"""How long a transaction waits for another process's; transactions take milliseconds."""

WAL_LIMIT_BYTES = 64 << 20
"""The write-ahead log is cut back to this after a checkpoint."""


class EventRow(SQLModel, table=True):
    """One event.

    `sequence` is the order in which events were committed, over all runs; `position` and `digest` are its place in the chain of its
    run (`evokern.store.chain`).
    """

    __tablename__ = "event"
    __table_args__ = (UniqueConstraint("run", "kind", "key"), Index("event_run_sequence", "run", "sequence"))
    sequence: int | None = Field(default=None, primary_key=True)
    run: str
    kind: str
    key: str
    payload: str
    at: float
    position: int
    digest: str


class RunRow(SQLModel, table=True):
    """One run as its last event left it."""

    __tablename__ = "run"
    id: str = Field(primary_key=True)
    settings: str
    state: str
    reason: str = ""
    started: float
    ended: float | None = None


class KernelRow(SQLModel, table=True):
    """One source, in UTF-8; bytes, because a model may answer text that UTF-8 refuses (lone surrogates)."""

    __tablename__ = "kernel"
    id: str = Field(primary_key=True)
    dialect: str
    entry: str
    source: bytes = Field(sa_type=LargeBinary)


class CandidateRow(SQLModel, table=True):
    """One kernel's lineage within a run."""

    __tablename__ = "candidate"
    run: str = Field(primary_key=True)
    kernel_id: str = Field(primary_key=True)
    number: int
    operator: str
    island: int
    parents: str
    edits: str
    at: float


class EvaluationRow(SQLModel, table=True):
    """One verdict; the whole evaluation stands in the event of the same sequence.

    `kind` is that event's: "evaluated" where the run judged a candidate, else it was judged again. `external` ones no judge of this
    home has signed: they are shown and count for nothing.
    """

    __tablename__ = "evaluation"
    __table_args__ = (
        Index("evaluation_run_kernel", "run", "kernel_id"),
        Index("evaluation_run_rank", "run", "verdict", "confirmed", "score_log"),
    )
    sequence: int = Field(primary_key=True)
    run: str
    kernel_id: str
    kind: str
    external: bool
    key: str = Field(index=True)
    verdict: str
    reason: str
    confirmed: bool
    score_log: float | None
    score_low: float | None
    score_high: float | None
    score_name: str
    at: float


APPEND_ONLY = tuple(
    f"CREATE TRIGGER IF NOT EXISTS event_no_{verb} BEFORE {verb} ON event BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END"
    for verb in ("update", "delete")
)


def open_database(path: Path, *, read_only: bool) -> Engine:
    """An engine over the journal's file; made and laid out where it is not there yet.

    Synchronous is FULL: an acknowledged event survives a power cut and not only the process, and group commit makes the one
    fsync per transaction cheap.

    Args:
        path: The file.
        read_only: Open an existing file without changing anything.

    Raises:
        Unavailable: It is missing (read-only), cannot be opened, is damaged, or was written by another version.
    """
    database = create_engine(
        "sqlite://", creator=lambda: _connect(path, read_only=read_only), poolclass=QueuePool, isolation_level="AUTOCOMMIT"
    )
    try:
        _lay_out(database, path, read_only=read_only)
    except sqlite3.Error as error:
        database.dispose()
        raise unavailable(error, path) from error
    except DBAPIError as error:
        database.dispose()
        raise unavailable(error.orig if isinstance(error.orig, sqlite3.Error) else sqlite3.Error(str(error)), path) from error
    except Unavailable:
        database.dispose()
        raise
    return database


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    mode = _looking_mode(path) if read_only else "mode=rwc"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    if not read_only:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
    return connection


def _looking_mode(path: Path) -> str:
    """How to open a file that is only looked at.

    Even a reader shares memory through a file beside the database. Where none can be made and no log lies there, nobody is
    writing, and SQLite may be told that the file does not change.
    """
    log = path.with_name(f"{path.name}-wal")
    unchanging = not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size)
    return "mode=ro&immutable=1" if unchanging else "mode=ro"


def _lay_out(database: Engine, path: Path, *, read_only: bool) -> None:
    raw = database.raw_connection()
    try:
        connection = raw.driver_connection
        assert isinstance(connection, sqlite3.Connection)
        if _is_laid_out(connection, path):
            return
        if read_only:
            raise Unavailable("no run has been made here yet", where=str(path.parent), mend=FIRST_RUN)
        _use_write_ahead_log(connection)
    finally:
        raw.close()
    with database.connect() as link:
        link.exec_driver_sql("BEGIN IMMEDIATE")
        SQLModel.metadata.create_all(link, tables=[SQLModel.metadata.tables[name] for name in _TABLES])
        for trigger in APPEND_ONLY:
            link.exec_driver_sql(trigger)
        link.exec_driver_sql(f"PRAGMA application_id = {APPLICATION}")
        link.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
        link.exec_driver_sql("COMMIT")


_TABLES = ("event", "run", "kernel", "candidate", "evaluation")


def _is_laid_out(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file holds this version's tables.

    Raises:
        Unavailable: It holds something else.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION:
        raise Unavailable("this database is another program's", where=str(path), mend="Give another home")
    if tables and version < SCHEMA_VERSION:
        raise Unavailable(
            f"the journal was written by an older evokern (format {version}, this one reads {SCHEMA_VERSION})",
            where=str(path),
            mend="Move it away to start anew, or give another home",
        )
    if version > SCHEMA_VERSION:
        raise Unavailable(
            f"the journal was written by a newer evokern (format {version}, this one reads {SCHEMA_VERSION})",
            where=str(path),
            mend="Upgrade evokern, or give another home",
        )
    return bool(tables)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file over; SQLite does not wait for a second process that does the same at that moment, so this does."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return
