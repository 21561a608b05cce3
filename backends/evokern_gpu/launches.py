"""The items of a launch list: kernels, fills and copies, with addresses named as (argument, offset).

An offset counts from the first element of the argument in the call at hand; argument number n of a call with n arguments is the
workspace. So a list that was noted on one set of addresses can be run on any other.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from evokern_gpu import fields

WORD = 8
"""Bytes of an address; within parameters addresses lie at multiples of it."""

_ALIGNMENT = 16
"""Up to this a call's addresses are told apart by alignment: the widest access of one thread."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in an argument.

    Attributes:
        argument: Its number; that of the workspace comes after all others.
        offset: Bytes from its first element; may be negative.
    """

    argument: int
    offset: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel.

    Attributes:
        name: Symbol in its binary.
        grid: Blocks by axis.
        block: Threads by axis.
        shared_bytes: Dynamic shared memory.
        parameters: As the kernel lays them out; zeros where addresses go.
        addresses: (offset in `parameters`, what is there).
        cluster: Blocks of a cluster by axis, where the launch said so.
        cooperative: Whether all blocks must run at once.
        overlaps: Whether it may begin before the item before it has ended.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: bytes
    addresses: tuple[tuple[int, Spot], ...]
    cluster: tuple[int, int, int] | None = None
    cooperative: bool = False
    overlaps: bool = False

    @property
    def spots(self) -> tuple[Spot, ...]:
        """All places that it is given."""
        return tuple(spot for _, spot in self.addresses)

    def placed(self, addresses: Sequence[int]) -> bytes:
        """Its parameters where the arguments' first elements are at these addresses."""
        packed = bytearray(self.parameters)
        for at, spot in self.addresses:
            struct.pack_into("<Q", packed, at, addresses[spot.argument] + spot.offset)
        return bytes(packed)


@dataclass(frozen=True, slots=True)
class Fill:
    """Memory that is set to a value.

    Attributes:
        to: Where.
        value: Of one element.
        element_bytes: 1, 2 or 4.
        width: Elements of a row.
        height: Rows.
        pitch: Bytes from one row to the next.
    """

    to: Spot
    value: int
    element_bytes: int
    width: int
    height: int
    pitch: int

    @property
    def spots(self) -> tuple[Spot, ...]:
        """Its first byte and its last."""
        last = (self.height - 1) * self.pitch + self.width * self.element_bytes - 1
        return self.to, Spot(self.to.argument, self.to.offset + last)


@dataclass(frozen=True, slots=True)
class Copy:
    """Memory that is copied, by rows.

    Attributes:
        source: From where.
        to: Where to.
        width: Bytes of a row.
        height: Rows.
        source_pitch: Bytes from one row to the next.
        pitch: The same where it goes.
    """

    source: Spot
    to: Spot
    width: int
    height: int
    source_pitch: int
    pitch: int

    @property
    def spots(self) -> tuple[Spot, ...]:
        """First and last byte of both."""
        rows = self.height - 1
        return (
            self.source,
            Spot(self.source.argument, self.source.offset + rows * self.source_pitch + self.width - 1),
            self.to,
            Spot(self.to.argument, self.to.offset + rows * self.pitch + self.width - 1),
        )


Item: TypeAlias = Launch | Fill | Copy
LaunchList: TypeAlias = tuple[Item, ...]


def call_key(places: Sequence[Any], workspace_bytes: int) -> str:
    """What a call's launches may depend on: shapes, strides, scalars, alignment up to 16 bytes and how large the workspace is.

    Args:
        places: Of the call (`evokern.evaluator.call.protocol.Place`).
        workspace_bytes: Of the call.

    Returns:
        sha256, hex.
    """
    parts = [f"{workspace_bytes}"]
    for place in places:
        shape, strides = (",".join(map(str, numbers)) for numbers in (place.shape, place.strides))
        parts.append(f"{shape}:{strides}:{place.offset % _ALIGNMENT}:{'' if place.shape else place.scalar.hex()}")
    return hashlib.sha256(";".join(parts).encode()).hexdigest()


ABSOLUTE = -1
"""Instead of the number of an argument: the offset is an address as it was in the process that noted the list."""

_GRID, _BLOCK, _CLUSTER = (2**31 - 1, 65535, 65535), (1024, 1024, 64), (64, 64, 64)
_ELEMENTS = (1, 2, 4)
_MOST_SHARED = 1 << 20
_MOST_BYTES = 1 << 48


