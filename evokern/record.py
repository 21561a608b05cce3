"""Frozen dataclasses to JSON and back: what lets every noun travel between processes and into the journal.

Understands dataclasses, enums, tuples, dicts with text keys, optional values and plain scalars; a field that is missing
takes its default, an unknown one is an error, so that a journal written by another version is never half read.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

from evokern.errors import UsageError

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """Plain JSON values for a noun. Numbers that JSON lacks (inf, nan) become text that `from_json` reads back."""
    kind: Any = type(value)
    return _encoder(kind)(value)


def finite(value: Any) -> Any:
    """JSON values as a document for others holds them: infinities and NaNs, which JSON lacks, become null, and keys are texts."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def parse(text: str | bytes) -> Any:
    """Plain values of a JSON text that anybody may have written.

    Raises:
        UsageError: It is no JSON, or nested too deep to be anybody's.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not valid JSON: {error}") from error


def fields(text: str | bytes) -> dict[str, Any]:
    """The fields of a JSON object that anybody may have written.

    Raises:
        UsageError: It is no JSON object.
    """
    found = parse(text)
    if not isinstance(found, dict):
        raise UsageError(f"not a JSON object but a {type(found).__name__}")
    return found


def from_json(kind: type[T], data: Any) -> T:
    """The noun of a given type from its JSON values.

    Raises:
        UsageError: The data does not have the fields and types of `kind`.
    """
    wanted: Any = kind
    try:
        return typing.cast(T, _decoder(wanted)(data))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise UsageError(f"not a valid {kind.__name__} record: {error}") from error


@functools.cache
def _encoder(kind: type) -> Callable[[Any], Any]:
    """How values of a type are written; worked out once per type, as the journal writes thousands of values a second."""
    if dataclasses.is_dataclass(kind):
        names = tuple(f.name for f in dataclasses.fields(kind) if f.init)
        return lambda value: {name: to_json(getattr(value, name)) for name in names}
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, list | tuple):
        return lambda value: [to_json(v) for v in value]
    if issubclass(kind, dict):
        return lambda value: {str(k): to_json(v) for k, v in value.items()}
    if issubclass(kind, float):
        return lambda value: value if math.isfinite(value) else repr(value)
    return lambda value: value


@functools.cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    """How values of a type are read back; worked out once per type."""
    origin = typing.get_origin(kind)
    if kind is Any:
        return lambda data: data
    if origin in (typing.Union, types.UnionType):
        return _optional_decoder(typing.get_args(kind))
    if origin is tuple:
        return _tuple_decoder(typing.get_args(kind))
    if origin is dict:
        inner = typing.get_args(kind)[1]
        return lambda data: {str(k): _decoder(inner)(v) for k, v in data.items()}
    if dataclasses.is_dataclass(kind):
        return _dataclass_decoder(typing.cast(type, kind))
    if kind is float:
        return float
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return functools.partial(_checked, kind)


def _optional_decoder(options: tuple[Any, ...]) -> Callable[[Any], Any]:
    inner = next(o for o in options if o is not type(None))
    if type(None) in options:
        return lambda data: None if data is None else _decoder(inner)(data)
    return _decoder(inner)


def _tuple_decoder(inner: tuple[Any, ...]) -> Callable[[Any], Any]:
    if len(inner) == 2 and inner[1] is Ellipsis:  # noqa: PLR2004 - tuple[X, ...]
        return lambda data: tuple(_decoder(inner[0])(v) for v in data)
    return lambda data: tuple(_decoder(k)(v) for k, v in zip(inner, data, strict=True))


def _dataclass_decoder(kind: type) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(kind)

    def decode(data: Any) -> Any:
        unknown = set(data) - set(hints)
        if unknown:
            raise ValueError(f"unknown field '{min(unknown)}'")
        return kind(**{name: _decoder(hints[name])(value) for name, value in data.items()})

    return decode


def _checked(kind: Any, data: Any) -> Any:
    if isinstance(kind, type) and not isinstance(data, kind):
        raise TypeError(f"expected {kind.__name__}, found {type(data).__name__}")
    return data
