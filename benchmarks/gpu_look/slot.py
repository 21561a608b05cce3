"""A small slot to try CUDA in: `enter` takes this process through the steps that it is given, in the order that works.

Steps: namespaces ("pid", "net", "mount", "ipc", "uts", "user", "user-mapped"), an own /proc, an own uid without capabilities,
landlock, and seccomp in one of three forms: "allow" (a list, all else fails with EPERM), "deny" (a list fails with EPERM), and
"trace" (every call is reported to a supervisor that lets it pass).
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from dataclasses import dataclass, field

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW = {"mount": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000}
_REC, _PRIVATE = 0x4000, 0x40000
_SECCOMP, _LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 317, 444, 445, 446  # x86_64
_SET_NO_NEW_PRIVS, _SET_DUMPABLE, _CAPBSET_DROP = 38, 4, 24
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _EPERM, _NOTIFY = 0x7FFF0000, 0x00050001, 0x7FC00000
_NEW_LISTENER = 8
# Between the filter and the moment when the supervisor holds its descriptor these must pass by themselves: read, write, close, mmap,
# munmap, brk, rt_sigaction, ioctl is traced, sendmsg, futex.
UNTRACED = (0, 1, 3, 9, 11, 12, 13, 46, 202)
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_SCOPES_SINCE = 6
_READ, _FILE_RIGHTS = (1 << 0) | (1 << 2) | (1 << 3), (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14) | (1 << 15)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a slot is made of.

    Attributes:
        uid: Its user, or None to stay.
        namespaces: Names as in the module's text.
        proc: Whether it mounts a /proc of its own.
        readable: Landlock: what it may read; None for no landlock.
        writable: Landlock: what it may read and write.
        seccomp: "", "allow", "deny" or "trace".
        calls: Numbers for "allow" and "deny".
    """

    uid: int | None = None
    namespaces: tuple[str, ...] = ()
    proc: bool = False
    readable: tuple[str, ...] | None = None
    writable: tuple[str, ...] = ()
    seccomp: str = ""
    calls: tuple[int, ...] = field(default=())


def enter(settings: Settings) -> None:
    """Enter namespaces and drop rights. With a PID namespace only the child returns; the caller waits and exits as it does.

    Raises:
        OSError: A step that this machine refuses.
    """
    if "user-mapped" in settings.namespaces:
        assert settings.uid is not None
        _become(settings.uid)
        _unshare(_NEW["user"])
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{settings.uid} {settings.uid} 1")
        _write("/proc/self/gid_map", f"{settings.uid} {settings.uid} 1")
    flags = sum(_NEW[name] for name in settings.namespaces if name not in {"user", "user-mapped"})
    if flags:
        _unshare(flags)
    if "pid" in settings.namespaces:
        child = os.fork()
        if child:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    if settings.proc:
        _mount("none", "/", None, _REC | _PRIVATE)
        _mount("proc", "/proc", "proc", 0)
    if settings.uid is not None and "user-mapped" not in settings.namespaces:
        _become(settings.uid)
    if "user" in settings.namespaces:
        _unshare(_NEW["user"])
    _check(_LIBC.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def confine(settings: Settings, channel: socket.socket) -> None:
    """Landlock and seccomp: right before CUDA is loaded, so that what they refuse is what CUDA asks for."""
    if settings.readable is not None:
        _landlock(settings.readable, settings.writable)
    if settings.seccomp == "trace":
        channel.sendmsg([b"listener"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", _filter(UNTRACED, _ALLOW, _NOTIFY)))])
    elif settings.seccomp == "allow":
        _filter(settings.calls, _ALLOW, _EPERM)
    elif settings.seccomp == "deny":
        _filter(settings.calls, _EPERM, _ALLOW)


def supervise(listener: int, seen: dict[tuple[int, int], int]) -> None:
    """Let every reported call pass and count it by (number, first argument for the few calls where that says more)."""
    telling = {41: 0xFFFF, 157: 0xFFFFFFFF}  # socket: its family; prctl: its option
    while True:
        notice = ctypes.create_string_buffer(80)
        if _LIBC.ioctl(listener, ctypes.c_ulong(_RECEIVE), notice):
            if ctypes.get_errno() == errno.EINTR:
                continue
            return
        identity, _, _, number, _, _, first = struct.unpack_from("<QIIiIQQ", notice.raw)
        key = (number, first & telling.get(number, 0))
        seen[key] = seen.get(key, 0) + 1
        answer = ctypes.create_string_buffer(struct.pack("<QqiI", identity, 0, 0, _CONTINUE), 24)
        _LIBC.ioctl(listener, ctypes.c_ulong(_SEND), answer)


def _filter(listed: tuple[int, ...], for_listed: int, for_others: int) -> int:
    steps = [(_LOAD, 0, 0, 0)]
    for number in listed:
        steps += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, for_listed)]
    steps.append((_RETURN, 0, 0, for_others))
    code = b"".join(struct.pack("<HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(buffer)))
    flags = _NEW_LISTENER if _NOTIFY in {for_listed, for_others} else 0
    return _check(_LIBC.syscall(_SECCOMP, 1, flags, program), "seccomp")


def landlock_version() -> int:
    """Version of landlock's interface here; 0 where there is none."""
    return max(0, _LIBC.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1))


def _landlock(readable: tuple[str, ...], writable: tuple[str, ...]) -> None:
    version = landlock_version()
    bits = 13 + sum(version >= since for since in (2, 3, 5))  # referring, truncating, ioctl of devices
    handled = (1 << bits) - 1
    scoped = 3 if version >= _SCOPES_SINCE else 0
    rules = struct.pack("<QQQ", handled, 0, scoped)
    ruleset = _check(_LIBC.syscall(_LANDLOCK_CREATE, rules, ctypes.c_size_t(len(rules)), 0), "landlock")
    for paths, rights in ((readable, _READ), (writable, handled)):
        for path in paths:
            _allow_beneath(ruleset, path, rights & handled)
    _check(_LIBC.syscall(_LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _allow_beneath(ruleset: int, path: str, rights: int) -> None:
    if not os.path.exists(path):
        return
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not os.path.isdir(path):
        rights &= _FILE_RIGHTS
    _check(_LIBC.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("<Qi", rights, place), 0), f"landlock {path}")
    os.close(place)


def _become(uid: int) -> None:
    for capability in range(64):
        _LIBC.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _check(_LIBC.prctl(_SET_DUMPABLE, 1, 0, 0, 0), "dumpable")


def _unshare(flags: int) -> None:
    _check(_LIBC.unshare(flags), f"unshare {flags:#x}")


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    _check(_LIBC.mount(source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), None), f"mount {target}")


def _write(path: str, text: str) -> None:
    # Without `open`: its codec may lie in a folder that the new user cannot read.
    place = os.open(path, os.O_WRONLY)
    os.write(place, text.encode())
    os.close(place)


def _check(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result