def to_json(item: Item) -> dict[str, Any]:
    """An item as JSON has it."""
    if isinstance(item, Launch):
        return {
            "kind": "kernel",
            "name": item.name,
            "grid": list(item.grid),
            "block": list(item.block),
            "shared_bytes": item.shared_bytes,
            "parameters": item.parameters.hex(),
            "addresses": [[at, *_told(spot)] for at, spot in item.addresses],
            "cluster": None if item.cluster is None else list(item.cluster),
            "cooperative": item.cooperative,
            "overlaps": item.overlaps,
        }
    if isinstance(item, Fill):
        sizes = {"element_bytes": item.element_bytes, "width": item.width, "height": item.height, "pitch": item.pitch}
        return {"kind": "fill", "to": _told(item.to), "value": item.value, **sizes}
    sizes = {"width": item.width, "height": item.height, "source_pitch": item.source_pitch, "pitch": item.pitch}
    return {"kind": "copy", "source": _told(item.source), "to": _told(item.to), **sizes}


def from_json(value: Any, *, arguments: int | None) -> Item:
    """An item, from JSON that anybody may have written.

    Args:
        value: What `to_json` made.
        arguments: How many a call has, the workspace included; None for a list as it was noted, where addresses are absolute.

    Raises:
        ValueError: It is no item, with the reason.
    """
    held = fields.mapping(value, "an item")
    kind = held.get("kind")
    if kind == "kernel":
        return _launch(held, arguments)
    if kind == "fill":
        return _fill(held, arguments)
    if kind == "copy":
        return _copy(held, arguments)
    raise ValueError("an item is neither kernel nor fill nor copy")


def _told(spot: Spot) -> list[int]:
    return [spot.argument, spot.offset]


def _launch(held: Mapping[str, Any], arguments: int | None) -> Launch:
    parameters = fields.octets(held.get("parameters"), "parameters")
    addresses = []
    for one in fields.sequence(held.get("addresses"), "addresses"):
        at, *spot = fields.sequence(one, "an address", 3) or [0]
        if fields.number(at, "the place of an address", 0, len(parameters) - WORD) % WORD:
            raise ValueError("an address at no multiple of its size")
        addresses.append((at, _spot(spot, arguments)))
    block = fields.axes(held.get("block"), "block", _BLOCK)
    if math.prod(block) > _BLOCK[0]:
        raise ValueError("a block of more than 1024 threads")
    cluster = held.get("cluster")
    return Launch(
        name=fields.text(held.get("name"), "a name"),
        grid=fields.axes(held.get("grid"), "grid", _GRID),
        block=block,
        shared_bytes=fields.number(held.get("shared_bytes"), "shared memory", 0, _MOST_SHARED),
        parameters=parameters,
        addresses=tuple(addresses),
        cluster=None if cluster is None else fields.axes(cluster, "cluster", _CLUSTER),
        cooperative=fields.boolean(held.get("cooperative"), "cooperative"),
        overlaps=fields.boolean(held.get("overlaps"), "overlaps"),
    )


def _fill(held: Mapping[str, Any], arguments: int | None) -> Fill:
    element = fields.number(held.get("element_bytes"), "an element", 1, 4)
    if element not in _ELEMENTS:
        raise ValueError(f"elements of {element} bytes")
    return Fill(
        to=_spot(held.get("to"), arguments),
        value=fields.number(held.get("value"), "a value", 0, 2**32 - 1),
        element_bytes=element,
        width=fields.number(held.get("width"), "width", 1, _MOST_BYTES),
        height=fields.number(held.get("height"), "height", 1, _MOST_BYTES),
        pitch=fields.number(held.get("pitch"), "pitch", 0, _MOST_BYTES),
    )


def _copy(held: Mapping[str, Any], arguments: int | None) -> Copy:
    sizes = {name: fields.number(held.get(name), name, 1, _MOST_BYTES) for name in ("width", "height")}
    pitches = {name: fields.number(held.get(name), name, 0, _MOST_BYTES) for name in ("source_pitch", "pitch")}
    return Copy(source=_spot(held.get("source"), arguments), to=_spot(held.get("to"), arguments), **sizes, **pitches)


def _spot(value: Any, arguments: int | None) -> Spot:
    argument, offset = fields.pair(value, "a place")
    if arguments is None:
        return Spot(
            fields.number(argument, "an argument", ABSOLUTE, ABSOLUTE), fields.number(offset, "an address", 0, fields.ADDRESSES - 1)
        )
    return Spot(fields.number(argument, "an argument", 0, arguments - 1), fields.number(offset, "an offset", -_MOST_BYTES, _MOST_BYTES))
