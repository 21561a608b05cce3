"""Windows in a device's memory (EVALUATOR section 2).

Each is an allocation of its own that the judge exports to one runner. What the judge writes and looks at is a mirror of it on the
host: only the bytes about the tensors of a call travel, there before it and back after it. Large tensors stay on the device
(`evokern.evaluator.device.far`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from evokern.backend import Device
from evokern.evaluator.call.window import SLACK_BYTES, Frame, Placed
from evokern.evaluator.device.far import FAR_BYTES, Far, Sources
from evokern.evaluator.device.window import DeviceWindow
from evokern.sandbox.policy import Policy


class DeviceMemory:
    """Where windows live on a device (`evokern.evaluator.call.window.Memory`).

    Args:
        device: The judge's.
        policy: Of the slots whose runners use it.
        sources: Inputs on the device, shared with whoever else writes them there; of its own where None.
    """

    def __init__(self, device: Device, policy: Policy = Policy.DEVICE, sources: Sources | None = None) -> None:
        self.device, self.policy, self._sources = device, policy, sources or Sources()
        self._one_at_a_time = threading.Lock()

    def window(self, size: int, reach: int, *, read_only: bool) -> DeviceWindow:
        """A window of at least `size` bytes; `reach` matters to the host alone."""
        with self._one_at_a_time:
            exported = self.device.window(size)
            return DeviceWindow(exported, exported.size, self.device.tensor(exported), read_only=read_only)

    def publish(self, frame: Frame, placed: Sequence[Placed]) -> None:
        """Copy what was written about each tensor, and about the workspace, to the device."""
        for window, first, last in self._regions(frame, placed):
            window.tensor[first:last].copy_(_host(window, first, last))
        _wait()

    def retire(self, frame: Frame, placed: Sequence[Placed]) -> None:
        """Copy a word of every tensor within the device, and wait: the copy waits out what the runner's context still does."""
        found = [one.window.tensor[one.place.offset : one.place.offset + 1] for one in placed if isinstance(one.window, DeviceWindow)]
        if found:
            _together(found)
        _wait()

    def collect(self, frame: Frame, placed: Sequence[Placed]) -> None:
        """Copy the same bytes back to the host."""
        for window, first, last in self._regions(frame, placed):
            _host(window, first, last).copy_(window.tensor[first:last])
        _wait()

    def far(self, one: Placed) -> Far | None:
        """A large tensor, which stays on the device; None for one that travels."""
        return Far(one, self._sources) if isinstance(one.window, DeviceWindow) and one.extent > FAR_BYTES else None

    def _regions(self, frame: Frame, placed: Sequence[Placed]) -> list[tuple[DeviceWindow, int, int]]:
        """Window, first byte and the one after the last, of all that a call may be about and that travels."""
        found: list[tuple[DeviceWindow, int, int]] = []
        for one in placed:
            if isinstance(one.window, DeviceWindow) and self.far(one) is None:
                found.append(_about(one.window, one.place.offset, one.extent))
        if isinstance(frame.workspace, DeviceWindow):
            found.append(_about(frame.workspace, frame.workspace_offset, frame.workspace_bytes))
        return found


def _about(window: DeviceWindow, offset: int, extent: int) -> tuple[DeviceWindow, int, int]:
    return window, max(offset - SLACK_BYTES, 0), min(offset + extent + SLACK_BYTES, window.size)


def _host(window: DeviceWindow, first: int, last: int) -> Any:
    import torch

    return torch.from_numpy(window.bytes[first:last])


def _together(parts: Sequence[Any]) -> Any:
    import torch

    return torch.cat(list(parts))


def _wait() -> None:
    """Wait for the judge's own work."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
