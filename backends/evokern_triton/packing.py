"""The parameters of a launch as bytes, laid out as the device's C does: each at a multiple of its size.

A parameter is written "place:type": where it stands among the arguments of a kernel, "3", or "3.0" for the first part of a tuple, and
Triton's name of its type. What is compiled in is no parameter. Imports nothing that is not in a bare Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_FORMATS = {
    "i1": "b", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "u1": "B", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "fp16": "e", "bf16": "H", "fp32": "f", "f32": "f", "fp64": "d",
}  # fmt: skip
_POINTER = "Q"
_BFLOAT16_BIAS = 0x7FFF


class Packer:
    """Packs what a kernel is launched with.

    Args:
        parameters: As `parameters_of` writes them.
        scratch: How many addresses of scratch memory follow the kernel's own parameters.

    Attributes:
        size: Bytes of all parameters.
        offsets: Of each parameter.

    Raises:
        ValueError: A type that cannot be passed here, such as a tensor descriptor.
    """

    def __init__(self, parameters: Sequence[str], scratch: int = 2) -> None:
        split = [text.partition(":") for text in parameters]
        self._paths = [tuple(int(part) for part in place.split(".")) for place, _, _ in split]
        self._convert: list[Callable[[Any], Any]] = [_converter(kind) for _, _, kind in split]
        letters = [_format(kind) for _, _, kind in split] + [_POINTER] * scratch
        self._scratch = scratch
        self._layout = struct.Struct("@" + "".join(letters))
        self.size = self._layout.size
        self.offsets = list(_offsets(letters))

    def into(self, buffer: Any, arguments: Sequence[Any], scratch: Sequence[int] = ()) -> None:
        """Pack into a writable buffer of `size` bytes.

        Args:
            buffer: Where to.
            arguments: All of the kernel's, those that are compiled in included.
            scratch: Addresses; zero where too few are given.

        Raises:
            struct.error: A number that its type cannot hold.
        """
        values = [convert(_at(arguments, path)) for convert, path in zip(self._convert, self._paths, strict=True)]
        self._layout.pack_into(buffer, 0, *values, *scratch, *(0,) * (self._scratch - len(scratch)))

    def packed(self, arguments: Sequence[Any], scratch: Sequence[int] = ()) -> bytes:
        """The same as bytes."""
        buffer = bytearray(self.size)
        self.into(buffer, arguments, scratch)
        return bytes(buffer)


def parameters_of(types: Sequence[Any], place: str = "") -> tuple[str, ...]:
    """What a launch passes, given the types of all arguments as Triton tells them: names, "constexpr", and tuples of both."""
    found: list[str] = []
    for index, kind in enumerate(types):
        if isinstance(kind, tuple):
            found.extend(parameters_of(kind, f"{place}{index}."))
        elif kind != "constexpr":
            found.append(f"{place}{index}:{kind}")
    return tuple(found)


def _at(arguments: Sequence[Any], path: tuple[int, ...]) -> Any:
    found: Any = arguments
    for index in path:
        found = found[index]
    return found


def _format(kind: str) -> str:
    if kind.startswith("*"):
        return _POINTER
    if kind not in _FORMATS:
        raise ValueError(f"a parameter of type {kind} cannot be passed here: only tensors and numbers can")
    return _FORMATS[kind]


def _converter(kind: str) -> Callable[[Any], Any]:
    if kind.startswith("*"):
        return _address
    if kind == "bf16":
        return bfloat16_bits
    return float if kind.startswith("f") else int


def _address(value: Any) -> int:
    if value is None:
        return 0
    address: int = value if isinstance(value, int) else value.data_ptr()
    return address


def bfloat16_bits(value: float) -> int:
    """A number rounded to nearest bfloat16, ties to even, as its bits."""
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    if value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return bits >> 16 | 0x40
    return (bits + _BFLOAT16_BIAS + (bits >> 16 & 1)) >> 16


def _offsets(letters: Sequence[str]) -> Iterator[int]:
    at = 0
    for letter in letters:
        size = struct.calcsize("@" + letter)
        at = -(-at // size) * size
        yield at
        at += size
