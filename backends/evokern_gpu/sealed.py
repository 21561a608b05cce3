"""SealedKernel: runs launch lists in a process that holds no host code of a candidate, so that its clock counts.

One call is one sample. A blocker holds the stream while all is enqueued, so that no gap between launches is timed; caches are made
cold by reading four times the L2 of memory that nothing wrote, because what is written would be written back inside the span; then
an event, the launches, an event. Source of both choices: `benchmarks/results/gpu-look.json`, `eviction`.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from evokern_gpu import instruments
from evokern_gpu import structures as cuda
from evokern_gpu.bundle import MOST_BYTES, Bundle
from evokern_gpu.driver import Driver, DriverError, Prepared
from evokern_gpu.kernel import OUTRAN, OUTSIDE, UNKNOWN_CALL, Argument, DeviceKernel, Go, Spec, ended_by_device_errors
from evokern_gpu.launches import Copy, Fill, Item, Launch, LaunchList, call_key

FIRST_BLOCKER_NS = (10_000_000, 1_000_000)
"""Of the first two samples of a call: in the first the driver may have to load and to make room, of the second nothing is known."""

LEAST_BLOCKER_NS, MOST_BLOCKER_NS = 100_000, 50_000_000

BLOCKERS = 3
"""Times the longest of the last `_LATE` times that it took to enqueue the call; twice is what a sample needs."""

_LATE = 8
_READ_BYTES = 1 << 24
_PORTABLE_CLUSTER = 8
_FILLS = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}
_FILLS_2D = {1: "cuMemsetD2D8Async", 2: "cuMemsetD2D16Async", 4: "cuMemsetD2D32Async"}

Step = Callable[[], None]


class SealedKernel(DeviceKernel):
    """The launch lists of one kernel.

    Args:
        held: Binaries and lists.
        driver: The device; a new one of this process where None.

    Attributes:
        claimed_ns: Device time of the last sample.

    Raises:
        ValueError: A binary cannot be loaded, or a list asks for a kernel that is in none of them, or in two.
        Unavailable: No device.
    """

    def __init__(self, held: Bundle, driver: Driver | None = None) -> None:
        super().__init__(driver)
        self._held = held
        with ended_by_device_errors():
            self._functions = self._loaded()
            code = instruments.Instruments(self.driver, held.instruments)
            size = instruments.EVICTED * int(self.driver.facts()["l2_bytes"])
            self._clean, self._word = self.driver.allocate(size), self.driver.allocate(4096)
            self.driver.fill(self._clean, instruments.CLEAN, size)
            self._evict = code.read(self._clean, size, self._word, self.stream)
            self._spin = code.spin(LEAST_BLOCKER_NS, self.stream)
            self.driver.synchronise()
        self._took_ns: dict[str, deque[int]] = {}

    def bind(self, specs: Sequence[Spec], windows: Sequence[int], workspace: int) -> None:
        """Take the addresses of the windows of all calls that follow; 0 for scalars, and where there is no workspace.

        Raises:
            ValueError: A call of the bundle has another number of arguments.
        """
        if len(specs) != self._held.arguments:
            raise ValueError(f"calls of {self._held.arguments} arguments, and {len(specs)} are bound")
        super().bind(specs, windows, workspace)

    def run(self, go: Go) -> int:
        """One call that is not timed; `UNKNOWN_CALL` or `OUTSIDE` where nothing was run, else 0."""
        with ended_by_device_errors():
            steps = self._steps(go)
            if isinstance(steps, int):
                return steps
            for step in steps:
                step()
            self.driver.synchronise()
        return 0

    def sample(self, go: Go, *, cold: bool) -> tuple[int, int]:
        """One call between two events.

        Args:
            go: The call.
            cold: Whether caches are made cold before.

        Returns:
            Status and nanoseconds: 0; `OUTRAN` where the sample is void, though the outputs are written; `UNKNOWN_CALL` or `OUTSIDE`
            where nothing was run.
        """
        with ended_by_device_errors():
            steps = self._steps(go)
            if isinstance(steps, int):
                return steps, 0
            took = self._took_ns.setdefault(call_key(go.places, go.workspace_bytes), deque(maxlen=_LATE))
            status = self._sample(steps, took, is_cold=cold)
        return status, self.claimed_ns

    def _steps(self, go: Go) -> list[Step] | int:
        """What a call enqueues, or the status where it cannot be run."""
        self.claimed_ns = 0
        key = call_key(go.places, go.workspace_bytes)
        items = self._held.calls.get(key)
        if items is None:
            return UNKNOWN_CALL
        addresses = [argument.address for argument in self.arguments(go)] + [self.workspace_address(go)]
        if not self._inside(items, addresses):
            return OUTSIDE
        return [self._step(item, addresses) for item in items]

    def invoke(self, arguments: Sequence[Argument], go: Go, stream: int) -> int:
        """Never called: there is no host code here."""
        raise NotImplementedError

    def _sample(self, steps: Sequence[Step], took_ns: deque[int], *, is_cold: bool) -> int:
        driver, stream, blocker_ns = self.driver, self.stream, _blocker_ns(took_ns)
        code = self._blocker(blocker_ns)
        start = time.perf_counter_ns()
        driver.launch(code)
        if is_cold:
            driver.launch(self._evict)
        driver.record(self._start, stream)
        for step in steps:
            step()
        driver.record(self._end, stream)
        took = time.perf_counter_ns() - start
        driver.synchronise()
        self.claimed_ns = driver.elapsed_ns(self._start, self._end)
        _note(took_ns, took)
        # The blocker began after `start`: it cannot have ended before `start` and its length.
        return 0 if took < blocker_ns else OUTRAN

    def _blocker(self, nanoseconds: int) -> Prepared:
        """The blocker, of this length: its only parameter is set in place."""
        ctypes.c_uint64.from_buffer(self._spin.parameters).value = nanoseconds
        return self._spin

    # What is run.

    def _loaded(self) -> dict[str, int]:
        """The kernels that the lists ask for, by name."""
        modules = []
        for image in self._held.images:
            try:
                modules.append(self.driver.module(image))
            except DriverError as error:
                if error.is_fatal:
                    raise
                raise ValueError(f"a binary cannot be loaded: {error}") from error
        launches = [item for items in self._held.calls.values() for item in items if isinstance(item, Launch)]
        found = {name: self._only(name, modules) for name in {launch.name for launch in launches}}
        for name, function in found.items():
            self._prepare(function, [launch for launch in launches if launch.name == name])
        return found

    def _only(self, name: str, modules: Sequence[int]) -> int:
        functions = [function for function in (self.driver.function(module, name) for module in modules) if function]
        if len(functions) != 1:
            raise ValueError(f"{name} is in {len(functions)} of its binaries")
        return functions[0]

    def _prepare(self, function: int, launches: Sequence[Launch]) -> None:
        """Allow what the launches of a kernel ask for."""
        shared = max(launch.shared_bytes for launch in launches)
        clusters = [launch.cluster[0] * launch.cluster[1] * launch.cluster[2] for launch in launches if launch.cluster]
        layout = self.driver.parameters_of(function)
        size = max((offset + length for offset, length in layout), default=0)
        if any(len(launch.parameters) != size for launch in launches):
            raise ValueError(f"parameters of another length than those of {launches[0].name}")
        try:
            if shared:
                self.driver.set_attribute(function, cuda.DYNAMIC_SHARED, shared)
            if max(clusters, default=0) > _PORTABLE_CLUSTER:
                self.driver.set_attribute(function, cuda.ANY_CLUSTER, 1)
        except DriverError as error:
            if error.is_fatal:
                raise
            raise ValueError(f"{launches[0].name} cannot be launched so: {error}") from error

    def _inside(self, items: LaunchList, addresses: Sequence[int]) -> bool:
        spans = self._spans()
        for spot in (spot for item in items for spot in item.spots):
            start, size = spans[spot.argument]
            if not addresses[spot.argument] or not start <= addresses[spot.argument] + spot.offset <= start + size:
                return False
        return True

    def _step(self, item: Item, addresses: Sequence[int]) -> Step:
        """An item, laid out so that to enqueue it is one call."""
        if isinstance(item, Launch):
            return self._kernel(item, addresses)
        if isinstance(item, Fill):
            return self._fill(item, addresses)
        return self._copy(item, addresses)

    def _kernel(self, item: Launch, addresses: Sequence[int]) -> Step:
        prepared = self.driver.prepare(
            self._functions[item.name],
            item.grid,
            item.block,
            item.placed(addresses),
            shared=item.shared_bytes,
            stream=self.stream,
            cluster=item.cluster,
            cooperative=item.cooperative,
            overlaps=item.overlaps,
        )
        return lambda: self.driver.launch(prepared)

    def _fill(self, item: Fill, addresses: Sequence[int]) -> Step:
        to, stream = cuda.Address(addresses[item.to.argument] + item.to.offset), ctypes.c_void_p(self.stream)
        value = _of_size(item.value, item.element_bytes)
        if item.height == 1:
            arguments: tuple[Any, ...] = (to, value, ctypes.c_size_t(item.width), stream)
            return lambda: self.driver.call(_FILLS[item.element_bytes], *arguments)
        sizes = ctypes.c_size_t(item.pitch), value, ctypes.c_size_t(item.width), ctypes.c_size_t(item.height)
        return lambda: self.driver.call(_FILLS_2D[item.element_bytes], to, *sizes, stream)

    def _copy(self, item: Copy, addresses: Sequence[int]) -> Step:
        source = addresses[item.source.argument] + item.source.offset
        to, stream = addresses[item.to.argument] + item.to.offset, ctypes.c_void_p(self.stream)
        if item.height == 1:
            arguments = cuda.Address(to), cuda.Address(source), ctypes.c_size_t(item.width), stream
            return lambda: self.driver.call("cuMemcpyDtoDAsync_v2", *arguments)
        held = cuda.Copy2D(
            source_type=cuda.DEVICE_MEMORY,
            source_device=source,
            source_pitch=item.source_pitch,
            to_type=cuda.DEVICE_MEMORY,
            to_device=to,
            to_pitch=item.pitch,
            width=item.width,
            height=item.height,
        )
        return lambda: self.driver.call("cuMemcpy2DAsync_v2", ctypes.byref(held), stream)


def _blocker_ns(took_ns: deque[int]) -> int:
    """How long the blocker of the next sample of a call is to be, after what was noted of those before it."""
    if len(took_ns) < len(FIRST_BLOCKER_NS):
        return FIRST_BLOCKER_NS[len(took_ns)]
    return min(max(BLOCKERS * max(took_ns), LEAST_BLOCKER_NS), MOST_BLOCKER_NS)


def _note(took_ns: deque[int], took: int) -> None:
    """Note a time; that of a first sample says nothing of later ones."""
    took_ns.append(took if took_ns else 0)


def _of_size(value: int, size: int) -> Any:
    kinds: dict[int, Any] = {1: ctypes.c_ubyte, 2: ctypes.c_ushort, 4: ctypes.c_uint}
    return kinds[size](value & ((1 << 8 * size) - 1))


def load(descriptor: int, entry: str, *rest: int) -> SealedKernel:
    """Load a bundle (`evokern_gpu.bundle`).

    Args:
        descriptor: Open file of the bundle.
        entry: Name of the kernel's function, for which there is no use here.
        rest: Other descriptors, likewise.

    Raises:
        OSError: It is no bundle that can be run here, with the reason.
        Unavailable: No device.
    """
    try:
        return SealedKernel(Bundle.decode(_content(descriptor)))
    except ValueError as error:
        raise OSError(str(error)) from error


def _content(descriptor: int) -> bytes:
    # A slot may not ask for the size of what it was given.
    parts, at = list[bytes](), 0
    while part := os.pread(descriptor, _READ_BYTES, at):
        parts.append(part)
        at += len(part)
        if at > MOST_BYTES:
            raise ValueError(f"a bundle of more than {MOST_BYTES} bytes")
    return b"".join(parts)
