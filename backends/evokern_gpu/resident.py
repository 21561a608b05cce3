"""Resident: a device's windows in a trusted process that holds PyTorch, and samples of what it enqueues (baselines).

No code of a candidate runs there, so its events are believed as those of sealed kernels are (`evokern_gpu.sealed`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evokern_gpu import instruments
from evokern_gpu.device import Memory
from evokern_gpu.driver import Driver
from evokern_gpu.kernel import OUTRAN

if TYPE_CHECKING:
    from torch import Tensor

_LONGER = 2.5
"""The device is kept busy for so many times what the last sample of its kind took to enqueue."""

_FIRST_NS, _LEAST_NS, _MOST_NS = 2_000_000, 50_000, 200_000_000
_DEFAULT_STREAM = 0


class Resident:
    """The device, for a process that stays. PyTorch must compute on its default stream.

    Raises:
        Unavailable: No device.
    """

    def __init__(self) -> None:
        import torch

        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self._torch, self._driver = torch, Driver()
        facts = self._driver.facts()
        self._instruments = instruments.Instruments(self._driver, instruments.cubin(facts["arch"]))
        self._word, size = self._driver.allocate(4096), instruments.EVICTED * int(facts["l2_bytes"])
        clean = self._driver.allocate(size)
        self._driver.fill(clean, instruments.CLEAN, size)
        self._evict = self._instruments.read(clean, size, self._word, _DEFAULT_STREAM)
        self._start, self._end = self._driver.event(), self._driver.event()
        self._enqueued_ns: dict[object, int] = {}

    def window(self, descriptor: int, size: int) -> Tensor:
        """The judge's memory as bytes on the device, shape (size,); the descriptor is closed."""
        try:
            address = self._driver.import_(descriptor, size, read_only=False)
        finally:
            os.close(descriptor)
        return self._torch.as_tensor(Memory(address, size), device="cuda")

    def part(self, window: Any, offset: int, size: int) -> Tensor:
        """Bytes of a window as a tensor that begins at its first element: a storage offset is one more thing to depend on."""
        return self._torch.as_tensor(Memory(window.data_ptr() + offset, size), device="cuda")

    def synchronise(self) -> None:
        """Wait for the device."""
        self._torch.cuda.synchronize()

    def sample(self, run: Callable[[], object], key: object, *, cold: bool) -> tuple[int, int]:
        """Device time of what `run` enqueues, between two events.

        Args:
            run: Enqueues on the default stream, and waits for nothing.
            key: What is alike takes alike to enqueue.
            cold: Whether caches are emptied before, by reading.

        Returns:
            0 or `OUTRAN`, and nanoseconds.
        """
        last = self._enqueued_ns.get(key, _FIRST_NS)
        busy_ns = min(max(int(_LONGER * last), _LEAST_NS), _MOST_NS)
        began = time.perf_counter_ns()
        self._driver.launch(self._instruments.spin(busy_ns, _DEFAULT_STREAM))
        if cold:
            self._driver.launch(self._evict)
        self._driver.record(self._start, _DEFAULT_STREAM)
        held = run()
        self._driver.record(self._end, _DEFAULT_STREAM)
        enqueued_ns = self._enqueued_ns[key] = time.perf_counter_ns() - began
        self._driver.wait_for(self._end)
        del held
        return OUTRAN if enqueued_ns > busy_ns else 0, int(self._driver.elapsed_ns(self._start, self._end))
