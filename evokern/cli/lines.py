"""Lines of a batch: a kernel each, from a file of JSON lines, from standard input, or from a folder's files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from evokern import record
from evokern.config import nearest
from evokern.errors import UsageError
from evokern.printable import is_text
from evokern.printable import line as one_line

if TYPE_CHECKING:
    from evokern.kernel import Kernel

STDIN = "-"

FIELDS = ("id", "source", "path", "dialect", "task", "dtype", "backend")
"""What a line may hold; all are texts."""

SHOWN = 60


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a batch.

    Attributes:
        number: From 1.
        fields: Its texts by name.
        folder: What its path is relative to.
        fault: Why it is no such line; None where it is.
    """

    number: int
    fields: dict[str, str]
    folder: Path
    fault: UsageError | None = None

    def kernel(self, dialects: tuple[str, ...]) -> Kernel:
        """The kernel that it holds or names.

        Args:
            dialects: Those of the backend, of which a source that names none may be the only one.

        Raises:
            UsageError: The file cannot be read, or nothing says the dialect.
        """
        from evokern.cli.source import read_kernel
        from evokern.kernel import SUFFIXES, Kernel

        dialect = self.fields.get("dialect")
        if dialect is not None and dialect not in SUFFIXES:
            raise UsageError(f"no dialect is called '{one_line(dialect, SHOWN)}'", mend=f"Known: {', '.join(SUFFIXES)}")
        if "path" in self.fields:
            return read_kernel(self.folder / self.fields["path"], dialect)
        if dialect is None and len(dialects) != 1:
            raise UsageError("no 'dialect' says which language the source is in", mend=f"This backend takes {', '.join(dialects)}")
        return Kernel(dialect or dialects[0], self.fields["source"])


def read_lines(batch: Path) -> Iterator[Line]:
    """The lines of a batch as they come; blank ones are passed over, wrong ones carry their fault.

    Args:
        batch: A file of JSON lines, a folder whose files are kernels, or - for lines on standard input.

    Raises:
        UsageError: It cannot be read, or is a folder without kernels.
    """
    try:
        if str(batch) == STDIN:
            # Not `sys.stdin`: a thread that waits for it would keep the interpreter from ending.
            return _parsed(open(0, "rb", closefd=False), Path())
        if batch.is_dir():
            return iter(_of_folder(batch))
        return _parsed(batch.open("rb"), batch.parent)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(batch)) from error


def parse_line(number: int, text: bytes, folder: Path) -> Line:
    """One line; whatever stands there, it raises nothing.

    Args:
        number: From 1, for messages.
        text: What stands there.
        folder: What its path is relative to.
    """
    try:
        fields = record.fields(text)
        for name, value in fields.items():
            if name not in FIELDS:
                raise UsageError(f"unknown field '{one_line(name, SHOWN)}'", mend=nearest(name, FIELDS))
            if not isinstance(value, str):
                raise UsageError(f"'{name}' must be a text, not {type(value).__name__}")
            if not is_text(value):
                raise UsageError(f"'{name}' is not Unicode text")
        if ("source" in fields) == ("path" in fields):
            raise UsageError("must hold either 'source' or 'path'", mend='Such as {"path": "k.cpp"}')
    except UsageError as error:
        return Line(number, {}, folder, UsageError(error.what, where=f"line {number}", mend=error.mend))
    return Line(number, fields, folder)


def _of_folder(folder: Path) -> list[Line]:
    from evokern.kernel import SUFFIXES

    endings = tuple(SUFFIXES.values())
    files = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name.endswith(endings))
    if not files:
        raise UsageError("holds no kernel", where=str(folder), mend=f"A kernel's name ends in {', '.join(endings)}")
    return [Line(number, {"id": name, "path": name}, folder) for number, name in enumerate(files, start=1)]


def _parsed(stream: BinaryIO, folder: Path) -> Iterator[Line]:
    with stream:
        for number, text in enumerate(stream, start=1):
            if text.strip():
                yield parse_line(number, text, folder)
