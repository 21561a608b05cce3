"""Arguments of a tool, checked against the schema that its client was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evokern.config import nearest
from evokern.errors import UsageError
from evokern.printable import is_text

KINDS: dict[str, type] = {"string": str, "integer": int, "boolean": bool}
"""What a schema's types are here."""

SHOWN = 60
"""Characters of a wrong value that are told."""


def checked(tool: str, schema: Mapping[str, Any], given: object) -> dict[str, Any]:
    """The arguments of a call.

    Args:
        tool: Name of the tool, for messages.
        schema: Its JSON schema: an object of texts, whole numbers and truth values, no other properties.
        given: What the client sent.

    Raises:
        UsageError: One is missing, unknown, or not what the schema says.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise UsageError(f"arguments must be an object, not {_shown(given)}", where=tool)
    properties = schema["properties"]
    for name in given:
        if name not in properties:
            mend = nearest(str(name), properties) if properties else "It takes none"
            raise UsageError(f"unknown argument '{_shown(name)}'", where=tool, mend=mend)
    for name in schema.get("required", ()):
        if name not in given:
            raise UsageError(f"argument '{name}' is missing", where=tool, mend=properties[name]["description"])
    return {name: _value(f"{tool}: {name}", properties[name], value) for name, value in given.items() if value is not None}


def _value(where: str, schema: Mapping[str, Any], value: object) -> Any:
    kind = KINDS[schema["type"]]
    if type(value) is not kind:
        raise UsageError(f"must be of type {schema['type']}, not {_shown(value)}", where=where)
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        raise UsageError(f"must be one of {', '.join(allowed)}, not {_shown(value)}", where=where)
    if isinstance(value, str):
        _check_length(where, schema, value)
    elif isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        raise UsageError(f"must be from {schema['minimum']} to {schema['maximum']}, not {value}", where=where)
    return value


def _check_length(where: str, schema: Mapping[str, Any], text: str) -> None:
    most = schema.get("maxLength")
    if not is_text(text):
        raise UsageError("is not Unicode text", where=where)
    if not text.strip():
        raise UsageError("must not be empty", where=where)
    if most is not None and len(text) > most:
        raise UsageError(f"has {len(text):,} characters", where=where, mend=f"At most {most:,}")


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
