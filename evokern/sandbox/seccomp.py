"""System calls allowed by name (`calls`), as a filter that the kernel runs at each of them."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from evokern.sandbox import linux
from evokern.sandbox.calls import MACHINES, NUMBERS, Is, Refusal, Rule, Test, rules_of
from evokern.sandbox.policy import Policy

# Instructions of classic BPF and the layout of struct seccomp_data, include/uapi/linux/{bpf_common,filter,seccomp}.h.
_LOAD, _JUMP_EQUAL, _JUMP_BITS, _JUMP_AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # little-endian: the low half of an argument comes first
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_INSTRUCTION = struct.Struct("<HBBI")
_SIZE, _HALF = 8, 4

_MODE_FILTER = 2
_GET_ACTION_AVAILABLE = 2
_SECCOMP = (317, 277)  # by column of `NUMBERS`
_X32 = 0x40000000  # bit of the numbers of the x32 calls, which an x86_64 kernel may also know
_Step = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


@lru_cache
def available() -> bool:
    """Whether this kernel can refuse system calls, and this machine's calls are known."""
    machine = os.uname().machine
    if machine not in MACHINES:
        return False
    action = ctypes.c_uint32(_KILL)
    try:
        linux.syscall("seccomp", _SECCOMP[MACHINES[machine][1]], _GET_ACTION_AVAILABLE, 0, ctypes.byref(action))
    except OSError:
        return False
    return True


@lru_cache
def code_for(policy: Policy, given: int, own: int, one_process: bool) -> bytes:
    """The filter of a process on this machine, kept: a zygote makes it once for all slots. Arguments as `calls.rules_of`.

    Raises:
        OSError: This machine's calls are not known.
    """
    machine = os.uname().machine
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"seccomp: not known for {machine}")
    return assembled(rules_of(policy, given=given, own=own, one_process=one_process), machine)


def enter(code: bytes) -> None:
    """From now on this process, its threads and what it makes may ask for what the filter allows alone. Needs no_new_privs.

    Raises:
        OSError: This kernel has no seccomp filters.
    """
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // _INSTRUCTION.size, ctypes.addressof(buffer))
    linux.prctl(linux.PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(program))


def assembled(rules: Mapping[str, Rule], machine: str) -> bytes:
    """The filter's instructions.

    Args:
        rules: By name of the call; all others fail with ENOSYS.
        machine: As `uname -m` says.
    """
    architecture, column = MACHINES[machine]
    unknown = (_RETURN, 0, 0, _ERROR | errno.ENOSYS)
    # Jumps count the instructions to skip when true, then when false.
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        unknown,
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, 0, 1, _X32),
        unknown,
    ]
    for name, rule in rules.items():
        number = NUMBERS[name][column]
        if number is not None:
            body = _body(rule)
            steps += [(_JUMP_EQUAL, 0, len(body), number), *body]
    return b"".join(_INSTRUCTION.pack(*step) for step in [*steps, unknown])


def _body(rule: Rule) -> list[_Step]:
    """Ends in a return whatever the arguments are."""
    steps: list[_Step] = []
    for way in rule.ways:
        passed: list[_Step] = [(_RETURN, 0, 0, _ALLOW)]
        for test in reversed(way):
            passed = [*_tested(test, len(passed)), *passed]
        steps += passed
    if () not in rule.ways:
        steps.append((_RETURN, 0, 0, _KILL if rule.otherwise is Refusal.KILL else _ERROR | errno.EPERM))
    return steps


def _tested(test: Test, beyond: int) -> list[_Step]:
    """Falls through where the test holds, else skips `beyond` instructions more."""
    low = (_LOAD, 0, 0, _ARGUMENTS + _SIZE * test.argument)
    if test.how is Is.NULL:
        high = (_LOAD, 0, 0, _ARGUMENTS + _SIZE * test.argument + _HALF)
        return [low, (_JUMP_EQUAL, 0, beyond + 2, 0), high, (_JUMP_EQUAL, 0, beyond, 0)]
    if test.how is Is.AMONG:
        return [low, *_equal_to(test.values, beyond)]
    if test.how is Is.PART:
        mask, *values = test.values
        return [low, (_AND, 0, 0, mask), *_equal_to(values, beyond)]
    (value,) = test.values
    if test.how is Is.WITHOUT:
        return [low, (_JUMP_BITS, beyond, 0, value)]
    return [low, (_JUMP_AT_LEAST if test.how is Is.AT_LEAST else _JUMP_BITS, 0, beyond, value)]


def _equal_to(values: Sequence[int], beyond: int) -> list[_Step]:
    last = len(values) - 1
    return [(_JUMP_EQUAL, last - at, 0 if at < last else beyond, value) for at, value in enumerate(values)]
