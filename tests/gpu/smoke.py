"""One look at everything that `evokern_gpu` does on a GPU, in one process and its runners; prints JSON, one part at a time.

`python tests/gpu/smoke.py [--out FILE] [--only PART,PART]`. A part that fails says so and the next one goes on. Needs nvcc and torch.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu import runners
from tests.gpu.runners import Bench, Ended, Runner, protocol

SAMPLES = 50
SIZES = {"20us": (4096, 2560), "200us": (4096, 25600)}
FIRST, SECOND, THIRD = (0, 0), (4096, 8192), (12288, 1024)

STARTUP = """
import json, sys, time
t0 = time.perf_counter(); marks = {}
def mark(name):
    global t0
    now = time.perf_counter(); marks[name] = round(1e3 * (now - t0), 2); t0 = now
import ctypes, os, struct
from evokern.evaluator.call import runner
import evokern_gpu.sealed
mark("imports_ms")
os.environ["CUDA_MODULE_LOADING"] = "EAGER"; os.environ["CUDA_CACHE_DISABLE"] = "1"
library = ctypes.CDLL("libcuda.so.1"); mark("open_library_ms")
assert library.cuInit(0) == 0; mark("cuInit_ms")
device = ctypes.c_int(); library.cuDeviceGet(ctypes.byref(device), 0)
context = ctypes.c_void_p(); assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0; mark("context_ms")
from evokern_gpu.driver import Driver
driver = Driver(eager=True); stream = driver.stream(is_blocking=True); mark("driver_ms")
image = open(sys.argv[2], "rb").read()
module = driver.module(image); mark("module_ms")
from evokern_gpu.instruments import Instruments
code = Instruments(driver, open(sys.argv[3], "rb").read()); mark("instruments_ms")
driver.launch(code.nothing(stream)); driver.synchronise(); mark("first_launch_ms")
ctypes.CDLL(sys.argv[1]); mark("library_ms")
print(json.dumps(marks))
"""


class Look:
    """The parts, and what they found.

    Args:
        folder: For what is built.
    """

    def __init__(self, folder: Path) -> None:
        import torch
        from evokern_gpu.device import Gpu

        self.torch, self.folder = torch, folder
        start = time.perf_counter()
        self.gpu = Gpu(home=folder)
        self.opened_s = time.perf_counter() - start
        self.arch = str(self.gpu.facts()["arch"])
        self.built: dict[int, tuple[Path, Path]] = {}

    def device(self) -> Any:
        """Facts, clock record, probe and eviction."""
        gpu = self.gpu
        window = gpu.window(1)
        tensor = gpu.tensor(window)
        tensor.fill_(7)
        whole = bool((tensor == 7).all().item())
        del tensor
        probes, evictions = [gpu.probe_us() for _ in range(30)], []
        for _ in range(10):
            start = time.perf_counter()
            gpu.evict()
            evictions.append(1e6 * (time.perf_counter() - start))
        found = {
            "facts": gpu.facts(),
            "clock": gpu.clock(),
            "opened_s": self.opened_s,
            "image_bytes": len(gpu.image),
            "image_is_binary": gpu.image[:4] == b"\x7fELF",
            "window": {"size": window.size, "address": hex(window.address), "descriptor": window.descriptor, "holds": whole},
            "probe_us": quartiles(probes),
            "evict_us": quartiles(evictions),
        }
        window.close()
        return found

    def ceilings(self) -> Any:
        """Ceilings, and that they are kept."""
        start = time.perf_counter()
        found = self.gpu.ceilings()
        first = time.perf_counter() - start
        start = time.perf_counter()
        same = self.gpu.ceilings() == found
        return {"ceilings": found, "seconds": first, "again_s": time.perf_counter() - start, "kept": same, "clock": self.gpu.clock()}

    def build(self) -> Any:
        """Every variant, as many at a time as there are cores."""
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(14) as pool:
            numbers = range(20)
            self.built = dict(zip(numbers, pool.map(lambda n: runners.build(n, self.folder, self.arch), numbers), strict=True))
        return {"seconds": time.perf_counter() - start}

    def startup(self) -> Any:
        """What the start of a runner's process takes, by step, thrice."""
        library, image = self.built[runners.PLAIN]
        ours = self.folder / "ours.cubin"
        ours.write_bytes(self.gpu.image)
        script = f"import sys; sys.path[:0] = [{str(runners.ROOT)!r}, {str(runners.ROOT / 'backends')!r}]\n" + STARTUP
        found = []
        for _ in range(3):
            start = time.perf_counter()
            command = [sys.executable, "-c", script, str(library), str(image), str(ours)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            marks = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr[-2000:]}
            found.append({**marks, "whole_ms": round(1e3 * (time.perf_counter() - start), 1)})
        return found

    def plain(self) -> Any:
        """A runner with the plain variant: right, at other offsets too; and the wall time of calls."""
        bench = Bench(self.gpu, 512, 1000)
        try:
            with Runner(self.built[runners.PLAIN][0]) as runner:
                bound = bench.bind(runner)
                found: dict[str, Any] = {"started_and_bound_s": bound, "right": [], "status": [], "workspace": None}
                for offsets in (FIRST, SECOND, THIRD):
                    places = bench.write(offsets)
                    found["status"].append(runner.call(places).status)
                    found["right"].append(bench.is_right(bench.output(offsets[1])))
                found["workspace"] = runner.size(places)
                walls, claims = [], []
                for _ in range(SAMPLES):
                    start = time.perf_counter_ns()
                    done = runner.call(places)
                    walls.append((time.perf_counter_ns() - start) / 1e3)
                    claims.append(done.claimed_ns / 1e3)
                return {**found, "call_wall_us": quartiles(walls), "claimed_us": quartiles(claims)}
        finally:
            bench.close()

    def variants(self) -> Any:
        """Every way of launching: status, outputs, capture, sealed replay bit for bit."""
        numbers = [number for number in self.built if number != runners.NEVER_ENDS]
        return {f"{number}": self._guarded(lambda number=number: self._variant(number)) for number in numbers}

    def _variant(self, number: int) -> Any:
        bench = Bench(self.gpu, 512, 1000)
        found: dict[str, Any] = {}
        try:
            with Runner(self.built[number][0]) as runner:
                bench.bind(runner)
                places = bench.write(FIRST)
                found["workspace"] = runner.size(places)
                found["status"] = runner.call(places, workspace=bench.workspace_at(64)).status
                output = bench.output(FIRST[1])
                found["right"] = bench.is_right(output)
                found["input_kept"] = bool(self.torch.equal(bench._tensor(0, FIRST[0]), bench.input))
            return {**found, **self._sealed(number, bench, output)}
        except Ended as ended:
            return {**found, "ended": ended.status, "printed": ended.printed[-300:]}
        finally:
            bench.close()

    def _sealed(self, number: int, bench: Bench, output: Any) -> Any:
        from evokern.backend import Noted

        with Runner(self.built[number][0]) as runner:
            bench.bind(runner)
            first = runner.capture(bench.write(SECOND), bench.workspace_at(256))
            places = bench.write(THIRD)
            second = runner.capture(places, bench.workspace_at(1024))
        noted = Noted(places, bench.workspace_at(0)[1], first, second)
        try:
            content = self.gpu.sealed([self.built[number][1].read_bytes()], [noted])
        except ValueError as refusal:
            return {"unsealable": str(refusal), "capture": first.decode()[:600]}
        path = self.folder / f"{number}.sealed"
        path.write_bytes(content)
        with Runner(path, runners.SEALED) as runner:
            bound = bench.bind(runner)
            places = bench.write(FIRST)
            status = runner.call(places, workspace=bench.workspace_at(4096)).status
            went = bench.output(FIRST[1])
            places = bench.write(SECOND)
            sampled = runner.call(places, protocol.Kind.SAMPLE, bench.workspace_at(512))
            again = bench.output(SECOND[1])
        return {
            "capture_bytes": len(first),
            "launches": [item["kind"] + (" " + item["name"] if "name" in item else "") for item in json.loads(first)["items"]],
            "bundle_bytes": len(content),
            "sealed_bound_s": bound,
            "sealed_status": [status, sampled.status],
            "sealed_right": [bench.is_right(went), bench.is_right(again)],
            "bit_equal": [bool(self.torch.equal(went, output)), bool(self.torch.equal(again, output))],
            "sample_us": sampled.claimed_ns / 1e3,
        }

    def clock(self) -> Any:
        """Sealed samples, cold and warm, of two processes in turn: times, scatter, A/A, and what a sample takes."""
        return {name: self._guarded(lambda size=size: self._clock(*size)) for name, size in SIZES.items()}

    def _clock(self, rows: int, columns: int) -> Any:
        bench = Bench(self.gpu, rows, columns)
        try:
            self._sealed(runners.PLAIN, bench, bench.expected)
            path = self.folder / f"{runners.PLAIN}.sealed"
            with Runner(path, runners.SEALED) as one, Runner(path, runners.SEALED) as other, Runner(self.built[runners.PLAIN][0]) as plain:
                for runner in (one, other, plain):
                    bench.bind(runner)
                places = bench.write(FIRST)
                found: dict[str, Any] = {"rows": rows, "columns": columns, "bytes_moved": 2 * bench.bytes}
                for kind in (protocol.Kind.SAMPLE, protocol.Kind.WARM):
                    found[kind.name] = self._paired(one, other, places, kind)
                claims = [plain.call(places).claimed_ns / 1e3 for _ in range(SAMPLES)]
                return {**found, "unsealed_warm_claimed_us": quartiles(claims)}
        finally:
            bench.close()

    @staticmethod
    def _paired(one: Runner, other: Runner, places: Any, kind: Any) -> Any:
        workspace = (0, 4 * places[0].shape[0])
        times: tuple[list[float], list[float]] = ([], [])
        void, walls = 0, []
        for _ in range(SAMPLES):
            for runner, side in ((one, times[0]), (other, times[1]), (other, times[1]), (one, times[0])):
                start = time.perf_counter_ns()
                done = runner.call(places, kind, workspace)
                walls.append((time.perf_counter_ns() - start) / 1e3)
                if done.status:
                    void += 1
                else:
                    side.append(done.claimed_ns / 1e3)
        halves = sorted(times[0]), sorted(times[1])
        ratio = halves[0][len(halves[0]) // 2] / halves[1][len(halves[1]) // 2] if all(halves) else None
        return {
            "us": [quartiles(side) for side in times],
            "first_us": [side[:4] for side in times],
            "a_over_a": ratio,
            "void": void,
            "sample_wall_us": quartiles(walls),
        }

    def faults(self) -> Any:
        """A kernel that never ends is killed; the device is free afterwards; memory for reading alone."""
        bench = Bench(self.gpu, 64, 64)
        found: dict[str, Any] = {}
        try:
            with Runner(self.built[runners.NEVER_ENDS][0]) as runner:
                bench.bind(runner)
                runner.settle(2.0)
                try:
                    runner.call(bench.write(FIRST))
                except TimeoutError:
                    found["probe_beside_it_us"] = [round(self.gpu.probe_us(), 1) for _ in range(3)]
                    start = time.perf_counter()
                    runner.process.kill()
                    runner.process.wait(30)
                    found["killed_s"] = time.perf_counter() - start
            found["probe_after_us"] = quartiles([self.gpu.probe_us() for _ in range(20)])
        finally:
            bench.close()
        window = self.gpu.window(1)
        driver = self.gpu.driver
        address = driver.import_(os.dup(window.descriptor), window.size, read_only=True)
        found["read_only_window_is_writable"] = driver.writable(address)
        driver.unmap(address)
        window.close()
        return found

    def _guarded(self, part: Callable[[], Any]) -> Any:
        try:
            return part()
        except Exception:
            return {"failed": traceback.format_exc()[-1500:]}

    def run(self, only: list[str]) -> dict[str, Any]:
        """All parts; each is printed when it is done."""
        found = {}
        for name in ("device", "build", "startup", "plain", "variants", "clock", "faults", "ceilings"):
            if only and name not in only and name != "build":
                continue
            start = time.perf_counter()
            found[name] = self._guarded(getattr(self, name))
            sys.stdout.write(json.dumps({name: found[name], "seconds": round(time.perf_counter() - start, 2)}) + "\n")
            sys.stdout.flush()
        return found


def quartiles(values: list[float]) -> list[float]:
    """Least, lower quartile, median, upper quartile, most."""
    ordered = sorted(values)
    if not ordered:
        return []
    return [round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 3) for share in (0, 0.25, 0.5, 0.75, 1)]


def main() -> None:
    """Look, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = Look(Path(folder)).run([name for name in chosen.only.split(",") if name])
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
