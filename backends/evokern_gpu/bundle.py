"""Device binaries and launch lists in one file: the artefact of a sealed runner.

Layout: 8 bytes of magic, the length of the header in 8 bytes, little-endian, the header in JSON, then all binaries, one after
another. What is in it came from a candidate, names and numbers included; reading it believes nothing.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evokern_gpu import fields
from evokern_gpu.launches import Launch, LaunchList, from_json, to_json

MAGIC = b"EVKSEAL1"
MOST_BYTES = 1 << 29
"""Of a bundle."""

MOST_IMAGES, MOST_CALLS, MOST_ARGUMENTS = 256, 256, 257

_FRONT = struct.Struct("<8sQ")
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a sealed runner runs.

    Attributes:
        instruments: Our own device code for this device (`evokern_gpu.instruments.cubin`).
        images: Binaries of the kernel.
        calls: Launch lists by `evokern_gpu.launches.call_key`.
        arguments: How many a call has.
    """

    instruments: bytes
    images: tuple[bytes, ...]
    calls: Mapping[str, LaunchList]
    arguments: int

    @classmethod
    def decode(cls, data: bytes) -> Bundle:
        """A bundle from its bytes.

        Raises:
            ValueError: They are none, with the reason.
        """
        if len(data) < _FRONT.size or len(data) > MOST_BYTES:
            raise ValueError(f"a bundle of {len(data)} bytes")
        magic, length = _FRONT.unpack_from(data)
        if magic != MAGIC or length > len(data) - _FRONT.size:
            raise ValueError("no bundle")
        header = fields.mapping(fields.parsed(data[_FRONT.size : _FRONT.size + length], "its header"), "its header")
        arguments = fields.number(header.get("arguments"), "arguments", 1, MOST_ARGUMENTS - 1)
        lengths = [fields.number(one, "a length", 1, MOST_BYTES) for one in fields.sequence(header.get("images"), "images", MOST_IMAGES)]
        instruments, *images = _cut(data[_FRONT.size + length :], lengths) or [b""]
        if not images:
            raise ValueError("a bundle without binaries")
        return cls(instruments, tuple(images), _calls(header.get("calls"), arguments), arguments)


def bundle(images: Sequence[bytes], launches_by_shape: Mapping[str, LaunchList], *, instruments: bytes, arguments: int) -> bytes:
    """Bytes of a bundle.

    Args:
        images: Binaries of the kernel, one at least.
        launches_by_shape: Launch lists by `evokern_gpu.launches.call_key`.
        instruments: Our own device code for the device (`Gpu.image`).
        arguments: How many a call has, scalars included, the workspace not.

    Raises:
        ValueError: It is more than a bundle can hold.
    """
    blobs = [instruments, *images]
    header = {
        "arguments": arguments,
        "images": [len(blob) for blob in blobs],
        "calls": {key: [to_json(item) for item in items] for key, items in launches_by_shape.items()},
    }
    text = json.dumps(header).encode()
    data = b"".join([_FRONT.pack(MAGIC, len(text)), text, *blobs])
    Bundle.decode(data)
    return data


def _cut(data: bytes, lengths: Sequence[int]) -> list[bytes]:
    if sum(lengths) != len(data):
        raise ValueError("binaries of another length than the header says")
    found, at = [], 0
    for length in lengths:
        found.append(data[at : at + length])
        at += length
    return found


def _calls(value: object, arguments: int) -> dict[str, LaunchList]:
    held = fields.mapping(value, "calls")
    if len(held) > MOST_CALLS:
        raise ValueError("too many calls")
    found = {}
    for key, items in held.items():
        if not _KEY.fullmatch(key):
            raise ValueError("a call without a key")
        # One more than arguments: the workspace.
        listed = tuple(from_json(item, arguments=arguments + 1) for item in fields.sequence(items, "a launch list"))
        if listed and isinstance(listed[0], Launch) and listed[0].overlaps:
            raise ValueError("a first kernel that may begin before its clock does")
        found[key] = listed
    return found
