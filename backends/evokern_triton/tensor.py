"""The light tensor that a Triton kernel's `run` is called with, where there is no PyTorch.

It holds what a launch needs: an address, a shape, strides and an element type. Whatever would need memory or arithmetic is refused in
words. Runs beside candidate code and imports nothing that is not in a bare Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn


class dtype:  # noqa: N801 - Triton knows PyTorch's element types by the name of their class
    """An element type. There is one object for each: Triton remembers what it stands for by its identity.

    Args:
        name: PyTorch's name for it, such as "float32".
        itemsize: Bytes of one element.
        limits: Least and largest finite value, and for floating point the distance from 1 to the next number.
    """

    __module__ = "torch"

    def __init__(self, name: str, itemsize: int, limits: tuple[float, float, float] | None = None) -> None:
        self.name, self.itemsize, self.limits = name, itemsize, limits
        self.is_floating_point = "float" in name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


def _integer(name: str, bits: int, *, signed: bool = True) -> dtype:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return dtype(name, bits // 8, (low, high, 1))


def _floating(name: str, itemsize: int, largest: float, eps: float) -> dtype:
    return dtype(name, itemsize, (-largest, largest, eps))


DTYPES: dict[str, dtype] = {
    found.name: found
    for found in (
        _floating("float64", 8, (2 - 2.0**-52) * 2.0**1023, 2.0**-52),
        _floating("float32", 4, (2 - 2.0**-23) * 2.0**127, 2.0**-23),
        _floating("float16", 2, 65504.0, 2.0**-10),
        _floating("bfloat16", 2, (2 - 2.0**-7) * 2.0**127, 2.0**-7),
        _floating("float8_e4m3fn", 1, 448.0, 2.0**-3),
        _floating("float8_e5m2", 1, 57344.0, 2.0**-2),
        _integer("int64", 64),
        _integer("int32", 32),
        _integer("int16", 16),
        _integer("int8", 8),
        _integer("uint8", 8, signed=False),
        dtype("bool", 1),
    )
}
"""By name, each with the limits of IEEE 754 or of its format."""

DLPACK = {
    (2, 64): "float64",
    (2, 32): "float32",
    (2, 16): "float16",
    (4, 16): "bfloat16",
    (0, 64): "int64",
    (0, 32): "int32",
    (0, 16): "int16",
    (0, 8): "int8",
    (1, 8): "uint8",
    (6, 8): "bool",
    (10, 8): "float8_e4m3fn",
    (12, 8): "float8_e5m2",
}
"""Names by DLPack's type code and bits (dlpack.h)."""


class Device:
    """Where a tensor lies: always the one GPU that there is.

    Args:
        type: "cuda", also where the GPU is AMD's, as in PyTorch.
        index: Its number.
    """

    def __init__(self, type: str = "cuda", index: int | None = 0) -> None:
        name, _, number = type.partition(":")
        self.type, self.index = name, int(number) if number else index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type={self.type!r}, index={self.index})"


DEVICE = Device()


