"""The few exceptions a caller may catch.

Each is one clear line: what is wrong, where, and how to mend it. A bad kernel is never an exception; it is an
`evokern.evaluation.Evaluation` whose verdict says so.
"""

from __future__ import annotations

import errno
import os

from evokern import printable

LONGEST = 2000
"""Characters of a message; names and causes come from files and programs, which may say anything."""


class EvokernError(Exception):
    """A problem told in one line.

    Args:
        what: What is wrong.
        where: The file, setting or name concerned; empty where there is none.
        mend: What the reader can do about it; empty where nothing can be done.

    Attributes:
        exit_code: Exit status of the command line when this error ends it (DESIGN section 9).
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", mend: str = "") -> None:
        self.what, self.where, self.mend = what, where, mend
        super().__init__(self.line)

    @property
    def line(self) -> str:
        """The whole message on one line."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return printable.line(f"{text}. {self.mend}" if self.mend else text, LONGEST)

    def to_json(self) -> dict[str, str]:
        """The message in parts, for `--json`."""
        return {"error": type(self).__name__, "what": self.what, "where": self.where, "mend": self.mend}


class UsageError(EvokernError):
    """The command line, a setting or a file given by the user is wrong."""

    exit_code = 2


class Unavailable(EvokernError):
    """Something needed is not on this machine: a compiler, a device, a writable home, an endpoint."""

    exit_code = 3


class DiskFull(Unavailable):
    """A disk that must be written has no room left."""


def disk_full(error: BaseException) -> DiskFull | None:
    """What an error says of a full disk; None where it speaks of something else.

    Args:
        error: An operating system's error, or a group of one.
    """
    if isinstance(error, DiskFull):
        return error
    if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        return disk_full(error.exceptions[0])
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = str(error.filename or "")
        return DiskFull(os.strerror(error.errno), where=where, mend=FREE)
    return None


FREE = "Free some space (`build` and `cache` in EVOKERN_HOME are made again when they are gone)"
"""What to do about a full disk."""


class SourceError(EvokernError):
    """A kernel's source breaks a rule that can be read off its text, such as a flag outside the white list."""
