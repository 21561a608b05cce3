"""Kernels from files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evokern.kernel import Kernel


def read_kernel(file: Path, dialect: str | None = None) -> Kernel:
    """The kernel in a file.

    Args:
        file: Where it is.
        dialect: Its language; None for what the file's ending says.

    Raises:
        UsageError: It cannot be read, is not text, or its ending names no dialect.
    """
    from evokern.errors import UsageError
    from evokern.kernel import Kernel, dialect_of

    try:
        source = file.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(file)) from error
    except UnicodeDecodeError as error:
        raise UsageError("is not UTF-8 text", where=str(file), mend="A kernel is one source file") from error
    except ValueError as error:  # a null byte, which no path has
        raise UsageError(f"cannot be read: {error}", where=str(file)) from error
    return Kernel(dialect or dialect_of(file.name), source)
