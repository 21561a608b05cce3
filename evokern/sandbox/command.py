"""Runs a command inside a slot: writes its files, waits for it, sends back what was asked for."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from collections.abc import Sequence

from evokern.sandbox.order import memory_file, read_all

NOT_FOUND = 127
"""Status of a command that cannot be started, as in a shell."""


def execute(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Entry of the slot.

    Args:
        sock: To the judge; takes one datagram, JSON {"status", "files": [[name, size], ...]} and a memfd of all contents.
        descriptors: One, a file with the contents of all given files one after the other.
        argument: JSON {"argv": [...], "files": [[name, size], ...], "want": [name, ...]}.
    """
    wish = json.loads(argument)
    content = read_all(descriptors[0])
    os.close(descriptors[0])
    at = 0
    for name, size in wish["files"]:
        _write(name, content[at : at + size])
        at += size
    status = _wait(wish["argv"])
    found = [(name, data) for name in wish["want"] if (data := _read(name)) is not None]
    answer = json.dumps({"status": status, "files": [[name, len(data)] for name, data in found]}).encode()
    socket.send_fds(sock, [answer], [memory_file(b"".join(data for _, data in found))])


def _wait(argv: Sequence[str]) -> int:
    try:
        # Python ignores these two, and what it starts would inherit that.
        pid = os.posix_spawnp(argv[0], list(argv), os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        return NOT_FOUND
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _write(name: str, content: bytes) -> None:
    folder = os.path.dirname(name)
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(name, "wb") as stream:
        stream.write(content)


def _read(name: str) -> bytes | None:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return read_all(descriptor) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)
