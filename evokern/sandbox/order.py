"""What the judge asks a zygote for: one slot. Travels as JSON in a memfd, so that its size is free."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from evokern.sandbox.filesystem import Bind
from evokern.sandbox.gpu import Grant
from evokern.sandbox.limits import Limits
from evokern.sandbox.policy import Policy

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Means(StrEnum):
    """How a slot is walled off."""

    ROOT = "root"
    """Namespaces, and a user id of its own."""

    USER = "user"
    """Namespaces below a user namespace; the user id stays the judge's."""

    OFF = "off"
    """A plain process with rlimits."""


@dataclass(frozen=True)
class Order:
    """One slot.

    Attributes:
        entry: `module:function`, called as function(socket, descriptors, argument).
        argument: For the entry.
        policy: What it is for.
        means: How it is walled off.
        uid: User id to take; None to keep the one it has.
        limits: What it may use.
        binds: What it sees beside the toolchain.
        environment: Added to the zygote's literal one.
        folder: Working folder of a plain process; that of any other is its own /tmp, or / where it has none.
        groups: cgroup.procs files to join.
        limits_memory: Whether one of the groups limits memory, so that no address-space limit is needed.
        limits_processes: Whether the process limit can be set by rlimit without counting processes outside the slot.
        one_process: Whether it may have threads only.
        gpu: The GPU that it may use, for a policy with one.
    """

    entry: str
    argument: bytes
    policy: Policy
    means: Means
    uid: int | None
    limits: Limits
    binds: tuple[Bind, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/tmp"
    groups: tuple[str, ...] = ()
    limits_memory: bool = False
    limits_processes: bool = False
    one_process: bool = False
    gpu: Grant | None = None

    def to_descriptor(self) -> int:
        """A memfd that holds it; the caller closes it."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields.update(argument=base64.b64encode(self.argument).decode(), limits=asdict(self.limits), binds=[asdict(b) for b in self.binds])
        fields.update(gpu=asdict(self.gpu) if self.gpu else None)
        return memory_file(json.dumps(fields).encode())

    @classmethod
    def from_descriptor(cls, descriptor: int) -> Order:
        """The order in a memfd; closes it."""
        fields = json.loads(read_all(descriptor))
        os.close(descriptor)
        limits, gpu = fields.pop("limits"), fields.pop("gpu")
        return cls(
            argument=base64.b64decode(fields.pop("argument")),
            policy=Policy(fields.pop("policy")),
            means=Means(fields.pop("means")),
            limits=Limits(**{**limits, "cpus": tuple(limits["cpus"])}),
            binds=tuple(Bind(**bind) for bind in fields.pop("binds")),
            groups=tuple(fields.pop("groups")),
            gpu=Grant(tuple(gpu["nodes"]), gpu["folder"]) if gpu else None,
            **fields,
        )


def memory_file(content: bytes) -> int:
    """A new memfd with this content, sealed against any change; the caller closes it."""
    descriptor = os.memfd_create("evokern", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return descriptor


def sealed_copy(file: Path, digest: str) -> int:
    """A sealed memfd with a file's content, so that what was hashed is what is used; the caller closes it.

    Args:
        file: To be copied.
        digest: sha256 that its content must have, hex; empty for any.

    Raises:
        OSError: It cannot be read.
        ValueError: Its content is another.
    """
    content = file.read_bytes()
    if digest and hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{file.name} is not what was stored")
    return memory_file(content)


def read_all(descriptor: int, most: int | None = None) -> bytes:
    """Content of a file from its start, whatever its position.

    Args:
        descriptor: Open for reading.
        most: Bytes to read at most; None for all.
    """
    size = os.fstat(descriptor).st_size
    left, at, parts = size if most is None else min(size, most), 0, []
    while left > 0:
        part = os.pread(descriptor, min(left, 1 << 24), at)
        if not part:
            break
        parts.append(part)
        at, left = at + len(part), left - len(part)
    return b"".join(parts)
