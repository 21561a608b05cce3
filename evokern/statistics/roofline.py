"""Rooflines: what a kernel's time is made of, from what its task must move and do and what the device can do at best.

The floor of a time is fitted, not ideal (DESIGN section 6): what a launch takes, plus each byte at the rate at which this device reads
or writes. The bound of the SOL score is lower: no launch, and bytes and operations at once, each at the best rate that was seen.

Pure functions; nothing here runs or reads anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evokern.evaluation import Bottleneck
from evokern.task import DType, Task, evaluate_expression

COUNTERS: dict[str, str] = {
    "time_ns": "time between start and end of the kernels",
    "read_bytes": "read from the device's memory",
    "written_bytes": "written to the device's memory",
    "dram_pct": "memory's throughput, of its peak",
    "l2_pct": "the last cache's throughput, of its peak",
    "l2_hit_pct": "sectors found in the last cache",
    "l1_hit_pct": "sectors found in the first cache",
    "sm_pct": "throughput of the busiest part of the multiprocessors, of its peak",
    "occupancy_pct": "warps resident, of the most that there can be, while any is",
    "issue_pct": "cycles in which a scheduler issues an instruction",
    "tensor_pct": "matrix units busy",
    "fma_pct": "single-precision units busy",
    "xu_pct": "special-function units busy",
    "sectors_per_load": "sectors of 32 bytes for each load of a warp from global memory: 4 bytes a lane take 4, 16 bytes take 16",
    "sectors_per_store": "the same of stores",
    "bank_conflicts": "accesses to shared memory that had to be repeated",
    "local_load_sectors": "sectors loaded from local memory, where spilled values lie",
    "local_store_sectors": "sectors stored there",
    "stall_memory": "a warp's wait for global or local memory, cycles for each instruction issued",
    "stall_shared": "its wait for shared memory or special functions",
    "stall_barrier": "its wait for other warps at a barrier",
    "stall_math": "its wait for arithmetic units",
    "stall_queue": "its wait for room in the queue of memory instructions",
    "stall_wait": "its wait of fixed length after an instruction",
}
"""What a device counts of a call, by name, with what each is."""

SECTOR_BYTES = 32

AT_THE_MEMORY = 0.75
"""Share of the time that the task's bytes take at the device's rate from which on memory is the bottleneck; likewise the share of its
peak that the memory is seen to be busy."""

PARTLY = 0.4
"""Share from which on the larger of two causes that are not enough alone is named, rather than waiting."""

AT_THE_UNITS = 0.6
"""Likewise of arithmetic. Lower, as no kernel that also moves data keeps its units busier for long."""

MOSTLY_LAUNCH = 0.5

FEW_RESIDENT = 0.35
"""Share of the threads that a multiprocessor can hold below which too few are there to hide waiting (the class "low" of
`evokern_gpu.resources`)."""

MUCH_SPILLED = 0.1
"""Bytes of local memory, over bytes of the device's memory, from which on spills are blamed."""

_STALLS = {
    "stall_memory": "for memory",
    "stall_shared": "for shared memory or special functions",
    "stall_barrier": "at barriers",
    "stall_math": "for arithmetic units",
    "stall_queue": "for room in the queue of memory instructions",
    "stall_wait": "out the fixed length of instructions",
}


@dataclass(frozen=True, slots=True)
class Work:
    """What a task must do on one workload, at least.

    Attributes:
        bytes_read: Bytes.
        bytes_written: Bytes.
        flops: Operations.
    """

    bytes_read: int
    bytes_written: int
    flops: int

    @property
    def bytes_moved(self) -> int:
        """Both ways."""
        return self.bytes_read + self.bytes_written


def work_of(task: Task, axes: Mapping[str, int], dtype: DType) -> Work:
    """The work of a workload, from the task's cost.

    Args:
        task: Whose.
        axes: Of the workload.
        dtype: Element type.
    """
    read, written = task.bytes_moved(axes, dtype)
    return Work(read, written, evaluate_expression(task.cost.flops, {**axes, "itemsize": dtype.itemsize}))


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What a device can do at best.

    Attributes:
        read: Bytes a second.
        write: Bytes a second.
        copy: Bytes a second, both ways counted; None where it was not measured apart.
        launch_us: Of one kernel after another; 0 where times are told less it.
        vector: Operations a second of single precision; None where it is not known.
        matrix: The same of matrix units in the element type at hand; None where there are none, or it is not known.
    """

    read: float
    write: float
    copy: float | None = None
    launch_us: float = 0.0
    vector: float | None = None
    matrix: float | None = None

    @classmethod
    def of_device(cls, found: Mapping[str, float], dtype: DType) -> Ceilings | None:
        """Those that a device keeps (`evokern.backend.Device.ceilings`); None where it lacks what a floor needs.

        Args:
            found: By name.
            dtype: Element type, which decides what its matrix units can do.
        """
        if not all(found.get(name, 0.0) > 0 for name in ("read", "write")):
            return None
        matrix = found.get("matrix" if dtype is DType.BFLOAT16 else f"matrix_{dtype}")
        return cls(found["read"], found["write"], found.get("copy"), found.get("launch_us", 0.0), found.get("vector"), matrix)

    @classmethod
    def of_copy(cls, work: Work, copy_us: float) -> Ceilings:
        """Those that a plain copy of as many bytes as a workload moves shows: one rate, and nothing of arithmetic.

        Args:
            work: Of the workload.
            copy_us: Time of the copy, > 0, less what a call takes that does nothing.
        """
        rate = work.bytes_moved / copy_us * 1e6
        return cls(rate, rate, rate)

    def arithmetic(self, *, matrix: bool) -> float | None:
        """Operations a second.

        Args:
            matrix: Whether matrix units are to be counted too.
        """
        known = [rate for rate in (self.vector, self.matrix if matrix else None) if rate]
        return max(known, default=None)


def memory_us(work: Work, ceilings: Ceilings) -> float:
    """What the bytes of a workload take, microseconds."""
    return (work.bytes_read / ceilings.read + work.bytes_written / ceilings.write) * 1e6


def floor_us(work: Work, ceilings: Ceilings) -> float:
    """The fitted floor of a workload's time, microseconds; may be undercut on cached data."""
    return ceilings.launch_us + memory_us(work, ceilings)


