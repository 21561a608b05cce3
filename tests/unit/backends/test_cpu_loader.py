"""The loader in this process, with libraries that are built here and are no candidates."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from evokern_cpu import compiler, loader
from evokern_cpu.instruments import SERVER

import evokern
from evokern.evaluator.call import protocol

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


class Served:
    """A kernel whose calls are answered by serve.cpp, called as a `LoadedKernel` is."""

    def __init__(self, kernel: loader.LoadedKernel) -> None:
        self._kernel = kernel
        self._judge, self._runner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._seq = 0

    def close(self) -> None:
        self._judge.close()
        self._runner.close()

    def bind(self, specs: Sequence[loader.Spec], windows: Sequence[int], workspace: int) -> None:
        self._kernel.bind(specs, windows, workspace)

    def run(self, go: loader.Go) -> int:
        return protocol.decode_done(self.ask(go, protocol.Kind.GO), self._seq).status

    def workspace_size(self, go: loader.Go) -> int:
        return protocol.decode_bytes(self.ask(go, protocol.Kind.SIZE), self._seq)

    def ask(self, go: loader.Go, kind: protocol.Kind) -> bytes:
        self._seq += 1
        places = tuple(protocol.Place(p.offset, p.shape, p.strides, p.scalar) for p in go.places)
        self._judge.send(protocol.encode_go(protocol.Go(self._seq, places, go.workspace_offset, go.workspace_bytes, kind)))
        self.end_with(b"no call")
        return self._judge.recv(protocol.MAX_RECORD)

    def end_with(self, record: bytes) -> None:
        """Serve until a record that is no call, which must be left for others."""
        self._judge.send(record)
        self._kernel.serve(self._runner.fileno())
        assert self._runner.recv(protocol.MAX_RECORD) == record


def library_of(folder: Path, source: str) -> int:
    (folder / "kernel.cpp").write_text(source)
    library = folder / "kernel.so"
    command = [compiler.find().path, "-std=c++17", "-fPIC", "-shared", f"-I{INCLUDE}", "-o", library, folder / "kernel.cpp"]
    subprocess.run(command, check=True)
    descriptor = os.open(library, os.O_RDONLY)
    library.unlink()  # the next one is another file
    return descriptor


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    made: list[Served] = []

    def build(source: str, entry: str = "run") -> Served:
        kernel = loader.load(library_of(tmp_path, '#include "evokern.h"\n' + source), entry, library_of(tmp_path, SERVER.source))
        made.append(Served(kernel))
        return made[-1]

    yield build
    for one in made:
        one.close()


@pytest.fixture(params=["python", "native"])
def load(request: pytest.FixtureRequest, serve: Callable[..., Served], tmp_path: Path) -> Callable[..., loader.LoadedKernel | Served]:
    def build(source: str, entry: str = "run") -> loader.LoadedKernel:
        return loader.load(library_of(tmp_path, '#include "evokern.h"\n' + source), entry)

    return build if request.param == "python" else serve


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


def test_layout_is_that_of_the_header(load: Callable[..., loader.LoadedKernel | Served]) -> None:
    names = ("data", "device", "ndim", "dtype", "shape", "strides", "byte_offset")
    checks = "".join(f"static_assert(offsetof(DLTensor, {name}) == {getattr(loader.DLTensor, name).offset});" for name in names)
    load(f'static_assert(sizeof(DLTensor) == {ctypes.sizeof(loader.DLTensor)}); {checks} extern "C" int run() {{ return 0; }}')


def test_call_with_offsets_strides_and_scalar(load: Callable[..., loader.LoadedKernel | Served]) -> None:
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


def test_a_kernel_may_ask_for_workspace(load: Callable[..., loader.LoadedKernel | Served]) -> None:
    kernel = load(SCALE + 'extern "C" size_t workspace_size(DLTensor* const* args, int nargs) { return args[0]->shape[0] * 4 + nargs; }')
    with mmap.mmap(-1, 4096) as window:
        kernel.bind([Spec(2, 32, 2), Spec(2, 32, 0), Spec(2, 32, 2)], [address(window), 0, address(window)], 0)
        assert kernel.workspace_size(Go(Place(0, (100, 1), (1, 1)), Place(), Place(0, (100, 1), (1, 1)))) == 403
        del kernel


def test_what_a_call_is_handed_is_gone_after_it(load: Callable[..., loader.LoadedKernel | Served]) -> None:
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


def test_each_library_is_its_own(load: Callable[..., loader.LoadedKernel | Served]) -> None:
    kernels = [load(f'extern "C" int run() {{ return {number}; }}') for number in range(3)]
    for kernel in kernels:
        kernel.bind([], [], 0)
    assert [kernel.run(Go()) for kernel in kernels] == [0, 1, 2]


def test_missing_entry(load: Callable[..., loader.LoadedKernel | Served]) -> None:
    with pytest.raises(AttributeError, match="absent"):
        load(SCALE, "absent")


def test_not_a_library(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no library")
    with pytest.raises(OSError, match=r"invalid ELF header|too short"):
        loader.load(os.open(tmp_path / "text", os.O_RDONLY), "run")


def test_whatever_is_no_call_is_left_to_others(serve: Callable[..., Served]) -> None:
    served = serve('extern "C" int run() { return 4; }')
    go = protocol.encode_go(protocol.Go(1, ()))
    bind = protocol.encode_bind(protocol.Bind(1, (), 0))
    place = protocol.encode_go(protocol.Go(1, (protocol.Place(0, (1,), (1,)),)))

    served.end_with(go)  # nothing is bound yet
    served.bind([], [], 0)
    for record in (bind, place, go[:-1], go + b"0", b"EVK2" + go[4:], bytes(16), b"x"):
        served.end_with(record)
    assert served.run(Go()) == 4


@pytest.mark.parametrize("broken", [protocol.Place(0, (3,), (1,)), protocol.Place(0, (), ())])
def test_a_call_of_other_dimensions_than_were_bound_is_none(serve: Callable[..., Served], broken: protocol.Place) -> None:
    served = serve('extern "C" int run() { return 4; }')
    served.bind([Spec(2, 32, 2)], [4096], 0)
    served.end_with(protocol.encode_go(protocol.Go(1, (broken,))))


def test_serving_ends_with_the_judge(tmp_path: Path) -> None:
    kernel = loader.load(library_of(tmp_path, 'extern "C" int run() { return 4; }'), "run", library_of(tmp_path, SERVER.source))
    kernel.bind([], [], 0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    with theirs:
        kernel.serve(theirs.fileno())
