"""Runners on a GPU without a sandbox around them: the judge's half of the protocol, as short as it can be."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "backends")) if path not in sys.path]

from evokern.evaluator.call import protocol  # noqa: E402

SECONDS = 60.0
FLOAT, BITS = 2, 32
KERNELS = "evokern_gpu.loader:load"
SEALED = "evokern_gpu.sealed:load"

PLAIN, WORKSPACE, DEFAULT_STREAM, OWN_MEMORY, ILLEGAL_ADDRESS, WRITES_AN_INPUT, CLUSTERS, COOPERATIVE, OVERLAPPING, SIDE_STREAM = range(10)
COPY_FIRST, MUCH_SHARED, CONSTANT_FROM_HOST, SYNCHRONISES, REMEMBERS, STRUCT_BY_VALUE, RETURNS_SEVEN = range(10, 17)
NEVER_ENDS, PARALLEL_STREAMS, WRITES_BEYOND = range(17, 20)

SEALABLE = (PLAIN, WORKSPACE, CLUSTERS, COOPERATIVE, OVERLAPPING, SIDE_STREAM, COPY_FIRST, MUCH_SHARED, STRUCT_BY_VALUE)
"""Launched in ways that can be run without the host code that made them."""

UNSEALABLE = {
    DEFAULT_STREAM: "default stream",
    OWN_MEMORY: "memory",
    CONSTANT_FROM_HOST: "host",
    SYNCHRONISES: "waiting for the device",
    REMEMBERS: "kept from an earlier call",
    PARALLEL_STREAMS: "several streams",
}
"""The others that are right, with words of the reason."""


def nvcc() -> str | None:
    """The compiler of device code, or None."""
    return shutil.which("nvcc") or next((str(path) for path in sorted(Path("/usr/local").glob("cuda*/bin/nvcc"), reverse=True)), None)


def build(variant: int, folder: Path, arch: str) -> tuple[Path, Path]:
    """Shared library and device binary of one of variants.cu."""
    compiler = nvcc()
    assert compiler is not None
    common = [compiler, f"-arch={arch}", "-std=c++17", "-O3", "-w", f"-DVARIANT={variant}", f"-I{ROOT / 'evokern' / 'include'}"]
    source, library, image = str(HERE / "variants.cu"), folder / f"{variant}.so", folder / f"{variant}.cubin"
    subprocess.run([*common, "-shared", "-Xcompiler", "-fPIC", "-o", str(library), source], check=True, timeout=300)
    subprocess.run([*common, "-cubin", "-o", str(image), source], check=True, timeout=300)
    return library, image


class Ended(Exception):
    """A runner that hung up; carries its exit status and what it printed."""

    def __init__(self, status: int, printed: str) -> None:
        super().__init__(f"status {status}: {printed}")
        self.status, self.printed = status, printed


class Runner:
    """A process that answers the judge's records (`evokern.evaluator.call.runner`).

    Args:
        artefact: What it loads.
        loader: `module:function`.
        entry: The kernel's function.
    """

    def __init__(self, artefact: Path, loader: str = KERNELS, entry: str = "run") -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(SECONDS)
        self._printed = tempfile.TemporaryFile()
        with open(artefact, "rb") as held, theirs:
            command = [sys.executable, str(HERE / "runners.py"), str(theirs.fileno()), str(held.fileno()), loader, entry]
            descriptors = (theirs.fileno(), held.fileno())
            self.process = subprocess.Popen(command, pass_fds=descriptors, stderr=self._printed, stdin=subprocess.DEVNULL)
        self._seq = 0

    def bind(self, specs: Sequence[protocol.Spec], descriptors: Sequence[int], workspace_bytes: int = 0) -> float:
        """Hand windows over; seconds until they are mapped, the start of the process included."""
        start, self._seq = time.perf_counter(), self._seq + 1
        record = protocol.encode_bind(protocol.Bind(self._seq, tuple(specs), workspace_bytes))
        socket.send_fds(self._socket, [record], list(descriptors))
        protocol.decode_done(self._receive(), self._seq)
        return time.perf_counter() - start

    def call(
        self, places: Sequence[protocol.Place], kind: protocol.Kind = protocol.Kind.GO, workspace: tuple[int, int] = (0, 0)
    ) -> protocol.Done:
        """One call."""
        return protocol.decode_done(self._ask(places, kind, workspace), self._seq)

    def size(self, places: Sequence[protocol.Place]) -> int:
        """Bytes of workspace."""
        return protocol.decode_bytes(self._ask(places, protocol.Kind.SIZE, (0, 0)), self._seq)

    def capture(self, places: Sequence[protocol.Place], workspace: tuple[int, int] = (0, 0)) -> bytes:
        """What a call would launch."""
        return self._ask(places, protocol.Kind.CAPTURE, workspace)

    def settle(self, seconds: float) -> None:
        """How long its answers are waited for from now on."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self.process.kill()
        self.process.wait(SECONDS)
        self._printed.close()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _ask(self, places: Sequence[protocol.Place], kind: protocol.Kind, workspace: tuple[int, int]) -> bytes:
        self._seq += 1
        self._socket.send(protocol.encode_go(protocol.Go(self._seq, tuple(places), *workspace, kind)))
        return self._receive()

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(protocol.MAX_RECORD)
        except ConnectionResetError:
            data = b""
        if not data:
            status = self.process.wait(SECONDS)
            self._printed.seek(0)
            raise Ended(status, self._printed.read().decode("utf-8", "replace"))
        return data


