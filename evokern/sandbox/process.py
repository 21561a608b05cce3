"""What can be seen of other processes in /proc: who descends from whom, who belongs to whom, what is stopped."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable

_KERNEL_LISTS_CHILDREN = os.path.exists("/proc/thread-self/children")  # CONFIG_PROC_CHILDREN


def descendants(root: int) -> set[int]:
    """Every live or unreaped process below one, itself left out. Orphans are found as long as the root reaps them."""
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for child in children(waiting.pop()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def children(pid: int) -> list[int]:
    """Child processes of all threads of a process; none where it is gone."""
    if not _KERNEL_LISTS_CHILDREN:
        return [other for other in _all() if parent(other) == pid]
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += [int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()]
    return found


def owned_by(uids: range) -> set[int]:
    """Processes whose user id is in a range; none for an empty range."""
    if not uids:
        return set()
    found = set()
    for pid in _all():
        with contextlib.suppress(OSError):
            if _real_uid(pid) in uids:
                found.add(pid)
    return found


def _real_uid(pid: int) -> int:
    # The owner of the folder does not tell: that of a process which cannot be dumped belongs to root.
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    return -1


def kill_all(pids: Iterable[int]) -> int:
    """Send SIGKILL to each.

    Returns:
        How many were alive and not zombies.
    """
    count = 0
    for pid in pids:
        if is_alive(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                count += 1
    return count


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def parent(pid: int) -> int:
    """Process id of the parent; 0 where there is none."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def start_time(pid: int) -> str:
    """Start of a process in clock ticks since boot, as text; empty where there is none. With the id it names a process for good."""
    fields = _stat(pid)
    return fields[19] if fields else ""


def is_stopped(pid: int) -> bool:
    """Whether no thread of a process can run: stopped, dead or gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    return all(not (fields := _stat(pid, thread)) or fields[0] in "TtZX" for thread in threads)


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int, thread: str | None = None) -> list[str]:
    """Fields of the stat file from the state on; empty where it is gone."""
    try:
        return _read(f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat").rpartition(")")[2].split()
    except OSError:
        return []


def _read(file: str) -> str:
    with open(file, encoding="utf-8", errors="replace") as stream:
        return stream.read()
