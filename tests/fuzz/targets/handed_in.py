"""A line of a batch, and a call of a tool: what whoever hands in kernels wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evokern import record
from evokern.cli.lines import parse_line
from evokern.errors import EvokernError
from evokern.serve.arguments import checked

_SCHEMA: dict[str, Any] = {
    "properties": {
        "source": {"type": "string", "maxLength": 100, "description": "The source."},
        "dialect": {"type": "string", "enum": ["cpp", "cuda"], "description": "Its language."},
        "count": {"type": "integer", "minimum": 1, "maximum": 5, "description": "How many."},
    },
    "required": ["source"],
}


def once(data: bytes) -> None:
    line = parse_line(1, data, Path("/nowhere"))
    if line.fault is not None:
        assert "\n" not in line.fault.line
    else:
        try:
            line.kernel(("cpp",))
        except EvokernError as error:
            assert "\n" not in error.line
    try:
        checked("evaluate", _SCHEMA, record.parse(data))
    except EvokernError as error:
        assert "\n" not in error.line