def share(time_us: float, work: Work, ceilings: Ceilings) -> float:
    """Floor over time: 1 at the floor, less above it, more on cached data (DESIGN section 6)."""
    return floor_us(work, ceilings) / time_us


def bound_us(work: Work, ceilings: Ceilings) -> float:
    """What no kernel can undercut on cold data: bytes and operations at the same time, each at the best rate, and no launch."""
    slowest = memory_us(work, ceilings)
    if ceilings.copy:
        slowest = min(slowest, work.bytes_moved / ceilings.copy * 1e6)
    rate = ceilings.arithmetic(matrix=True)
    return max(slowest, work.flops / rate * 1e6 if rate else 0.0)


def sol_score(time_us: float, baseline_us: float, bound_us: float) -> float:
    """How much of the way from a baseline to the bound of the hardware a kernel has gone.

    Args:
        time_us: The kernel's time.
        baseline_us: The baseline's.
        bound_us: What cannot be undercut.

    Returns:
        1 at the bound, 1/2 at the baseline's time, towards 0 the slower it is. Where the baseline is at the bound already: 1 for who is
        there too, else 0.

    Source: SOL-ExecBench, https://arxiv.org/abs/2603.19173: 1 / (1 + (T - T_SOL) / (T_baseline - T_SOL)).
    """
    if baseline_us <= bound_us:
        return 1.0 if time_us <= bound_us else 0.0
    return 1.0 / (1.0 + max(time_us - bound_us, 0.0) / (baseline_us - bound_us))


@dataclass(frozen=True, slots=True)
class Figures:
    """A time beside what explains it, as `bottleneck` takes them.

    Attributes:
        time_us: Median time.
        work: Of the workload.
        ceilings: Of the device; None where they are not known.
        traits: What was read from the built product, by name; empty where nothing was.
        counters: What the device counted, by the names of `COUNTERS`; empty where nothing was.
    """

    time_us: float
    work: Work
    ceilings: Ceilings | None
    traits: Mapping[str, str]
    counters: Mapping[str, float]

    def launch(self) -> float:
        """Share of the time that a launch takes."""
        return self.ceilings.launch_us / self.time_us if self.ceilings else 0.0

    def memory(self) -> float:
        """Share of the time that the task's bytes take at the device's rate."""
        return memory_us(self.work, self.ceilings) / self.time_us if self.ceilings else 0.0

    def compute_us(self) -> float | None:
        """What the operations take, at the rate of matrix units where the product uses them."""
        if self.ceilings is None:
            return None
        uses_matrix = "tensor" in self.traits.get("units", "").split() or self.counters.get("tensor_pct", 0.0) > 0
        rate = self.ceilings.arithmetic(matrix=uses_matrix)
        return self.work.flops / rate * 1e6 if rate else None

    def compute(self) -> float:
        """Share of the time that the operations take; 0 where it is not known."""
        return (self.compute_us() or 0.0) / self.time_us


def bottleneck(figures: Figures) -> tuple[Bottleneck, str]:
    """What takes a kernel's time, and the numbers that say so in words.

    What the device counted goes before what can be worked out from its best rates, and that before what the product shows.
    """
    for cause in (_launch, _near_the_floor, _counted, _worked_out, _shown, _part):
        found = cause(figures)
        if found is not None:
            return found
    return _rest(figures)


def _launch(of: Figures) -> tuple[Bottleneck, str] | None:
    if of.launch() < MOSTLY_LAUNCH or of.ceilings is None:
        return None
    return Bottleneck.LAUNCH, f"a launch takes {of.ceilings.launch_us:.3g} of {of.time_us:.3g} us"


