"""An artefact: a source, its specialisations and their binaries as one file.

A magic line, the length of a JSON header, the header, then the binaries one after the other. What is read from one was written
in the build slot, by a process that holds candidate code: every number is checked. Imports nothing that is not in a bare Python.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

MAGIC = b"evokern.triton/1\n"
MOST_BYTES = 256 << 20
MOST_HEADER_BYTES = 16 << 20

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Specialisation:
    """One kernel of a source, compiled for one set of argument types, hints and constants.

    Attributes:
        key: What Triton's launch path looks it up by, as `specialising.key_of` makes it.
        image: sha256 of its binary, hex.
        symbol: Name of the function in the binary.
        parameters: What a launch passes, in order, as `packing.parameters_of` writes it.
        warps: Per block.
        stages: Of software pipelines.
        blocks_a_cluster: Blocks that share a cluster; 1 where there are none.
        shared_bytes: Shared memory, dynamic.
        scratch_bytes: Of global memory, each block.
        is_cooperative: Whether all blocks must be resident at once.
        is_dependent: Whether it may begin before the launch ahead of it ends (programmatic dependent launch).
        version: PTX version that it was made in, times ten; 0 where there is none.
    """

    key: str
    image: str
    symbol: str
    parameters: tuple[str, ...]
    warps: int
    stages: int
    blocks_a_cluster: int
    shared_bytes: int
    scratch_bytes: int
    is_cooperative: bool = False
    is_dependent: bool = False
    version: int = 0


@dataclass(frozen=True, slots=True)
class Artefact:
    """What a build leaves for runners.

    Attributes:
        source: The kernel's exact text.
        arch: What its binaries run on, such as "cuda:90".
        specialisations: All that were compiled.
        images: Binaries by sha256, hex.
    """

    source: str
    arch: str
    specialisations: tuple[Specialisation, ...]
    images: dict[str, bytes]

    def encoded(self) -> bytes:
        """As one file."""
        header = {
            "source": self.source,
            "arch": self.arch,
            "specialisations": [asdict(one) for one in self.specialisations],
            "images": {name: len(data) for name, data in self.images.items()},
        }
        text = json.dumps(header).encode()
        return b"".join([MAGIC, _LENGTH.pack(len(text)), text, *self.images.values()])


def decoded(data: bytes) -> Artefact:
    """The artefact of a file.

    Raises:
        ValueError: It is none, or is damaged.
    """
    start = len(MAGIC) + _LENGTH.size
    if len(data) > MOST_BYTES or not data.startswith(MAGIC) or len(data) < start:
        raise ValueError("not an artefact of the triton backend")
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    if length > min(MOST_HEADER_BYTES, len(data) - start):
        raise ValueError("an artefact that was cut off")
    try:
        header = json.loads(data[start : start + length])
        images = _images(header["images"], data, start + length)
        specialisations = tuple(_specialisation(fields, images) for fields in header["specialisations"])
        source, arch = header["source"], header["arch"]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"an artefact that says nothing of use: {error}") from error
    if not isinstance(source, str) or not isinstance(arch, str):
        raise ValueError("an artefact without a source")
    return Artefact(source, arch, specialisations, images)


def _images(sizes: dict[str, int], data: bytes, at: int) -> dict[str, bytes]:
    found = {}
    for name, size in sizes.items():
        if type(size) is not int or not 0 <= size <= len(data) - at:
            raise ValueError("an artefact that was cut off")
        found[name] = data[at : at + size]
        at += size
        if hashlib.sha256(found[name]).hexdigest() != name:
            raise ValueError("an artefact with a damaged binary")
    return found


def _specialisation(fields: dict[str, object], images: dict[str, bytes]) -> Specialisation:
    kinds: Sequence[tuple[str, type]] = [(name, _KINDS[name]) for name in Specialisation.__dataclass_fields__]
    if set(fields) != {name for name, _ in kinds}:
        raise ValueError("a specialisation with other fields than it has")
    for name, kind in kinds:
        if type(fields[name]) is not kind:
            raise ValueError(f"a specialisation whose '{name}' is no {kind.__name__}")
    parameters = fields["parameters"]
    assert isinstance(parameters, list)
    if not all(isinstance(text, str) for text in parameters) or fields["image"] not in images:
        raise ValueError("a specialisation without its binary")
    checked: dict[str, Any] = {**fields, "parameters": tuple(parameters)}
    return Specialisation(**checked)


_KINDS: dict[str, type] = {
    **{name: str for name in ("key", "image", "symbol")},
    "parameters": list,
    **{name: int for name in ("warps", "stages", "blocks_a_cluster", "shared_bytes", "scratch_bytes", "version")},
    **{name: bool for name in ("is_cooperative", "is_dependent")},
}
