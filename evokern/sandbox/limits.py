"""What a slot may use, and how a command in one ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Limits:
    """What one untrusted process tree may use.

    Attributes:
        memory_bytes: Resident memory.
        processes: Processes and threads.
        file_bytes: Size of one file it writes.
        scratch_bytes: Size of its own temporary file system.
        output_bytes: Printed bytes before it is ended.
        seconds: Wall time of a command; None where the caller keeps the clock.
        cpus: Processors it is tied to; empty for all.
    """

    memory_bytes: int = 4 << 30
    processes: int = 64
    file_bytes: int = 256 << 20
    scratch_bytes: int = 256 << 20
    output_bytes: int = 1 << 20
    seconds: float | None = None
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command in the sandbox ended.

    Attributes:
        status: Exit status, or minus the signal's number.
        output: Standard output and error, capped.
        seconds: Wall time.
        timed_out: Whether the limit ended it.
        out_of_memory: Whether the memory limit ended it.
        files: Content of each file that was asked for and exists.
    """

    status: int
    output: str
    seconds: float
    timed_out: bool = False
    out_of_memory: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)
