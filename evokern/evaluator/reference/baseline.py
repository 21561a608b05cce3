"""Baselines: PyTorch itself as an opponent that is called like any kernel (EVALUATOR section 4, Baselines).

`serve` speaks the judge's records (`evokern.evaluator.call.protocol`): BIND, SIZE and GO are answered as a runner answers them.
Beside these it takes requests in JSON, each on the values of one GO record: "prepare" compiles for its shapes and warms up,
"values" hands the outputs out. A GO whose shapes were not prepared is refused, so a compilation can never land in a timed
call. Inputs are views on the windows; outputs are made by PyTorch on memory that is mapped already, and are dropped: their
values are taken from "values", outside the clock.
"""

from __future__ import annotations

import errno
import importlib
import json
import mmap
import os
import resource
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evokern import record
from evokern.errors import FREE, DiskFull, EvokernError, Unavailable
from evokern.evaluator.call import protocol
from evokern.evaluator.call.mapped import ENVIRONMENT, keep_memory_mapped
from evokern.evaluator.call.runner import map_windows
from evokern.evaluator.call.window import NUMPY
from evokern.evaluator.reference.oracle import MAX_DATAGRAM, load_reference
from evokern.task import DType, Role, Task

if TYPE_CHECKING:
    import torch

ENTRY = "evokern.evaluator.reference.baseline:serve"
"""What a slot runs."""

MODULES = ("torch", "evokern.evaluator.reference.baseline")
"""What its zygote imports."""

VARIANTS: dict[str, dict[str, Any] | None] = {
    "eager": None,
    "compile": {"dynamic": False},
    "compile_dynamic": {"dynamic": True},
    "max_autotune": {"dynamic": False, "mode": "max-autotune"},
}
"""How each variant calls torch.compile; None for not at all."""

IDLE = "idle"
"""A variant that computes nothing: what a call of a baseline costs beside its work, which no native runner has."""

COMPILE_SECONDS = 300.0
"""How long preparing one workload may take; a cold cache on a slow machine takes a tenth."""

NOT_PREPARED = 97
"""Status of a GO whose shapes were not prepared."""

FAILED = 98
"""Status of a GO that raised."""

_HEAP_FACTOR = 8
_MOST_RESERVED = 512 << 20
_MOST_WARM_CALLS = 24
_CALM_CALLS = 2
_FEW_FAULTS = 64
_RECOMPILE_LIMIT = 1024
_ALIGNMENT = 64
_FLOAT_CODES = {(2, 32): "f", (2, 16): "e", (2, 64): "d"}
_TORCH_DTYPES = {
    (0, 64): "int64",
    (0, 32): "int32",
    (0, 8): "int8",
    (2, 32): "float32",
    (2, 16): "float16",
    (4, 16): "bfloat16",
    (10, 8): "float8_e4m3fn",
    (6, 8): "bool",
}


def argument(task: Task, variant: str, *, threads: int = 1, cache: Path | None = None, device_entry: str = "") -> bytes:
    """The argument that `serve` is started with.

    Args:
        task: Whose reference.
        variant: Name from `VARIANTS`, or `IDLE`.
        threads: Threads granted.
        cache: Folder for compiled code, kept across runs; None for a fresh one.
        device_entry: See `Machine.device_entry`.
    """
    outputs = [a.role is Role.OUT for a in task.arguments]
    settings = {"reference": task.reference, "variant": variant, "threads": threads, "outputs": outputs, "policy": task.policy}
    return json.dumps({**settings, "cache": None if cache is None else str(cache), "device_entry": device_entry}).encode()


