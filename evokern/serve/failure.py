"""Failures as answers: whatever goes wrong is one clear line, and never a traceback."""

from __future__ import annotations

import os
import traceback

from evokern.errors import EvokernError, disk_full


def typed(error: Exception) -> EvokernError:
    """Any failure as one clear line."""
    if isinstance(error, EvokernError):
        return error
    if isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        return typed(error.exceptions[0])
    full = disk_full(error)
    if full is not None:
        return full
    if os.environ.get("EVOKERN_DEBUG"):
        traceback.print_exception(error)
    name = f"{type(error).__name__}: {error}".rstrip(".: ")
    return EvokernError(f"unexpected {name}", mend="This is a defect of evokern; EVOKERN_DEBUG=1 prints the traceback")
