"""Canaries: what a slot must not be able to do, tried for real at start.

`inside` runs in a slot, as any candidate would, and reports what it managed to do; `try_all` looks at it from outside.
A claim of `inside` is believed here because no candidate is about yet.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokern.sandbox import calls, linux, process
from evokern.sandbox.limits import Limits
from evokern.sandbox.policy import Policy

if TYPE_CHECKING:
    from evokern.sandbox.slot import Death, Slot

NAMESPACES, IDENTITY = "namespaces", "identity"
NETWORK, HOME, PROCESSES, FORKS, MEMORY, KILL, FREEZER, CLOCK = (
    "network",
    "home",
    "processes",
    "forks",
    "memory",
    "kill",
    "freezer",
    "clock",
)
FILES, CALLS, CHILDREN, LANDLOCK = "files", "calls", "children", "landlock"
"""What holds for a kernel beside that."""

_FORK_LIMIT = 12
_FORKS_TRIED = 24
_MEMORY_LIMIT = 96 << 20
_MEMORY_TRIED = 256 << 20
_WATCH_SECONDS = 0.02
_ANSWER_SECONDS = 20.0

FIXES = {
    NAMESPACES: "run as root, or allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, AppArmor)",
    IDENTITY: "run as root, so that every slot has a user id of its own",
    NETWORK: "allow network namespaces (CONFIG_NET_NS)",
    HOME: "allow mount namespaces (CONFIG_NAMESPACES)",
    PROCESSES: "allow PID namespaces with their own /proc",
    FORKS: "give a writable cgroup with the pids controller, or run as an ordinary user with user namespaces on Linux 5.14 or newer",
    MEMORY: "give a writable cgroup with the memory controller",
    KILL: "allow PID namespaces (CONFIG_PID_NS)",
    FREEZER: "give a writable cgroup with a freezer; signals are used instead",
    FILES: "allow mount namespaces (CONFIG_NAMESPACES)",
    CALLS: "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER) on x86_64 or aarch64",
    CHILDREN: "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER) on x86_64 or aarch64",
    LANDLOCK: "use a kernel with Landlock (CONFIG_SECURITY_LANDLOCK, and landlock in the boot option lsm=), Linux 5.13 or newer",
    CLOCK: "give a writable cgroup with a CPU clock (cpuacct, or version 2); until then time spent in child processes is not seen",
}
"""What would make each hold, in words."""


@dataclass(frozen=True, slots=True)
class Canary:
    """One thing that was tried.

    Attributes:
        name: What.
        held: Whether the sandbox held.
        detail: What was seen.
        fix: What would make it hold; empty where it does.
    """

    name: str
    held: bool
    detail: str
    fix: str = ""


def canary(name: str, held: bool, detail: str) -> Canary:
    """A canary with its fix where it did not hold."""
    return Canary(name, held, detail, "" if held else FIXES[name])


Make = Callable[[str, bytes, Limits, Policy], "Slot"]
"""Makes a slot from entry, argument, limits and policy."""


def try_all(make: Make) -> list[Canary]:
    """Try everything that a slot should refuse.

    Args:
        make: Makes the slots.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        argument = {
            "port": listener.getsockname()[1],
            "home": str(Path.home()),
            "outside": os.getpid(),
            "start": process.start_time(os.getpid()),
            "forks": _FORKS_TRIED,
        }
        limits = Limits(memory_bytes=1 << 30, processes=_FORK_LIMIT)
        slot = make(f"{__name__}:inside", json.dumps(argument).encode(), limits, Policy.TORCH)
        try:
            seen = _ask(slot)
            frozen, moved_ns = _freezes(slot)
        finally:
            death = slot.kill()
    judge = ", the judge among them" if seen["outside"] else ""
    return [
        canary(NETWORK, not seen["connected"], "a listener outside was " + ("reached" if seen["connected"] else "not reached")),
        canary(HOME, not seen["home"], "the home folder is " + ("there" if seen["home"] else "absent")),
        canary(PROCESSES, not seen["outside"], f"{seen['visible']} processes visible{judge}"),
        canary(FORKS, seen["forked"] < _FORKS_TRIED, f"{seen['forked']} of {_FORKS_TRIED} forks, the limit being {_FORK_LIMIT}"),
        _kill_canary(death),
        canary(FREEZER, frozen, f"CPU time moved by {moved_ns} ns while frozen"),
        canary(CLOCK, slot.clock_covers_children, "covers child processes" if slot.clock_covers_children else "covers the runner alone"),
        _memory_canary(make),
        *_kernel_canaries(make),
        _children_canary(make),
    ]


