"""Arguments of a call: whatever a client sends, what is wrong is told in one line with its place."""

from __future__ import annotations

from typing import Any

import pytest

from evokern.errors import UsageError
from evokern.serve.arguments import checked

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "source": {"type": "string", "maxLength": 10, "description": "The source."},
        "dialect": {"type": "string", "enum": ["cpp", "cuda"], "description": "Its language."},
        "count": {"type": "integer", "minimum": 1, "maximum": 5, "description": "How many."},
    },
    "required": ["source"],
    "additionalProperties": False,
}


def test_what_fits_is_taken() -> None:
    assert checked("t", SCHEMA, {"source": "x", "count": 5}) == {"source": "x", "count": 5}
    assert checked("t", SCHEMA, {"source": "x", "dialect": None}) == {"source": "x"}, "null is what many clients send for nothing"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "t: argument 'source' is missing. The source."),
        ({}, "t: argument 'source' is missing"),
        ([1], "t: arguments must be an object, not [1]"),
        ({"source": "x", "sourse": "y"}, "t: unknown argument 'sourse'. Did you mean 'source'?"),
        ({"source": 3}, "t: source: must be of type string, not 3"),
        ({"source": "x", "count": True}, "t: count: must be of type integer, not True"),
        ({"source": "x", "count": 1.5}, "t: count: must be of type integer, not 1.5"),
        ({"source": "x", "count": 6}, "t: count: must be from 1 to 5, not 6"),
        ({"source": "x", "dialect": "c"}, "t: dialect: must be one of cpp, cuda, not c"),
        ({"source": "x" * 11}, "t: source: has 11 characters. At most 10"),
        ({"source": "\ud800"}, "t: source: is not Unicode text"),
        ({"source": " \n"}, "t: source: must not be empty"),
        ({"source": {"a": ["b"] * 999}}, "t: source: must be of type string, not {'a': ['b', "),
        ({"source": "x", "\x1b[31m" * 99: 1}, "t: unknown argument"),
    ],
)
def test_what_is_wrong_is_one_line(given: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked("t", SCHEMA, given)
    assert caught.value.line.startswith(message)
    assert caught.value.line.isprintable()
    assert len(caught.value.line) < 200


def test_a_tool_without_arguments_takes_none() -> None:
    with pytest.raises(UsageError, match="It takes none"):
        checked("t", {"type": "object", "properties": {}, "required": []}, {"a": 1})
