"""How commands answer: one JSON document, or text; and the options that many of them share."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from evokern.errors import EvokernError
from evokern.printable import block
from evokern.printable import line as one_line
from evokern.record import finite

DONE, DID_NOT_HOLD, INTERRUPTED = 0, 1, 130

LONGEST, LONGEST_LINE = 1 << 24, 2000
"""Characters of an answer, and of a line on standard error."""

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document with a 'schema' field on standard output.")]


def print_answer(schema: str, document: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print a command's answer on standard output.

    Args:
        schema: Name and version of the document, such as `evokern.eval/1`.
        document: Its fields, JSON values.
        text: The same for people.
        as_json: Whether the document is asked for.
    """
    if as_json:
        print_document(schema, document)
        return
    # Kernels, compilers and models wrote parts of it; none of them may steer a terminal.
    sys.stdout.write(block(text.rstrip("\n"), LONGEST) + "\n")


def print_document(schema: str, document: Mapping[str, Any]) -> None:
    """Print one JSON document; infinities and NaNs, which JSON lacks, become null."""
    json.dump(finite({"schema": schema, **document}), sys.stdout, indent=2, allow_nan=False, default=str)
    sys.stdout.write("\n")
    sys.stdout.flush()


def print_error(error: EvokernError, *, as_json: bool) -> None:
    """Tell an error: one line on standard error, and the document if it was asked for."""
    if as_json:
        print_document("evokern.error/1", {**error.to_json(), "exit_code": error.exit_code})
    sys.stderr.write(f"evokern: {error.line}\n")


def say(line: str) -> None:
    """One line for people, on standard error."""
    sys.stderr.write(one_line(line, LONGEST_LINE) + "\n")
