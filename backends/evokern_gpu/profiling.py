"""Counters of a call, by Nsight Compute (ncu): what the device itself counts while a sealed kernel runs.

ncu runs a kernel several times over, restores what it wrote in between, and reads a few counters each time. It is given a process of
ours that holds device binaries and launches alone (`evokern_gpu.replayed`): no host code of a candidate runs outside a slot.
Names of metrics are those of the Kernel Profiling Guide, chapter "Metrics Reference", for sm_80 to sm_90; where a newer architecture
has another name, or lacks one, it is asked for again without.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from evokern.backend import Replay
from evokern.errors import Unavailable
from evokern_gpu.bundle import Bundle
from evokern_gpu.launches import Launch, call_key
from evokern_gpu.replayed import ANYWAY

SETTING = "EVOKERN_NCU"
"""Environment variable that names the program."""

PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu", "/usr/lib/nsight-compute/ncu")

SECONDS = 240.0
"""For all calls together; one kernel and four counters took 8.6 s on an H200, process start included."""

_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

METRICS: dict[str, str] = {
    "time_ns": "gpu__time_duration.sum",
    "read_bytes": "dram__bytes_read.sum",
    "written_bytes": "dram__bytes_write.sum",
    "dram_pct": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_pct": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "l1_hit_pct": "l1tex__t_sector_hit_rate.pct",
    "sm_pct": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "issue_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "tensor_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "fma_pct": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "xu_pct": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "sectors_per_load": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "sectors_per_store": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
    "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "local_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "local_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "stall_memory": _STALL.format("long_scoreboard"),
    "stall_shared": _STALL.format("short_scoreboard"),
    "stall_barrier": _STALL.format("barrier"),
    "stall_math": _STALL.format("math_pipe_throttle"),
    "stall_queue": _STALL.format("lg_throttle"),
    "stall_wait": _STALL.format("wait"),
}
"""Metrics by the names of `evokern.statistics.roofline.COUNTERS`, which says what each is: what the classes of a bottleneck are told
from, and what a reader would ask next. Two dozen are some ten passes over a kernel."""

OTHERWISE: dict[str, str] = {
    "dram__bytes_read.sum": "dram__bytes_op_read.sum",
    "dram__bytes_write.sum": "dram__bytes_op_write.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
}
"""What sm_100 and later call some of them."""

_NAMES = {metric: name for name, metric in METRICS.items()}
_NAMES |= {OTHERWISE[metric]: name for metric, name in _NAMES.items() if metric in OTHERWISE}

SUMS = frozenset({"time_ns", "read_bytes", "written_bytes", "bank_conflicts", "local_load_sectors", "local_store_sectors"})
"""Counts; of several kernels they are added up, the others are means over their times."""

_UNITS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
_PREFIXES = {"K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

_KERNEL = "Kernel Name"
_UNKNOWN_METRIC = re.compile(r"[Ff]ailed to find metric '?(?:regex:)?\^?([\w.]+)")
_NO_PERMISSION = "ERR_NVGPUCTRPERM"
_LOG_CHARACTERS = 400
_INHERITED = (
    "PATH",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
)
_DEVICE_CODE = re.compile(r"^device error: .*$|^cannot be replayed: .*$", re.MULTILINE)


def find() -> Path:
    """The program.

    Raises:
        Unavailable: It is not here.
    """
    named = os.environ.get(SETTING)
    if named:
        if os.access(named, os.X_OK):
            return Path(named)
        raise Unavailable(f"{named} cannot be run", where=SETTING, mend="Name ncu's path, or leave it out")
    on_path = shutil.which("ncu")
    if on_path:
        return Path(on_path)
    found = [path for place in PLACES for path in sorted(Path("/").glob(place.lstrip("/")), reverse=True) if os.access(path, os.X_OK)]
    if not found:
        raise Unavailable("ncu is not here", mend=f"Install NVIDIA's Nsight Compute, or name its path in {SETTING}")
    return found[0]


def command(ncu: Path, metrics: Sequence[str], log: Path, program: Sequence[str], *, launches: int, cold: bool) -> list[str]:
    """Command line that profiles the first launches of a program.

    Args:
        ncu: The program.
        metrics: Names as ncu has them.
        log: Where it writes what it found.
        program: Command line of what is profiled.
        launches: How many kernels.
        cold: Whether caches are emptied before each, as they are before a timed call of a cold workload.
    """
    options = {
        "--page": "raw",
        "--print-units": "base",
        # Clocks stay as they are: the judge's times are not taken at a fixed clock either, and others may use the device.
        "--clock-control": "none",
        "--cache-control": "all" if cold else "none",
        "--target-processes": "application-only",
        "--launch-count": str(launches),
        "--metrics": ",".join(metrics),
        "--log-file": str(log),
    }
    return [str(ncu), "--csv", *(part for option in options.items() for part in option), *program]


def parsed(text: str) -> list[dict[str, float]]:
    """Counters of each kernel, in the order in which they ran.

    Args:
        text: What ncu wrote with `--csv --page raw`: lines of its own that begin with "==", a row of names, one of units, then a row a
            kernel.

    Returns:
        By our names, in nanoseconds, bytes, counts, per cent and cycles; what has no number is left out.

    Raises:
        ValueError: There is no such table.
    """
    rows = list(csv.reader(io.StringIO("\n".join(line for line in text.splitlines() if line and not line.startswith("==")))))
    head = next((number for number, row in enumerate(rows) if _KERNEL in row), None)
    if head is None:
        raise ValueError("no table of kernels")
    names, kernels = rows[head], rows[head + 1 :]
    if not kernels:
        raise ValueError("no kernel in its table")
    place = names.index(_KERNEL)
    # The row of units names no kernel.
    units = kernels.pop(0) if len(kernels[0]) <= place or not kernels[0][place] else [""] * len(names)
    return [_counters(names, units, row) for row in kernels if len(row) == len(names)]


def _counters(names: Sequence[str], units: Sequence[str], row: Sequence[str]) -> dict[str, float]:
    found = {}
    for metric, unit, text in zip(names, units, row, strict=False):
        name = _NAMES.get(metric)
        value = _number(text)
        if name is not None and value is not None:
            found[name] = value * _scale(name, unit)
    return found


def _number(text: str) -> float | None:
    """A number as ncu prints it, with commas between thousands; None for "n/a" and the like."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _scale(name: str, unit: str) -> float:
    """What a value is to be multiplied by: base units are asked for, but not every version gives them everywhere."""
    if name == "time_ns":
        return _UNITS.get(unit, 1.0)
    if name in SUMS and len(unit) > 1 and unit[1:].startswith(("byte", "sector")):
        return _PREFIXES.get(unit[0], 1.0)
    return 1.0


