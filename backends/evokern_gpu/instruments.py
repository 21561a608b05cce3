"""Our own device code (instruments.cu), made ready for one device, and its launches.

What is shipped is PTX that any assembler since CUDA 11.0 takes; the one in Triton's wheel is at hand wherever evokern is installed.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from evokern_gpu.driver import Driver, Prepared

SOURCE = Path(__file__).with_name("instruments.ptx")
"""Made by `nvcc -ptx -arch=compute_80 -std=c++17 instruments.cu`, with the oldest version that it needs in its `.version`."""

NAMES = (
    "evokern_spin",
    "evokern_read",
    "evokern_write",
    "evokern_copy",
    "evokern_nothing",
    "evokern_probe",
    "evokern_multiply_add",
)

CLEAN = 0x3F9D70A5
"""What memory that is read for eviction holds: no pattern that memory controllers treat in another way, as they may zeros."""

EVICTED = 4
"""Times the L2 that are read to make caches cold."""

FLOPS = 2 * 16
"""Operations a step and thread of `evokern_multiply_add`."""

_SECONDS = 60
_FIRST_OF_ANOTHER_ASSEMBLER = 100
_VECTOR = 16
_THREADS = 512


def assembler(arch: str) -> str | None:
    """An assembler for device code of this kind ("sm_90"); None where there is none."""
    names = ("ptxas-blackwell", "ptxas") if _number(arch) >= _FIRST_OF_ANOTHER_ASSEMBLER else ("ptxas", "ptxas-blackwell")
    # Found without importing Triton.
    found = importlib.util.find_spec("triton")
    places = [Path(place) / "backends" / "nvidia" / "bin" for place in (found.submodule_search_locations or () if found else ())]
    places += [Path("/usr/local/cuda/bin"), *sorted(Path("/usr/local").glob("cuda-*/bin"), reverse=True)]
    for name in names:
        for path in (shutil.which(name), *(shutil.which(name, path=str(place)) for place in places)):
            if path:
                return path
    return None


@functools.cache
def cubin(arch: str) -> bytes:
    """The code for one kind of device; as PTX, for the driver's own compiler, where there is no assembler or it does not know the kind.

    Args:
        arch: "sm_90" and the like.
    """
    with tempfile.TemporaryDirectory() as folder:
        product, path = Path(folder) / "instruments.cubin", assembler(arch)
        command = [str(path), f"-arch={arch}", str(SOURCE), "-o", str(product)]
        if path and not subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False).returncode:
            return product.read_bytes()
    return SOURCE.read_bytes()


def _number(arch: str) -> int:
    found = re.fullmatch(r"sm_(\d+)[a-z]?", arch)
    return int(found.group(1)) if found else 0


class Instruments:
    """The code, loaded.

    Args:
        driver: The device.
        image: What `cubin` gave for it.

    Raises:
        ValueError: The image has no such kernels.
    """

    def __init__(self, driver: Driver, image: bytes) -> None:
        self._driver = driver
        module = driver.module(image)
        self._functions = {name: driver.function(module, name) for name in NAMES}
        if None in self._functions.values():
            raise ValueError("the image lacks kernels of evokern's own")
        self._multiprocessors = int(driver.facts()["multiprocessors"])

    def spin(self, nanoseconds: int, stream: int) -> Prepared:
        """One thread that is busy for so long."""
        return self._prepared("evokern_spin", 1, 1, struct.pack("<Q", nanoseconds), stream)

    def nothing(self, stream: int) -> Prepared:
        """One thread that does nothing."""
        return self._prepared("evokern_nothing", 1, 1, b"", stream)

    def probe(self, steps: int, word: int, stream: int) -> Prepared:
        """So many dependent operations on every multiprocessor.

        Args:
            steps: How many.
            word: Address of memory that is never written.
            stream: Where it runs.
        """
        return self._prepared("evokern_probe", self._multiprocessors, 128, struct.pack("<i4xQ", steps, word), stream)

    def multiply_add(self, steps: int, word: int, stream: int) -> tuple[Prepared, int]:
        """Multiply-adds in single precision on all of the device, and how many operations they are."""
        blocks, threads = 16 * self._multiprocessors, 256
        prepared = self._prepared("evokern_multiply_add", blocks, threads, struct.pack("<i4xQ", steps, word), stream)
        return prepared, blocks * threads * steps * FLOPS

    def read(self, address: int, size: int, word: int, stream: int) -> Prepared:
        """Read memory.

        Args:
            address: A multiple of 16.
            size: Bytes; what is over a multiple of 16 is left out.
            word: Address of memory that is next to never written.
            stream: Where it runs.
        """
        return self._prepared("evokern_read", self._wide, _THREADS, struct.pack("<QqQ", address, size // _VECTOR, word), stream)

    def write(self, address: int, size: int, stream: int) -> Prepared:
        """Write memory."""
        return self._prepared("evokern_write", self._wide, _THREADS, struct.pack("<QqI", address, size // _VECTOR, CLEAN), stream)

    def copy(self, source: int, to: int, size: int, stream: int) -> Prepared:
        """Copy memory."""
        return self._prepared("evokern_copy", self._wide, _THREADS, struct.pack("<QQq", source, to, size // _VECTOR), stream)

    @property
    def _wide(self) -> int:
        return 8 * self._multiprocessors

    def _prepared(self, name: str, blocks: int, threads: int, packed: bytes, stream: int) -> Prepared:
        function = self._functions[name]
        assert function is not None
        return self._driver.prepare(function, [blocks], [threads], packed, stream=stream)
