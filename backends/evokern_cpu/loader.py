"""What a runner imports: the descriptor of a built library -> a callable kernel.

Runs in the sandbox, beside candidate code. Imports ctypes and nothing else that is not in a bare Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol


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


class DLDevice(ctypes.Structure):
    """As in DLPack's dlpack.h."""

    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    """As in DLPack's dlpack.h."""

    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    """As in DLPack's dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_CPU = 1  # kDLCPU


class LoadedKernel:
    """A kernel whose arguments live in windows. Everything is allocated in `bind`; a call only sets fields.

    Args:
        library: The loaded library.
        entry: Name of its function.

    Raises:
        AttributeError: The library has no such function.
    """

    def __init__(self, library: ctypes.CDLL, entry: str) -> None:
        self._run = getattr(library, entry)
        self._run.restype = ctypes.c_int
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        self._size = getattr(library, "workspace_size", None)
        if self._size is not None:
            self._size.restype = ctypes.c_size_t
            self._size.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self._arguments: list[_Argument] = []
        self._pointers: ctypes.Array[Any] = (ctypes.POINTER(DLTensor) * 0)()
        self._workspace = 0

    def bind(self, specs: Sequence[Spec], windows: Sequence[int], workspace: int) -> None:
        """Take the addresses of the windows of all calls that follow; 0 for scalars, and where there is no workspace."""
        self._arguments = [_Argument(spec, window) for spec, window in zip(specs, windows, strict=True)]
        pointers = [ctypes.pointer(argument.tensor) for argument in self._arguments]
        self._pointers = (ctypes.POINTER(DLTensor) * len(pointers))(*pointers)
        self._workspace = workspace

    def run(self, go: Go) -> int:
        """One call; the kernel's own status."""
        self._place(go.places)
        workspace = self._workspace + go.workspace_offset if self._workspace and go.workspace_bytes else None
        status: int = self._run(self._pointers, len(self._arguments), workspace, go.workspace_bytes, None)
        return status

    def workspace_size(self, go: Go) -> int:
        """Bytes of workspace that this call would need; 0 where the kernel does not say."""
        if self._size is None:
            return 0
        self._place(go.places)
        return int(self._size(self._pointers, len(self._arguments)))

    def _place(self, places: Sequence[Place]) -> None:
        for argument, place in zip(self._arguments, places, strict=True):
            argument.place(place)


class _Argument:
    def __init__(self, spec: Spec, window: int) -> None:
        self._shape = (ctypes.c_int64 * max(spec.ndim, 1))()
        self._strides = (ctypes.c_int64 * max(spec.ndim, 1))()
        self._scalar = ctypes.create_string_buffer(8)
        self._base = window or ctypes.addressof(self._scalar)
        self.tensor = DLTensor(
            data=self._base,
            device=DLDevice(_CPU, 0),
            ndim=spec.ndim,
            dtype=DLDataType(spec.code, spec.bits, 1),
            shape=self._shape,
            strides=self._strides,
        )

    def place(self, place: Place) -> None:
        # The offset is in `data` and byte_offset stays 0, as PyTorch and NumPy do it: a kernel that forgets byte_offset works too.
        if self.tensor.ndim:
            self._shape[:] = list(place.shape)
            self._strides[:] = list(place.strides)
            self.tensor.data = self._base + place.offset
        else:
            ctypes.memmove(self._scalar, place.scalar, 8)


def load(descriptor: int, entry: str) -> LoadedKernel:
    """Load a library.

    The linker opens libraries by name only. A slot without /proc has a copy of what it was given under that name.

    Args:
        descriptor: Open file of the library. It stays open: the linker knows libraries by name, and would take another file
            that came to this number for the one it has loaded.
        entry: Name of its function.

    Raises:
        OSError: It cannot be loaded, with the linker's message.
        AttributeError: It has no such function.
    """
    return LoadedKernel(ctypes.CDLL(f"/dev/fd/{descriptor}"), entry)
