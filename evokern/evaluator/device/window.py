"""A window in a device's memory, with a mirror of it on the host."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

import numpy as np

from evokern.backend import Window as Exported
from evokern.evaluator.call.window import Bytes, Window

if TYPE_CHECKING:
    import torch

_MAP_NORESERVE = 0x4000


class DeviceWindow(Window):
    """A window on a device, with its mirror on the host.

    Args:
        exported: The device's memory.
        size: Bytes that the runner may use, a multiple of the page size; the device may round up.
        tensor: The same memory as bytes, shape (size,), on the device.
        read_only: Whether the runner is to map it for reading alone.

    Attributes:
        bytes: The mirror, shape (size,), uint8: pages are there once they are touched.
        tensor: See above.
    """

    def __init__(self, exported: Exported, size: int, tensor: torch.Tensor, *, read_only: bool) -> None:
        self._exported = exported
        self.size, self.read_only, self.descriptor = exported.size, read_only, exported.descriptor
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        self.bytes: Bytes = np.frombuffer(self._map, np.uint8)
        self.tensor = tensor

    def close(self) -> None:
        """Give the memory back once the runner is gone too."""
        self.bytes = np.empty(0, np.uint8)
        del self.tensor
        self._exported.close()
