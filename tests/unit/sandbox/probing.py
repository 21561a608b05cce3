"""Asks a library of probes (`probes.cpp`) from inside a slot, and from a plain process to see that the probes work."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from evokern_cpu import compiler

from evokern.sandbox import Limits, Policy, Slot, Spawner

SECONDS = 60.0

MAILBOXES = (
    "file_in_home", "file_in_tmp", "file_in_shm", "file_in_dev", "file_in_work", "file_in_libraries", "abstract_socket", "path_socket",
    "tcp_port", "shared_memory_segment", "message_queue", "semaphores", "posix_queue", "user_keyring", "session_keyring",
    "user_session_keyring", "flock_on_library", "read_lock_on_library", "attribute_of_device", "shared_page_of_library",
)  # fmt: skip
"""Probes that leave a message with 1 and look for it with 0."""

COUNTS = (
    "inode_of_pipe", "inode_of_socket", "inode_of_memfd", "inode_of_held", "inode_of_shared_memory", "eventfd_made", "epoll_made",
    "timerfd_made", "signalfd_made", "inotify_made", "pidfd_made", "load_of_machine", "ticks_of_machine", "space_on_disk", "mount_id",
    "file_of_process", "file_of_kernel", "huge_pages", "residency_of_library", "merged_pages", "page_cache",
)  # fmt: skip
"""Probes that read or move what is counted, or kept, for the whole machine."""

_ASK = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
for line in sys.stdin:
    print(json.dumps([getattr(library, name)(*arguments) for name, *arguments in json.loads(line)]), flush=True)
"""


def compiled(folder: Path) -> Path:
    """The library of probes, or a skip where there is no compiler."""
    library = folder / "probes.so"
    source = Path(__file__).with_name("probes.cpp")
    command = [compiler.find().path, "-O1", "-shared", "-fPIC", "-w", "-std=c++17", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return library


class Probe:
    """One slot that holds the library and answers."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        slot.socket.settimeout(SECONDS)

    def ask(self, *wishes: Sequence[object]) -> list[Any]:
        """What each wish, a function and its arguments, returns."""
        self.slot.socket.send(json.dumps(wishes).encode())
        answer = self.slot.socket.recv(1 << 16)
        assert answer, self.slot.kill()
        found: list[Any] = json.loads(answer)
        return found

    def fact(self, name: str) -> Any:
        """One of the facts of `sandbox_entries`."""
        return self.ask([name])[0]


@contextlib.contextmanager
def probe_in(spawner: Spawner, library: Path, policy: Policy = Policy.KERNEL, **more: Any) -> Iterator[Probe]:
    """A slot of this policy with the library in it, which it is given as a kernel is given its artefact."""
    options = {"limits": Limits(processes=16), "policy": policy, "argument": b"", **more}
    descriptor = os.open(library, os.O_RDONLY | os.O_CLOEXEC)
    try:
        slot = spawner.slot("sandbox_entries:probe", zygote="c", descriptors=[descriptor], **options)
    finally:
        os.close(descriptor)
    try:
        yield Probe(slot)
    finally:
        slot.kill()


def asked_outside(library: Path, *rounds: Sequence[Sequence[object]], folder: Path) -> list[list[Any]]:
    """The same in plain processes of this user, one a round, all alive until the last has answered."""
    environment = {"HOME": str(folder), "PATH": os.environ.get("PATH", "")}
    with contextlib.ExitStack() as stack:
        answers = []
        for wishes in rounds:
            process = subprocess.Popen(
                [sys.executable, "-c", _ASK, str(library)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
                cwd=folder,
            )
            stack.callback(process.wait, SECONDS)
            stack.callback(process.kill)
            assert process.stdin is not None and process.stdout is not None
            stack.callback(process.stdout.close)
            stack.callback(process.stdin.close)
            process.stdin.write(json.dumps(wishes) + "\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
        return answers


def skip_where_calls_are_not_refused(spawner: Spawner) -> None:
    """A skip where this machine's kernel cannot refuse system calls; the canaries say so, and the tier."""
    if not all(canary.held for canary in spawner.canaries if canary.name in ("calls", "children")):
        pytest.skip("this machine has no seccomp filters")
