"""Which GPU is here, asked of the management library: no context is made and no driver started, so the process may still fork.

`device` drives the GPU; this only says what it is, for `probe`, for compilers and for people.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from evokern.errors import Unavailable

LIBRARY = "libnvidia-ml.so.1"
VISIBLE = "CUDA_VISIBLE_DEVICES"

_TEXT = 96
_NO_GPU = "A machine with an NVIDIA GPU and its driver is needed to run; compile gates work without"


@dataclass(frozen=True, slots=True)
class Card:
    """One NVIDIA GPU.

    Attributes:
        name: Its model.
        driver: Version of the driver.
        arch: Compute capability as nvcc writes it, such as "sm_90".
    """

    name: str
    driver: str
    arch: str


def find() -> Card:
    """The GPU that CUDA would use first.

    Raises:
        Unavailable: There is no driver, or no GPU that may be used.
    """
    return _found(LIBRARY, os.environ.get(VISIBLE))


@lru_cache(maxsize=8)
def _found(library: str, visible: str | None) -> Card:
    # Every kernel that is built asks, and a GPU stays what it is.
    with _opened(library) as nvml:
        handle = _handle(nvml, visible)
        name, driver = ctypes.create_string_buffer(_TEXT), ctypes.create_string_buffer(_TEXT)
        major, minor = ctypes.c_int(), ctypes.c_int()
        _asked(nvml, "nvmlDeviceGetName", handle, name, _TEXT)
        _asked(nvml, "nvmlSystemGetDriverVersion", driver, _TEXT)
        _asked(nvml, "nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
    return Card(name.value.decode("utf-8", "replace"), driver.value.decode("utf-8", "replace"), f"sm_{major.value}{minor.value}")


@contextmanager
def _opened(library: str) -> Iterator[ctypes.CDLL]:
    try:
        nvml = ctypes.CDLL(library)
    except OSError as error:
        raise Unavailable("no NVIDIA driver is here", where=library, mend=_NO_GPU) from error
    _asked(nvml, "nvmlInit_v2")
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _handle(nvml: ctypes.CDLL, visible: str | None) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    first = "0" if visible is None else visible.split(",", maxsplit=1)[0].strip()
    if first.startswith("GPU-"):
        _asked(nvml, "nvmlDeviceGetHandleByUUID", first.encode(), ctypes.byref(handle))
    elif first.isascii() and first.isdigit():
        _asked(nvml, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(first)), ctypes.byref(handle))
    else:
        raise Unavailable("no GPU may be used", where=f"{VISIBLE}={visible}", mend="Unset it, or name a GPU")
    return handle


def _asked(nvml: ctypes.CDLL, name: str, *arguments: object) -> None:
    status = getattr(nvml, name)(*arguments)
    if status:
        nvml.nvmlErrorString.restype = ctypes.c_char_p
        said = nvml.nvmlErrorString(status) or b""
        raise Unavailable(f"{name}: {said.decode('utf-8', 'replace')}", where=LIBRARY, mend=_NO_GPU)
