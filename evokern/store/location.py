"""Where run data lives, and how runs are named."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from evokern.errors import Unavailable

HOME_VARIABLE = "EVOKERN_HOME"
FOLDER = ".evokern"
DATABASE = "evokern.db"


def find_home(start: Path | None = None, environment: Mapping[str, str] | None = None) -> Path:
    """The home folder, which need not exist yet.

    Args:
        start: Folder to look upward from; the working directory when None.
        environment: Variables; the process's own when None.

    Returns:
        What `EVOKERN_HOME` says, else the nearest `.evokern` upward, else `.evokern` in `start`; absolute.
    """
    named = (os.environ if environment is None else environment).get(HOME_VARIABLE, "")
    if named:
        return Path(named).expanduser().absolute()
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / FOLDER).is_dir():
            return folder / FOLDER
    return here / FOLDER


def home(start: Path | None = None, environment: Mapping[str, str] | None = None) -> Path:
    """The home folder, made where it is not there yet.

    Raises:
        Unavailable: It cannot be made or written: a read-only mount, missing rights, a file in its place, a full disk.
    """
    folder = find_home(start, environment)
    require_writable(folder)
    return folder


def require_writable(folder: Path) -> None:
    """Make a folder and see that files can be made in it.

    Raises:
        Unavailable: They cannot; the message gives the system's reason.
    """
    probe = folder / f".write-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise Unavailable(
            f"run data cannot be written here: {error.strerror or error}",
            where=str(folder),
            mend=f"Set {HOME_VARIABLE} to a folder that can be written",
        ) from error


def new_run_id(task: str, *, now: datetime | None = None) -> str:
    """A name for a run, such as `softmax-20261129T1015-3f2a`: task, minute it began in UTC, 16 random bits.

    Args:
        task: Name or path of the task; of a path, the last part counts.
        now: When it began; the present when None.
    """
    name = re.sub(r"[^a-z0-9_]+", "_", Path(task).name.lower()).strip("_") or "task"
    return f"{name}-{(now or datetime.now(UTC)).strftime('%Y%m%dT%H%M')}-{secrets.token_hex(2)}"
