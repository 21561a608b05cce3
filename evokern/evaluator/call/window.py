"""Windows: the memory that the judge shares with one runner, a tensor each (EVALUATOR section 2).

The judge allocates everything. A window is a memfd sealed in size, mapped on both sides, with slack so that every call uses
another offset. A tensor lies within `SLACK_BYTES` of one end of its window, in every fourth call flush with it: in the runner an
untouchable page follows there, so that a kernel that goes on reading ends. What lies beside a tensor, between padded rows
included, is a canary: filled anew for every call, and looked at afterwards.

A kernel finds the size of a window by asking where the untouchable pages begin. An argument's window therefore has one size
whatever its runner is for: room for every workload that is visible or may be drawn. Where that is much memory, pages exist only
at both ends, as far as the calls of the runner reach; all that exist are mapped before the first call.

Inputs are sealed once the judge has mapped them: nobody else can write them, whatever descriptor he has, and a kernel that tries to
ends by a signal. Comparing them afterwards, which is done too, would miss one that puts back what it changed: on its user's
machine another thread reads them meanwhile, or they cannot be written.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evokern.evaluator.call import protocol
from evokern.sandbox.policy import Policy
from evokern.task import Argument, DType, Role, Task

if TYPE_CHECKING:
    from evokern.evaluator.device.far import Far

Bytes = NDArray[np.uint8]
Tensor = NDArray[Any]
Shape = tuple[tuple[str, int], ...]

SLACK_BYTES = 1 << 14
"""Room around a tensor for offsets and canaries."""

ALIGNMENT = 64
"""Bytes that contiguous layouts are aligned to, as allocators of the field do."""

PAD_ELEMENTS = 48
"""Largest padding of a row that is not widely padded."""

WIDE_ELEMENTS = 1 << 19
"""A widely padded tensor has no more elements, padding included: two megabytes of float32."""

WIDE_ROWS, WIDEST_PAD = 2, 256
"""Widely padded rows are as slices of others: padded by half to all of so many times their length, or of so many elements if more."""

EVEN_ELEMENTS = 8
"""Evenly padded rows are a multiple of it apart, in every argument: the lengths that vectorised kernels know best."""

PADDINGS = ("widely", "evenly", "")
"""How padded rows may be padded; checks go through all of them, so that none is left to chance (`rule.trial`)."""

_WIDE_BY_CHANCE = 4
"""One tensor in so many that is padded in no special way is padded by anything up to what is wide."""

WHOLE_BYTES = 1 << 26
"""Windows that are no larger together exist whole in every runner: the rest could be told by the time that a first touch takes."""

FLUSH = 4
"""One call in so many has a tensor flush with an end of its window."""

_SEALS, _SEAL_FUTURE_WRITE = 0x1 | 0x2 | 0x4, 0x10
"""F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW; F_SEAL_FUTURE_WRITE, which mappings that exist survive, since Linux 5.1; of linux/fcntl.h."""
_F_ADD_SEALS = 1033

_E4M3_NAN = 0x7F

_MULTIPLE = re.compile(r"(?:(?P<factor>\d+) \* )?(?P<axis>\w+)")

READ_ONLY = (Role.IN, Role.PARAMETER, Role.STATIC)
"""What a kernel may not write."""

NUMPY: dict[DType, np.dtype[Any]] = {
    DType.FLOAT32: np.dtype(np.float32),
    DType.FLOAT16: np.dtype(np.float16),
    DType.BFLOAT16: np.dtype(np.uint16),
    DType.FLOAT8_E4M3FN: np.dtype(np.uint8),
    DType.INT64: np.dtype(np.int64),
    DType.INT32: np.dtype(np.int32),
    DType.INT8: np.dtype(np.int8),
    DType.BOOL: np.dtype(np.bool_),
}
"""How elements lie in memory; bfloat16 and float8_e4m3fn, which numpy lacks, as their bits."""


class Memory(Protocol):
    """Where windows live: on the host, where judge and runner share pages, or on a device (`evokern.evaluator.device.memory`).

    Attributes:
        policy: Of the slots whose runners use it.
    """

    policy: Policy

    def window(self, size: int, reach: int, *, read_only: bool) -> Window:
        """See `Window`."""
        ...

    def publish(self, frame: Frame, placed: Sequence[Placed]) -> None:
        """Let the runner see what was written for a call; it is frozen."""
        ...

    def far(self, one: Placed) -> Far | None:
        """A tensor that is too large to travel; None for one that is seen where it is written."""
        ...

    def retire(self, frame: Frame, placed: Sequence[Placed]) -> None:
        """Return when the device has done what the runner asked for before it said that it was done."""
        ...

    def collect(self, frame: Frame, placed: Sequence[Placed]) -> None:
        """See what the runner left; it is frozen."""
        ...


class HostMemory:
    """Pages that both sides have mapped: what is written is seen."""

    policy = Policy.KERNEL

    def window(self, size: int, reach: int, *, read_only: bool) -> Window:
        """See `Memory`."""
        return Window(size, reach, read_only=read_only)

    def publish(self, frame: Frame, placed: Sequence[Placed]) -> None:
        """Nothing is to be done."""

    def far(self, one: Placed) -> None:
        """None: everything is seen where it is written."""

    def retire(self, frame: Frame, placed: Sequence[Placed]) -> None:
        """Nothing is to be done."""

    def collect(self, frame: Frame, placed: Sequence[Placed]) -> None:
        """Nothing is to be done."""


HOST = HostMemory()


class Window:
    """Shared memory of one tensor or workspace.

    Args:
        size: Bytes, a multiple of the page size.
        reach: Bytes from either end that calls touch; pages between are not there until somebody touches them.
        read_only: Whether nobody but this object may ever write it.

    Attributes:
        descriptor: To be sent to the runner.
        bytes: The memory, shape (size,), uint8.
    """

    def __init__(self, size: int, reach: int, *, read_only: bool = False) -> None:
        self.size, self.read_only = size, read_only
        self.descriptor = os.memfd_create("window", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        self._map = mmap.mmap(self.descriptor, size, flags=mmap.MAP_SHARED)
        fcntl.fcntl(self.descriptor, _F_ADD_SEALS, _SEALS | (_SEAL_FUTURE_WRITE if read_only else 0))
        self.bytes: Bytes = np.frombuffer(self._map, np.uint8)
        # A runner maps the pages that exist (`runner.populate`), so that no page fault lands in a timed call.
        near = _round_up(min(reach, size))
        self.bytes[: near : mmap.PAGESIZE] = 0
        self.bytes[size - near :: mmap.PAGESIZE] = 0

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
        memory: Where the window lives.
    """

    argument: Argument
    dtype: DType
    place: protocol.Place
    view: Tensor
    window: Window | None
    memory: Memory = field(default_factory=lambda: HOST)

    def far(self) -> Far | None:
        """The tensor where it is too large to travel; None for one that is seen where it is written."""
        return self.memory.far(self)

    @property
    def extent(self) -> int:
        """Bytes from its first element to its last, padding between rows included."""
        return extent(self.place.shape, self.place.strides) * self.dtype.itemsize

    @property
    def is_padded(self) -> bool:
        """Whether there is room between its rows."""
        return self.extent != self.view.size * self.dtype.itemsize

    def around(self) -> tuple[Bytes, Bytes]:
        """Up to `SLACK_BYTES` of the window before its first element, and after its last; whole words of its element type."""
        assert self.window is not None
        first, last, size = self.place.offset, self.place.offset + self.extent, self.dtype.itemsize
        end = min(last + SLACK_BYTES, self.window.size)
        return self.window.bytes[max(first - SLACK_BYTES, first % size) : first], self.window.bytes[last : end - (end - last) % size]


