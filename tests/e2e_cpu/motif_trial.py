"""Builds many variants of a kernel in few compiler runs, calls them, and holds them to the correctness rule."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from evokern_cpu.flags import FIXED
from numpy.typing import NDArray

from evokern.syntax.flags import flags_of

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "evokern" / "include"
TASKS = ("softmax", "rmsnorm", "cross_entropy", "bias_gelu")
UNIT = 2.0**-24
SHAPES = ((1, 1), (3, 7), (5, 31), (17, 1009), (2, 9001), (40, 300))
DISTRIBUTIONS = ("normal", "wide", "shifted", "tiny", "spiked", "integers")
EPS = 1e-5
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


class DLDevice(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def seed(task: str) -> str:
    """The naive seed of a task."""
    return (ROOT / "benchmarks" / "tasks" / "core" / task / "seeds" / "cpp-float32.cpp").read_text()


def tensor(array: NDArray[np.generic]) -> DLTensor:
    """An array as the contract passes it, half of its address in byte_offset."""
    code = 2 if array.dtype.kind == "f" else 0
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    strides = (ctypes.c_int64 * max(array.ndim, 1))(*(s // array.itemsize for s in array.strides))
    return DLTensor(array.ctypes.data - 8, DLDevice(1, 0), array.ndim, DLDataType(code, 8 * array.itemsize, 1), shape, strides, 8)


@dataclass
class Case:
    """One call with its expected values; `out` is a view into `arena`, whose other elements must not change."""

    name: str
    inputs: tuple[NDArray[np.generic], ...]
    out: F32
    arena: F32
    outside: NDArray[np.bool_]
    expected: F64
    reference: F64
    reduction: int
    scale: F64 | None = None
    arguments: list[DLTensor] = field(default_factory=list)

    @property
    def per_row(self) -> bool:
        return self.out.ndim == 2


def placed(values: F32, padding: int, offset: int) -> tuple[F32, F32]:
    """The values in a larger arena: a row stride of cols + padding, the first element `offset` floats past a 64-byte boundary."""
    rows, cols = values.shape if values.ndim == 2 else (1, values.size)
    stride = cols + padding
    arena = np.full(rows * stride + offset + 80, np.float32(777.0))
    first = (-arena.ctypes.data % 64) // 4 + offset
    view = arena[first : first + rows * stride].reshape(rows, stride)[:, :cols]
    view[...] = values.reshape(rows, cols)
    return (view if values.ndim == 2 else view[0]), arena


def draw(distribution: str, rows: int, cols: int, rng: np.random.Generator) -> F32:
    x = rng.standard_normal((rows, cols))
    if distribution == "wide":
        x *= 30
    elif distribution == "shifted":
        x += 100
    elif distribution == "tiny":
        x *= 1e-3
    elif distribution == "spiked":
        x.reshape(-1)[::97] *= 40
    elif distribution == "integers":
        x = rng.integers(-4, 5, (rows, cols)).astype(np.float64)
    return x.astype(np.float32)


def expected(task: str, inputs: Sequence[NDArray[np.generic]]) -> F64:
    """The task in float64 numpy."""
    x = inputs[0].astype(np.float64)
    if task == "softmax":
        e = np.exp(x - x.max(1, keepdims=True))
        return np.asarray(e / e.sum(1, keepdims=True))
    if task == "rmsnorm":
        return np.asarray(x / np.sqrt((x * x).mean(1, keepdims=True) + float(inputs[2])) * inputs[1].astype(np.float64))
    if task == "cross_entropy":
        peak = x.max(1)
        return np.asarray(np.log(np.exp(x - peak[:, None]).sum(1)) + peak - x[np.arange(len(x)), inputs[1]])
    z = x + inputs[1].astype(np.float64)
    return np.asarray(0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))))


def eager(task: str, inputs: Sequence[NDArray[np.generic]]) -> F64:
    """The task in float32 PyTorch."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(1)
    x, *rest = (torch.from_numpy(np.array(i)) for i in inputs)
    if task == "softmax":
        y = torch.softmax(x, -1)
    elif task == "rmsnorm":
        y = functional.rms_norm(x, (x.shape[1],), rest[0], float(rest[1]))
    elif task == "cross_entropy":
        y = functional.cross_entropy(x, rest[0], reduction="none")
    else:
        y = functional.gelu(x + rest[0], approximate="tanh")
    return y.numpy().astype(np.float64)


def cases(task: str) -> list[Case]:
    """Every distribution on every shape, aligned and not, padded and not."""
    rng = np.random.default_rng(20261129)
    found = []
    for number, (rows, cols) in enumerate(SHAPES):
        for other, distribution in enumerate(DISTRIBUTIONS):
            padding, offset = ((0, 0), (3, 1), (0, 5), (9, 15))[(number + other) % 4]
            found.append(case(task, distribution, rows, cols, padding, offset, rng))
    return found


