"""What a device can do at best: rates of memory and arithmetic, and what a launch takes. Measured once a device and driver, and kept.

Memory: three streams of 1 GiB by our own kernels, cold by their size. Arithmetic: our own multiply-adds in single precision, and
PyTorch's product of two square matrices in each element type that has matrix units. Each is the best of several, after a warm-up.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokern_gpu.instruments import Instruments

if TYPE_CHECKING:
    from evokern_gpu.device import Gpu

SCHEMA = "evokern.ceilings/1"

NEEDED = frozenset({"copy", "read", "write", "launch_us", "vector"})
"""What every device has."""

MOVED_BYTES = 1 << 30
"""Of each buffer; less where the device has less."""

REPEATS = 20
_WARM = 3
_STEPS = 20_000
_SIZE = 8192
_LAUNCHES = 200
_BLOCKER_NS = 5_000_000
_MATRIX = {"matrix": "bfloat16", "matrix_float16": "float16", "matrix_float32": "float32"}


def kept(gpu: Gpu, home: Path | None) -> dict[str, float]:
    """The ceilings of a device, from its file or measured.

    Args:
        gpu: The device.
        home: Folder of the files; None keeps nothing.

    Returns:
        copy (both ways counted), read and write in bytes a second; launch_us, of one kernel after another; vector, in operations a
        second of single precision; matrix, the same of matrix units in bfloat16, and matrix_float16 and matrix_float32 (without
        reduced precision). Those of matrices are left out where PyTorch cannot run on the device.
    """
    facts = gpu.facts()
    file = None if home is None else home / "ceilings" / f"{_plain(facts['uuid'])}-{_plain(facts['driver'])}.json"
    found = _read(file)
    if found is None:
        found = measured(gpu)
        _write(file, found)
    return found


def measured(gpu: Gpu) -> dict[str, float]:
    """The ceilings, measured; takes a few seconds."""
    driver = gpu.driver
    stream = driver.stream(is_blocking=False)
    code = Instruments(driver, gpu.image)
    size = min(MOVED_BYTES, driver.memory()[0] // 8) // 4096 * 4096
    held: list[int] = []
    try:
        for _ in range(2):
            held.append(driver.allocate(size))
        word = driver.allocate(4096)
        held.append(word)
        source, to = held[:2]
        rate = _timer(gpu, code, stream)
        nothing = code.nothing(stream)
        arithmetic, operations = code.multiply_add(_STEPS, word, stream)
        # First what takes long and loads the device, so that its clock is up for the others.
        vector = operations / rate([arithmetic])
        return {
            "copy": 2 * size / rate([code.copy(source, to, size, stream)]),
            "read": size / rate([code.read(source, size, word, stream)]),
            "write": size / rate([code.write(to, size, stream)]),
            "launch_us": rate([nothing] * _LAUNCHES) / _LAUNCHES * 1e6,
            "vector": vector,
            **_matrix(gpu),
        }
    finally:
        driver.synchronise()
        for address in held:
            driver.free(address)


def _timer(gpu: Gpu, code: Instruments, stream: int) -> Callable[[list[Any]], float]:
    """Best seconds of launches in a row, by events; a blocker holds the stream until all are enqueued."""
    driver = gpu.driver
    start, end, blocker = driver.event(), driver.event(), code.spin(_BLOCKER_NS, stream)

    def best(launches: list[Any]) -> float:
        times = []
        for _ in range(REPEATS + _WARM):
            driver.launch(blocker)
            driver.record(start, stream)
            for launch in launches:
                driver.launch(launch)
            driver.record(end, stream)
            driver.wait_for(end)
            times.append(driver.elapsed_ns(start, end))
        return min(times[_WARM:]) / 1e9

    return best


def _matrix(gpu: Gpu) -> dict[str, float]:
    """Operations a second of a matrix product, by name of the ceiling."""
    try:
        import torch
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    device = f"cuda:{gpu.ordinal}"
    reduced = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        return {name: _product(torch, device, kind) for name, kind in _MATRIX.items()}
    finally:
        torch.backends.cuda.matmul.allow_tf32 = reduced
        torch.cuda.empty_cache()


def _product(torch: Any, device: str, name: str) -> float:
    kind = getattr(torch, name)
    left, right = (torch.randn(_SIZE, _SIZE, device=device, dtype=kind) for _ in range(2))
    product = torch.empty(_SIZE, _SIZE, device=device, dtype=kind)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    best = float("inf")
    for index in range(REPEATS // 2 + _WARM):
        start.record()
        torch.matmul(left, right, out=product)
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end)) if index >= _WARM else best
    return 2 * _SIZE**3 / (best / 1e3)


def _read(file: Path | None) -> dict[str, float] | None:
    if file is None:
        return None
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.pop("schema", None) != SCHEMA:
        return None
    return found if NEEDED <= found.keys() and all(isinstance(value, float) and value > 0 for value in found.values()) else None


def _write(file: Path | None, found: dict[str, float]) -> None:
    """Keep it; a home that cannot be written only costs the next one a few seconds."""
    if file is None:
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps({"schema": SCHEMA, **found}, indent=1))
        fresh.rename(file)


def _plain(name: object) -> str:
    return re.sub(r"[^0-9A-Za-z.-]", "_", str(name))
