"""What NVML says of a device at this moment: clocks, temperature, power and why it is held back. By ctypes on libnvidia-ml.so.1."""

from __future__ import annotations

import ctypes
from typing import Any

LIBRARY = "libnvidia-ml.so.1"

_SM, _MEMORY = 1, 2
_GPU_TEMPERATURE = 0
_REASONS = {
    0x2: "clocks set by a person",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "clocks of a group",
    0x20: "software thermal limit",
    0x40: "hardware thermal limit",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
"""nvmlClocksEventReason* of nvml.h; 0x1 is an idle device, which is no reason."""


class Monitor:
    """NVML on one device; says nothing where there is no NVML.

    Args:
        uuid: The device's, "GPU-...".
    """

    def __init__(self, uuid: str) -> None:
        self._device = ctypes.c_void_p()
        self._library: ctypes.CDLL | None = None
        try:
            library = ctypes.CDLL(LIBRARY)
        except OSError:
            return
        if library.nvmlInit_v2() == 0:
            self._library = library
            if library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._device)):
                self.close()

    def driver(self) -> str:
        """Version of the driver, "580.159.04"; empty where it is not known."""
        text = ctypes.create_string_buffer(96)
        if self._library is None or self._library.nvmlSystemGetDriverVersion(text, len(text)):
            return ""
        return text.value.decode("utf-8", "replace")

    def now(self) -> dict[str, float | str]:
        """sm_mhz, memory_mhz, temperature (C), power_w and throttle (words, or empty); what is not known is left out."""
        if self._library is None:
            return {}
        told = {
            "sm_mhz": self._number("nvmlDeviceGetClockInfo", ctypes.c_uint, _SM),
            "memory_mhz": self._number("nvmlDeviceGetClockInfo", ctypes.c_uint, _MEMORY),
            "temperature": self._number("nvmlDeviceGetTemperature", ctypes.c_uint, _GPU_TEMPERATURE),
        }
        power = self._number("nvmlDeviceGetPowerUsage", ctypes.c_uint)
        reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
        found: dict[str, float | str] = {name: value for name, value in told.items() if value is not None}
        if power is not None:
            found["power_w"] = power / 1000
        if reasons is not None:
            found["throttle"] = ", ".join(words for bit, words in _REASONS.items() if reasons & bit)
        return found

    def close(self) -> None:
        """Let NVML go."""
        if self._library is not None:
            self._library.nvmlShutdown()
            self._library = None

    def _number(self, name: str, kind: Any, *which: int) -> int | None:
        value = kind()
        call = getattr(self._library, name, None)
        if call is None or call(self._device, *which, ctypes.byref(value)):
            return None
        return int(value.value)
