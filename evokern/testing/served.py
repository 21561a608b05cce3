"""Processes of the evaluator without their slots: the real code in a real process, for tests that need no sandbox.

They are forked from one process that has imported torch, as slots are in a run: importing it takes longer than most tests.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

MODULES = ("torch", "evokern.evaluator.reference.baseline", "evokern.evaluator.reference.oracle")

_ZYGOTE = """
import importlib, json, os, socket, sys
control = socket.socket(fileno=int(sys.argv[1]))
sys.path[:] = json.loads(sys.argv[2])
for name in json.loads(sys.argv[3]):
    importlib.import_module(name)
while True:
    entry, (sock, content), _, _ = socket.recv_fds(control, 4096, 2)
    if not entry:
        break
    pid = os.fork()
    if pid == 0:
        control.close()
        code = 1
        try:
            module, function = entry.decode().split(":")
            with open(content, "rb") as stream:
                argument = stream.read()
            getattr(importlib.import_module(module), function)(socket.socket(fileno=sock), [], argument)
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    handle = os.pidfd_open(pid)
    socket.send_fds(control, [str(pid).encode()], [handle])
    for descriptor in (handle, sock, content):
        os.close(descriptor)
    # Those that ended since the last request.
    while os.waitpid(-1, os.WNOHANG)[0]:
        pass
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
def served(entry: str, argument: bytes) -> Iterator[Served]:
    """A process that runs `entry(sock, [], argument)` until the socket is closed.

    Args:
        entry: `module:function`.
        argument: Bytes for it.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    content = os.memfd_create("argument")
    os.write(content, argument)
    os.lseek(content, 0, os.SEEK_SET)
    control = _zygote()
    socket.send_fds(control, [entry.encode()], [theirs.fileno(), content])
    theirs.close()
    os.close(content)
    pid, (handle,), _, _ = socket.recv_fds(control, 64, 1)
    try:
        yield Served(ours, int(pid))
    finally:
        ours.close()
        _end(handle)


def _end(handle: int) -> None:
    """Wait for a process whose socket was closed; kill it if it goes on."""
    ended = select.poll()
    ended.register(handle, select.POLLIN)
    if not ended.poll(SECONDS_TO_END * 1000):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        ended.poll(SECONDS_TO_END * 1000)
    os.close(handle)


@functools.cache
def _zygote() -> socket.socket:
    """The socket of the process that forks; it ends when this one does, however that ends: its socket then closes."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-c", _ZYGOTE, str(theirs.fileno()), json.dumps(sys.path), json.dumps(MODULES)]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env={**os.environ, "OMP_NUM_THREADS": "1"})
    theirs.close()
    atexit.register(_leave, ours, process)
    return ours


def _leave(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    control.close()
    process.wait(SECONDS_TO_END)
