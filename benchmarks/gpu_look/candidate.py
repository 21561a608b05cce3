"""A candidate with host code of its own: runs a Triton or a CUDA kernel, and gives its launch list on two address sets.

`candidate.py KIND FOLDER KERNELS` reads input.bin, writes output.bin, times.json, launches.json and the binaries.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import triton
import triton.language as tl
from driver import Driver, Launch
from stand import Stand

ROWS, COLUMNS = 4096, 4096
SAMPLES = 100


@triton.jit
def softmax_rows(x, y, stride, COLUMNS: tl.constexpr):  # noqa: N803, D103
    place = tl.program_id(0) * stride + tl.arange(0, COLUMNS)
    row = tl.load(x + place)
    power = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + place, power / tl.sum(power, axis=0))


def triton_run(tensors: list[torch.Tensor]) -> bytes:
    """Softmax by rows; the binary that ran."""
    x, _, y = tensors
    compiled = softmax_rows[(ROWS,)](x, y, COLUMNS, COLUMNS=COLUMNS, num_warps=8)
    return bytes(compiled.asm["cubin"])


def cuda_run(folder: Path) -> Callable[[list[torch.Tensor]], bytes]:
    """Rows over their sums, by two kernels behind a C function of a shared library, and the library's device binary."""
    library = ctypes.CDLL(str(folder / "candidate.so"))
    tool = shutil.which("cuobjdump") or "/usr/local/cuda/bin/cuobjdump"
    subprocess.run([tool, "-xelf", "all", "candidate.so"], cwd=folder, check=True, capture_output=True, timeout=60)
    # One file a unit of the library; those of the runtime hold no kernel.
    (binary,) = (found for found in folder.glob("*.cubin") if b"row_sums" in found.read_bytes())

    def run(tensors: list[torch.Tensor]) -> bytes:
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]
        code = library.run(*pointers, ROWS, COLUMNS, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        if code:
            raise RuntimeError(f"run: error {code}")
        return binary.read_bytes()

    return run


def relocate(first: list[Launch], second: list[Launch], sets: list[list[torch.Tensor]]) -> list[dict[str, object]]:
    """The launch list with every parameter that follows the addresses named as (window, offset).

    Raises:
        ValueError: The lists differ in something that is no address of a window.
    """
    rows: list[dict[str, object]] = []
    for one, other in zip(first, second, strict=True):
        if (one.name, one.grid, one.block, one.shared) != (other.name, other.grid, other.block, other.shared):
            raise ValueError(f"{one.name} is launched in another way on other addresses")
        parameters = []
        for (offset, value), (_, moved) in zip(one.parameters, other.parameters, strict=True):
            if value == moved:
                parameters.append({"offset": offset, "bytes": value.hex()})
                continue
            address, elsewhere = int.from_bytes(value, "little"), int.from_bytes(moved, "little")
            window = next(
                (
                    number
                    for number, (here, there) in enumerate(zip(*sets, strict=True))
                    if here.data_ptr() <= address < here.data_ptr() + here.nbytes
                    and elsewhere - address == there.data_ptr() - here.data_ptr()
                ),
                None,
            )
            if window is None:
                raise ValueError(f"{one.name}: a parameter changes with the addresses and is no place in a window")
            parameters.append({"offset": offset, "window": window, "at": address - sets[0][window].data_ptr()})
        rows.append({"name": one.name, "grid": one.grid, "block": one.block, "shared": one.shared, "parameters": parameters})
    return rows


def main() -> None:
    """Run, capture twice, time."""
    kind, folder, kernels = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    run = triton_run if kind == "triton" else cuda_run(folder)
    host = torch.frombuffer(bytearray((folder / "input.bin").read_bytes()), dtype=torch.float32).reshape(ROWS, COLUMNS)
    sets = []
    for _ in range(2):
        sets.append([host.cuda(), torch.full((ROWS,), float("nan"), device="cuda"), torch.full_like(host, float("nan"), device="cuda")])
    driver = Driver()
    stream = torch.cuda.Stream()
    lists = []
    with torch.cuda.stream(stream):
        for tensors in sets:
            binary = run(tensors)
            torch.cuda.synchronize()
            driver.begin_capture(stream.cuda_stream)
            run(tensors)
            lists.append(driver.end_capture(stream.cuda_stream))
        stand = Stand(driver, kernels, stream.cuda_stream)
        times = [stand.sample(lambda: void(run(sets[0])), eviction="read") for _ in range(SAMPLES)]
    torch.cuda.synchronize()
    (folder / "binary.cubin").write_bytes(binary)
    (folder / "output.bin").write_bytes(sets[0][2].cpu().numpy().tobytes())
    (folder / "launches.json").write_text(json.dumps({"bytes": [tensor.nbytes for tensor in sets[0]], "launches": relocate(*lists, sets)}))
    (folder / "times.json").write_text(json.dumps([sample for sample, held in times if held]))


def void(_: object) -> None:
    """Drop a result."""


if __name__ == "__main__":
    main()
