"""The file system of a slot: toolchain and what it was given, read-only; a sized /tmp; its own /proc; a minimal /dev.

Built by the slot's init in its own mount namespace and entered with pivot_root, so that a path outside is not forbidden
but absent. That is also what makes `#include` or `.incbin` of a file outside fail.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from evokern.sandbox import linux

TOOLCHAIN = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives")
"""What every slot sees of the machine, where it exists."""

_DEVICES = ("null", "zero", "full", "random", "urandom")
_OLD = "/.outside"
_READ_ONLY = linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV


@dataclass(frozen=True, slots=True)
class Bind:
    """One path that a slot sees.

    Attributes:
        source: Real path outside, without symbolic links.
        target: Path inside.
        writable: Whether it can be written.
    """

    source: str
    target: str
    writable: bool = False


def enter(binds: Iterable[Bind], *, scratch_bytes: int, uid: int) -> None:
    """Build the slot's file system and make it the root. For a process in a mount namespace of its own.

    Args:
        binds: Paths beside the toolchain.
        scratch_bytes: Size of /tmp.
        uid: Owner of /tmp.

    Raises:
        OSError: A mount that this machine refuses.
    """
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    # The new root is mounted over /tmp only for a moment: after the pivot the old /tmp is whole again below the old root.
    linux.mount("slot", "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=1m,mode=755")
    os.mkdir("/tmp" + _OLD, 0o700)
    linux.pivot_root("/tmp", "/tmp" + _OLD)
    os.chdir("/")
    for path in TOOLCHAIN:
        _show_toolchain(path)
    _make_dev()
    os.mkdir("/proc")
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    os.mkdir("/tmp")
    linux.mount("scratch", "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"size={scratch_bytes},mode=700,uid={uid},gid={uid}")
    for bind in binds:
        _show(bind)
    linux.unmount(_OLD)
    os.rmdir(_OLD)
    _restrict("/", _READ_ONLY, below=False)


def _show_toolchain(path: str) -> None:
    outside = _OLD + path
    if os.path.islink(outside):
        os.symlink(os.readlink(outside), path)
    elif os.path.exists(outside):
        _show(Bind(path, path))


def _show(bind: Bind) -> None:
    if os.path.exists(bind.target) and any(bind.target.startswith(path + "/") for path in TOOLCHAIN):
        return  # below a folder that is seen already
    outside = _OLD + bind.source
    _make_place(bind.target, is_folder=stat.S_ISDIR(os.stat(outside).st_mode))
    linux.mount(outside, bind.target, flags=linux.MS_BIND | linux.MS_REC)
    _restrict(bind.target, linux.MS_NOSUID | linux.MS_NODEV if bind.writable else _READ_ONLY, below=True)


def _make_place(target: str, *, is_folder: bool) -> None:
    os.makedirs(target if is_folder else os.path.dirname(target), mode=0o755, exist_ok=True)
    if not is_folder and not os.path.exists(target):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _make_dev() -> None:
    os.mkdir("/dev")
    for name in _DEVICES:
        _make_place(f"/dev/{name}", is_folder=False)
        linux.mount(f"{_OLD}/dev/{name}", f"/dev/{name}", flags=linux.MS_BIND)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"/dev/{name}")
    os.symlink("/proc/self/fd", "/dev/fd")


def _restrict(target: str, flags: int, *, below: bool) -> None:
    try:
        linux.restrict_mount(target, flags, below=below)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        # Before Linux 5.12: this mount alone, and the flags it came with must be repeated in a user namespace.
        linux.mount("none", target, flags=linux.MS_REMOUNT | linux.MS_BIND | flags | _inherited(target))


def _inherited(target: str) -> int:
    flags = os.statvfs(target).f_flag
    return flags & (linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
