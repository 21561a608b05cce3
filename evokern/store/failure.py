"""What went wrong with the journal's file, in words."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from evokern.errors import FREE, DiskFull, Unavailable

_PRIMARY = 0xFF
"""SQLite's extended error codes hold the primary one in the low byte."""

_ALMOST_FULL_BYTES = 1 << 20


def unavailable(error: sqlite3.Error, path: Path) -> Unavailable:
    """The typed error for what SQLite said of a file.

    Args:
        error: SQLite's error.
        path: The journal's file.
    """
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & _PRIMARY if code is not None else None
    if primary == sqlite3.SQLITE_FULL or (primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and _is_full(path)):
        return DiskFull("the disk is full; what was committed is safe, and nothing more can be written", where=str(path), mend=FREE)
    what, mend = _CAUSES.get(primary, (f"the journal failed: {error}", ""))
    if primary in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
        what = f"{what} ({error})"
    return Unavailable(what, where=str(path), mend=mend)


_ELSEWHERE = "Set EVOKERN_HOME to a folder that can be written"
_CAUSES: dict[int | None, tuple[str, str]] = {
    sqlite3.SQLITE_READONLY: ("the journal cannot be written", _ELSEWHERE),
    sqlite3.SQLITE_PERM: ("the journal cannot be written", _ELSEWHERE),
    sqlite3.SQLITE_CANTOPEN: ("the journal cannot be opened", _ELSEWHERE),
    sqlite3.SQLITE_IOERR: ("the disk failed under the journal", "Look at the disk; committed events are safe where it is whole"),
    sqlite3.SQLITE_BUSY: ("another process has held the journal for too long", "End that process, then `evokern resume`"),
    sqlite3.SQLITE_LOCKED: ("another process has held the journal for too long", "End that process, then `evokern resume`"),
    sqlite3.SQLITE_CORRUPT: ("the journal is damaged", "Move it away, or save what is whole with `sqlite3 FILE .recover`"),
    sqlite3.SQLITE_NOTADB: ("this is not a journal", "Move the file away, or give another home"),
}


def _is_full(path: Path) -> bool:
    try:
        left = os.statvfs(path.parent)
    except OSError:
        return False
    return left.f_bavail * left.f_frsize < _ALMOST_FULL_BYTES or left.f_favail == 0 < left.f_files