def _near_the_floor(of: Figures) -> tuple[Bottleneck, str] | None:
    if of.launch() + of.memory() < AT_THE_MEMORY or of.memory() < of.compute():
        return None
    return Bottleneck.MEMORY, f"its bytes take {_percent(of.memory())} of its time at the device's best rate"


def _counted(of: Figures) -> tuple[Bottleneck, str] | None:
    seen = of.counters
    if not seen:
        return None
    moved = seen.get("read_bytes", 0.0) + seen.get("written_bytes", 0.0)
    local = SECTOR_BYTES * (seen.get("local_load_sectors", 0.0) + seen.get("local_store_sectors", 0.0))
    if local > MUCH_SPILLED * max(moved, 1.0):
        return Bottleneck.SPILLS, f"{_bytes(local)} go through local memory, beside {_bytes(moved)} of the device's memory"
    busiest = max(("dram_pct", "l2_pct"), key=lambda name: seen.get(name, 0.0))
    if seen.get(busiest, 0.0) >= 100 * AT_THE_MEMORY:
        needs = f" and moves {moved / of.work.bytes_moved:.2f} times the bytes that it must" if moved and of.work.bytes_moved else ""
        return Bottleneck.MEMORY, f"{COUNTERS[busiest].partition(',')[0]} is at {seen[busiest]:.0f} % of its peak{needs}"
    units = max(("tensor_pct", "fma_pct", "xu_pct"), key=lambda name: seen.get(name, 0.0))
    if seen.get(units, 0.0) >= 100 * AT_THE_UNITS:
        return Bottleneck.COMPUTE, f"{COUNTERS[units].removesuffix(' busy')} are busy {seen[units]:.0f} % of the time"
    if seen.get("issue_pct", 0.0) >= 100 * AT_THE_MEMORY:
        return Bottleneck.COMPUTE, f"schedulers issue in {seen['issue_pct']:.0f} % of all cycles"
    if 0.0 < seen.get("occupancy_pct", 0.0) < 100 * FEW_RESIDENT:
        return Bottleneck.OCCUPANCY, f"{seen['occupancy_pct']:.0f} % of the possible warps are resident{_stalled(seen)}"
    return Bottleneck.LATENCY, f"neither memory nor arithmetic is busy{_stalled(seen)}"


def _worked_out(of: Figures) -> tuple[Bottleneck, str] | None:
    if of.compute() < AT_THE_UNITS:
        return None
    return Bottleneck.COMPUTE, f"its operations take {_percent(of.compute())} of its time at the device's best rate"


def _shown(of: Figures) -> tuple[Bottleneck, str] | None:
    if not of.traits:
        return None
    spilled = _number(of.traits.get("spill_bytes"))
    if spilled:
        return Bottleneck.SPILLS, f"{spilled:.0f} bytes a thread are spilled{_beside(of)}"
    resident = _number(of.traits.get("resident"))
    if resident is not None and resident < FEW_RESIDENT:
        return Bottleneck.OCCUPANCY, f"{_percent(resident)} of the possible threads can be resident{_beside(of)}"
    if of.ceilings is None or of.memory() >= AT_THE_MEMORY:
        return None
    if of.traits.get("libm") == "scalar":
        return Bottleneck.COMPUTE, f"it calls the mathematical library one element at a time{_beside(of)}"
    if of.traits.get("simd") == "none":
        return Bottleneck.COMPUTE, f"its arithmetic takes one element at a time{_beside(of)}"
    return None


def _part(of: Figures) -> tuple[Bottleneck, str] | None:
    if max(of.memory(), of.compute()) < PARTLY:
        return None
    if of.memory() >= of.compute():
        return Bottleneck.MEMORY, f"its bytes take {_percent(of.memory())} of its time, the largest part that is known"
    return Bottleneck.COMPUTE, f"its operations take {_percent(of.compute())} of its time, the largest part that is known"


def _rest(of: Figures) -> tuple[Bottleneck, str]:
    if of.ceilings is None:
        return Bottleneck.UNKNOWN, "nothing is known of what this device can do at best"
    bytes_take = f"its bytes take {_percent(of.memory())} of its time"
    known = of.compute_us() is not None
    if not known and not of.traits:
        return Bottleneck.UNKNOWN, f"{bytes_take}; nothing tells arithmetic from waiting in the rest"
    return (
        Bottleneck.LATENCY,
        f"{bytes_take}, its operations {_percent(of.compute())}" if known else f"{bytes_take}, its arithmetic is wide",
    )


def _beside(of: Figures) -> str:
    return f", and its bytes take {_percent(of.memory())} of its time" if of.ceilings else ""


def _stalled(seen: Mapping[str, float]) -> str:
    """What warps wait for most, and for how long."""
    name = max(_STALLS, key=lambda stall: seen.get(stall, 0.0))
    return f"; warps wait {_STALLS[name]}, {seen[name]:.1f} cycles an instruction" if seen.get(name) else ""


def _number(text: str | None) -> float | None:
    """The number that a trait holds; None where it holds none."""
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"
