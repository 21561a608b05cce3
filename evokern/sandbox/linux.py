"""The system calls that Python does not wrap, for x86_64 and aarch64.

Constants are those of the kernel's own headers (include/uapi/linux/{sched,mount,prctl,capability}.h).
"""

from __future__ import annotations

import ctypes
import errno
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63
_KEYCTL_JOIN_SESSION_KEYRING = 1

# None of these has a wrapper in glibc, mount_setattr only since 2.36.
_NUMBERS = {
    "x86_64": {"pivot_root": 155, "capset": 126, "keyctl": 250},
    "aarch64": {"pivot_root": 41, "capset": 91, "keyctl": 219},
}
_MOUNT_SETATTR = 442
_MOUNT_ATTR_NOATIME, _MOUNT_ATTR_ATIME = 0x10, 0x70

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(what: str, number: int, *arguments: object) -> int:
    """A system call by its number.

    Args:
        what: Its name, for the error.
        number: On this machine.
        arguments: Numbers, or what ctypes passes as a pointer.

    Raises:
        OSError: As the call says.
    """
    passed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *passed), what)


def unshare(flags: int) -> None:
    """Leave the namespaces named by the CLONE_NEW* flags for new ones.

    Raises:
        OSError: Not allowed here, or no such namespace in this kernel.
    """
    _checked(_libc.unshare(flags), f"unshare({flags:#x})")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount a file system, or bind a path.

    Raises:
        OSError: As the call says, with the target named.
    """
    _checked(_libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, options.encode() or None), f"mount {target}")


def unmount(target: str) -> None:
    """Detach a mount and all below it."""
    _checked(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def restrict_mount(target: str, flags: int, *, below: bool) -> None:
    """Add MS_RDONLY, MS_NOSUID, MS_NODEV or MS_NOEXEC to a mount, and let reading leave no time of access where that may be set.

    Args:
        target: Mount point.
        flags: The flags to add; these four have the same values as mount_setattr's attributes.
        below: Whether mounts below it are restricted too.

    Raises:
        OSError: As the call says; before Linux 5.12 there is no such call.
    """
    try:
        _set_mount_attributes(target, _MountAttributes(attr_set=flags | _MOUNT_ATTR_NOATIME, attr_clr=_MOUNT_ATTR_ATIME), below=below)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        # Below a user namespace, how times of access are kept stays as it was outside.
        _set_mount_attributes(target, _MountAttributes(attr_set=flags), below=below)


def _set_mount_attributes(target: str, attributes: _MountAttributes, *, below: bool) -> None:
    at = ctypes.c_char_p(target.encode())
    size = ctypes.sizeof(attributes)
    syscall(f"mount_setattr {target}", _MOUNT_SETATTR, _AT_FDCWD, at, _AT_RECURSIVE if below else 0, ctypes.byref(attributes), size)


def pivot_root(new_root: str, put_old: str) -> None:
    """Make `new_root` the root of this mount namespace; the old one is then at `put_old`."""
    number = ctypes.c_long(_number("pivot_root"))
    _checked(_libc.syscall(number, ctypes.c_char_p(new_root.encode()), ctypes.c_char_p(put_old.encode())), "pivot_root")


def set_hostname(name: str) -> None:
    """Name of the host within this UTS namespace."""
    _checked(_libc.sethostname(name.encode(), ctypes.c_size_t(len(name))), "sethostname")


def prctl(option: int, value: int = 0, second: int = 0) -> None:
    """Change one attribute of this process.

    Raises:
        OSError: This kernel does not know it, or refuses.
    """
    _checked(_libc.prctl(option, value, second, 0, 0), f"prctl({option})")


def join_new_keyring() -> None:
    """Leave the session keyring that was inherited, and the keys in it, for an empty one.

    Raises:
        OSError: A kernel without keyrings, where there is nothing to leave.
    """
    _checked(_libc.syscall(ctypes.c_long(_number("keyctl")), _KEYCTL_JOIN_SESSION_KEYRING, None), "keyctl")


def drop_bounding_set() -> None:
    """Let no program that is executed from now on gain a capability. Needs CAP_SETPCAP; without it, no_new_privs has to do."""
    for capability in range(_LAST_CAPABILITY + 1):
        if _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # past the last one this kernel knows


def drop_capabilities() -> None:
    """Give up every capability: effective, permitted and inheritable."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_libc.syscall(ctypes.c_long(_number("capset")), ctypes.byref(header), ctypes.byref(nothing)), "capset")


def _number(name: str) -> int:
    machine = os.uname().machine
    if machine not in _NUMBERS:
        raise OSError(38, f"{name}: not known for {machine}")
    return _NUMBERS[machine][name]
