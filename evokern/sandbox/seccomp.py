"""Refusal of system calls by seccomp: so far of new processes alone; the allow-list that EVALUATOR section 6 asks for goes here.

Where no cgroup gives a clock for the whole slot, CPU time spent in a child process is not seen. A slot whose time counts may then
have threads but no children.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from evokern.sandbox import linux

# Instructions of classic BPF and the layout of struct seccomp_data, include/uapi/linux/{bpf_common,filter,seccomp}.h.
_LOAD, _JUMP_EQUAL, _JUMP_BITS, _JUMP_GREATER_EQUAL, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # little-endian: the low half of the argument comes first
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_INSTRUCTION = struct.Struct("<HBBI")

_MODE_FILTER = 2
_CLONE_THREAD = 0x00010000
_X32 = 0x40000000  # bit of the numbers of the x32 calls, which an x86_64 kernel may also know
_CLONE3 = 435

# Audit architecture, clone, and the older calls that make processes.
_MACHINES: dict[str, tuple[int, int, tuple[int, ...]]] = {"x86_64": (0xC000003E, 56, (57, 58)), "aarch64": (0xC00000B7, 220, ())}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def refuse_processes() -> None:
    """From now on this process and its threads make threads only; fork and the like fail with EPERM. Needs no_new_privs.

    Raises:
        OSError: This kernel or machine has no seccomp filters.
    """
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"seccomp: not known for {machine}")
    code = _no_processes(*_MACHINES[machine])
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // _INSTRUCTION.size, ctypes.addressof(buffer))
    linux.prctl(linux.PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(program))


def _no_processes(architecture: int, clone: int, others: tuple[int, ...]) -> bytes:
    # Jumps count the instructions to skip when true, then when false. clone3 is answered as if it were not there, because a
    # filter cannot read its flags; the C library then uses clone for its threads.
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_GREATER_EQUAL, 0, 1, _X32),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        (_JUMP_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]
    for number in others:
        steps += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
    steps += [
        (_JUMP_EQUAL, 1, 0, clone),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_BITS, 0, 1, _CLONE_THREAD),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
    ]
    return b"".join(_INSTRUCTION.pack(code, true, false, value) for code, true, false, value in steps)
