"""The triton backend on a GPU, in plain processes: builds every seed, runs it through the runner's loader, and says what it took.

    python tests/gpu/triton_smoke.py [--out FILE]

A child imports the loader, as a zygote does, and forks for every kernel, as a zygote does; neither holds PyTorch. Each fork runs all
visible shapes and some others, in every layout, and compares with NumPy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "backends")) if path not in sys.path]

CORE = ROOT / "benchmarks" / "tasks" / "core"
TASKS = ("bias_gelu", "cross_entropy", "rmsnorm", "softmax")
SECONDS = 600.0

COPY = """
import triton
import triton.language as tl

@triton.jit
def copy(x, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + row * y_stride + at, tl.load(x + row * x_stride + at, mask=at < cols), mask=at < cols)

def run(x, y):
    copy[(x.shape[0],)](x, y, x.shape[1], x.stride(0), y.stride(0), BLOCK=1024)
"""
LAUNCH = "copy[(x.shape[0],)](x, y, x.shape[1], x.stride(0), y.stride(0), BLOCK=1024)"
ALL_BUT_BLOCK = LAUNCH.replace(", BLOCK=1024)", "")
COPIES = {
    "plain": COPY,
    "block_of_the_row": COPY.replace("BLOCK=1024", "BLOCK=min(4096, triton.next_power_of_2(x.shape[1]))"),
    "autotune": COPY.replace(LAUNCH, f"{ALL_BUT_BLOCK})").replace(
        "@triton.jit", '@triton.autotune(configs=[triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 64})], key=["cols"])\n@triton.jit'
    ),
    "warmed": COPY.replace(
        LAUNCH,
        f"""kernel = copy.warmup{LAUNCH.removeprefix("copy[(x.shape[0],)]").removesuffix(")")}, grid=(1,))
    kernel._init_handles()
    assert kernel.n_regs > 0 and kernel.metadata.num_warps == 4
    kernel[(x.shape[0], 1, 1)](x, y, x.shape[1], x.stride(0), y.stride(0), 1024)""",
    ),
    "clusters": COPY.replace("BLOCK=1024)", "BLOCK=1024, num_ctas=2)"),
    "descriptors": COPY.replace(
        "        at = start", "        source = tl.make_tensor_descriptor(x + row * x_stride, [cols], [1], [BLOCK])\n        at = start"
    ).replace("tl.load(x + row * x_stride + at, mask=at < cols)", "source.load([start])"),
}
"""A copy in styles that kernels of the field have; the descriptor's needs rows that are multiples of 16 bytes apart."""


@dataclass(frozen=True)
class Case:
    """One call: rows, columns, elements added to rows, elements before the first."""

    rows: int
    cols: int
    pad: int = 0
    first: int = 0


VISIBLE = (Case(1024, 4096), Case(2048, 1003), Case(127, 1021), Case(9, 33))
OTHERS = (Case(1, 1), Case(1, 20_000), Case(16_384, 7), Case(257, 5003, 5), Case(64, 4096, 16, 8), Case(3, 4096, 0, 1), Case(31, 17, 3, 3))
EVEN = (Case(1024, 4096), Case(64, 2048, 16))


def build(home: Path) -> list[dict[str, Any]]:
    """Build seeds and copies in the sandbox; where each product lies and what it took."""
    from evokern_triton.backend import TritonBackend

    from evokern.backend import Limits
    from evokern.kernel import Kernel
    from evokern.sandbox import Spawner
    from evokern.task import DType, load_task

    found = []
    with Spawner.start({}, scratch=home) as spawner:
        wanted = [(task, dtype, "", (CORE / task / "seeds" / f"triton-{dtype}.py").read_text()) for task in TASKS for dtype in DTYPES]
        wanted += [("softmax", "float32", style, source) for style, source in COPIES.items()]
        for task, dtype, style, source in wanted:
            backend = TritonBackend().for_task(load_task(CORE / task), DType(dtype))
            start = time.perf_counter()
            built = backend.build([Kernel("triton", source)], sandbox=spawner, cache=home / "cache", limits=Limits())[0]
            found.append(
                {
                    "name": style or f"{task}-{dtype}", "task": "copy" if style else task, "dtype": dtype, "ok": built.ok, "log": built.log,
                    "artefact": str(built.artefact), "build_seconds": round(time.perf_counter() - start, 3), "traits": dict(built.traits),
                    "images": len(built.images),
                }
            )  # fmt: skip
    return found


DTYPES = ("float32", "bfloat16")


