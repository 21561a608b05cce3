"""Landlock: which paths a process may use, beside what it can see. The second wall behind the mount namespace.

It also refuses TCP, connecting to abstract sockets and signals to processes that are not confined with it, each where this kernel
knows that (ABI 4 and 6). Open descriptors are not affected.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Mapping
from enum import IntFlag

from evokern.sandbox import linux

# include/uapi/linux/landlock.h. The calls have the same numbers on every machine.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_TCP = 0x1 | 0x2
_ABSTRACT_SOCKETS_AND_SIGNALS = 0x1 | 0x2
_QUIET = 0x1  # what is refused is not told to the kernel's log
_KNOWS_TCP, _KNOWS_SCOPES, _KNOWS_QUIET = 4, 6, 7


class Right(IntFlag):
    """Access to a path and all below it."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    TRUNCATE = 1 << 14  # from ABI 3 on
    IOCTL = 1 << 15  # of devices, from ABI 5 on
    ALL = (1 << 16) - 1
    LOAD = EXECUTE | READ_FILE
    LOOK = EXECUTE | READ_FILE | READ_DIR


_OF_FILES = int(Right.EXECUTE | Right.WRITE_FILE | Right.READ_FILE | Right.TRUNCATE | Right.IOCTL)
_ALL = int(Right.ALL)
_KNOWN = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}


class _Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("handled_access_fs", "handled_access_net", "scoped")]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def version() -> int:
    """The kernel's ABI; 0 where there is no Landlock."""
    try:
        return linux.syscall("landlock", _CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(paths: Mapping[str, int]) -> None:
    """From now on this process and what it makes may use these paths alone. Needs no_new_privs; does nothing where ABI is 0.

    Args:
        paths: Rights by path, as numbers; a path that does not exist is left out.

    Raises:
        OSError: As the kernel says.
    """
    abi = version()
    if not abi:
        return
    known = _KNOWN.get(abi, _ALL)
    tcp, scopes = _TCP if abi >= _KNOWS_TCP else 0, _ABSTRACT_SOCKETS_AND_SIGNALS if abi >= _KNOWS_SCOPES else 0
    attributes = _Attributes(known, tcp, scopes)
    size = 24 if abi >= _KNOWS_SCOPES else 16 if abi >= _KNOWS_TCP else 8
    rules = linux.syscall("landlock", _CREATE_RULESET, ctypes.byref(attributes), size, 0)
    try:
        for path, rights in paths.items():
            _allow(rules, path, rights & known)
        linux.syscall("landlock", _RESTRICT_SELF, rules, _QUIET if abi >= _KNOWS_QUIET else 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        beneath = _PathBeneath(rights if is_folder else rights & _OF_FILES, place)
        linux.syscall("landlock", _ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(beneath), 0)
    finally:
        os.close(place)
