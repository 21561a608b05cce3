"""Windows: the memory that the judge shares with one runner, a tensor each (EVALUATOR section 2).

The judge allocates everything. A window is a memfd sealed in size, mapped and touched on both sides before the first call,
with slack so that every call uses another offset. Outputs are filled with a fresh sentinel over the whole window, so what
lies beside an output, between padded rows included, is a canary.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evokern.evaluator.call import protocol
from evokern.task import Argument, DType, Role, Task

Bytes = NDArray[np.uint8]
Tensor = NDArray[Any]

SLACK_BYTES = 1 << 14
"""Room around a tensor for offsets and canaries."""

ALIGNMENT = 64
"""Bytes that contiguous layouts are aligned to, as allocators of the field do."""

PAD_ELEMENTS = 48
"""Largest padding of a row."""

_SEALS = 0x1 | 0x2 | 0x4
"""F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW of linux/fcntl.h."""
_F_ADD_SEALS = 1033

NUMPY: dict[DType, np.dtype[Any]] = {
    DType.FLOAT32: np.dtype(np.float32),
    DType.FLOAT16: np.dtype(np.float16),
    DType.BFLOAT16: np.dtype(np.uint16),
    DType.INT64: np.dtype(np.int64),
    DType.INT32: np.dtype(np.int32),
    DType.INT8: np.dtype(np.int8),
    DType.BOOL: np.dtype(np.bool_),
}
"""How elements lie in memory; bfloat16, which numpy lacks, as its bits."""


class Window:
    """Shared memory of one tensor or workspace.

    Args:
        size: Bytes.

    Attributes:
        descriptor: To be sent to the runner.
        bytes: The memory, shape (size,), uint8.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.descriptor = os.memfd_create("window", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        fcntl.fcntl(self.descriptor, _F_ADD_SEALS, _SEALS)
        self._map = mmap.mmap(self.descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self.bytes: Bytes = np.frombuffer(self._map, np.uint8)

    def close(self) -> None:
        """Give the memory back once the runner is gone too."""
        self.bytes = np.empty(0, np.uint8)
        os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class Placed:
    """Where one argument lies in one call.

    Attributes:
        argument: Which.
        dtype: Its element type.
        place: As it is sent.
        view: The elements, strided, on the window; a 0-d array for scalars.
        window: The whole window; None for scalars.
    """

    argument: Argument
    dtype: DType
    place: protocol.Place
    view: Tensor
    window: Window | None


class Frame:
    """All windows of one runner, large enough for every call it will get.

    Args:
        task: Whose arguments.
        dtype: Element type of the run.
        shapes: Axes of every workload that will be called.
    """

    def __init__(self, task: Task, dtype: DType, shapes: Sequence[Mapping[str, int]]) -> None:
        self.task, self.dtype = task, dtype
        self.windows: dict[str, Window] = {}
        for argument in task.arguments:
            if not argument.is_scalar:
                elements = max(_padded_elements(argument.shape_for(axes)) for axes in shapes)
                self.windows[argument.name] = Window(_round_up(elements * argument.dtype_for(dtype).itemsize + 2 * SLACK_BYTES))
        self.workspace: Window | None = None

    @property
    def size(self) -> int:
        """Bytes of all windows."""
        return sum(w.size for w in self._all())

    def add_workspace(self, size: int) -> None:
        """Add a workspace; the frame must be bound again."""
        self.workspace = Window(_round_up(size + SLACK_BYTES))

    def bind(self, seq: int) -> tuple[bytes, list[int]]:
        """The BIND record and the descriptors that go with it."""
        specs = []
        for argument in self.task.arguments:
            code, bits = argument.dtype_for(self.dtype).dlpack
            size = 0 if argument.is_scalar else self.windows[argument.name].size
            specs.append(protocol.Spec(code, bits, len(argument.shape), size))
        record = protocol.encode_bind(protocol.Bind(seq, tuple(specs), self.workspace.size if self.workspace else 0))
        descriptors = [window.descriptor for window in self.windows.values()]
        return record, descriptors + ([self.workspace.descriptor] if self.workspace else [])

    def place(self, axes: Mapping[str, int], layout: str, scalars: Mapping[str, Any], rng: np.random.Generator) -> list[Placed]:
        """Choose an offset and strides for every argument of one call.

        Args:
            axes: Of the workload.
            layout: "contiguous", "offset" or "padded".
            scalars: Value of each scalar argument.
            rng: Secret chance.
        """
        return [self._place(argument, axes, layout, scalars, rng) for argument in self.task.arguments]

    def _place(
        self, argument: Argument, axes: Mapping[str, int], layout: str, scalars: Mapping[str, Any], rng: np.random.Generator
    ) -> Placed:
        dtype = argument.dtype_for(self.dtype)
        kind = NUMPY[dtype]
        if argument.is_scalar:
            value = np.array(scalars[argument.name], kind)
            return Placed(argument, dtype, protocol.Place(0, (), (), value.tobytes().ljust(8, b"\0")), value, None)
        shape = argument.shape_for(axes)
        strides = _strides(shape, layout, rng)
        step = kind.itemsize
        if layout == "contiguous":
            # Allocators align large blocks to pages, small ones to lines: both occur.
            step = mmap.PAGESIZE if rng.integers(3) == 0 else ALIGNMENT
        offset = int(rng.integers(1, SLACK_BYTES // step)) * step
        window = self.windows[argument.name]
        view: Tensor = np.ndarray(shape, kind, window.bytes.data, offset, [s * kind.itemsize for s in strides])
        return Placed(argument, dtype, protocol.Place(offset, shape, strides), view, window)

    def close(self) -> None:
        """Give all windows back."""
        for window in self._all():
            window.close()

    def _all(self) -> list[Window]:
        return [*self.windows.values(), *([self.workspace] if self.workspace else [])]


def _round_up(size: int, unit: int = mmap.PAGESIZE) -> int:
    return -(-size // unit) * unit


def _padded_elements(shape: Sequence[int]) -> int:
    return math.prod(shape[:-1]) * (shape[-1] + PAD_ELEMENTS) if len(shape) > 1 else math.prod(shape)


def _strides(shape: Sequence[int], layout: str, rng: np.random.Generator) -> tuple[int, ...]:
    """Row-major strides in elements; where padded, rows are further apart than they are long."""
    row = shape[-1] + (int(rng.integers(1, PAD_ELEMENTS + 1)) if layout == "padded" and len(shape) > 1 else 0)
    strides = [1]
    for size in [row, *reversed(shape[1:-1])][: len(shape) - 1]:
        strides.insert(0, strides[0] * size)
    return tuple(strides)


def is_written(placed: Placed) -> bool:
    """Whether the call may write this argument."""
    return placed.argument.role in (Role.OUT, Role.INOUT)


def sentinel_word(dtype: DType, rng: np.random.Generator) -> Bytes:
    """A fresh secret pattern for output windows.

    For floats either a quiet NaN with a secret payload, which no honest value equals, or a finite number, so that a kernel
    cannot tell from what it finds that it is being judged.
    """
    word = np.frombuffer(bytearray(rng.bytes(dtype.itemsize)), np.uint8)
    if dtype.is_float and rng.integers(2):
        # Exponent of all ones, and the first bit of the fraction.
        word[-1] |= 0x7E if dtype is DType.FLOAT16 else 0x7F
        word[-2] |= 0xC0 if dtype is not DType.FLOAT16 else 0
    elif dtype.is_float:
        # An exponent below all ones: finite, of any size.
        word[-1] &= 0xBF
    return word


def is_unmistakable(dtype: DType, word: Bytes) -> bool:
    """Whether no honest value can equal a sentinel, so that one that is left was never written."""
    if not dtype.is_float:
        return False
    exponent = word[-1] & (0x7C if dtype is DType.FLOAT16 else 0x7F)
    return bool(exponent == (0x7C if dtype is DType.FLOAT16 else 0x7F) and (dtype is DType.FLOAT16 or word[-2] & 0x80))


def words(array: Tensor) -> NDArray[Any]:
    """The same elements as unsigned integers of their size."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def fill(window: Window, word: Bytes) -> None:
    """Fill a whole window with a word."""
    kind = np.dtype(f"u{len(word)}")
    window.bytes[: window.size // len(word) * len(word)].view(kind)[:] = word.view(kind)[0]


def sentinel_left(placed: Placed, word: Bytes) -> int:
    """How many elements of an output still hold the sentinel."""
    return int(np.count_nonzero(words(placed.view) == word.view(f"u{len(word)}")[0]))


def canary_broken(placed: Placed, word: Bytes) -> bool:
    """Whether anything in the window beside the output's elements was written."""
    assert placed.window is not None
    memory = placed.window.bytes[: placed.window.size // len(word) * len(word)].view(f"u{len(word)}")
    unwritten = int(np.count_nonzero(memory == word.view(f"u{len(word)}")[0]))
    return unwritten - sentinel_left(placed, word) != memory.size - placed.view.size
