"""Policies: what a slot is for, and therefore what it sees and may ask the kernel for.

A slot's file system (`filesystem`), system calls (`calls`, `seccomp`) and paths (`landlock`) follow from its policy alone, so a
further kind of slot, such as one that talks to a GPU's driver and needs a /proc that it may write, is one more member here, one
row of `VIEWS` and one of `calls.ALLOWED`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Policy(StrEnum):
    """What a slot is for."""

    KERNEL = "kernel"
    """A candidate's code: one process with threads, memory, its socket and its windows. It sees libraries and nothing else, can
    write no file, and can neither read nor move anything that all processes of the machine share."""

    BUILD = "build"
    """A compiler or a reader of binaries: child processes and a scratch folder, no /proc."""

    TORCH = "torch"
    """Task code below PyTorch, which compiles: a /proc of its own and sockets too."""


@dataclass(frozen=True, slots=True)
class View:
    """What a slot sees of the machine.

    Attributes:
        toolchain: Paths outside, read-only at the same place, where they exist.
        devices: Names below /dev.
        proc: Whether it has a /proc, of its own processes.
        scratch: Whether it has a /tmp, of its own.
        copies: Whether the files that it is given lie as copies in /dev/fd, which elsewhere leads into /proc.
        descriptors: Highest number of open files.
    """

    toolchain: tuple[str, ...]
    devices: tuple[str, ...]
    proc: bool
    scratch: bool
    copies: bool
    descriptors: int


_LIBRARIES = (
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/local/lib",
    "/etc/ld.so.cache",
)
_TOOLCHAIN = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives")
_DEVICES = ("null", "zero", "full", "random", "urandom")

VIEWS = {
    # No /dev/zero for a kernel: mapping it makes an inode, whose number is the machine's.
    Policy.KERNEL: View(_LIBRARIES, ("null", "urandom"), proc=False, scratch=False, copies=True, descriptors=128),
    Policy.BUILD: View(_TOOLCHAIN, _DEVICES, proc=False, scratch=True, copies=False, descriptors=1024),
    Policy.TORCH: View(_TOOLCHAIN, _DEVICES, proc=True, scratch=True, copies=False, descriptors=1024),
}