def zygote(products: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Import the loader once, then one fork a product; what each told."""
    start = time.perf_counter()
    import evokern_triton.loader

    imported = time.perf_counter() - start
    assert "torch" not in sys.modules and evokern_triton.loader.TRITON
    return [_forked(product) | {"import_seconds": round(imported, 3)} for product in products]


def _forked(product: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        try:
            told = _run(product, start)
        except BaseException:
            told = {"error": traceback.format_exc()[-2000:]}
        with os.fdopen(writing, "w") as stream:
            stream.write(json.dumps(told))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"name": product["name"], "status": status, **json.loads(text or '{"error": "ended"}')}


def _run(product: dict[str, Any], start: float) -> dict[str, Any]:
    from evokern_triton.loader import load

    kernel = load(os.open(product["artefact"], os.O_RDONLY), "run")
    told: dict[str, Any] = {"loaded_seconds": round(time.perf_counter() - start, 3), "worst": {}}
    cases = EVEN if product["name"] == "descriptors" else (*VISIBLE, *OTHERS)
    memory = Memory(kernel, product)
    for place, case in enumerate(cases):
        began = time.perf_counter()
        told["worst"][f"{case.rows}x{case.cols}+{case.pad}@{case.first}"] = memory.worst(case)
        if place == 0:
            told["first_call_seconds"] = round(time.perf_counter() - began, 3)
        if place == min(len(VISIBLE), len(cases)) - 1:
            told["missing_when_visible"] = kernel.store.missing
    told |= {"exact": kernel.store.exact, "general": kernel.store.general, "compiled_here": kernel.store.missing}
    told["host_us"] = round(memory.host_us(cases[0]), 2)
    told["capture"] = json.loads(kernel.capture(memory.go(cases[0]))).get("reason", "")
    assert "torch" not in sys.modules or not hasattr(sys.modules["torch"], "compile"), "PyTorch got in"
    return told


@dataclass
class Place:
    """As `evokern.evaluator.call.protocol.Place`."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    scalar: bytes = bytes(8)


@dataclass
class Go:
    """As `evokern.evaluator.call.protocol.Go`."""

    places: tuple[Place, ...]
    workspace_offset: int = 0
    workspace_bytes: int = 0
    kind: int = 3


class Memory:
    """Arguments of a task in windows of device memory.

    Attributes:
        windows: Where they can be read and written.
    """

    BYTES = 1 << 27

    def __init__(self, kernel: Any, product: dict[str, Any]) -> None:
        from evokern.evaluator.call.protocol import Spec
        from evokern.task import DType

        self.kernel, self.task, self.dtype = kernel, product["task"], product["dtype"]
        self.size = DType(self.dtype).itemsize
        code = DType(self.dtype).dlpack
        arguments = {
            "copy": ((*code, 2), (*code, 2)),
            "softmax": ((*code, 2), (*code, 2)),
            "bias_gelu": ((*code, 2), (*code, 1), (*code, 2)),
            "rmsnorm": ((*code, 2), (*code, 1), (2, 32, 0), (*code, 2)),
            "cross_entropy": ((*code, 2), (0, 64, 1), (*code, 1)),
        }[self.task]
        self.specs = [Spec(code, bits, ndim, self.BYTES if ndim else 0) for code, bits, ndim in arguments]
        # As judge and runner have them, in one process: exported here, and mapped again as the kernel's.
        exported = [kernel.driver.export(self.BYTES) if spec.ndim else (0, -1) for spec in self.specs]
        self.windows = [address for address, _ in exported]
        last = len(self.specs) - 1
        mapped = [
            kernel.window(descriptor, self.BYTES, read_only=place != last).address if descriptor >= 0 else 0
            for place, (_, descriptor) in enumerate(exported)
        ]
        kernel.bind(self.specs, mapped, 0)

    def go(self, case: Case) -> Go:
        """The call of a case."""
        import struct

        step = case.cols + case.pad
        places = []
        for spec in self.specs:
            if not spec.ndim:
                places.append(Place(0, (), (), struct.pack("<f", 1e-6) + bytes(4)))
                continue
            length = case.rows if self.task == "cross_entropy" else case.cols
            shape = (case.rows, case.cols) if spec.ndim == 2 else (length,)
            places.append(Place(case.first * spec.bits // 8, shape, (step, 1) if spec.ndim == 2 else (1,)))
        return Go(tuple(places))

    def worst(self, case: Case) -> float:
        """Largest error of a call, as a multiple of what rounding to the element type may cost."""
        import numpy as np

        rng = np.random.default_rng(case.rows * 31 + case.cols)
        go, values = self.go(case), []
        for spec, window, place in zip(self.specs, self.windows, go.places, strict=True):
            if not spec.ndim:
                continue
            array = rng.integers(0, case.cols, case.rows) if spec.code == 0 else self._rounded(rng.normal(size=place.shape, scale=3))
            values.append(array)
            self.kernel.driver.write(window + place.offset, self._laid(array, place, spec))
        status = self.kernel.run(go)
        assert status == 0, f"status {status}"
        out, spec = go.places[-1], self.specs[-1]
        last = 1 + sum((extent - 1) * step for extent, step in zip(out.shape, out.strides, strict=True))
        content = self.kernel.driver.read(self.windows[-1] + out.offset, last * self.size)
        data = np.frombuffer(content, np.uint16 if self.size == 2 else np.float32)
        seen = np.lib.stride_tricks.as_strided(data, out.shape, [step * self.size for step in out.strides])
        found = (seen.astype(np.uint32) << 16).view(np.float32) if self.size == 2 else seen
        right = reference(self.task, values)
        unit = 2.0**-8 if self.size == 2 else 2.0**-21
        return float(np.max(np.abs(found - right) / (unit * np.abs(right) + 1e-6)))

    def host_us(self, case: Case, calls: int = 300) -> float:
        """Host time of one enqueue, microseconds."""
        go = self.go(case)
        arguments = self.kernel.arguments(go)
        for _ in range(10):
            self.kernel.invoke(arguments, go, self.kernel.stream)
        self.kernel.driver.synchronise()
        start = time.perf_counter()
        for _ in range(calls):
            self.kernel.invoke(arguments, go, self.kernel.stream)
        taken = time.perf_counter() - start
        self.kernel.driver.synchronise()
        return taken / calls * 1e6

    def _rounded(self, array: Any) -> Any:
        import numpy as np

        bits = array.astype(np.float32).view(np.uint32)
        return ((bits & 0xFFFF0000) if self.size == 2 else bits).view(np.float32)

    def _laid(self, array: Any, place: Place, spec: Any) -> bytes:
        import numpy as np

        last = 1 + sum((extent - 1) * step for extent, step in zip(place.shape, place.strides, strict=True))
        elements = array if spec.code == 0 else (array.view(np.uint32) >> 16).astype(np.uint16) if self.size == 2 else array
        memory = np.zeros(last, elements.dtype)
        np.lib.stride_tricks.as_strided(memory, place.shape, [step * memory.itemsize for step in place.strides])[...] = elements
        return memory.tobytes()


def reference(task: str, values: Sequence[Any]) -> Any:
    """What is right, float64."""
    import numpy as np

    x = values[0].astype(np.float64)
    if task == "copy":
        return x
    if task == "rmsnorm":
        return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * values[1]
    if task == "bias_gelu":
        s = x + values[1]
        return 0.5 * s * (1 + np.tanh(np.sqrt(2 / np.pi) * (s + 0.044715 * s**3)))
    exponentials = np.exp(x - x.max(1, keepdims=True))
    if task == "softmax":
        return exponentials / exponentials.sum(1, keepdims=True)
    return np.log(exponentials.sum(1)) + x.max(1) - x[np.arange(len(x)), values[1]]


def everything(home: Path) -> list[dict[str, Any]]:
    """Build and run all; one row a kernel."""
    products = build(home)
    command = [sys.executable, str(HERE / "triton_smoke.py"), "--zygote"]
    good = [product for product in products if product["ok"]]
    done = subprocess.run(command, input=json.dumps(good), capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    told = {row["name"]: row for row in json.loads(done.stdout)}
    return [product | told.get(product["name"], {}) for product in products]


def complaints(row: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a row of `everything`."""
    if not row["ok"]:
        yield f"not built: {row['log']}"
    elif "error" in row or row["status"]:
        yield f"not run: {row.get('error', row['status'])}"
    else:
        yield from (f"off by {worst:.1f} at {case}" for case, worst in row["worst"].items() if not worst <= 4)
        if row["missing_when_visible"]:
            yield f"{row['missing_when_visible']} specialisations of visible shapes were compiled in the runner"


def main() -> None:
    """See the module."""
    if "--zygote" in sys.argv:
        sys.stdout.write(json.dumps(zygote(json.load(sys.stdin))))
        return
    with tempfile.TemporaryDirectory() as home:
        rows = everything(Path(home))
    for row in rows:
        said = list(complaints(row))
        numbers = {
            name: row.get(name) for name in ("build_seconds", "images", "import_seconds", "loaded_seconds", "first_call_seconds", "host_us")
        }
        numbers |= {name: row.get(name) for name in ("exact", "general", "compiled_here", "missing_when_visible", "capture")}
        sys.stdout.write(f"{row['name']}: {'; '.join(said) or 'right'}\n    {numbers}\n")
    if "--out" in sys.argv:
        Path(sys.argv[sys.argv.index("--out") + 1]).write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(any(list(complaints(row)) for row in rows))


if __name__ == "__main__":
    main()