class Frame:
    """All windows of one runner, as large as those of any other runner of the task.

    Args:
        task: Whose arguments.
        dtype: Element type of the run.
        shapes: Axes of every workload that will be called.
        trusted: Whether the other side may write all windows, as no kernel may.
        memory: Where the windows live.
    """

    def __init__(
        self, task: Task, dtype: DType, shapes: Sequence[Mapping[str, int]], *, trusted: bool = False, memory: Memory = HOST
    ) -> None:
        self.task, self.dtype, self.shapes, self.memory = task, dtype, shapes, memory
        arguments = [argument for argument in task.arguments if not argument.is_scalar]
        visible = [dict(workload.axes) for workload in task.search]
        reach = {a.name: _with_slack(max(_padded_elements(a.shape_for(axes)) for axes in shapes), a.dtype_for(dtype)) for a in arguments}
        sizes = {
            a.name: max(
                reach[a.name],
                _with_slack(max(_padded_elements(a.shape_for(axes)) for axes in visible), a.dtype_for(dtype)),
                _with_slack(_most_elements(task, a), a.dtype_for(dtype)),
            )
            for a in arguments
        }
        whole = sum(sizes.values()) <= WHOLE_BYTES
        self.windows: dict[str, Window] = {
            a.name: memory.window(sizes[a.name], sizes[a.name] if whole else reach[a.name], read_only=a.role in READ_ONLY and not trusted)
            for a in arguments
        }
        self.workspace: Window | None = None
        self.workspace_bytes = 0
        self.workspace_offset = 0
        self._wanted: dict[Shape, int] | None = None
        self.previous: tuple[Sequence[Placed], object] = ((), None)
        """Where the last call's arguments lay, and the set that they were."""

    @property
    def size(self) -> int:
        """Bytes of all windows."""
        return sum(w.size for w in self._all())

    def add_workspace(self, size: int, wanted: Mapping[Shape, int] | None = None) -> None:
        """Add a window for workspaces; the frame must be bound again.

        Args:
            size: Bytes of the largest that any runner of the kernel may get.
            wanted: Bytes that a call gets, by `shape_of` its axes, for all shapes of the frame; `size` for all where None.
        """
        self._wanted = None if wanted is None else dict(wanted)
        self.workspace_bytes = size
        reach = size if wanted is None else max(wanted[shape_of(axes)] for axes in self.shapes)
        room = _round_up(size + 2 * SLACK_BYTES)
        self.workspace = self.memory.window(room, room if room <= WHOLE_BYTES else reach + 2 * SLACK_BYTES, read_only=False)

    def place_workspace(self, word: Bytes, rng: np.random.Generator) -> None:
        """Choose where the workspace of the call that was placed last begins, and fill it and what lies beside it.

        Args:
            word: Of eight bytes.
            rng: Secret chance.
        """
        if self.workspace is not None:
            first = self.workspace_offset = _offset(self.workspace.size, self.workspace_bytes, ALIGNMENT, rng)
            last = _round_up(first + self.workspace_bytes, len(word))
            fill(self.workspace.bytes[max(first - SLACK_BYTES, 0) : last + SLACK_BYTES], word)

    def workspace_overrun(self, word: Bytes) -> bool:
        """Whether anything beside the workspace, within `SLACK_BYTES`, is not the word that was there before the call."""
        if self.workspace is None:
            return False
        first, last = self.workspace_offset, _round_up(self.workspace_offset + self.workspace_bytes, len(word))
        beside = self.workspace.bytes[max(first - SLACK_BYTES, 0) : first], self.workspace.bytes[last : last + SLACK_BYTES]
        return any(bool((memory.view(np.uint64) != word.view(np.uint64)[0]).any()) for memory in beside)

    def bind(self, seq: int) -> tuple[bytes, list[int]]:
        """The BIND record and the descriptors that go with it."""
        specs = []
        for argument in self.task.arguments:
            code, bits = argument.dtype_for(self.dtype).dlpack
            window = None if argument.is_scalar else self.windows[argument.name]
            size, read_only = (window.size, window.read_only) if window else (0, False)
            specs.append(protocol.Spec(code, bits, len(argument.shape), size, read_only))
        record = protocol.encode_bind(protocol.Bind(seq, tuple(specs), self.workspace.size if self.workspace else 0))
        descriptors = [window.descriptor for window in self.windows.values()]
        return record, descriptors + ([self.workspace.descriptor] if self.workspace else [])

    def place(
        self, axes: Mapping[str, int], layout: str, scalars: Mapping[str, Any], rng: np.random.Generator, padding: str = ""
    ) -> list[Placed]:
        """Choose an offset and strides for every argument of one call.

        Args:
            axes: Of the workload.
            layout: "contiguous", "offset" or "padded".
            scalars: Value of each scalar argument.
            rng: Secret chance.
            padding: Of `PADDINGS`, where the layout is padded; "widely" where there is room for it.
        """
        if self._wanted is not None:
            self.workspace_bytes = self._wanted[shape_of(axes)]
        return [self._place(argument, axes, layout, padding, scalars, rng) for argument in self.task.arguments]

    def _place(
        self, argument: Argument, axes: Mapping[str, int], layout: str, padding: str, scalars: Mapping[str, Any], rng: np.random.Generator
    ) -> Placed:
        dtype = argument.dtype_for(self.dtype)
        kind = NUMPY[dtype]
        if argument.is_scalar:
            value = np.array(scalars[argument.name], kind)
            return Placed(argument, dtype, protocol.Place(0, (), (), value.tobytes().ljust(8, b"\0")), value, None)
        shape = argument.shape_for(axes)
        strides = _strides(shape, layout, padding, rng)
        step = kind.itemsize
        if layout == "contiguous":
            # Allocators align large blocks to pages, small ones to lines: both occur.
            step = mmap.PAGESIZE if rng.integers(3) == 0 else ALIGNMENT
        window = self.windows[argument.name]
        offset = _offset(window.size, extent(shape, strides) * kind.itemsize, step, rng)
        view: Tensor = np.ndarray(shape, kind, window.bytes.data, offset, [s * kind.itemsize for s in strides])
        return Placed(argument, dtype, protocol.Place(offset, shape, strides), view, window, self.memory)

    def close(self) -> None:
        """Give all windows back."""
        for window in self._all():
            window.close()

    def _all(self) -> list[Window]:
        return [*self.windows.values(), *([self.workspace] if self.workspace else [])]


