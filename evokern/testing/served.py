"""Processes of the evaluator without their slots: the real code in a real process, for tests that need no sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_PROGRAM = """
import importlib, json, socket, sys
module, function = sys.argv[1].split(":")
sys.path[:] = json.loads(sys.argv[3])
with open(int(sys.argv[4]), "rb") as stream:
    argument = stream.read()
getattr(importlib.import_module(module), function)(socket.socket(fileno=int(sys.argv[2])), [], argument)
"""

SECONDS_TO_END = 10.0


@dataclass(frozen=True, slots=True)
class Served:
    """A running process.

    Attributes:
        sock: The judge's end of its socket.
        pid: Its process id.
    """

    sock: socket.socket
    pid: int


@contextlib.contextmanager
def served(entry: str, argument: bytes, environment: Mapping[str, str] | None = None) -> Iterator[Served]:
    """A process that runs `entry(sock, [], argument)` until the socket is closed.

    Args:
        entry: `module:function`.
        argument: Bytes for it.
        environment: Added to the present one.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    content = os.memfd_create("argument")
    os.write(content, argument)
    os.lseek(content, 0, os.SEEK_SET)
    command = [sys.executable, "-c", _PROGRAM, entry, str(theirs.fileno()), json.dumps(sys.path), str(content)]
    process = subprocess.Popen(
        command,
        pass_fds=[theirs.fileno(), content],
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
    )
    theirs.close()
    os.close(content)
    try:
        yield Served(ours, process.pid)
    finally:
        ours.close()
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
