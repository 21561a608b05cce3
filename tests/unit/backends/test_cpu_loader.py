"""The loader in this process, with libraries that are built here and are no candidates."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from evokern_cpu import compiler, loader

import evokern

INCLUDE = Path(evokern.__file__).parent / "include"


class Spec:
    def __init__(self, code: int, bits: int, ndim: int) -> None:
        self.code, self.bits, self.ndim = code, bits, ndim


class Place:
    def __init__(self, offset: int = 0, shape: tuple[int, ...] = (), strides: tuple[int, ...] = (), scalar: bytes = bytes(8)) -> None:
        self.offset, self.shape, self.strides, self.scalar = offset, shape, strides, scalar


class Go:
    def __init__(self, *places: Place, workspace_offset: int = 0, workspace_bytes: int = 0) -> None:
        self.places, self.workspace_offset, self.workspace_bytes = places, workspace_offset, workspace_bytes


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., loader.LoadedKernel]:
    def build(source: str, entry: str = "run") -> loader.LoadedKernel:
        (tmp_path / "kernel.cpp").write_text('#include "evokern.h"\n' + source)
        library = tmp_path / "kernel.so"
        subprocess.run(
            [compiler.find().path, "-std=c++17", "-fPIC", "-shared", f"-I{INCLUDE}", "-o", library, tmp_path / "kernel.cpp"], check=True
        )
        return loader.load(os.open(library, os.O_RDONLY), entry)

    return build


def address(window: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(window))


SCALE = """
extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t bytes, void* stream) {
  if (nargs != 3 || stream) return 9;
  const DLTensor &x = *args[0], &y = *args[2];
  if (x.device.device_type != 1 || x.dtype.code != 2 || x.dtype.bits != 32 || x.dtype.lanes != 1 || args[1]->ndim != 0) return 8;
  const float *in = evokern::data<float>(&x), factor = evokern::scalar<float>(args[1]);
  float* out = evokern::data<float>(&y);
  for (int64_t r = 0; r < x.shape[0]; ++r)
    for (int64_t c = 0; c < x.shape[1]; ++c)
      out[r * y.strides[0] + c * y.strides[1]] = factor * in[r * x.strides[0] + c * x.strides[1]];
  if (bytes) *static_cast<char*>(workspace) = 7;
  return bytes > 100 ? 5 : 0;
}
"""


def test_layout_is_that_of_the_header(load: Callable[..., loader.LoadedKernel]) -> None:
    names = ("data", "device", "ndim", "dtype", "shape", "strides", "byte_offset")
    checks = "".join(f"static_assert(offsetof(DLTensor, {name}) == {getattr(loader.DLTensor, name).offset});" for name in names)
    load(f'static_assert(sizeof(DLTensor) == {ctypes.sizeof(loader.DLTensor)}); {checks} extern "C" int run() {{ return 0; }}')


def test_call_with_offsets_strides_and_scalar(load: Callable[..., loader.LoadedKernel]) -> None:
    kernel = load(SCALE)
    with mmap.mmap(-1, 4096) as first, mmap.mmap(-1, 4096) as second, mmap.mmap(-1, 4096) as workspace:
        x = np.frombuffer(first, np.float32)
        x[:] = np.arange(x.size)
        y = np.frombuffer(second, np.float32)
        kernel.bind([Spec(2, 32, 2), Spec(2, 32, 0), Spec(2, 32, 2)], [address(first), 0, address(second)], address(workspace))
        scalar = np.float32(3).tobytes() + bytes(4)

        status = kernel.run(
            Go(Place(8, (2, 3), (5, 1)), Place(scalar=scalar), Place(40, (2, 3), (1, 2)), workspace_offset=64, workspace_bytes=1)
        )

        assert status == 0
        assert np.array_equal(y[10:16], [6, 21, 9, 24, 12, 27])
        assert not y[:10].any()
        assert not y[16:].any()
        assert (workspace[63], workspace[64], workspace[65]) == (0, 7, 0)
        assert kernel.run(Go(Place(0, (0, 3), (3, 1)), Place(scalar=scalar), Place(0, (0, 3), (3, 1)), workspace_bytes=101)) == 5
        assert kernel.workspace_size(Go(Place(0, (0, 3), (3, 1)), Place(), Place(0, (0, 3), (3, 1)))) == 0
        del x, y, kernel


def test_a_kernel_may_ask_for_workspace(load: Callable[..., loader.LoadedKernel]) -> None:
    kernel = load(SCALE + 'extern "C" size_t workspace_size(DLTensor* const* args, int nargs) { return args[0]->shape[0] * 4 + nargs; }')
    with mmap.mmap(-1, 4096) as window:
        kernel.bind([Spec(2, 32, 2), Spec(2, 32, 0), Spec(2, 32, 2)], [address(window), 0, address(window)], 0)
        assert kernel.workspace_size(Go(Place(0, (100, 1), (1, 1)), Place(), Place(0, (100, 1), (1, 1)))) == 403
        del kernel


def test_what_a_call_is_handed_is_gone_after_it(load: Callable[..., loader.LoadedKernel]) -> None:
    kernel = load(
        """
        static DLTensor* const* kept; static DLTensor* tensor; static int64_t *shape, *strides; static float* scalar;
        extern "C" int run(DLTensor* const* args, int, void*, size_t, void*) {
          DLTensor* const* const before = kept;
          const bool good = !before || (before != args && before[0] != tensor && tensor->shape != shape && *shape != 2 && *strides != 5
              && tensor->ndim != 2 && *scalar != 3.0f);
          if (args[0]->ndim != 2 || args[0]->shape[0] != 2 || args[0]->strides[0] != 5 || args[0]->byte_offset || !args[1]->strides
              || evokern::scalar<float>(args[1]) != 3.0f) return 2;
          kept = args; tensor = args[0]; shape = tensor->shape; strides = tensor->strides; scalar = evokern::data<float>(args[1]);
          return good ? 0 : 1;
        }
        extern "C" size_t workspace_size(DLTensor* const* args, int) { return run(args, 2, 0, 0, 0); }
        """
    )
    with mmap.mmap(-1, 4096) as window:
        kernel.bind([Spec(2, 32, 2), Spec(2, 32, 0)], [address(window), 0], 0)
        go = Go(Place(8, (2, 3), (5, 1)), Place(scalar=np.float32(3).tobytes() + bytes(4)))
        assert [kernel.run(go) or kernel.workspace_size(go) for _ in range(2 * loader.RECORDS)] == [0] * (2 * loader.RECORDS)
        del kernel


def test_each_library_is_its_own(load: Callable[..., loader.LoadedKernel]) -> None:
    kernels = [load(f'extern "C" int run() {{ return {number}; }}') for number in range(3)]
    assert [kernel.run(Go()) for kernel in kernels] == [0, 1, 2]


def test_missing_entry(load: Callable[..., loader.LoadedKernel]) -> None:
    with pytest.raises(AttributeError, match="absent"):
        load(SCALE, "absent")


def test_not_a_library(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no library")
    with pytest.raises(OSError, match=r"invalid ELF header|too short"):
        loader.load(os.open(tmp_path / "text", os.O_RDONLY), "run")