def _round_up(size: int, unit: int = mmap.PAGESIZE) -> int:
    return -(-size // unit) * unit


def shape_of(axes: Mapping[str, int]) -> Shape:
    """Axes in an order that does not matter, as a key."""
    return tuple(sorted(axes.items()))


def _with_slack(elements: int, dtype: DType) -> int:
    return _round_up(elements * dtype.itemsize + 2 * SLACK_BYTES)


def _most_elements(task: Task, argument: Argument) -> int:
    """No held-out workload has an argument with more elements, padding included."""
    highest = {axis: high for axis, _, high in task.held_out.axes}
    corner = argument.shape_for(highest)
    elements, leading = math.prod(corner), math.prod(corner[:-1])
    times = _multiples(argument.shape, highest)
    if times is not None:
        # Each axis occurs once at most: their product is bounded.
        elements = min(elements, math.prod(times) * task.held_out.max_elements)
        leading = min(leading, math.prod(times[:-1]) * task.held_out.max_elements)
    return max(elements + PAD_ELEMENTS * leading, WIDE_ELEMENTS) if len(corner) > 1 else elements


def _multiples(shape: Sequence[str], axes: Mapping[str, int]) -> list[int] | None:
    """How many times an axis each dimension is, where each is a multiple of another axis, such as `2 * half`; None elsewhere."""
    matches = [_MULTIPLE.fullmatch(text) for text in shape]
    names = {match["axis"] for match in matches if match}
    if not names <= set(axes) or len(names) != len(shape):
        return None
    return [int(match["factor"] or 1) for match in matches if match]


def _padded_elements(shape: Sequence[int]) -> int:
    return math.prod(shape[:-1]) * (shape[-1] + most_padding(shape)) if len(shape) > 1 else math.prod(shape)


def most_padding(shape: Sequence[int]) -> int:
    """Elements by which a row may be padded, more than `PAD_ELEMENTS` where there is room for wide padding."""
    room = WIDE_ELEMENTS // max(math.prod(shape[:-1]), 1) - shape[-1]
    return min(room, _wide(shape)) if room >= _wide(shape) // 2 else PAD_ELEMENTS


def _wide(shape: Sequence[int]) -> int:
    return max(WIDE_ROWS * shape[-1], WIDEST_PAD)


def has_room(task: Task, axes: Mapping[str, int]) -> bool:
    """Whether any argument of a workload has rows that can be widely padded."""
    shapes = [a.shape_for(axes) for a in task.arguments if len(a.shape) > 1]
    return any(math.prod(shape[:-1]) > 1 and most_padding(shape) > PAD_ELEMENTS for shape in shapes)


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last of a tensor, both included; 0 where it is empty."""
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if math.prod(shape) else 0


def _offset(size: int, used: int, step: int, rng: np.random.Generator) -> int:
    """Where something of `used` bytes begins in `size` bytes: near one end at a multiple of `step`, now and then as near as can be."""
    last = (size - used) // step
    shift = 0 if rng.integers(FLUSH) == 0 else int(rng.integers(SLACK_BYTES // step))
    return step * (min(shift, last) if rng.integers(2) else max(last - shift, 0))


def _strides(shape: Sequence[int], layout: str, padding: str, rng: np.random.Generator) -> tuple[int, ...]:
    """Row-major strides in elements; where padded, rows are further apart than they are long."""
    row = _padded_row(shape, padding, rng) if layout == "padded" and len(shape) > 1 else shape[-1]
    strides = [1]
    for size in [row, *reversed(shape[1:-1])][: len(shape) - 1]:
        strides.insert(0, strides[0] * size)
    return tuple(strides)


def _padded_row(shape: Sequence[int], padding: str, rng: np.random.Generator) -> int:
    """Elements from one padded row to the next."""
    length, most = shape[-1], most_padding(shape)
    if padding == "evenly":
        first = EVEN_ELEMENTS - length % EVEN_ELEMENTS
        return length + first + EVEN_ELEMENTS * int(rng.integers(PAD_ELEMENTS // EVEN_ELEMENTS))
    if padding == "widely" and most > PAD_ELEMENTS:
        # A slice of a matrix that may be any number of slices long, or a length that vectors divide.
        unit = (1, max(length, 1), EVEN_ELEMENTS)[rng.integers(3)]
        first, last = -(-(length + _wide(shape) // 2) // unit), (length + most) // unit
        return unit * int(rng.integers(first, last + 1)) if first <= last else length + most
    return length + int(rng.integers(1, (most if rng.integers(_WIDE_BY_CHANCE) == 0 else PAD_ELEMENTS) + 1))


def is_written(placed: Placed) -> bool:
    """Whether the call may write this argument."""
    return placed.argument.role in (Role.OUT, Role.INOUT)


def sentinel_word(dtype: DType, rng: np.random.Generator) -> Bytes:
    """A fresh secret pattern for output windows.

    For floats either a quiet NaN with a secret payload, which no honest value equals, or a finite number, so that a kernel
    cannot tell from what it finds that it is being judged.
    """
    word = np.frombuffer(bytearray(rng.bytes(dtype.itemsize)), np.uint8)
    if dtype is DType.FLOAT8_E4M3FN:
        # A byte has one NaN of either sign and no infinity: it hides nothing, but no honest value equals it.
        word[-1] = word[-1] | _E4M3_NAN if rng.integers(2) else word[-1] & 0xBF
    elif dtype.is_float and rng.integers(2):
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
    if dtype is DType.FLOAT8_E4M3FN:
        return bool(word[-1] & _E4M3_NAN == _E4M3_NAN)
    exponent = word[-1] & (0x7C if dtype is DType.FLOAT16 else 0x7F)
    return bool(exponent == (0x7C if dtype is DType.FLOAT16 else 0x7F) and (dtype is DType.FLOAT16 or word[-2] & 0x80))


def words(array: Tensor) -> NDArray[Any]:
    """The same elements as unsigned integers of their size."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def fill(memory: Bytes, word: Bytes) -> None:
    """Fill memory with a word, from its first byte on; what is left at its end stays as it is."""
    kind = np.dtype(f"u{len(word)}")
    memory[: len(memory) // len(word) * len(word)].view(kind)[:] = word.view(kind)[0]


def surround(placed: Placed, word: Bytes) -> None:
    """Fill what lies beside a tensor, between its rows included, with a word; the tensor itself is written afterwards."""
    assert placed.window is not None
    for memory in placed.around():
        fill(memory, word)
    if placed.is_padded:
        fill(placed.window.bytes[placed.place.offset : placed.place.offset + placed.extent], word)


def sentinel_left(placed: Placed, word: Bytes) -> int:
    """How many elements of an output still hold the sentinel."""
    return int(np.count_nonzero(words(placed.view) == word.view(f"u{len(word)}")[0]))


def canary_broken(placed: Placed, word: Bytes) -> bool:
    """Whether anything beside a tensor's elements, within `SLACK_BYTES`, is not the word that was there before the call."""
    assert placed.window is not None
    wanted = word.view(f"u{len(word)}")[0]
    if any((memory.view(wanted.dtype) != wanted).any() for memory in placed.around()):
        return True
    if not placed.is_padded:
        return False
    whole = placed.window.bytes[placed.place.offset : placed.place.offset + placed.extent].view(wanted.dtype)
    unwritten = int(np.count_nonzero(whole == wanted))
    return bool(unwritten - sentinel_left(placed, word) != whole.size - placed.view.size)
