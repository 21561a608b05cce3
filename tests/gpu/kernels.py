"""Kernels that the ladder meets on a GPU: seeds with a few words of their text replaced, and what each must come to."""

from __future__ import annotations

from pathlib import Path

from evokern.evaluation import Reason, Verdict
from evokern.kernel import SUFFIXES

CORE = Path(__file__).parents[2] / "benchmarks" / "tasks" / "core"

Edits = list[tuple[str, str]]


def seed(dialect: str, task: str) -> str:
    """A task's bfloat16 seed."""
    return (CORE / task / "seeds" / f"{dialect}-bfloat16{SUFFIXES[dialect]}").read_text()


def edited(source: str, *edits: tuple[str, str]) -> str:
    """A source with pieces replaced, each of which must stand in it once."""
    for old, new in edits:
        assert source.count(old) == 1, f"{source.count(old)} times in the source: {old}"
        source = source.replace(old, new)
    return source


NORMALISES = "const float scale = 1.0f / total;"
SUMS = "sweep(in, cols, [&](float value) { total += expf(value - peak); });"
BEGINS = "const Element* in = x + blockIdx.x * x_stride;"
ENDS = "return cudaGetLastError();"
STREAM = "static_cast<cudaStream_t>(stream)"
AT_THE_END = "if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) "
FIRST = "if (blockIdx.x == 0 && threadIdx.x == 0) "

WRONG: dict[str, Edits] = {
    "no tail": [(BEGINS, f"cols = cols / 8 * 8; {BEGINS}")],
    "one row in 512": [(NORMALISES, "const float scale = (blockIdx.x % 512 == 511 ? 1.03f : 1.0f) / total;")],
    # One warp, so that every lane adds hundreds of numbers; cut off and not rounded, so that what is lost adds up.
    "a sum in bfloat16": [
        ("#define THREADS 256", "#define THREADS 32"),
        (SUMS, "sweep(in, cols, [&](float value) { total = wide(__float_as_uint(total + expf(value - peak)) >> 16); });"),
    ],
    "the last row unwritten": [(BEGINS, f"if (blockIdx.x == gridDim.x - 1) return; {BEGINS}")],
    "columns beyond any visible": [(BEGINS, f"if (cols > 4096) cols = 4096; {BEGINS}")],
}
"""Edits of the seed in CUDA and in HIP, whose device code is the same."""

WRONG_IN_TRITON: dict[str, Edits] = {
    "no tail": [("tl.exp(value - peak) / total, mask=at < cols)", "tl.exp(value - peak) / total, mask=at < cols // 8 * 8)")],
    "one row in 512": [("tl.exp(value - peak) / total", "tl.exp(value - peak) / total * tl.where(row % 512 == 511, 1.03, 1.0)")],
    "the last row unwritten": [("softmax_rows[(rows,)]", "softmax_rows[(max(rows - 1, 1),)]")],
}

EXHAUSTS = """
  void* held = nullptr;
  for (int i = 0; i < 100000 && cudaMalloc(&held, size_t{1} << 30) == cudaSuccess; ++i) {
  }
  cudaGetLastError();
"""
OWN_STREAM = "static cudaStream_t own = nullptr; if (!own) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking); "

TYPED = (Verdict.CRASHED, Verdict.WRONG, Verdict.TIMED_OUT, Verdict.HACKED, Verdict.FLAKY, Verdict.HELD_OUT_FAILED)

BREAKS: dict[str, tuple[Edits, set[str]]] = {
    "an illegal address": (
        [(BEGINS, f"{FIRST}*reinterpret_cast<volatile float*>(64) = 1.0f; {BEGINS}")],
        {"crashed/device_error"},
    ),
    "never ends": ([(BEGINS, f"while (clock64() != 0) __nanosleep(100); {BEGINS}")], {"timed_out/deadline_run"}),
    "exhausts the device's memory and refuses": (
        [("if (nargs != 2) return 1;", EXHAUSTS + "  return 7;")],
        {"crashed/refused", "crashed/memory", "crashed/device_error"},
    ),
    "exhausts the device's memory and goes on": (
        [("if (nargs != 2) return 1;", EXHAUSTS)],
        {"crashed/refused", "crashed/memory", "crashed/device_error", "passed/none"},
    ),
    "writes past its output": (
        [(BEGINS, f"{AT_THE_END}y[blockIdx.x * y_stride + cols] = 0; {BEGINS}")],
        {"wrong/canary", "crashed/device_error"},
    ),
    "writes far from its output": (
        [(BEGINS, f"{FIRST}y[int64_t{{1}} << 44] = 0; {BEGINS}")],
        {"crashed/device_error"},
    ),
    "writes its input": (
        [(BEGINS, f"{AT_THE_END}const_cast<Element*>(x)[blockIdx.x * x_stride] = 0x3f80; {BEGINS}")],
        {"wrong/input_changed", "crashed/device_error", "wrong/tolerance"},
    ),
    # The runner waits for its whole context before it answers, so this may be right; a capture shows it in any case.
    "does not wait for a stream of its own": (
        [("softmax<<<", f"{OWN_STREAM}softmax<<<"), (STREAM, "own")],
        {"passed/none", *(f"{verdict}/{reason}" for verdict in TYPED for reason in Reason)},
    ),
}
"""Edits of the CUDA seed, and every verdict that is right."""

