"""The file system of a slot: what its policy shows of the machine and what it was given, read-only, and a minimal /dev.

Some have a sized /tmp and a /proc of their own too. Built by the slot's init in its own mount namespace and entered with
pivot_root, so that a path outside is not forbidden but absent. That is also what makes `#include` or `.incbin` of a file outside fail.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from evokern.sandbox import linux
from evokern.sandbox.landlock import Right
from evokern.sandbox.policy import Proc, View

GIVEN = "/dev/fd"
"""Where a file that a slot was given can be opened by its descriptor's number, with a /proc or without."""

_OLD = "/.outside"
_ROOT_BYTES = 1 << 20
_COPY_BYTES = 1 << 24
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


def enter(view: View, binds: Sequence[Bind], given: Mapping[int, int], *, scratch_bytes: int, uid: int, nodes: Sequence[str] = ()) -> None:
    """Build the slot's file system and make it the root. For a process in a mount namespace of its own.

    Args:
        view: What its policy shows.
        binds: Paths beside that.
        given: Open files by the number that they will have; copied where the view says so.
        scratch_bytes: Size of /tmp.
        uid: Owner of /tmp.
        nodes: Names below /dev beside those of the view; what is absent is left out.

    Raises:
        OSError: A mount that this machine refuses.
    """
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    # The new root is mounted over /tmp only for a moment: after the pivot the old /tmp is whole again below the old root.
    copied = sum(os.fstat(file).st_size for file in given.values()) if view.copies else 0
    linux.mount("slot", "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"size={_ROOT_BYTES + 2 * copied},mode=755")
    os.mkdir("/tmp" + _OLD, 0o700)
    linux.pivot_root("/tmp", "/tmp" + _OLD)
    os.chdir("/")
    for path in view.toolchain:
        _show_toolchain(path, view)
    _make_dev(view, given, nodes)
    if view.proc is not Proc.NONE:
        _mount_proc(whole=view.proc is Proc.WHOLE)
    if view.scratch:
        os.mkdir("/tmp")
        linux.mount("scratch", "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"size={scratch_bytes},mode=700,uid={uid},gid={uid}")
    for bind in binds:
        _show(bind, view)
    linux.unmount(_OLD)
    os.rmdir(_OLD)
    _restrict("/", _READ_ONLY, below=False)


def rights(view: View, binds: Sequence[Bind], nodes: Sequence[str] = ()) -> dict[str, int]:
    """What may be done with each path of a slot's file system, as numbers of `landlock.Right`, for `landlock.restrict`."""
    of_nodes = {f"/dev/{name}": int(Right.READ_FILE | Right.WRITE_FILE | Right.IOCTL) for name in nodes}
    return {**_rights_of(view), **of_nodes, **{bind.target: int(Right.ALL if bind.writable else Right.LOOK) for bind in binds}}


@lru_cache
def _rights_of(view: View) -> dict[str, int]:
    # Asked once in the zygote, where the toolchain lies at the same places: a slot need not follow links to the same folder.
    read = int(Right.LOAD if view.copies else Right.LOOK)
    toolchain = {os.path.realpath(path) for path in view.toolchain if os.path.exists(path)}
    allowed = dict.fromkeys(sorted(toolchain), read) | {GIVEN: read}
    allowed |= {f"/dev/{name}": int(Right.READ_FILE | Right.WRITE_FILE) for name in view.devices}
    if view.scratch:
        allowed |= {"/": int(Right.READ_DIR), "/tmp": int(Right.ALL)}
    if view.proc is Proc.WHOLE:
        allowed["/proc"] = int(Right.LOOK | Right.WRITE_FILE | Right.TRUNCATE)
    elif view.proc is Proc.SELF:
        allowed["/proc/self"] = int(Right.READ_FILE | Right.READ_DIR | Right.WRITE_FILE | Right.TRUNCATE)
    return allowed


def _show_toolchain(path: str, view: View) -> None:
    outside = _OLD + path
    if os.path.islink(outside):
        _make_place(os.path.dirname(path), is_folder=True)
        os.symlink(os.readlink(outside), path)
    elif os.path.exists(outside):
        _show(Bind(path, path), view)


def _show(bind: Bind, view: View) -> None:
    if os.path.exists(bind.target) and any(bind.target.startswith(path + "/") for path in view.toolchain):
        return  # below a folder that is seen already
    outside = _OLD + bind.source
    _make_place(bind.target, is_folder=stat.S_ISDIR(os.stat(outside).st_mode))
    linux.mount(outside, bind.target, flags=linux.MS_BIND | linux.MS_REC)
    _restrict(bind.target, linux.MS_NOSUID | linux.MS_NODEV if bind.writable else _READ_ONLY, below=True)


def _make_place(target: str, *, is_folder: bool) -> None:
    os.makedirs(target if is_folder else os.path.dirname(target), mode=0o755, exist_ok=True)
    if not is_folder and not os.path.exists(target):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _mount_proc(*, whole: bool) -> None:
    os.mkdir("/proc")
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    if not whole:
        with contextlib.suppress(OSError):  # before Linux 5.8 Landlock alone hides the rest
            linux.mount("proc", "/proc", "proc", flags, "subset=pid")
            return
    linux.mount("proc", "/proc", "proc", flags)


def _make_dev(view: View, given: Mapping[int, int], nodes: Sequence[str]) -> None:
    os.mkdir("/dev")
    for name in (*view.devices, *(node for node in nodes if os.path.exists(f"{_OLD}/dev/{node}"))):
        _make_place(f"/dev/{name}", is_folder=False)
        linux.mount(f"{_OLD}/dev/{name}", f"/dev/{name}", flags=linux.MS_BIND)
    if view.copies:
        os.mkdir(GIVEN)
        for number, file in given.items():
            _copy(file, f"{GIVEN}/{number}")
    elif view.proc is not Proc.NONE:
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            os.symlink(f"/proc/self/fd/{number}", f"/dev/{name}")
        os.symlink("/proc/self/fd", GIVEN)


def _copy(file: int, target: str) -> None:
    size, at = os.fstat(file).st_size, 0
    copy = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o555)
    try:
        while at < size and (sent := os.sendfile(copy, file, at, min(size - at, _COPY_BYTES))):
            at += sent
    finally:
        os.close(copy)


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
