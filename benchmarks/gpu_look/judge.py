"""The judge's side of the look: its own context, exported windows, the snapshot as clock, and runners in slots."""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import runner as protocol
import slot
from driver import Driver, packed

WINDOW = 1 << 21
_WORDS = 256  # of each window in a snapshot
_SENTINEL = 0xA5A5A5A5
_START_S = 25


@dataclass(slots=True)
class Runner:
    """A runner's process and what its supervisor saw.

    Attributes:
        process: The process, or the parent of the PID namespace's first.
        channel: The judge's end of the socket.
        calls: System calls by (number, first argument), where traced.
        error: Why it did not start; empty where it did.
    """

    process: subprocess.Popen[bytes]
    channel: socket.socket
    calls: dict[tuple[int, int], int] = field(default_factory=dict)
    error: str = ""

    def order(self, order: dict[str, Any], descriptors: list[int] | None = None) -> dict[str, Any]:
        """Send an order and wait for its answer."""
        socket.send_fds(self.channel, [json.dumps(order).encode()], descriptors or [])
        answer: dict[str, Any] = json.loads(self.channel.recv(65536) or b'{"error": "the runner died"}')
        return answer

    def close(self) -> None:
        """End the process."""
        self.channel.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Judge:
    """Windows are exported allocations of their own; private memory never is.

    Args:
        folder: Folder that every uid can read, with the runner's files and kernels.cubin.
        windows: How many windows of 2 MiB.
    """

    def __init__(self, folder: Path, windows: int = 0) -> None:
        self.driver, self.folder = Driver(), folder
        self.kernels = folder / "kernels.cubin"
        module = self.driver.module(self.kernels.read_bytes())
        names = ("spin", "snapshot", "mark", "fill", "timer_step", "copy4", "read4", "write4")
        self.kernel = {name: self.driver.function_of(module, name) for name in names}
        exported = [self.driver.allocate_exported(WINDOW) for _ in range(windows)]
        self.windows = [address for address, _, _ in exported]
        self.descriptors = [descriptor for _, descriptor, _ in exported]
        self._input = self.driver.allocate(1 << 20)
        self._private = self.driver.allocate(4 * _WORDS * max(1, windows))
        self._table = self.driver.allocate(8 * max(1, windows))
        if windows:
            self.driver.write(self._table, struct.pack(f"<{windows}Q", *self.windows))
        self._sequence = 0

    def warm(self) -> None:
        """Half a second of work, so that the clocks are those of a busy device; none is set."""
        place = self.driver.allocate(1 << 16)
        for _ in range(50):
            self.launch("spin", 1056, 256, packed("QQI", 10_000_000, place, 0))
        self.driver.synchronise()

    def start(self, settings: slot.Settings | None = None, *, hand_over: bool = True) -> Runner:
        """Start a runner in a slot and hand it the windows; a failure is in its `error`."""
        settings = settings or slot.Settings()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_START_S)
        command = [sys.executable, "-E", "-s", "-S", "runner.py", str(theirs.fileno()), json.dumps(asdict(settings)), str(self.folder)]
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        environment = {**kept, "CUDA_CACHE_DISABLE": "1"}
        process = subprocess.Popen(command, cwd=self.folder, pass_fds=[theirs.fileno()], env=environment)
        theirs.close()
        started = Runner(process, ours)
        try:
            if settings.seccomp == "trace":
                _, (listener, *_), _, _ = socket.recv_fds(ours, 100, 1)
                threading.Thread(target=slot.supervise, args=(listener, started.calls), daemon=True).start()
            started.error = json.loads(ours.recv(4096) or b'{"error": "died at the start"}').get("error", "")
            if not started.error and hand_over and self.descriptors:
                started.error = started.order({"op": "import", "size": WINDOW}, self.descriptors).get("error", "")
        except (OSError, ValueError) as error:
            started.error = f"{type(error).__name__}: {error}"
        return started

    def launch(self, name: str, grid: int, block: int, parameters: bytes) -> None:
        """A kernel of the judge's own."""
        self.driver.launch(self.kernel[name], [grid], [block], parameters)

    def call(self, started: Runner, *, calls: int = 1, nanoseconds: int = 0, mode: int = protocol.HONEST) -> tuple[float, int]:
        """One timed call by socket: us from before the inputs are written until the snapshot has retired; windows still stale."""
        self._prepare(calls)
        began = time.perf_counter_ns()
        self._write_inputs()
        started.channel.send(protocol.GO.pack(b"G", self._sequence, calls, nanoseconds, mode))
        kind, sequence = protocol.DONE.unpack(started.channel.recv(64))
        assert (kind, sequence) == (b"D", self._sequence)
        self._snapshot(calls)
        took = (time.perf_counter_ns() - began) / 1e3
        return took, self._stale(calls)

    def mail(self, box: mmap.mmap, *, calls: int = 1, nanoseconds: int = 0, mode: int = protocol.NULL) -> tuple[float, int]:
        """The same by mailbox."""
        self._prepare(calls)
        began = time.perf_counter_ns()
        self._write_inputs()
        self._post(box, calls, nanoseconds, mode)
        self._snapshot(calls)
        took = (time.perf_counter_ns() - began) / 1e3
        return took, self._stale(calls)

    def bare_socket(self, started: Runner) -> float:
        """GO and DONE by socket with nothing in between, us."""
        self._sequence += 1
        began = time.perf_counter_ns()
        started.channel.send(protocol.GO.pack(b"G", self._sequence, 0, 0, protocol.NULL))
        started.channel.recv(64)
        return (time.perf_counter_ns() - began) / 1e3

    def bare_mailbox(self, box: mmap.mmap) -> float:
        """GO and DONE by mailbox with nothing in between, us."""
        self._sequence += 1
        began = time.perf_counter_ns()
        self._post(box, 0, 0, protocol.NULL)
        return (time.perf_counter_ns() - began) / 1e3

    def _post(self, box: mmap.mmap, calls: int, nanoseconds: int, mode: int) -> None:
        protocol.MAIL.pack_into(box, 4, 0, calls, nanoseconds, mode)
        protocol.WORD.pack_into(box, 0, self._sequence)
        until = time.monotonic() + _START_S
        while protocol.WORD.unpack_from(box, protocol.DONE_AT)[0] != self._sequence:
            if time.monotonic() > until:
                raise TimeoutError("the mailbox was not answered")

    def _prepare(self, calls: int) -> None:
        self._sequence += 1
        self.launch("mark", calls, _WORDS, packed("QIi", self._table, _SENTINEL, _WORDS))
        self.driver.synchronise()

    def _write_inputs(self) -> None:
        self.launch("fill", 132, 256, packed("QI4xq", self._input, self._sequence, 1 << 18))
        self.driver.synchronise()

    def _snapshot(self, calls: int) -> None:
        self.launch("snapshot", calls, _WORDS, packed("QQi", self._table, self._private, _WORDS))
        self.driver.synchronise()

    def _stale(self, calls: int) -> int:
        held = self.driver.read(self._private, 4 * _WORDS * calls)
        return sum(struct.unpack_from("<I", held, 4 * _WORDS * number)[0] != self._sequence for number in range(calls))