def inside(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """In the slot: try to get out, report, leave children and a daemon behind, and spin.

    Args:
        sock: To the judge; takes one JSON report.
        descriptors: None.
        argument: JSON {"port", "home", "outside", "start", "forks"}.
    """
    wish = json.loads(argument)
    report = {
        "connected": _connects(wish["port"]),
        "home": _lists(wish["home"]),
        "outside": _sees(wish["outside"], wish["start"]),
        "visible": sum(name.isdigit() for name in os.listdir("/proc")),
    }
    _leave_daemon()
    report["forked"] = _fork_sleepers(wish["forks"])
    sock.send(json.dumps(report).encode())
    while True:
        pass


def allocate(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """In the slot: touch more memory than allowed, in steps; says "touched" only where nothing stops it.

    Args:
        sock: To the judge.
        descriptors: None.
        argument: Bytes to touch, decimal.
    """
    held = []
    try:
        for _ in range(int(argument) >> 24):
            block = mmap.mmap(-1, 1 << 24)
            for at in range(0, 1 << 24, mmap.PAGESIZE):
                block[at] = 1
            held.append(block)
    except (MemoryError, OSError):
        sock.send(b"refused")
        return
    sock.send(b"touched")


def _ask(slot: Slot) -> dict[str, Any]:
    slot.socket.settimeout(_ANSWER_SECONDS)
    answer = slot.socket.recv(4096)
    if not answer:
        raise OSError(f"the canary ended with status {slot.status()}: {slot.output()}")
    report: dict[str, Any] = json.loads(answer)
    return report


def _freezes(slot: Slot) -> tuple[bool, int]:
    """Whether its spinning runner stands still while frozen, and goes on afterwards."""
    try:
        slot.freeze()
    except (OSError, TimeoutError):
        return False, -1
    before = slot.cpu_ns()
    time.sleep(_WATCH_SECONDS)
    moved = slot.cpu_ns() - before
    slot.thaw()
    deadline = time.monotonic() + _ANSWER_SECONDS
    while slot.cpu_ns() == before and time.monotonic() < deadline:
        time.sleep(1e-3)
    # A tick may be charged late, a running process would show the whole time watched.
    return moved < _WATCH_SECONDS * 1e9 / 4 and slot.cpu_ns() > before, moved


def _kill_canary(death: Death) -> Canary:
    held = death.processes_left == 0 and death.strays > 0
    return canary(KILL, held, f"{death.strays} children and a daemon killed, {death.processes_left} left")


def _memory_canary(make: Make) -> Canary:
    slot = make(f"{__name__}:allocate", str(_MEMORY_TRIED).encode(), Limits(memory_bytes=_MEMORY_LIMIT), Policy.TORCH)
    slot.socket.settimeout(_ANSWER_SECONDS)
    try:
        answer = slot.socket.recv(64)
    except TimeoutError:
        answer = b"touched"
    finally:
        death = slot.kill()
    how = "killed" if death.out_of_memory else "refused" if answer == b"refused" else f"status {death.status}"
    return canary(MEMORY, answer != b"touched", f"{_MEMORY_TRIED >> 20} MiB with a limit of {_MEMORY_LIMIT >> 20}: {how}")


def _kernel_canaries(make: Make) -> list[Canary]:
    slot = make(f"{__name__}:inside_kernel", str(Path.home()).encode(), Limits(), Policy.KERNEL)
    try:
        seen = _ask(slot)
    finally:
        slot.kill()
    found, worked, listed = seen["found"], seen["worked"], seen["listed"]
    return [
        canary(FILES, not found, f"a kernel can {', '.join(found)}" if found else "a kernel sees libraries alone and can write nowhere"),
        canary(CALLS, not worked, f"a kernel was given {', '.join(worked)}" if worked else f"{len(_FORBIDDEN)} kinds of calls refused"),
        canary(LANDLOCK, not listed, "a path that is seen was " + ("not refused" if listed else "refused")),
    ]


def _children_canary(make: Make) -> Canary:
    slot = make(f"{__name__}:fork_in_kernel", b"", Limits(), Policy.KERNEL)
    slot.socket.settimeout(_ANSWER_SECONDS)
    try:
        slot.socket.recv(64)
    finally:
        death = slot.kill()
    held = death.status == -signal.SIGSYS
    return canary(CHILDREN, held, "a kernel that forks is " + ("ended" if held else "not ended"))


def inside_kernel(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """In the slot of a kernel: what it finds, can write, and is given by the kernel of the machine.

    Args:
        sock: To the judge; takes one JSON report.
        descriptors: None.
        argument: The judge's home folder.
    """
    there = [f"see {path}" for path in ("/proc/self", "/sys/kernel", "/dev/shm", "/var", argument.decode()) if os.path.exists(path)]
    places = [f"write to {path}" for path in ("", "/tmp", "/dev", "/dev/fd", "/usr/lib", ".") if _writes(f"{path}/evokern-canary")]
    sock.send(json.dumps({"found": there + places, "worked": _given(), "listed": _lists("/")}).encode())
    sock.recv(1)


def fork_in_kernel(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """In the slot of a kernel: make a process.

    Args:
        sock: To the judge; told where nothing stops it.
        descriptors: None.
        argument: Nothing.
    """
    if os.fork() == 0:
        os._exit(0)
    sock.send(b"forked")


def _given() -> list[str]:
    worked = []
    for name, call in _FORBIDDEN.items():
        try:
            call()
        except OSError:
            continue
        worked.append(name)
    return worked


# Each makes something that is numbered for the whole machine, reads such a count, or leaves a message for another slot.
_FORBIDDEN: dict[str, Callable[[], object]] = {
    "pipe": os.pipe,
    "socket": lambda: socket.socketpair(socket.AF_UNIX),
    "memfd": lambda: os.memfd_create("canary"),
    "eventfd": lambda: os.eventfd(0),
    "epoll": select.epoll,
    "shared memory": lambda: mmap.mmap(-1, mmap.PAGESIZE),
    "inode number": lambda: os.fstat(1),
    "statfs": lambda: os.statvfs("/"),
    "times": lambda: linux.syscall("times", calls.number("times"), ctypes.create_string_buffer(64)),
    "sysinfo": lambda: linux.syscall("sysinfo", calls.number("sysinfo"), ctypes.create_string_buffer(512)),
    "keyring": linux.join_new_keyring,
    "namespace": lambda: linux.unshare(linux.CLONE_NEWUSER),
    "lock": lambda: fcntl.flock(1, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "trace": lambda: linux.syscall("process_vm_readv", calls.number("process_vm_readv"), 1, None, 0, None, 0, 0),
}


def _writes(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        os.unlink(path)
    except OSError:
        return False
    return True


def _connects(port: int) -> bool:
    try:
        # Not create_connection, whose name look-up imports a codec.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
            attempt.settimeout(0.5)
            attempt.connect(("127.0.0.1", port))
            return True
    except OSError:
        return False


def _lists(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except OSError:
        return False


def _sees(pid: int, start: str) -> bool:
    # A process of the slot may have the same number in its own namespace, hardly with the same start.
    return process.start_time(pid) == start


def _leave_daemon() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _sleep_forever()
        os._exit(0)
    os.wait()


def _fork_sleepers(most: int) -> int:
    for count in range(most):
        try:
            if os.fork() == 0:
                _sleep_forever()
        except OSError:
            return count
    return most


def _sleep_forever() -> None:
    while True:
        signal.pause()