UNSEALABLE: dict[str, tuple[Edits, str]] = {
    "the default stream": ([(STREAM, "nullptr")], "default stream"),
    "waits for the device": ([(ENDS, f"cudaStreamSynchronize({STREAM}); {ENDS}")], "waiting for the device"),
    # A host function is a node that no process without the host code can have.
    "a function of the host": (
        [("extern \"C\" int run", "static void nothing(void*) {}\n\nextern \"C\" int run"),
         (ENDS, f"cudaLaunchHostFunc({STREAM}, nothing, nullptr); {ENDS}")],
        "host",
    ),
}  # fmt: skip
"""Edits of the CUDA seed, and words of the reason."""

AUTOTUNED = """
import triton
import triton.language as tl


@triton.jit
def doubled(x, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_stride
    y += row * y_stride
    lanes = tl.arange(0, BLOCK)
    peak = float("-inf")
    for start in range(0, cols, BLOCK):
        at = start + lanes
        peak = tl.maximum(peak, tl.max(tl.load(x + at, mask=at < cols, other=float("-inf")).to(tl.float32), axis=0))
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + lanes
        total += tl.sum(tl.exp(tl.load(x + at, mask=at < cols, other=float("-inf")).to(tl.float32) - peak), axis=0)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(x + at, mask=at < cols, other=float("-inf")).to(tl.float32)
        tl.store(y + at, 2.0 * tl.exp(value - peak) / total, mask=at < cols)


@triton.autotune(configs=[triton.Config({"BLOCK": 1024}, num_warps=4), triton.Config({"BLOCK": 2048}, num_warps=8)], key=["cols"])
@triton.jit
def halve(y, cols, y_stride, BLOCK: tl.constexpr):
    y += tl.program_id(0).to(tl.int64) * y_stride
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(y + at, mask=at < cols, other=0.0) * 0.5, mask=at < cols)


def run(x, y):
    rows, cols = x.shape
    doubled[(rows,)](x, y, cols, x.stride(0), y.stride(0), BLOCK=1024)
    halve[(rows,)](y, cols, y.stride(0))
"""
"""A second kernel that is tuned, and changes its argument in place: to try a configuration is to change it once more."""


OFF_THE_MAP = [
    ("tl.store(y + at, tl.exp(value - peak) / total", "tl.store(y + at + (row + 1) * (1 << 44), tl.exp(value - peak) / total"),
]
"""Edit of the Triton seed: an illegal address."""

ONLY_INTEGERS = [
    ("if (nargs != 3) return 1;", "if (nargs != 3 || args[1]->dtype.code != 0 || args[1]->dtype.bits != 64) return 36;"),
]
"""Edit of the CUDA seed of cross_entropy: it refuses labels that are no integers."""


def of_cuda() -> dict[str, str]:
    """Every source in CUDA, by name."""
    found = {f"wrong: {name}": edited(seed("cuda", "softmax"), *edits) for name, edits in WRONG.items()}
    found |= {f"breaks: {name}": edited(seed("cuda", "softmax"), *edits) for name, (edits, _) in BREAKS.items()}
    found |= {f"unsealable: {name}": edited(seed("cuda", "softmax"), *edits) for name, (edits, _) in UNSEALABLE.items()}
    return found | {"labels": edited(seed("cuda", "cross_entropy"), *ONLY_INTEGERS)}


def of_hip() -> dict[str, str]:
    """Every source in HIP, by name."""
    return {f"wrong: {name}": edited(seed("hip", "softmax"), *edits) for name, edits in WRONG.items()}


def of_triton() -> dict[str, str]:
    """Every source in Triton, by name."""
    found = {f"wrong: {name}": edited(seed("triton", "softmax"), *edits) for name, edits in WRONG_IN_TRITON.items()}
    return found | {"off the map": edited(seed("triton", "softmax"), *OFF_THE_MAP), "tuned": AUTOTUNED}
