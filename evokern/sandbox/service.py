"""The spawner process: execs zygotes, passes orders on to them, and clears up when the judge is gone.

Keyless and single-threaded. Started before any key is drawn, with a literal environment and one socket; whatever it or a
zygote holds could be read by a candidate that breaks out of everything else, and it is nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from evokern.sandbox import cgroup, linux
from evokern.sandbox import process as processes
from evokern.sandbox.zygote import MAX_DESCRIPTORS, READY, SEARCH_PATH

FORKS = 500
"""Slots after which a zygote is renewed, so that what forking leaves behind in it stays bounded."""

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LOGNAME": "evokern",
    "USER": "evokern",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""All that spawner, zygotes and slots have, before what an order adds. A user's name, for a slot's user id has none to look up."""

_END_SECONDS = 5.0
# The two programs start with the judge's import path and nothing else of its settings.
_START = "import json, sys; settings = json.loads(sys.argv[1]); sys.path[:] = settings['path']; "
_SPAWNER_PROGRAM = _START + "from evokern.sandbox import service; service.main(settings)"
_ZYGOTE_PROGRAM = _START + "from evokern.sandbox import zygote; zygote.main(settings['socket'], settings['parent'], settings['modules'])"


@dataclass(frozen=True)
class Settings:
    """What a spawner is started with; travels as JSON in its arguments.

    Attributes:
        socket: Descriptor of the sequenced socket to the judge.
        judge: Process id of the judge.
        path: Import path, the judge's.
        zygotes: Modules to import, by zygote.
        folders: Parent cgroups, to be emptied and removed at the end.
        uids: First user id of slots and the one after the last; equal where slots have none of their own.
        forks: Slots after which a zygote is renewed, by its name; `FORKS` where it is not there.
        libraries: Folder in which zygotes' linkers look for libraries too; empty for none.
    """

    socket: int
    judge: int
    path: Sequence[str]
    zygotes: Mapping[str, Sequence[str]]
    folders: Sequence[str]
    uids: tuple[int, int]
    forks: Mapping[str, int] = field(default_factory=dict)
    libraries: str = ""

    def command(self) -> list[str]:
        """Arguments that start the spawner."""
        return [sys.executable, "-I", "-c", _SPAWNER_PROGRAM, json.dumps(asdict(self))]


def main(arguments: Mapping[str, Any]) -> None:
    """Serve until the judge hangs up or dies.

    Args:
        arguments: The fields of `Settings`.
    """
    spawner = _Spawner(Settings(**arguments))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    try:
        spawner.serve()
    finally:
        spawner.end()


@dataclass
class _Zygote:
    """One running zygote, and the orders that wait for its imports."""

    name: str
    sock: socket.socket
    process: subprocess.Popen[bytes]
    ready: bool = False
    forks: int = 0
    waiting: deque[list[int]] = field(default_factory=deque)


class _Spawner:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._control = socket.socket(fileno=settings.socket)
        self._judge = os.pidfd_open(settings.judge)
        self._folders = [Path(folder) for folder in settings.folders]
        self._zygotes: dict[str, _Zygote] = {}
        self._retired: list[subprocess.Popen[bytes]] = []
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(self._judge, selectors.EVENT_READ)
        for name in self._settings.zygotes:
            self._start(name)
        while True:
            for key, _ in self._selector.select():
                if isinstance(key.data, _Zygote):
                    self._hear(key.data)
                elif key.fileobj is not self._control or not self._take_order():
                    return
            self._retired = [process for process in self._retired if process.poll() is None]

    def _take_order(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, 256, MAX_DESCRIPTORS)
        if not data:
            return False
        name = data.decode()
        zygote = self._zygotes.get(name) or self._start(name)
        zygote.waiting.append(descriptors)
        self._pass_on(zygote)
        return True

    def _start(self, name: str) -> _Zygote:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        modules, path = self._settings.zygotes[name], self._settings.path
        arguments = {"socket": theirs.fileno(), "parent": os.getpid(), "path": path, "modules": modules}
        search = {SEARCH_PATH: self._settings.libraries} if self._settings.libraries else {}
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _ZYGOTE_PROGRAM, json.dumps(arguments)],
            env={**ENVIRONMENT, **search},
            cwd="/",
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        zygote = _Zygote(name, ours, process)
        self._zygotes[name] = zygote
        self._selector.register(ours, selectors.EVENT_READ, zygote)
        return zygote

    def _hear(self, zygote: _Zygote) -> None:
        """READY, an import error's text, or the end of the zygote."""
        try:
            said = zygote.sock.recv(1 << 14)
        except ConnectionError:
            said = b""
        if said == READY:
            zygote.ready = True
            self._pass_on(zygote)
        else:
            self._refuse(zygote, said.decode() or f"the zygote {zygote.name!r} died")
            self._retire(zygote)

    def _pass_on(self, zygote: _Zygote) -> None:
        while zygote.ready and zygote.waiting:
            descriptors = zygote.waiting[0]
            try:
                socket.send_fds(zygote.sock, [b"slot"], descriptors)
            except OSError:
                return  # it died; its end of the socket is heard next
            zygote.waiting.popleft()
            _close(descriptors)
            zygote.forks += 1
            if zygote.forks >= self._settings.forks.get(zygote.name, FORKS):
                fresh = self._replace(zygote)
                fresh.waiting.extend(zygote.waiting)
                return

    def _replace(self, zygote: _Zygote) -> _Zygote:
        self._retire(zygote)
        return self._start(zygote.name)

    def _retire(self, zygote: _Zygote) -> None:
        # Closing the socket lets it end once its last slot has; killing it would kill the slots.
        self._selector.unregister(zygote.sock)
        zygote.sock.close()
        self._retired.append(zygote.process)
        if self._zygotes.get(zygote.name) is zygote:
            del self._zygotes[zygote.name]

    def _refuse(self, zygote: _Zygote, why: str) -> None:
        for descriptors in zygote.waiting:
            with contextlib.suppress(OSError):
                reply = socket.socket(fileno=os.dup(descriptors[1]))
                reply.send(json.dumps({"error": why}).encode())
                reply.close()
            _close(descriptors)
        zygote.waiting.clear()

    def end(self) -> None:
        """Kill every zygote, thereby every slot; then whatever is left in cgroups, below us, or under our user ids."""
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            left = sum(cgroup.kill_tree(folder) for folder in self._folders)
            left += processes.kill_all(processes.descendants(os.getpid()))
            left += processes.kill_all(processes.owned_by(range(*self._settings.uids)))
            _reap_all()
            if not left:
                break
            time.sleep(2e-3)
        for folder in self._folders:
            cgroup.remove_tree(folder)


def _reap_all() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