def merged(kernels: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Counters of a call that launches several kernels: counts are added up, shares and ratios are means over time."""
    if len(kernels) == 1:
        return dict(kernels[0])
    found: dict[str, float] = {}
    for name in METRICS:
        told = [(kernel[name], kernel.get("time_ns", 1.0)) for kernel in kernels if name in kernel]
        if told and name in SUMS:
            found[name] = sum(value for value, _ in told)
        elif told:
            found[name] = sum(value * weight for value, weight in told) / max(sum(weight for _, weight in told), 1e-9)
    return found


def profile(sealed: bytes, calls: Sequence[Replay], *, ordinal: int = 0, reachable: bool = False) -> list[dict[str, float]]:
    """Counters of calls of a sealed kernel.

    Args:
        sealed: What `Gpu.sealed` made.
        calls: Which of its calls, all with the caches cold or all warm as the first one says.
        ordinal: Device.
        reachable: Whether to go on where device code reaches all memory of its process (`evokern_gpu.replayed`): for kernels of one's own.

    Returns:
        By the names of `evokern.statistics.roofline.COUNTERS`, one a call.

    Raises:
        Unavailable: ncu is not here, may not read counters, or finds none.
    """
    program = find()
    counts = [_launches(sealed, call) for call in calls]
    with tempfile.TemporaryDirectory(prefix="evokern-ncu-") as name:
        folder = Path(name)
        (folder / "bundle").write_bytes(sealed)
        (folder / "plan.json").write_text(json.dumps(plan(calls, ordinal)))
        replayed = [sys.executable, "-m", "evokern_gpu.replayed", str(folder / "bundle"), str(folder / "plan.json")]
        replayed += [ANYWAY] * reachable
        kernels = _counted(program, replayed, folder, launches=sum(counts), cold=calls[0].cold)
    if len(kernels) != sum(counts):
        raise Unavailable(f"ncu told of {len(kernels)} kernels where {sum(counts)} were launched", mend="Ask again")
    found, at = [], 0
    for count in counts:
        found.append(merged(kernels[at : at + count]))
        at += count
    return found


def plan(calls: Sequence[Replay], ordinal: int) -> dict[str, object]:
    """What `evokern_gpu.replayed` is told of calls."""
    return {
        "ordinal": ordinal,
        "calls": [
            {
                "workspace_bytes": call.workspace_bytes,
                "arguments": [
                    {
                        "code": spec.code, "bits": spec.bits, "zeroed": zeroed, "shape": list(place.shape), "strides": list(place.strides),
                        "offset": place.offset, "scalar": place.scalar.hex(), "ndim": spec.ndim,
                    }
                    for spec, place, zeroed in zip(call.specs, call.places, call.zeroed, strict=True)
                ],
            }
            for call in calls
        ],
    }  # fmt: skip


def _launches(sealed: bytes, call: Replay) -> int:
    items = Bundle.decode(sealed).calls.get(call_key(call.places, call.workspace_bytes), ())
    count = sum(isinstance(item, Launch) for item in items)
    if not count:
        raise Unavailable("it launches no kernel that could be profiled there")
    return count


def _counted(ncu: Path, program: Sequence[str], folder: Path, *, launches: int, cold: bool) -> list[dict[str, float]]:
    metrics, log = list(METRICS.values()), folder / "log.csv"
    for _ in range(3):
        log.unlink(missing_ok=True)
        printed = _run(command(ncu, metrics, log, program, launches=launches, cold=cold), folder)
        text = log.read_text(errors="replace") if log.is_file() else ""
        unknown = set(_UNKNOWN_METRIC.findall(text + printed)) & set(metrics)
        if not unknown:
            break
        metrics = [OTHERWISE.get(metric, "") if metric in unknown else metric for metric in metrics]
        metrics = [metric for metric in metrics if metric]
    if _NO_PERMISSION in text + printed:
        raise Unavailable(
            "the driver keeps its counters for administrators",
            mend="See https://developer.nvidia.com/ERR_NVGPUCTRPERM, or run as an administrator with CAP_SYS_ADMIN",
        )
    try:
        kernels = parsed(text)
    except ValueError as error:
        raise Unavailable(f"ncu found nothing ({error}): {_cause(text, printed)}") from None
    if not any(kernels):
        raise Unavailable(f"ncu gave no number: {_cause(text, printed)}")
    return kernels


def _run(argv: Sequence[str], folder: Path) -> str:
    """What ncu and the program printed."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    # Nothing of the judge's own environment, and a home and a locale that are the same everywhere.
    environment |= {"LC_ALL": "C", "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    try:
        done = subprocess.run(
            argv, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unavailable(f"ncu was not done in {SECONDS:.0f} s") from None
    except OSError as error:
        raise Unavailable(f"ncu cannot be run: {error}") from error
    return done.stdout.decode("utf-8", "replace")


def _cause(text: str, printed: str) -> str:
    """The line that says most of why there is nothing."""
    if match := _DEVICE_CODE.search(printed):
        return match.group()[:_LOG_CHARACTERS]
    errors = [line for line in (text + "\n" + printed).splitlines() if line.startswith("==ERROR==")]
    return (errors or printed.strip().splitlines()[-1:] or ["it said nothing"])[0][:_LOG_CHARACTERS]
