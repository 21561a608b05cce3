"""Gpu: a device as the judge's process drives it, in a context that no runner shares.

It makes windows, evicts caches and says how the device is. Fills, copies and comparisons are PyTorch's, on tensors over windows.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evokern.backend import Noted, Replay, Window
from evokern.errors import Unavailable
from evokern_gpu import clock, instruments
from evokern_gpu.bundle import bundle
from evokern_gpu.driver import Driver, DriverError, Prepared
from evokern_gpu.launches import call_key
from evokern_gpu.relocation import relocated

if TYPE_CHECKING:
    from torch import Tensor

PROBE_STEPS = 4096
"""Dependent operations of the probe: about 8 us on an H200."""

_OUT_OF_MEMORY = 2
_DEFAULT_STREAM = 0


class DeviceWindow:
    """One tensor's memory, an allocation of its own, shared with one runner by its descriptor (`evokern.backend.Window`).

    Args:
        driver: The device.
        size: Bytes; a multiple of the device's granularity.

    Attributes:
        size: Bytes.
        address: Where it is in this process.
        descriptor: What travels to the runner beside BIND; owned by the window.

    Raises:
        DriverError: No such memory is left.
    """

    def __init__(self, driver: Driver, size: int) -> None:
        self._driver, self.size = driver, size
        self.address, self.descriptor = driver.export(size)

    def close(self) -> None:
        """Give the memory back, once all work of this process is done; runners that still map it keep it until they end."""
        if self.descriptor < 0:
            return
        descriptor, self.descriptor = self.descriptor, -1
        os.close(descriptor)
        self._driver.enter()
        self._driver.synchronise()
        self._driver.unmap(self.address)


class Gpu:
    """One GPU in the judge's process (`evokern.backend.Device`); methods may be called from any thread, one at a time.

    Args:
        ordinal: Which, as CUDA counts them here.
        home: Folder in which `ceilings` are kept; they are measured anew each time where None.

    Attributes:
        driver: The device.
        image: Our own device code for it, as sealed bundles carry it.

    Raises:
        Unavailable: No driver, no device, or no assembler for our own device code.
    """

    def __init__(self, ordinal: int = 0, *, home: Path | None = None) -> None:
        self.driver = Driver(ordinal)
        self.ordinal, self._home = ordinal, home
        self._facts = self.driver.facts()
        self.image = instruments.cubin(self._facts["arch"])
        self._monitor = clock.Monitor(self._facts["uuid"])
        self._instruments = instruments.Instruments(self.driver, self.image)
        self._stream = self.driver.stream(is_blocking=False)
        self._done = self.driver.event()
        self._word = self.driver.allocate(4096)
        self._probe = self._instruments.probe(PROBE_STEPS, self._word, self._stream)
        self._evicted = 0
        self._evict: Prepared | None = None

    def facts(self) -> dict[str, str | int]:
        """name, uuid, arch ("sm_90"), driver ("580.159.04"), cuda, memory_bytes, l2_bytes, multiprocessors, shared_bytes (of a block)."""
        return {**self._facts, "driver": self._monitor.driver() or str(self._facts["cuda"])}

    def window(self, size: int) -> DeviceWindow:
        """A window of at least this many bytes, whole steps of the device's granularity.

        Raises:
            Unavailable: The device has no such memory left.
        """
        self.driver.enter()
        step = self.driver.granularity()
        rounded = max(-(-size // step), 1) * step
        try:
            return DeviceWindow(self.driver, rounded)
        except DriverError as error:
            if error.code != _OUT_OF_MEMORY:
                raise
            raise Unavailable(f"the GPU has no {rounded} bytes left", mend="End what else uses it") from error

    def tensor(self, window: Window) -> Tensor:
        """The window as a tensor on the device: uint8, shape (size,), no copy; valid until the window is closed."""
        import torch

        self.driver.enter()
        return torch.as_tensor(Memory(window.address, window.size), device=f"cuda:{self.ordinal}")

    def evict(self) -> None:
        """Read four times the L2, so that nothing else is cached and nothing is left to write back; returns when it is done.

        On the default stream, after all that PyTorch has enqueued there.
        """
        self.driver.enter()
        if self._evict is None:
            size = instruments.EVICTED * self._facts["l2_bytes"]
            self._evicted = self.driver.allocate(size)
            self.driver.fill(self._evicted, instruments.CLEAN, size)
            self._evict = self._instruments.read(self._evicted, size, self._word, _DEFAULT_STREAM)
        self.driver.launch(self._evict)
        self.driver.record(self._done, _DEFAULT_STREAM)
        self.driver.wait_for(self._done)

    def probe_us(self) -> float:
        """Wall time of a known kernel on a stream of its own: longer where somebody else's work is on the device."""
        self.driver.enter()
        start = time.perf_counter_ns()
        self.driver.launch(self._probe)
        self.driver.record(self._done, self._stream)
        self.driver.wait_for(self._done)
        return (time.perf_counter_ns() - start) / 1e3

    def ceilings(self) -> dict[str, float]:
        """What the device can do at best: copy, read, write (bytes/s), launch_us, matrix, vector (flop/s; `evokern_gpu.ceilings.kept`).

        Measured once a device and driver, and kept under the home.
        """
        from evokern_gpu import ceilings

        self.driver.enter()
        return ceilings.kept(self, self._home)

    def clock(self) -> dict[str, float | str]:
        """sm_mhz, memory_mhz, temperature (C), power_w and throttle (words, or empty) by NVML; what is not known is left out."""
        return self._monitor.now()

    def sealed_loader(self) -> str:
        """`module:function` with which a runner loads what `sealed` made."""
        return "evokern_gpu.sealed:load"

    def sealed(self, images: Sequence[bytes], calls: Sequence[Noted]) -> bytes:
        """What runs noted calls without the host code that made them (`evokern_gpu.bundle`).

        Args:
            images: Device binaries of the kernel.
            calls: Two notes of each call.

        Raises:
            ValueError: There is no such thing; the text says why, in words after "it".
        """
        if not calls:
            raise ValueError("has no call that was noted")
        lists = {call_key(call.places, call.workspace_bytes): relocated(call.first, call.second) for call in calls}
        return bundle(images, lists, instruments=self.image, arguments=max(len(call.places) for call in calls))

    def profile(self, sealed: bytes, calls: Sequence[Replay]) -> list[dict[str, float]]:
        """Counters of calls of a sealed kernel (`evokern_gpu.profiling`).

        Raises:
            Unavailable: No ncu, or no counters for us; the text says why.
        """
        from evokern_gpu import profiling

        return profiling.profile(sealed, calls, ordinal=self.ordinal)

    def resident(self) -> str:
        """`module:Class` that holds windows, and takes samples, in a trusted process with PyTorch."""
        return "evokern_gpu.resident:Resident"

    def close(self) -> None:
        """Give back what this holds of the device; windows are their holders' to close."""
        self.driver.enter()
        with contextlib.suppress(DriverError):
            self.driver.synchronise()
            for address in filter(None, (self._word, self._evicted)):
                self.driver.free(address)
        self._word = self._evicted = 0
        self._evict = None
        self._monitor.close()


class Memory:
    """Bytes of device memory as array libraries take them, uint8, shape (size,).

    Source: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, version 3.

    Args:
        address: Of the first.
        size: How many.
    """

    def __init__(self, address: int, size: int) -> None:
        data = (address, False)
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": data, "strides": None, "version": 3}