class Tensor:
    """Device memory as a kernel's host code sees it.

    Args:
        address: Of the first element.
        shape: Elements per dimension.
        strides: Elements between neighbours, per dimension.
        kind: Element type, one of `DTYPES`.

    Attributes:
        shape: Elements per dimension.
        dtype: Element type.
        device: Where it lies.
    """

    __slots__ = ("_address", "_strides", "device", "dtype", "shape")

    is_cuda = True
    requires_grad = False

    def __init__(self, address: int, shape: Sequence[int], strides: Sequence[int], kind: dtype) -> None:
        self._address, self.shape, self._strides, self.dtype = address, tuple(shape), tuple(strides), kind
        self.device = DEVICE

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._address

    def stride(self, dim: int | None = None) -> Any:
        """Elements between neighbours: of one dimension, or of all as a tuple."""
        return self._strides if dim is None else self._strides[dim]

    def size(self, dim: int | None = None) -> Any:
        """Elements: of one dimension, or of all as a tuple."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def storage_offset(self) -> int:
        """A tensor is its own storage here."""
        return 0

    def is_floating_point(self) -> bool:
        """Whether its elements are floating-point numbers."""
        return self.dtype.is_floating_point

    def is_contiguous(self) -> bool:
        """Whether its elements lie one after the other, the last dimension innermost."""
        return _same_layout(self.shape, self._strides, _contiguous(self.shape))

    def contiguous(self) -> Tensor:
        """Itself where it is contiguous.

        Raises:
            RuntimeError: It is not, and a copy would need memory.
        """
        if not self.is_contiguous():
            raise RuntimeError("a kernel cannot copy tensors here: it must take strides as they are")
        return self

    def view(self, *shape: Any) -> Tensor:
        """The same memory in another shape; or, given an element type of the same size, as that.

        Raises:
            RuntimeError: No strides describe that.
        """
        if len(shape) == 1 and isinstance(shape[0], dtype):
            if shape[0].itemsize != self.dtype.itemsize:
                raise RuntimeError("a view has elements of the same size here")
            return Tensor(self._address, self.shape, self._strides, shape[0])
        wanted = _complete(tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape, self.numel())
        strides = _view_strides(self.shape, self._strides, wanted)
        if strides is None:
            raise RuntimeError(f"no view of {self.shape} with strides {self._strides} has shape {wanted}, and a kernel cannot copy here")
        return Tensor(self._address, wanted, strides, self.dtype)

    reshape = view

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """A view with dimensions `start_dim` to `end_dim` made one; see `view`."""
        end = end_dim % max(self.ndim, 1) + 1
        return self.view((*self.shape[:start_dim], math.prod(self.shape[start_dim:end]), *self.shape[end:]))

    def transpose(self, first: int, second: int) -> Tensor:
        """A view with two dimensions exchanged."""
        shape, strides = list(self.shape), list(self._strides)
        shape[first], shape[second] = shape[second], shape[first]
        strides[first], strides[second] = strides[second], strides[first]
        return Tensor(self._address, shape, strides, self.dtype)

    def t(self) -> Tensor:
        """A matrix with its dimensions exchanged."""
        return self.transpose(0, 1)

    T = property(t)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, stride={self._strides}, dtype={self.dtype})"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a kernel has no PyTorch here: a tensor has an address, a shape, strides and a dtype, but no '{name}'")


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _same_layout(shape: Sequence[int], one: Sequence[int], other: Sequence[int]) -> bool:
    # Where there is one element, or none, no stride is ever taken.
    return 0 in shape or all(extent == 1 or a == b for extent, a, b in zip(shape, one, other, strict=True))


def _complete(shape: Sequence[int], elements: int) -> tuple[int, ...]:
    """A shape with its one -1 replaced."""
    given = tuple(int(extent) for extent in shape)
    if -1 in given:
        known = math.prod(extent for extent in given if extent != -1)
        given = tuple(elements // known if extent == -1 and known else extent for extent in given)
    if math.prod(given) != elements:
        raise RuntimeError(f"shape {given} is invalid for {elements} elements")
    return given


def _view_strides(shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...] | None:
    """Strides of a view; None where there are none. From the inside out: runs of dimensions that one stride describes are re-divided."""
    if 0 in shape:
        return _contiguous(wanted)
    found: list[int] = []
    rest = list(wanted)
    for extent, step in _runs(shape, strides):
        left = extent
        while rest and (left > 1 or rest[-1] == 1):
            inner = rest.pop()
            if left % inner:
                return None
            found.append(step * (extent // left))
            left //= inner
        if left > 1:
            return None
    found.extend(1 for _ in rest)
    return tuple(reversed(found))


def _runs(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """(elements, stride) of each run of dimensions that lie like one, the innermost first."""
    runs: list[tuple[int, int]] = []
    for extent, step in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 1:
            continue
        if runs and step == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * extent, runs[-1][1])
        else:
            runs.append((extent, step))
    return runs or [(1, 1)]
