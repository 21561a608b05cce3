"""What a runner imports: the descriptor of a built library -> a callable kernel.

With the library of `serve.cpp` beside it, a runner's calls are answered there, and what stands here calls kernels for others.

Runs in the sandbox, beside candidate code. Imports ctypes and nothing else that is not in a bare Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import cycle
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


class _Bound(ctypes.Structure):
    """Spec of serve.cpp."""

    _fields_ = [("window", ctypes.c_uint64), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8)]


_CPU = 1  # kDLCPU

RECORDS = 16
"""How many calls pass until a call's arguments lie where those of an earlier one lay."""

_POISON = 0xA5  # a word of it is an address that no process has, and a size that nobody can have


class LoadedKernel:
    """A kernel whose arguments live in windows. Everything is allocated in `bind`; a call only sets fields.

    Structs, shapes, strides and scalars of a call lie elsewhere than those of the `RECORDS` - 1 calls before, and are overwritten
    when it is over: a kernel that keeps any of them for a later call ends, or is wrong.

    Args:
        library: The loaded library.
        entry: Name of its function.
        server: That of serve.cpp, or None.

    Raises:
        AttributeError: The library has no such function.
    """

    def __init__(self, library: ctypes.CDLL, entry: str, server: ctypes.CDLL | None = None) -> None:
        self._server = server
        self._run = getattr(library, entry)
        self._run.restype = ctypes.c_int
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        self._size = getattr(library, "workspace_size", None)
        if self._size is not None:
            self._size.restype = ctypes.c_size_t
            self._size.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self._records: Iterator[_Record] = cycle([_Record((), ())])
        self._workspace = 0

    def bind(self, specs: Sequence[Spec], windows: Sequence[int], workspace: int) -> None:
        """Take the addresses of the windows of all calls that follow; 0 for scalars, and where there is no workspace."""
        if self._server is None:
            self._records = cycle([_Record(specs, windows) for _ in range(RECORDS)])
            self._workspace = workspace
            return
        bound = (_Bound * len(specs))(*(_Bound(at, s.ndim, s.code, s.bits) for s, at in zip(specs, windows, strict=True)))
        if self._server.bind_calls(self._run, self._size, bound, len(specs), ctypes.c_uint64(workspace)):
            raise MemoryError("no memory for the arguments of a call")

    def serve(self, descriptor: int) -> None:
        """Answer calls from a socket, without the interpreter, until there is a record that is none; at once where there is no server."""
        if self._server is not None:
            self._server.serve_calls(descriptor)

    def run(self, go: Go) -> int:
        """One call; the kernel's own status."""
        record = next(self._records)
        record.place(go.places)
        workspace = self._workspace + go.workspace_offset if self._workspace and go.workspace_bytes else None
        status: int = self._run(record.address, record.count, workspace, go.workspace_bytes, None)
        record.poison()
        return status

    def workspace_size(self, go: Go) -> int:
        """Bytes of workspace that this call would need; 0 where the kernel does not say."""
        if self._size is None:
            return 0
        record = next(self._records)
        record.place(go.places)
        size = int(self._size(record.address, record.count))
        record.poison()
        return size


class _Record:
    """All that a kernel is handed in one call, in one piece of memory: the pointers to its structs, and the arguments behind them.

    Args:
        specs: Of the arguments.
        windows: Their addresses; 0 for scalars.
    """

    def __init__(self, specs: Sequence[Spec], windows: Sequence[int]) -> None:
        self.count = len(specs)
        pointers = ctypes.c_void_p * self.count
        self._bytes = ctypes.sizeof(pointers) + sum(_Argument.size(spec) for spec in specs)
        self._memory = ctypes.create_string_buffer(max(self._bytes, 1))
        self.address = at = ctypes.addressof(self._memory)
        at += ctypes.sizeof(pointers)
        self._arguments = []
        for spec, window in zip(specs, windows, strict=True):
            self._arguments.append(_Argument(spec, window, at))
            at += _Argument.size(spec)
        pointers.from_address(self.address)[:] = [argument.address for argument in self._arguments]
        self._fresh = self._memory.raw

    def place(self, places: Sequence[Place]) -> None:
        ctypes.memmove(self.address, self._fresh, self._bytes)
        for argument, place in zip(self._arguments, places, strict=True):
            argument.place(place)

    def poison(self) -> None:
        ctypes.memset(self.address, _POISON, self._bytes)


class _Argument:
    def __init__(self, spec: Spec, window: int, address: int) -> None:
        values = ctypes.c_int64 * max(spec.ndim, 1)
        self.address = address
        self._is_scalar = not spec.ndim
        shape = address + ctypes.sizeof(DLTensor)
        strides = shape + ctypes.sizeof(values)
        self._shape, self._strides = values.from_address(shape), values.from_address(strides)
        self._scalar = strides + ctypes.sizeof(values)
        self._base = window or self._scalar
        self._tensor = DLTensor.from_address(address)
        self._tensor.data = self._base
        self._tensor.device = DLDevice(_CPU, 0)
        self._tensor.ndim = spec.ndim
        self._tensor.dtype = DLDataType(spec.code, spec.bits, 1)
        self._tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        self._tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))

    @staticmethod
    def size(spec: Spec) -> int:
        """Bytes of a struct, its shape, its strides and a scalar."""
        return ctypes.sizeof(DLTensor) + (2 * max(spec.ndim, 1) + 1) * ctypes.sizeof(ctypes.c_int64)

    def place(self, place: Place) -> None:
        # The offset is in `data` and byte_offset stays 0, as PyTorch and NumPy do it: a kernel that forgets byte_offset works too.
        if self._is_scalar:
            ctypes.memmove(self._scalar, place.scalar, 8)
        else:
            self._shape[:] = list(place.shape)
            self._strides[:] = list(place.strides)
            self._tensor.data = self._base + place.offset


def load(descriptor: int, entry: str, server: int | None = None) -> LoadedKernel:
    """Load a library.

    The linker opens libraries by name only. A slot without /proc has a copy of what it was given under that name.

    Args:
        descriptor: Open file of the library. It stays open: the linker knows libraries by name, and would take another file
            that came to this number for the one it has loaded.
        entry: Name of its function.
        server: The same of the library of serve.cpp, or None.

    Raises:
        OSError: It cannot be loaded, with the linker's message.
        AttributeError: It has no such function.
    """
    native = None if server is None else ctypes.CDLL(f"/dev/fd/{server}")
    return LoadedKernel(ctypes.CDLL(f"/dev/fd/{descriptor}"), entry, native)