class Baseline:
    """The judge's end of a baseline, beside BIND and GO.

    Args:
        sock: Sequenced socket to a process that runs `serve`.
        task: Whose reference.
        dtype: Element type of the run.
    """

    def __init__(self, sock: socket.socket, task: Task, dtype: DType) -> None:
        self._sock, self._task, self._dtype = sock, task, dtype

    def prepare(self, go: protocol.Go) -> float:
        """Compile and warm up for one call, after BIND.

        Args:
            go: The call; its inputs lie in the windows.

        Returns:
            Seconds that it took.

        Raises:
            EvokernError: It cannot be compiled here; the message says why.
            Unavailable: The process ended or does not answer.
        """
        return float(self._ask({"op": "prepare", "go": protocol.encode_go(go).hex()})["seconds"])

    def values(self, go: protocol.Go) -> dict[str, NDArray[Any]]:
        """The outputs of one call, by name, in the run's dtype (bfloat16 as uint16).

        Args:
            go: The call, prepared before; its inputs lie in the windows.

        Raises:
            EvokernError: The call fails.
            Unavailable: The process ended or does not answer.
        """
        places, size = [], 0
        for output, place in zip(self._task.arguments, go.places, strict=True):
            if output.role in (Role.OUT, Role.INOUT):
                kind = output.dtype_for(self._dtype)
                places.append((output.name, size, place.shape, NUMPY[kind]))
                size += -(-int(np.prod(place.shape)) * kind.itemsize // _ALIGNMENT) * _ALIGNMENT
        descriptor = os.memfd_create("values", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, max(size, 1))
            self._ask({"op": "values", "go": protocol.encode_go(go).hex(), "offsets": [p[1] for p in places]}, [descriptor])
            memory = mmap.mmap(descriptor, max(size, 1))
        finally:
            os.close(descriptor)
        return {name: np.ndarray(shape, kind, memory, offset) for name, offset, shape, kind in places}

    def _ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        before = self._sock.gettimeout()
        self._sock.settimeout(COMPILE_SECONDS)
        try:
            socket.send_fds(self._sock, [json.dumps(request).encode()], list(descriptors))
            data = self._sock.recv(MAX_DATAGRAM)
        except TimeoutError as error:
            raise Unavailable(f"the baseline did not answer within {COMPILE_SECONDS:.0f} s", where=self._task.name) from error
        except OSError as error:
            raise Unavailable(f"the baseline's process ended: {error}", where=self._task.name) from error
        finally:
            self._sock.settimeout(before)
        if not data:
            raise Unavailable("the baseline's process ended", where=self._task.name, mend="It may have run out of memory")
        answer = record.fields(data)
        if "error" in answer:
            if answer.get("full"):
                raise DiskFull(f"the baseline cannot be compiled: {answer['error']}", where=self._task.name, mend=FREE)
            raise EvokernError(str(answer["error"]), where=self._task.name)
        return answer


# From here on: the process that holds PyTorch.


def serve(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Answer the judge until it hangs up.

    Args:
        sock: Sequenced socket to the judge.
        descriptors: None are expected.
        argument: As `argument` makes it.
    """
    keep_memory_mapped()
    opponent = _Opponent(json.loads(argument))
    while True:
        data, received, _, _ = socket.recv_fds(sock, MAX_DATAGRAM, 64)
        if not data:
            return
        if data.startswith(b"{"):
            sock.send(json.dumps(opponent.answer(json.loads(data), received)).encode())
            continue
        request = protocol.decode_request(data)
        if isinstance(request, protocol.Bind):
            opponent.bind(request, received)
            sock.send(protocol.encode_done(protocol.Done(request.seq, 0, 0)))
        elif request.kind is protocol.Kind.SIZE:
            sock.send(protocol.encode_bytes(request.seq, 0))
        else:
            opponent.go(sock, request)


class _Opponent:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        if settings["cache"]:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = settings["cache"]
            # Every slot has a user id of its own, and the next one must be able to use what this one compiled.
            os.umask(0)
            os.environ["TRITON_CACHE_DIR"] = f"{settings['cache']}/triton"
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = ENVIRONMENT["TORCHINDUCTOR_COMPILE_THREADS"]
        import torch

        torch.set_num_threads(settings["threads"])
        torch.set_float32_matmul_precision("high" if settings["policy"] == "tf32" else "highest")
        self.torch = torch
        self.device = _device(settings["device_entry"])
        self.outputs: list[bool] = settings["outputs"]
        self.options = VARIANTS.get(settings["variant"])
        reference: Callable[..., Any] = _nothing if settings["variant"] == IDLE else load_reference(settings["reference"])["run"]
        self.run = reference if self.options is None else self._compiled(reference)
        self.reserved = 0
        self.windows: list[Any] = []
        self.specs: tuple[protocol.Spec, ...] = ()
        self.prepared: set[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]] = set()
        self.mode = torch.inference_mode()
        self.mode.__enter__()

    def _compiled(self, reference: Callable[..., Any]) -> Callable[..., Any]:
        import torch._dynamo
        import torch._inductor.config

        torch._inductor.config.compile_threads = 1
        # The precompiled header is kept outside the cache folder, so every process would spend eight seconds on a new one.
        torch._inductor.config.cpp_cache_precompile_headers = False
        # Past its limit dynamo would fall back to eager without a word, and eager would be timed under another name.
        torch._dynamo.config.recompile_limit = _RECOMPILE_LIMIT
        torch._dynamo.config.accumulated_recompile_limit = _RECOMPILE_LIMIT
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        options = dict(self.options or {})
        if self.device is not None and "mode" in options:
            # Graphs of the framework's own copy inputs to addresses that they know; windows are elsewhere in every allocation.
            options["mode"] += "-no-cudagraphs"
        compiled: Callable[..., Any] = torch.compile(reference, fullgraph=True, **options)
        return compiled

    def bind(self, bind: protocol.Bind, descriptors: Sequence[int]) -> None:
        self.windows = map_windows(bind, descriptors) if self.device is None else self._imported(bind, descriptors)
        self.specs = bind.specs

    def _imported(self, bind: protocol.Bind, descriptors: Sequence[int]) -> list[Any]:
        waiting = list(descriptors)
        sizes = [*(spec.window_bytes for spec in bind.specs), bind.workspace_bytes]
        return [self.device.window(waiting.pop(0), size) if size else None for size in sizes]

    def go(self, sock: socket.socket, request: protocol.Go) -> None:
        """The timed path: run, say so, and only then drop the outputs."""
        start = time.perf_counter_ns()
        outputs, status, taken_ns = None, 0, 0
        if self._key(request) not in self.prepared:
            status = NOT_PREPARED
        else:
            try:
                if request.kind is protocol.Kind.GO:
                    outputs = self._run_to_its_end(request)
                else:
                    status, taken_ns = self._sampled(request)
            except Exception as error:
                status = FAILED
                os.write(2, f"the baseline failed: {type(error).__name__}: {error}\n".encode()[:2000])
        sock.send(protocol.encode_done(protocol.Done(request.seq, status, taken_ns or time.perf_counter_ns() - start)))
        del outputs

    def _run_to_its_end(self, request: protocol.Go) -> Any:
        outputs = self.run(*self._inputs(request))
        if self.device is not None:
            self.device.synchronise()
        return outputs

    def _sampled(self, request: protocol.Go) -> tuple[int, int]:
        inputs = self._inputs(request)
        found: tuple[int, int] = self.device.sample(
            lambda: self.run(*inputs), self._key(request), cold=request.kind is protocol.Kind.SAMPLE
        )
        return found

    def answer(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
        go = protocol.decode_request(bytes.fromhex(request["go"]))
        assert isinstance(go, protocol.Go)
        try:
            if request["op"] == "prepare":
                return {"seconds": self._prepare(go)}
            self._hand_out(go, request["offsets"], descriptors[0])
            return {}
        except Exception as error:
            first = (str(error).strip() or "no message").splitlines()[0]
            return {"error": f"{type(error).__name__}: {first}"[:2000], "full": os.strerror(errno.ENOSPC) in f"{error}{error.__cause__}"}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _prepare(self, go: protocol.Go) -> float:
        start = time.perf_counter()
        if self.options is not None:
            self.torch.compiler.set_stance("default")
        self.run(*self._inputs(go))
        if self.options is not None:
            self.torch.compiler.set_stance("fail_on_recompile")
        self._warm(go)
        self.prepared.add(self._key(go))
        return time.perf_counter() - start

    def _warm(self, go: protocol.Go) -> None:
        """Call until calls take no page faults any more."""
        if self.device is not None:
            for _ in range(_MOST_WARM_CALLS // 4):
                self._run_to_its_end(go)
            return
        moved = sum(_extent(p) * s.bits // 8 for s, p in zip(self.specs, go.places, strict=True))
        wanted = min(_HEAP_FACTOR * moved, _MOST_RESERVED)
        if wanted > self.reserved:
            # The allocator does not put a block where the last one was, but moves on for some calls: all that it may reach
            # is mapped at once.
            self.torch.empty(wanted, dtype=self.torch.uint8).fill_(1)
            self.reserved = wanted
        calm = 0
        for _ in range(_MOST_WARM_CALLS):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            self.run(*self._inputs(go))
            calm = calm + 1 if resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < _FEW_FAULTS else 0
            if calm >= _CALM_CALLS:
                return

    def _hand_out(self, go: protocol.Go, offsets: Sequence[int], descriptor: int) -> None:
        returned = self.run(*self._inputs(go))
        outputs = returned if isinstance(returned, tuple | list) else (returned,)
        memory = mmap.mmap(descriptor, 0)
        for offset, output in zip(offsets, outputs, strict=True):
            if output.numel():
                target = self.torch.frombuffer(memory, dtype=output.dtype, count=output.numel(), offset=offset)
                target.view(output.shape).copy_(output)

    def _key(self, go: protocol.Go) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        # Eager has nothing to compile: what is warmed is the heap, by size and not by layout.
        return tuple(
            (p.shape, p.strides if self.options is not None else ()) for p, out in zip(go.places, self.outputs, strict=True) if not out
        )

    def _inputs(self, go: protocol.Go) -> list[Any]:
        parts = zip(self.specs, self.windows, go.places, self.outputs, strict=False)
        return [self._input(spec, window, place) for spec, window, place, out in parts if not out]

    def _input(self, spec: protocol.Spec, window: Any, place: protocol.Place) -> torch.Tensor | float | int:
        if window is None:
            return _scalar(spec, place.scalar)
        kind = getattr(self.torch, _TORCH_DTYPES[spec.code, spec.bits])
        if self.device is not None:
            bytes_ = self.device.part(window, place.offset, _extent(place) * spec.bits // 8)
            on_device: torch.Tensor = bytes_.view(kind).as_strided(place.shape, place.strides)
            return on_device
        # A tensor that begins at its first element: a storage offset would be one more thing for compiled code to depend on.
        flat = self.torch.frombuffer(window, dtype=kind, count=_extent(place), offset=place.offset)
        return flat.as_strided(place.shape, place.strides)


def _device(entry: str) -> Any:
    """What holds a device's windows here, by `module:Class`; None where windows are the host's memory."""
    if not entry:
        return None
    module, name = entry.split(":")
    return getattr(importlib.import_module(module), name)()


def _nothing(*inputs: Any) -> None:
    """The reference of `IDLE`."""


def _extent(place: protocol.Place) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(place.shape, place.strides, strict=True))


def _scalar(spec: protocol.Spec, content: bytes) -> float | int:
    letter = _FLOAT_CODES.get((spec.code, spec.bits))
    if letter is not None:
        return float(struct.unpack_from(f"<{letter}", content)[0])
    return int.from_bytes(content[: spec.bits // 8], "little", signed=True)
