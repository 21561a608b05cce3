"""Reading values that somebody else wrote: each is of the kind and in the range that it must have, or a ValueError says which is not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

MOST_ITEMS = 4096
"""Items of one launch list."""

LONGEST_NAME = 4096
MOST_PARAMETER_BYTES = 32764
"""Of one kernel, since CUDA 12.1."""

ADDRESSES = 1 << 64

_PAIR = 2


def parsed(text: bytes, what: str) -> Any:
    """A JSON text.

    Raises:
        ValueError: It is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is no JSON") from error


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """An object.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object")
    return value


def sequence(value: Any, what: str, most: int = MOST_ITEMS) -> Sequence[Any]:
    """A list of at most so many.

    Raises:
        ValueError: It is none, or longer.
    """
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"{what} is no list of at most {most}")
    return value


def pair(value: Any, what: str) -> tuple[Any, Any]:
    """A list of two.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, list) or len(value) != _PAIR:
        raise ValueError(f"{what} is no pair")
    return value[0], value[1]


def number(value: Any, what: str, low: int, high: int) -> int:
    """A whole number from `low` to `high`, both included.

    Raises:
        ValueError: It is none.
    """
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} is no whole number from {low} to {high}")
    return value


def boolean(value: Any, what: str) -> bool:
    """True or false.

    Raises:
        ValueError: It is neither.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{what} is neither true nor false")
    return value


def text(value: Any, what: str, most: int = LONGEST_NAME) -> str:
    """A text of at most so many characters, without zeros.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, str) or len(value) > most or "\0" in value:
        raise ValueError(f"{what} is no text of at most {most} characters")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is no text") from error
    return value


def octets(value: Any, what: str, most: int = MOST_PARAMETER_BYTES) -> bytes:
    """Bytes that were written as hexadecimal digits.

    Raises:
        ValueError: They are none, or more.
    """
    if not isinstance(value, str) or len(value) > 2 * most:
        raise ValueError(f"{what} are no {most} bytes")
    try:
        return bytes.fromhex(value)
    except ValueError as error:
        raise ValueError(f"{what} are no bytes") from error


def axes(value: Any, what: str, high: Sequence[int]) -> tuple[int, int, int]:
    """Three numbers from 1 to `high`.

    Raises:
        ValueError: They are none.
    """
    found = sequence(value, what, 3)
    if len(found) != len(high):
        raise ValueError(f"{what} has {len(found)} axes")
    x, y, z = (number(one, what, 1, most) for one, most in zip(found, high, strict=True))
    return x, y, z
