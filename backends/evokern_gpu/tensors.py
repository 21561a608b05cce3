"""Arguments as C dialects get them: DLPack structs on the host whose data is on the device.

Scalars are 0-d tensors in host memory. Structs, shapes, strides and scalars of a call lie elsewhere than those of the `RECORDS` - 1
calls before, and are overwritten when it is over: a kernel that keeps any of them for a later call ends, or is wrong.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evokern_gpu.kernel import Argument

CPU, CUDA = 1, 2
"""kDLCPU and kDLCUDA."""

RECORDS = 16
"""How many calls pass until a call's arguments lie where those of an earlier one lay."""

_POISON = 0xA5


class DLDevice(ctypes.Structure):
    """As in DLPack's dlpack.h."""

    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    """As in DLPack's dlpack.h."""

    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    """As in DLPack's dlpack.h, https://github.com/dmlc/dlpack, 0.8."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Record:
    """All that a kernel is handed in one call, in one piece of memory: pointers to its structs, and the structs behind them.

    Args:
        ranks: Number of dimensions of each argument; 0 for a scalar.

    Attributes:
        address: Of the array of pointers.
        count: Of arguments.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self.count = len(ranks)
        pointers = ctypes.c_void_p * self.count
        sizes = [_size(rank) for rank in ranks]
        self._bytes = max(ctypes.sizeof(pointers) + sum(sizes), 1)
        self._memory = ctypes.create_string_buffer(self._bytes)
        self.address = ctypes.addressof(self._memory)
        self._starts, at = [], self.address + ctypes.sizeof(pointers)
        for size in sizes:
            self._starts.append(at)
            at += size

    def place(self, arguments: Sequence[Argument]) -> None:
        """Lay the arguments of one call out."""
        ctypes.memmove(self.address, struct.pack(f"<{self.count}Q", *self._starts), 8 * self.count)
        for start, argument in zip(self._starts, arguments, strict=True):
            _lay(start, argument)

    def poison(self) -> None:
        """Overwrite everything."""
        ctypes.memset(self.address, _POISON, self._bytes)


def _room(rank: int) -> int:
    return 8 * max(rank, 1)


def _size(rank: int) -> int:
    """Bytes of a struct, its shape, its strides and a scalar."""
    return ctypes.sizeof(DLTensor) + 2 * _room(rank) + 8


def _lay(start: int, argument: Argument) -> None:
    rank = len(argument.shape)
    shape = start + ctypes.sizeof(DLTensor)
    strides = shape + _room(rank)
    scalar = strides + _room(rank)
    numbers = ctypes.c_int64 * max(rank, 1)
    numbers.from_address(shape)[:rank] = list(argument.shape)
    numbers.from_address(strides)[:rank] = list(argument.strides)
    ctypes.memmove(scalar, argument.scalar.ljust(8, b"\0"), 8)
    # The offset is in `data` and byte_offset stays 0, as PyTorch does it: a kernel that forgets byte_offset works too.
    tensor = DLTensor.from_address(start)
    tensor.data = argument.address or scalar
    tensor.device = DLDevice(CUDA if argument.address else CPU, 0)
    tensor.ndim = rank
    tensor.dtype = DLDataType(argument.code, argument.bits, 1)
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    tensor.byte_offset = 0
