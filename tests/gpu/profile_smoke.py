"""Profiles on a GPU: ncu on a trusted replay of the CUDA and Triton seeds of softmax, from the parts and through the command line.

    python tests/gpu/profile_smoke.py [--out FILE] [--only PART,PART] [--dtype bfloat16] [--reachable]

Parts: `tools` (is ncu here, does the device reach host memory, are all metrics known), `parts` (nvcc builds the seed, runners note its
launches, it is sealed, replayed alone, then under ncu; prints counters), `cuda` and `triton` (`evokern profile SEED --task softmax`).
A part that fails says so and the next one goes on. With --reachable the first two go on where the device reaches the replaying
process's memory; the command line never does.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "backends")) if path not in sys.path]

ROWS, COLUMNS = 4096, 8192
SOFTMAX = ROOT / "benchmarks" / "tasks" / "core" / "softmax"
SEEDS = {"cuda": ".cu", "triton": ".py"}
SECONDS = 500


def tools(chosen: argparse.Namespace) -> dict[str, Any]:
    """What is here: ncu, its version, the metrics that it does not know for this device, and whether device code reaches host memory."""
    from evokern_gpu import profiling
    from evokern_gpu.driver import Driver
    from evokern_gpu.replayed import PAGEABLE

    found: dict[str, Any] = {"reaches_host_memory": bool(Driver().attribute(PAGEABLE))}
    ncu = profiling.find()
    found |= {"ncu": str(ncu), "version": _said([str(ncu), "--version"]).strip().splitlines()[-1:]}
    known = _said([str(ncu), "--query-metrics", "--chips", "gh100"])
    bases = {metric: metric.partition(".")[0] for metric in profiling.METRICS.values()}
    found["unknown_metrics"] = [metric for metric, base in bases.items() if base not in known]
    return found


def parts(chosen: argparse.Namespace) -> dict[str, Any]:
    """Build, note, seal, replay, profile: each alone, without the evaluator."""
    import torch
    from evokern_gpu import profiling
    from evokern_gpu.device import Gpu

    from evokern.backend import Noted, Replay

    runners = _runners()
    torch.cuda.init()
    gpu, found = Gpu(), dict[str, Any]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library, image = _built(folder, str(gpu.facts()["arch"]))
        bench = runners.Bench(gpu, ROWS, COLUMNS)
        with runners.Runner(library) as runner:
            bench.bind(runner)
            first = runner.capture(places := bench.write((0, 0)))
            second = runner.capture(moved := bench.write((4096, 8192)))
        sealed = gpu.sealed([image.read_bytes()], [Noted(moved, 0, first, second)])
        call = Replay(bench.specs, places, [False, False], 0)
        (folder / "bundle").write_bytes(sealed)
        (folder / "plan").write_text(json.dumps(profiling.plan([call], 0)))
        argv = [sys.executable, "-m", "evokern_gpu.replayed", str(folder / "bundle"), str(folder / "plan")]
        start = time.perf_counter()
        done = subprocess.run(
            argv + ["--reachable"] * chosen.reachable, capture_output=True, text=True, env=_environment(), timeout=120, check=False
        )
        found["replayed"] = {"status": done.returncode, "said": (done.stdout + done.stderr)[-600:], "seconds": time.perf_counter() - start}
        start = time.perf_counter()
        found["counters"] = profiling.profile(sealed, [call], reachable=chosen.reachable)
        found["ncu_seconds"] = time.perf_counter() - start
        work_bytes = 4 * ROWS * COLUMNS
        (seen,) = found["counters"]
        found["times_needed"] = {way: seen.get(f"{way}_bytes", 0) / work_bytes for way in ("read", "written")}
        bench.close()
    gpu.close()
    return found


def seed(dialect: str) -> Callable[[argparse.Namespace], dict[str, Any]]:
    """`evokern profile` of a seed; the text that people get goes to standard error."""

    def part(chosen: argparse.Namespace) -> dict[str, Any]:
        file = SOFTMAX / "seeds" / f"{dialect}-{chosen.dtype}{SEEDS[dialect]}"
        argv = ["profile", str(file), "--task", "softmax", "--backend", dialect, "--dtype", chosen.dtype, "--json"]
        done = subprocess.run(
            [sys.executable, "-c", "from evokern.cli import main; main()", *argv], capture_output=True, text=True, env=_environment(),
            timeout=SECONDS, check=False,
        )  # fmt: skip
        if not done.stdout.strip():
            raise RuntimeError(done.stderr[-2000:])
        document = json.loads(done.stdout)
        if document["schema"] == "evokern.profile/1":
            from evokern.report.profile import profile_text

            sys.stderr.write(profile_text(document) + "\n\n")
        return {"status": done.returncode, **document}

    return part


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "tools": tools,
    "parts": parts,
    "cuda": seed("cuda"),
    "triton": seed("triton"),
}


def _runners() -> Any:
    spec = importlib.util.spec_from_file_location("runners", HERE / "runners.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _built(folder: Path, arch: str) -> tuple[Path, Path]:
    """The softmax seed of float32, as a library and as a device binary."""
    compiler = _runners().nvcc()
    assert compiler is not None, "no nvcc"
    common = [compiler, f"-arch={arch}", "-std=c++17", "-O3", "-w", f"-I{ROOT / 'evokern' / 'include'}"]
    source, library, image = str(SOFTMAX / "seeds" / "cuda-float32.cu"), folder / "seed.so", folder / "seed.cubin"
    subprocess.run([*common, "-shared", "-Xcompiler", "-fPIC", "-o", str(library), source], check=True, timeout=300)
    subprocess.run([*common, "-cubin", "-o", str(image), source], check=True, timeout=300)
    return library, image


def _said(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def main() -> int:
    """Run the parts; 0 where all went through."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--reachable", action="store_true")
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    for name in chosen.only.split(","):
        start = time.perf_counter()
        try:
            found[name] = {"ok": True, **PARTS[name](chosen)}
        except Exception:
            found[name] = {"ok": False, "error": traceback.format_exc()[-2500:]}
        found[name]["part_seconds"] = round(time.perf_counter() - start, 2)
        sys.stdout.write(json.dumps({name: found[name]}, indent=1, default=str) + "\n")
        sys.stdout.flush()
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1, default=str))
    return 0 if all(part["ok"] for part in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
