"""Seeds and instruments in CUDA and HIP, built as always, called in this process on short, odd, padded and unaligned rows."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from evokern_cuda.backend import CudaBackend
from evokern_gpu import nvcc, toolkit
from evokern_hip import platforms
from evokern_hip.backend import HipBackend

from evokern.backend import Limits
from evokern.errors import Unavailable
from evokern.kernel import SUFFIXES, Kernel
from evokern.sandbox import Spawner
from evokern.syntax.tunables import tunables_of, with_values

CORE = Path(__file__).parents[2] / "benchmarks" / "tasks" / "core"
TASKS = ("softmax", "rmsnorm", "cross_entropy", "bias_gelu")
BACKENDS = {"cuda": CudaBackend, "hip": HipBackend}
SHAPES = ((3, 33, 0, 0), (2, 1021, 3, 1), (65, 4096, 0, 8), (3, 256, 8, 8), (1, 1, 0, 3), (2, 7, 1, 0), (5, 20000, 12, 4))
"""Rows, columns, padding of a row, and elements before the first."""

UNTOUCHED = 7.0
LIMITS = Limits(seconds=120.0)
_CUDA, _CPU = 2, 1


class Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class ElementType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    """As in DLPack's dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", ElementType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


@pytest.fixture(scope="module")
def torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no GPU is here")
    try:
        toolkit.find()
    except Unavailable as error:
        pytest.skip(error.line)
    return torch


@pytest.fixture(scope="module")
def spawner(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    with Spawner.start({}, scratch=tmp_path_factory.mktemp("scratch")) as made:
        yield made


@pytest.fixture(autouse=True)
def _through_the_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(platforms.SETTING, "nvidia")


def libraries(dialect: str, sources: Sequence[str], spawner: Spawner, cache: Path) -> list[ctypes.CDLL]:
    kernels = [Kernel(dialect, source) for source in sources]
    built = BACKENDS[dialect]().build(kernels, sandbox=spawner, cache=cache, limits=LIMITS)
    assert all(one.ok for one in built), [one.log for one in built]
    return [ctypes.CDLL(os.fspath(one.artefact)) for one in built if one.artefact is not None]


def call(torch: Any, library: ctypes.CDLL, arguments: Sequence[Any]) -> int:
    kept, tensors = [], []
    for tensor in arguments:
        code, bits = {torch.float32: (2, 32), torch.bfloat16: (4, 16), torch.int64: (0, 64)}[tensor.dtype]
        values = ctypes.c_int64 * max(tensor.ndim, 1)
        shape, strides = values(*tensor.shape), values(*tensor.stride())
        kept.append((shape, strides))
        device = Device(_CUDA if tensor.is_cuda else _CPU, 0)
        pointers = (ctypes.cast(each, ctypes.POINTER(ctypes.c_int64)) for each in (shape, strides))
        tensors.append(Tensor(tensor.data_ptr(), device, tensor.ndim, ElementType(code, bits, 1), *pointers, 0))
    pointers_of = (ctypes.POINTER(Tensor) * len(tensors))(*(ctypes.pointer(tensor) for tensor in tensors))
    status: int = library.run(pointers_of, len(tensors), None, ctypes.c_size_t(0), None)
    torch.cuda.synchronize()
    return status


def plane(torch: Any, rows: int, cols: int, padding: int, offset: int, dtype: Any) -> tuple[Any, Any]:
    """A buffer that holds `UNTOUCHED`, and the view of rows and columns in it."""
    buffer = torch.full((offset + rows * (cols + padding) + 64,), UNTOUCHED, dtype=dtype, device="cuda")
    return buffer, buffer[offset : offset + rows * (cols + padding)].view(rows, cols + padding)[:, :cols]


def reference(task: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"reference_of_{task}", CORE / task / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inputs(torch: Any, task: str, rows: int, cols: int, padding: int, offset: int, dtype: Any) -> list[Any]:
    torch.manual_seed(rows * cols)
    x = plane(torch, rows, cols, padding, offset, dtype)[1]
    x.copy_(3 * torch.randn(rows, cols))
    if task in ("softmax", "cross_entropy") and cols > 40:
        x[0, 5:30] = float("-inf")
    if task == "softmax":
        return [x]
    if task == "cross_entropy":
        labels = torch.randint(0, cols, (rows,), device="cuda")
        labels[0] = 0
        return [x, labels]
    of_columns = plane(torch, 1, cols, 0, offset, dtype)[1][0]
    of_columns.copy_(torch.randn(cols))
    return [x, of_columns, torch.tensor(1e-6)] if task == "rmsnorm" else [x, of_columns]


def checked(torch: Any, task: str, library: ctypes.CDLL, dtype: Any, shape: tuple[int, int, int, int]) -> None:
    rows, cols, padding, offset = shape
    given = inputs(torch, task, *shape, dtype)
    wide = [each.double() if each.is_floating_point() and each.ndim else each for each in given]
    expected = reference(task).run(*(each if each.ndim else each.item() for each in wide))
    if task == "cross_entropy":
        buffer, whole = plane(torch, 1, rows, 0, offset, dtype)
        out = whole[0]
    else:
        buffer, out = plane(torch, rows, cols, padding, offset, dtype)
    assert call(torch, library, [*given, out]) == 0
    size = expected.abs() + 1e-3
    if task == "bias_gelu":
        size = size + 0.1 * (wide[0].abs() + wide[1].abs())
    worst = ((out.double() - expected).abs() / size).max().item()
    assert worst < (3e-5 if dtype is torch.float32 else 6e-3), shape
    out.fill_(UNTOUCHED)
    assert bool((buffer == UNTOUCHED).all()), f"{shape}: it wrote outside its output"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("dialect", ["cuda", "hip"])
@pytest.mark.parametrize("task", TASKS)
def test_a_seed_is_right_at_both_ends_of_its_tunables(
    torch: Any, spawner: Spawner, tmp_path: Path, task: str, dialect: str, dtype: str
) -> None:
    source = (CORE / task / "seeds" / f"{dialect}-{dtype}{SUFFIXES[dialect]}").read_text()
    tunables = tunables_of(source, dialect)
    ends = [with_values(source, dialect, {tunable.name: tunable.allowed[end] for tunable in tunables}) for end in (0, -1)]
    for library in libraries(dialect, [source, *ends], spawner, tmp_path):
        for shape in SHAPES:
            checked(torch, task, library, getattr(torch, dtype), shape)


@pytest.mark.parametrize("dialect", ["cuda", "hip"])
def test_the_copy_instrument_copies(torch: Any, spawner: Spawner, tmp_path: Path, dialect: str) -> None:
    (library,) = libraries(dialect, [BACKENDS[dialect]().instruments()["copy"].source], spawner, tmp_path)
    for dtype in (torch.float32, torch.bfloat16):
        for rows, cols, padding, offset in SHAPES:
            x = inputs(torch, "softmax", rows, cols, padding, offset, dtype)[0]
            buffer, out = plane(torch, rows, cols, padding, offset, dtype)
            assert call(torch, library, [x, out]) == 0
            assert torch.equal(x, out)
            out.fill_(UNTOUCHED)
            assert bool((buffer == UNTOUCHED).all())


def test_what_is_here_is_what_is_built_for(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(nvcc.ARCH_SETTING, raising=False)
    major, minor = torch.cuda.get_device_capability(0)
    facts = CudaBackend().probe()
    assert (facts.device, facts.arch) == (torch.cuda.get_device_name(0), f"sm_{major}{minor}")
    assert HipBackend().probe().device == f"{facts.device}, hip-nvidia (shim)"
