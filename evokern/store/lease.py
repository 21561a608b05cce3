"""One process at a time works a run."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from evokern.errors import Unavailable, UsageError


class RunLease:
    """An exclusive claim on a run, which ends with the process that holds it however that dies.

    A file lock and not a row: after `kill -9` a row would say "running" for ever.

    Args:
        home: The home folder.
        run: Full id of the run.

    Raises:
        UsageError: Another process works this run.
        Unavailable: The lock file cannot be made.
    """

    def __init__(self, home: Path, run: str) -> None:
        path = _lock_path(home, run)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise Unavailable(f"the run cannot be claimed: {error.strerror}", where=str(path)) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise UsageError(
                f"process {holder or 'unknown'} is working this run", where=run, mend="Wait for it, or end it first"
            ) from error
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)
        except OSError:
            # The number is only for the message above; a full disk must not keep a claimed run from saying so itself.
            return

    def release(self) -> None:
        """Let others have the run; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> RunLease:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


def is_worked(home: Path, run: str) -> bool:
    """Whether some process holds the run's lease now."""
    try:
        descriptor = os.open(_lock_path(home, run), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock_path(home: Path, run: str) -> Path:
    return home / "runs" / f"{run}.lock"
