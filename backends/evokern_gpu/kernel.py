"""DeviceKernel: what a GPU runner holds. Its windows are device memory, its calls run on a stream of its own.

Subclasses say how a kernel is called (`invoke`); windows, streams, capture and errors of the device are here.
Runs in the sandbox beside candidate code, and imports nothing that is not in a bare Python.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evokern_gpu import capture
from evokern_gpu.driver import Driver, DriverError

DEVICE_ERROR = 121
"""Exit status of a runner whose device context is lost; the driver's error stands on its stderr."""

OUTRAN = 122
"""Status of a sealed call that took longer to enqueue than the device was kept busy for: no sample."""

UNKNOWN_CALL = 123
"""Status of a sealed call for whose shapes, strides and scalars there is no launch list."""

OUTSIDE = 124
"""Status of a sealed call one of whose addresses would lie outside its window."""


class Spec(Protocol):
    """Static half of one argument (`evokern.evaluator.call.protocol.Spec`)."""

    code: int
    bits: int
    ndim: int


class Place(Protocol):
    """One argument of one call (`evokern.evaluator.call.protocol.Place`)."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    scalar: bytes


class Go(Protocol):
    """One call (`evokern.evaluator.call.protocol.Go`)."""

    places: tuple[Any, ...]
    workspace_offset: int
    workspace_bytes: int


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of one call, as a kernel gets it.

    Attributes:
        code: DLPack type code: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool.
        bits: DLPack bits.
        address: Of the first element, on the device; 0 for a scalar.
        shape: Elements per dimension; empty for a scalar.
        strides: Elements between neighbours, per dimension.
        scalar: Bytes of a scalar's value, little-endian, padded to 8.
    """

    code: int
    bits: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    scalar: bytes

    @property
    def is_scalar(self) -> bool:
        """Whether it is passed by value."""
        return not self.address


class MappedWindow:
    """A window as a runner holds it.

    Args:
        kernel: Whose.
        address: Of its first byte, on the device.

    Attributes:
        address: See above.
    """

    def __init__(self, kernel: DeviceKernel, address: int) -> None:
        self._kernel, self.address = kernel, address

    def close(self) -> None:
        """Unmap it."""
        self._kernel.unmap(self.address)


class DeviceKernel:
    """A kernel whose arguments live in windows of device memory (`evokern.evaluator.call.runner.Loaded`).

    Args:
        driver: The device; a new one of this process where None.

    Attributes:
        driver: The device.
        stream: Where calls run; it and the default stream wait for each other, so that what is launched there by mistake is neither
            missed by the clock nor by a capture.
        claimed_ns: Device time of the last call by events that were recorded around it. A claim: host code of the candidate runs here.

    Raises:
        Unavailable: No device.
    """

    def __init__(self, driver: Driver | None = None) -> None:
        with ended_by_device_errors():
            self.driver = driver or Driver(eager=True)
            self.stream = self.driver.stream(is_blocking=True)
            self._start, self._end = self.driver.event(), self.driver.event()
        self.claimed_ns = 0
        self.specs: Sequence[Spec] = ()
        self.windows: Sequence[int] = ()
        self.workspace = 0
        self._sizes: dict[int, int] = {}

    # What a subclass says.

    def invoke(self, arguments: Sequence[Argument], go: Go, stream: int) -> int:
        """Enqueue one call; called by `run` and, while the stream is being captured, by `capture`.

        Args:
            arguments: In the task's order.
            go: The call; its workspace is at `workspace_address(go)`.
            stream: Where all work goes. Nothing here may wait for the device.

        Returns:
            The kernel's own status, 0 where it took the call.
        """
        raise NotImplementedError

    def workspace_size(self, go: Go) -> int:
        """Bytes of workspace that this call would need; 0 where a subclass does not say otherwise."""
        return 0

    # What a runner asks for.

    def window(self, descriptor: int, size: int, *, read_only: bool = False) -> MappedWindow:
        """Map a window that the judge exported.

        Args:
            descriptor: Of its memory; closed here.
            size: Its bytes, a multiple of the device's granularity.
            read_only: Whether the device may only read it, where the driver can see to that.
        """
        try:
            with ended_by_device_errors():
                address = self.driver.import_(descriptor, size, read_only=read_only)
        finally:
            os.close(descriptor)
        self._sizes[address] = size
        return MappedWindow(self, address)

    def unmap(self, address: int) -> None:
        """Give a window back, once all work is done; see `MappedWindow.close`."""
        with ended_by_device_errors():
            self.driver.synchronise()
            self.driver.unmap(address)
        self._sizes.pop(address, None)

    def bind(self, specs: Sequence[Spec], windows: Sequence[int], workspace: int) -> None:
        """Take the addresses of the windows of all calls that follow; 0 for scalars, and where there is no workspace."""
        self.specs, self.windows, self.workspace = tuple(specs), tuple(windows), workspace

    def run(self, go: Go) -> int:
        """One call, finished when this returns; the kernel's own status."""
        arguments = self.arguments(go)
        with ended_by_device_errors():
            self.driver.record(self._start, self.stream)
            status = self.invoke(arguments, go, self.stream)
            self.driver.record(self._end, self.stream)
            # The whole context: a candidate may use streams of its own.
            self.driver.synchronise()
            self.claimed_ns = self.driver.elapsed_ns(self._start, self._end)
        return status

    def serve(self, descriptor: int) -> None:
        """Nothing: calls are answered by the runner's own loop."""

    def capture(self, go: Go) -> bytes:
        """Run a call once, then note what it launches without running it (`evokern_gpu.capture`).

        Two of these, of calls that differ in every offset and in nothing else, make a launch list (`evokern_gpu.relocation`). Always
        answers; where launches cannot be noted it holds the reason in words. A runner that was asked this is used for no other call:
        what a broken capture leaves in the candidate's host code is not known.
        """
        arguments = self.arguments(go)
        with ended_by_device_errors():
            noted = capture.noted(self.driver, self.stream, lambda: self.invoke(arguments, go, self.stream), self._taken())
        return noted.encode(
            places=[argument.address for argument in arguments], workspace=self.workspace_address(go), windows=self._spans()
        )

    # What subclasses may use.

    def arguments(self, go: Go) -> list[Argument]:
        """The arguments of a call."""
        return [
            Argument(spec.code, spec.bits, window + place.offset if spec.ndim else 0, place.shape, place.strides, place.scalar)
            for spec, window, place in zip(self.specs, self.windows, go.places, strict=True)
        ]

    def workspace_address(self, go: Go) -> int:
        """Where the workspace of a call begins; 0 where it has none."""
        return self.workspace + go.workspace_offset if self.workspace and go.workspace_bytes else 0

    def _spans(self) -> list[tuple[int, int]]:
        """(address, bytes) of each argument's window and then the workspace's; (0, 0) where there is none."""
        return [(window, self._sizes.get(window, 0)) for window in (*self.windows, self.workspace)]

    def _taken(self) -> list[tuple[int, int]]:
        return [span for span in self._spans() if span[0]]


@contextlib.contextmanager
def ended_by_device_errors() -> Iterator[None]:
    """End this process with `DEVICE_ERROR` and a line on stderr where the driver fails: nothing here could go on."""
    try:
        yield
    except DriverError as error:
        os.write(2, f"device error: {error}\n".encode())
        os._exit(DEVICE_ERROR)
