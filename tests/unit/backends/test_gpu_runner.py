"""What a GPU runner is made of that needs no GPU: arguments as C gets them, our own device code, and machines without a driver."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from evokern_gpu import instruments, toolkit
from evokern_gpu.clock import Monitor
from evokern_gpu.device import Gpu
from evokern_gpu.driver import Driver, DriverError
from evokern_gpu.kernel import Argument
from evokern_gpu.tensors import Record

import evokern
from evokern.errors import Unavailable

INCLUDE = Path(evokern.__file__).parent / "include"

READER = """#include <string.h>

#include "evokern.h"

static int64_t seen[64];

extern "C" int64_t* told() { return seen; }

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  int64_t* to = seen;
  for (int i = 0; i < nargs; ++i) {
    const DLTensor* t = args[i];
    *to++ = t->device.device_type;
    *to++ = t->dtype.code * 1000 + t->dtype.bits + t->dtype.lanes * 1000000;
    *to++ = t->ndim;
    for (int k = 0; k < t->ndim; ++k) *to++ = t->shape[k];
    for (int k = 0; k < t->ndim; ++k) *to++ = t->strides[k];
    *to++ = t->ndim ? reinterpret_cast<int64_t>(evokern::data<char>(t)) : *evokern::data<int64_t>(t);
  }
  return to - seen;
}
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not here")
    folder = tmp_path_factory.mktemp("reader")
    source, library = folder / "reader.cpp", folder / "reader.so"
    source.write_text(READER)
    subprocess.run(["g++", "-shared", "-fPIC", f"-I{INCLUDE}", "-o", str(library), str(source)], check=True, timeout=120)
    found = ctypes.CDLL(str(library))
    found.run.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    found.told.restype = ctypes.POINTER(ctypes.c_int64)
    return found


class TestRecord:
    ARGUMENTS = (
        Argument(2, 32, 0x7F00_0000_1234, (3, 5, 7), (99, 9, 1), bytes(8)),
        Argument(0, 64, 0, (), (), (-5).to_bytes(8, "little", signed=True)),
        Argument(4, 16, 0x7F00_2000_0000, (11,), (1,), bytes(8)),
    )

    def test_is_read_by_c_as_dlpack(self, reader: ctypes.CDLL) -> None:
        record = Record([3, 0, 1])
        for _ in range(2):
            record.place(self.ARGUMENTS)
            count = reader.run(record.address, record.count, None, 0, None)

            assert reader.told()[:count] == [
                *(2, 1002032, 3, 3, 5, 7, 99, 9, 1, 0x7F00_0000_1234),
                *(1, 1000064, 0, -5),
                *(2, 1004016, 1, 11, 1, 0x7F00_2000_0000),
            ]
            record.poison()

    def test_nothing_is_left_after_a_call(self) -> None:
        record = Record([3, 0, 1])
        record.place(self.ARGUMENTS)
        record.poison()

        assert set(ctypes.string_at(record.address, 100)) == {0xA5}

    def test_there_may_be_no_arguments(self) -> None:
        record = Record([])
        record.place([])
        record.poison()

        assert record.count == 0


class TestInstruments:
    def test_have_the_names_that_are_launched(self) -> None:
        assert set(re.findall(r"\.entry (\w+)\(", instruments.SOURCE.read_text())) == set(instruments.NAMES)

    @pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
    def test_are_assembled_where_there_is_an_assembler(self, arch: str) -> None:
        if instruments.assembler(arch) is None:
            pytest.skip("no assembler")

        assert instruments.cubin(arch)[:4] == b"\x7fELF"

    def test_are_left_to_the_driver_where_the_kind_is_not_known(self) -> None:
        assert instruments.cubin("sm_1") == instruments.SOURCE.read_bytes()

    def test_are_what_the_compiler_makes_of_their_source(self, tmp_path: Path) -> None:
        try:
            found = toolkit.find()
        except Unavailable as error:
            pytest.skip(str(error))
        if not found.version.startswith("13.0."):
            pytest.skip("another compiler than the one that made it")
        product = tmp_path / "instruments.ptx"
        command = [found.nvcc, "-ptx", "-arch=compute_80", "-std=c++17", "-o", product, instruments.SOURCE.with_suffix(".cu")]
        subprocess.run(list(map(str, command)), check=True, timeout=240)

        assert _code(product.read_text()) == _code(instruments.SOURCE.read_text())


def _code(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not re.match(r"\s*//|\.version", line)]


class TestWithoutADriver:
    @pytest.fixture(autouse=True)
    def _here(self) -> None:
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            return
        pytest.skip("a driver is here")

    @pytest.mark.parametrize("made", [Driver, Gpu])
    def test_is_unavailable_with_what_to_do(self, made: type) -> None:
        with pytest.raises(Unavailable, match="no CUDA driver") as error:
            made()

        assert error.value.mend

    def test_the_clock_says_nothing(self) -> None:
        monitor = Monitor("GPU-0")

        assert (monitor.driver(), monitor.now()) == ("", {})
        monitor.close()


def test_an_error_names_call_and_error() -> None:
    error = DriverError("cuMemAlloc_v2", "CUDA_ERROR_OUT_OF_MEMORY", 2)

    assert str(error) == "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)"
    assert not error.is_fatal
    assert DriverError("cuCtxSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", 700).is_fatal


def test_a_runner_imports_nothing_heavy() -> None:
    code = "import sys, evokern_gpu.loader, evokern_gpu.sealed; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60, env=_environment())

    assert not {"torch", "numpy", "triton", "pydantic", "cuda"} & set(done.stdout.split())


def _environment() -> dict[str, str]:
    root = Path(evokern.__file__).parents[1]
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{root}:{root / 'backends'}"}