def case(task: str, distribution: str, rows: int, cols: int, padding: int, offset: int, rng: np.random.Generator) -> Case:
    """One call."""
    x, _ = placed(draw(distribution, rows, cols, rng), padding, offset)
    row, _ = placed(rng.standard_normal(cols).astype(np.float32), 0, (offset * 3) % 7)
    inputs: tuple[NDArray[np.generic], ...] = (x,)
    if task == "rmsnorm":
        inputs = (x, row, np.array(EPS, np.float32))
    elif task == "cross_entropy":
        inputs = (x, rng.integers(0, cols, rows))
    elif task == "bias_gelu":
        inputs = (x, row)
    blank = np.full(rows if task == "cross_entropy" else (rows, cols), np.float32(777.0))
    out, arena = placed(blank, (padding * 5) % 7, (offset * 7) % 16)
    outside = np.ones(arena.shape, np.bool_)
    first = (out.ctypes.data - arena.ctypes.data) // 4
    for number in range(rows if out.ndim == 2 else 1):
        outside[first + number * (out.strides[0] // 4) :][: out.shape[-1]] = False
    made = Case(
        f"{distribution} {rows}x{cols} padding {padding} offset {offset}",
        inputs, out, arena, outside, expected(task, inputs), eager(task, inputs), 1 if task == "bias_gelu" else cols,
    )  # fmt: skip
    if task == "bias_gelu":
        # 1 + tanh cancels for negative numbers, in PyTorch too: its error is one of the size of x + bias, which a row of one
        # element does not show in its own RMS.
        made.scale = np.abs(x.astype(np.float64) + row)
    made.arguments = [tensor(a) for a in (*inputs, out)]
    return made


Run = Callable[..., int]


def call(run: Run, one: Case) -> int:
    """Calls a kernel; returns what it returned."""
    pointers = (ctypes.POINTER(DLTensor) * len(one.arguments))(*(ctypes.pointer(a) for a in one.arguments))
    return run(pointers, len(one.arguments), None, ctypes.c_size_t(0), None)


def row_rms(values: F64) -> F64:
    """RMS of each row, as a column; of everything where there is one value a row."""
    if values.ndim == 1:
        return np.asarray(np.sqrt((values**2).mean()))
    return np.asarray(np.sqrt((values**2).mean(1, keepdims=True)))


def faults(run: Run, made: Sequence[Case]) -> list[str]:
    """What a kernel does wrong, one line per fault; empty where it passes."""
    found = []
    bias, weight = 0.0, 0.0
    for one in made:
        one.arena[one.outside] = 777.0
        one.out[...] = np.float32(-123.0)
        if call(run, one) != 0:
            found.append(f"{one.name}: refused")
            continue
        if not (one.arena[one.outside] == np.float32(777.0)).all():
            found.append(f"{one.name}: wrote outside its output")
        y = one.expected
        error = one.out.astype(np.float64) - y
        scale = row_rms(y)
        if one.scale is not None:
            scale = np.maximum(scale, one.scale)
        bound = 4 * UNIT * (np.abs(y) + np.sqrt(one.reduction) * (np.abs(y) + scale))
        if not np.isfinite(one.out).all():
            found.append(f"{one.name}: not finite")
            continue
        if (np.abs(error) > bound).any():
            found.append(f"{one.name}: element off by {np.max(np.abs(error) / bound):.2f} of the bound")
        rms, reference = np.sqrt((error**2).mean()), np.sqrt(((one.reference - y) ** 2).mean())
        limit = 1.5 * reference + 0.3 * UNIT * np.sqrt((y**2).mean())
        # Rows share an error of their own (one sum a row), so a few numbers say nothing about an RMS.
        if y.size >= 64 and one.out.shape[0] >= 16 and rms > limit:
            found.append(f"{one.name}: RMS error {rms / limit:.2f} of its limit")
        if y.size >= 64:
            per_row = (error * np.sign(y)).reshape(one.out.shape[0], -1).mean(1) / (np.abs(y).mean() + 1e-300) / UNIT
            bias, weight = bias + per_row.sum(), weight + per_row.size
    if weight and abs(bias / weight) > 0.25 + 1.5 / np.sqrt(weight):
        found.append(f"biased by {bias / weight:.2f} units")
    return found


def _batched(sources: Sequence[str]) -> str:
    """Sources as one translation unit: their headers first, then each in a namespace with its own entry."""
    headers = dict.fromkeys(line for s in sources for line in s.splitlines() if line.startswith("#include"))
    parts = list(headers)
    for number, source in enumerate(sources):
        rest = "\n".join("" if line.startswith("#include") else line for line in source.splitlines())
        parts.append(f"namespace variant_{number} {{\n{rest.replace('int run(', f'int run_{number}(')}\n}}")
    return "\n".join(parts)


def _compile(text: str, library: Path, flags: Sequence[str]) -> ctypes.CDLL:
    source = library.with_suffix(".cpp")
    source.write_text(text)
    command = ["g++", *FIXED, *flags, f"-I{INCLUDE}", str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise AssertionError(f"{source}: {done.stderr[:3000]}")
    return ctypes.CDLL(str(library))


def build(sources: Sequence[str], folder: Path, *, batch: int = 24) -> Iterator[Run]:
    """Kernels of the sources, in order, compiled at most two at a time, `batch` of them per compiler run."""
    folder.mkdir(parents=True, exist_ok=True)
    groups: list[list[int]] = []
    by_flags: dict[tuple[str, ...], list[int]] = {}
    for index, source in enumerate(sources):
        by_flags.setdefault(flags_of(source), []).append(index)
    for indices in by_flags.values():
        groups += [indices[i : i + batch] for i in range(0, len(indices), batch)]
    made: dict[int, Run] = {}

    def compiled(number: int) -> ctypes.CDLL:
        members = [sources[i] for i in groups[number]]
        return _compile(_batched(members), folder / f"part{number}.so", flags_of(members[0]))

    with ThreadPoolExecutor(2) as pool:
        for indices, library in zip(groups, pool.map(compiled, range(len(groups))), strict=True):
            for number, index in enumerate(indices):
                made[index] = library[f"run_{number}"]
    return iter([made[i] for i in range(len(sources))])