class Bench:
    """A softmax's input and output on a GPU: windows, the tensors in them, and what a right answer is.

    Args:
        gpu: The device (`evokern_gpu.device.Gpu`).
        rows: Of both.
        columns: Of both.
        seed: Of the input.
    """

    SLACK = 1 << 16

    def __init__(self, gpu: Any, rows: int, columns: int, seed: int = 1) -> None:
        import torch

        self.gpu, self.rows, self.columns = gpu, rows, columns
        self.bytes = 4 * rows * columns
        self.windows = [gpu.window(self.bytes + self.SLACK) for _ in range(2)]
        self.workspace = gpu.window(4 * rows + self.SLACK)
        generator = torch.Generator(device="cuda").manual_seed(seed)
        self.input = torch.randn(rows, columns, device="cuda", generator=generator)
        self.expected = torch.softmax(self.input.double(), dim=1).float()

    @property
    def specs(self) -> tuple[protocol.Spec, ...]:
        """As BIND has them: the input for reading alone."""
        return tuple(
            protocol.Spec(FLOAT, BITS, 2, window.size, read_only) for window, read_only in zip(self.windows, (True, False), strict=True)
        )

    @property
    def descriptors(self) -> list[int]:
        """Of both windows and the workspace."""
        return [*(window.descriptor for window in self.windows), self.workspace.descriptor]

    def bind(self, runner: Runner) -> float:
        """Hand everything to a runner; seconds."""
        return runner.bind(self.specs, self.descriptors, self.workspace.size)

    def write(self, offsets: tuple[int, int]) -> list[protocol.Place]:
        """Write the input, and NaN where the output goes; the places of a call."""
        import torch

        self._tensor(0, offsets[0]).copy_(self.input)
        self._tensor(1, offsets[1]).fill_(float("nan"))
        torch.cuda.synchronize()
        return [protocol.Place(offset, (self.rows, self.columns), (self.columns, 1)) for offset in offsets]

    def output(self, offset: int) -> Any:
        """A copy of the output."""
        import torch

        found = self._tensor(1, offset).clone()
        torch.cuda.synchronize()
        return found

    def is_right(self, output: Any) -> bool:
        """Whether it is a softmax of the input."""
        return bool((output - self.expected).abs().max().item() < 1e-6)

    def workspace_at(self, offset: int) -> tuple[int, int]:
        """A workspace as a call names it."""
        return offset, 4 * self.rows

    def close(self) -> None:
        """Give the windows back."""
        for window in (*self.windows, self.workspace):
            window.close()

    def _tensor(self, window: int, offset: int) -> Any:
        import torch

        held = self.gpu.tensor(self.windows[window])[offset : offset + self.bytes]
        return held.view(torch.float32).view(self.rows, self.columns)


def child(descriptor: int, artefact: int, loader: str, entry: str) -> None:
    """What a runner's process does."""
    from evokern.evaluator.call import runner

    ctypes.CDLL(None).prctl(1, 9)  # end with the parent
    runner.serve(socket.socket(fileno=descriptor), [artefact], runner.argument(loader, entry))


if __name__ == "__main__":
    child(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
    os._exit(0)
