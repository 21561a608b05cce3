"""Policies: what a slot is for, and therefore what it sees and may ask the kernel for.

A slot's file system (`filesystem`), system calls (`calls`, `seccomp`) and paths (`landlock`) follow from its policy, and for those
with a GPU from which one it was granted (`gpu`). A further kind of slot is one more member here, one row of `VIEWS` and its calls.
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

    DEVICE = "device"
    """A candidate's code on a GPU: as KERNEL, and what the GPU's driver cannot do without: its nodes, which take requests without
    end, a socket within the slot, pipes, and what a process may know of itself in a /proc."""

    DEVICE_TORCH = "device_torch"
    """As TORCH, with a GPU."""


RUNNERS = frozenset({Policy.KERNEL, Policy.DEVICE})
"""Policies of slots that hold a candidate's kernel: one process, and no program but the one that it was."""


class Proc(StrEnum):
    """How much of a /proc a slot has. Whatever it is, it shows the slot's own processes alone."""

    NONE = "none"
    SELF = "self"
    """The runner's own folder; nothing of the machine, such as its load or its memory."""

    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class View:
    """What a slot sees of the machine.

    Attributes:
        toolchain: Paths outside, read-only at the same place, where they exist.
        devices: Names below /dev.
        proc: How much of a /proc.
        scratch: Whether it has a /tmp, of its own.
        copies: Whether the files that it is given lie as copies in /dev/fd, which elsewhere leads into /proc.
        descriptors: Highest number of open files.
        gpu: Whether it is granted a GPU.
    """

    toolchain: tuple[str, ...]
    devices: tuple[str, ...]
    proc: Proc
    scratch: bool
    copies: bool
    descriptors: int
    gpu: bool = False


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

_OF_KERNELS = ("null", "urandom")  # no /dev/zero: mapping it makes an inode, whose number is the machine's

VIEWS = {
    Policy.KERNEL: View(_LIBRARIES, _OF_KERNELS, Proc.NONE, scratch=False, copies=True, descriptors=128),
    Policy.BUILD: View(_TOOLCHAIN, _DEVICES, Proc.NONE, scratch=True, copies=False, descriptors=1024),
    Policy.TORCH: View(_TOOLCHAIN, _DEVICES, Proc.WHOLE, scratch=True, copies=False, descriptors=1024),
    Policy.DEVICE: View(_LIBRARIES, _OF_KERNELS, Proc.SELF, scratch=False, copies=True, descriptors=512, gpu=True),
    Policy.DEVICE_TORCH: View(_TOOLCHAIN, _DEVICES, Proc.WHOLE, scratch=True, copies=False, descriptors=4096, gpu=True),
}
