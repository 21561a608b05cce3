"""Profiles as documents and as text, for the command line and for agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evokern.evaluation import BOTTLENECKS
from evokern.printable import line
from evokern.report.tables import aligned, time_text

if TYPE_CHECKING:
    from evokern.evaluation import Evaluation, Profile, WorkloadProfile

CELLS = 32
"""Of a bar, which is as long as the kernel's time."""

LAUNCH, MEMORY, REST, EIGHTHS = "▒", "█", "·", " ▏▎▍▌▋▊▉"

LEGEND = f"{LAUNCH} launch   {MEMORY} the task's bytes at the device's best rate   {REST} the rest of its time"

_GROUPS = (
    ("memory", ("dram_pct", "l2_pct", "l2_hit_pct", "l1_hit_pct", "sectors_per_load", "sectors_per_store")),
    ("work", ("occupancy_pct", "issue_pct", "sm_pct", "tensor_pct", "fma_pct", "xu_pct", "bank_conflicts")),
    ("waits, cycles an instruction", ("stall_memory", "stall_shared", "stall_barrier", "stall_math", "stall_queue", "stall_wait")),
)


def profile_document(evaluation: Evaluation, profile: Profile) -> dict[str, Any]:
    """The fields of `evokern.profile/1`, less those that say where the kernel is from.

    Args:
        evaluation: Of the kernel.
        profile: Where its time goes.
    """
    from evokern.evaluator.profile import traits_of

    fingerprint = evaluation.fingerprint
    return {
        "rung": str(profile.rung),
        "missing": dict(profile.missing),
        "bottleneck": str(profile.bottleneck),
        "meaning": BOTTLENECKS[profile.bottleneck],
        "device": fingerprint.device if fingerprint else None,
        "dtype": evaluation.dtype,
        "clock": str(evaluation.measurements[0].clock) if evaluation.measurements else None,
        "workloads": [_workload(one) for one in profile.workloads],
        "traits": traits_of(evaluation),
    }


def profile_text(document: Mapping[str, Any]) -> str:
    """The same for people: a bar for each workload, then the figures and what they say."""
    lines = [f"profile by {document['rung']}: {document['bottleneck']}: {document['meaning']}"]
    lines += [f"no {rung}: {line(why)}" for rung, why in document["missing"].items()]
    workloads = document["workloads"]
    if any(w["share"] is not None for w in workloads):
        lines += ["", *_bars(workloads), LEGEND]
    if workloads:
        lines += [
            "",
            aligned(["workload", "us", "floor us", "share", "SOL", "GB/s", "GFLOP/s", "bottleneck"], [_row(w) for w in workloads]),
        ]
        lines += ["", *(f"{w['name']}: {w['bottleneck']}: {line(w['why'])}" for w in workloads)]
    for workload in workloads:
        lines += _counted(workload)
    if document["traits"]:
        lines += [
            "",
            "read from the built product: " + ", ".join(f"{line(name)} {line(value)}" for name, value in document["traits"].items()),
        ]
    return "\n".join(lines)


def bar(launch: float, memory: float, cells: int = CELLS) -> str:
    """A time as a bar, to an eighth of a cell.

    Args:
        launch: Share of it that a launch takes.
        memory: Share that the task's bytes take; both together may pass 1, which no bar shows.
        cells: Length.
    """
    first = round(min(max(launch, 0.0), 1.0) * cells)
    eighths = min(round(max(memory, 0.0) * cells * 8), 8 * (cells - first))
    full, part = divmod(eighths, 8)
    shown = LAUNCH * first + MEMORY * full + (EIGHTHS[part] if part else "")
    return shown.ljust(cells, REST)


def _bars(workloads: list[dict[str, Any]]) -> list[str]:
    wide, lines = max(len(w["name"]) for w in workloads), []
    for workload in workloads:
        if workload["share"] is not None:
            shown = bar(*(workload[part] / workload["time_us"] for part in ("launch_us", "memory_us")))
            lines.append(f"{workload['name'].ljust(wide)}  {shown}  {100 * workload['share']:.0f} % at the floor")
    return lines


def _workload(one: WorkloadProfile) -> dict[str, Any]:
    moved = one.bytes_read + one.bytes_written
    floor = None if one.launch_us is None or one.memory_us is None else one.launch_us + one.memory_us
    return {
        "name": one.workload,
        "time_us": one.time_us,
        "bytes": moved,
        "bytes_read": one.bytes_read,
        "bytes_written": one.bytes_written,
        "flops": one.flops,
        "flops_per_byte": one.flops / moved if moved else None,
        "gb_per_s": one.bytes_per_s / 1e9,
        "gflop_per_s": one.flop_per_s / 1e9,
        "floor_us": floor,
        "launch_us": one.launch_us,
        "memory_us": one.memory_us,
        "compute_us": one.compute_us,
        "share": one.share,
        "sol": one.sol,
        "bottleneck": str(one.bottleneck),
        "why": one.why,
        "counters": dict(one.counters),
    }


def _row(workload: Mapping[str, Any]) -> list[str]:
    times = [time_text(workload[name]) for name in ("time_us", "floor_us")]
    return [workload["name"], *times, *(_figure(workload[n]) for n in ("share", "sol", "gb_per_s", "gflop_per_s")), workload["bottleneck"]]


def _counted(workload: Mapping[str, Any]) -> list[str]:
    """What the device counted on a workload."""
    seen = workload["counters"]
    if not seen:
        return []
    lines = ["", f"{workload['name']}, counted:"]
    if "read_bytes" in seen and "written_bytes" in seen:
        moved = [
            f"{way} {seen[f'{way}_bytes'] / 1e6:.3g} MB{_times(seen[f'{way}_bytes'], workload[f'bytes_{way}'])}"
            for way in ("read", "written")
        ]
        lines.append(f"  moved: {', '.join(moved)}")
    for title, names in _GROUPS:
        parts = [f"{_plain(name)} {_figure(seen[name])}{' %' if name.endswith('_pct') else ''}" for name in names if name in seen]
        if parts:
            lines.append(f"  {title}: {', '.join(parts)}")
    return lines


def _times(seen: float, needed: int) -> str:
    return f" ({seen / needed:.2f} times what is needed)" if needed else ""


def _plain(name: str) -> str:
    return name.removesuffix("_pct").removeprefix("stall_").replace("_", " ")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004 - as many digits as it deserves
