"""Sealed replay: a launch list and a binary, without the host code that made them. `replay.py FOLDER KERNELS`.

Reads input.bin, binary.cubin and launches.json; writes replayed.bin and replayed.json (times in us of samples whose blocker held).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from driver import Driver
from stand import Stand

SAMPLES = 100
POISON = 0xFF


def parameters(launch: dict[str, Any], windows: list[int]) -> bytes:
    """The packed parameters on these windows."""
    buffer = bytearray()
    for held in launch["parameters"]:
        value = (windows[held["window"]] + held["at"]).to_bytes(8, "little") if "window" in held else bytes.fromhex(held["bytes"])
        buffer.extend(bytes(held["offset"] - len(buffer)))
        buffer.extend(value)
    return bytes(buffer)


def main() -> None:
    """Replay once on fresh memory, then time."""
    folder, kernels = Path(sys.argv[1]), Path(sys.argv[2])
    driver = Driver()
    stream = driver.stream()
    listed = json.loads((folder / "launches.json").read_text())
    windows = [driver.allocate(size) for size in listed["bytes"]]
    for window, size in zip(windows, listed["bytes"], strict=True):
        driver.write(window, bytes([POISON]) * size)
    driver.write(windows[0], (folder / "input.bin").read_bytes())
    module = driver.module((folder / "binary.cubin").read_bytes())
    launches = [
        (driver.function_of(module, launch["name"]), launch["grid"], launch["block"], parameters(launch, windows), launch["shared"])
        for launch in listed["launches"]
    ]

    def run() -> None:
        for function, grid, block, held, shared in launches:
            driver.launch(function, grid, block, held, shared=shared, stream=stream)

    run()
    driver.synchronise()
    (folder / "replayed.bin").write_bytes(driver.read(windows[2], listed["bytes"][2]))
    stand = Stand(driver, kernels, stream)
    times = [stand.sample(run, eviction="read") for _ in range(SAMPLES)]
    (folder / "replayed.json").write_text(json.dumps([sample for sample, held in times if held]))


if __name__ == "__main__":
    main()
