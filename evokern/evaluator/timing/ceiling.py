"""What no kernel can do on this machine: be done before its inputs can have come from memory.

A processor has no datasheet that a program could ask, so its rate is measured: what all processors together read from memory that is
in no cache. One kernel on fewer of them cannot be faster, so nothing honest is ever refused; how cold the caches are when a call
begins is the evictor's promise. A ratio, however large, is never impossible.
"""

from __future__ import annotations

from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Fault
from evokern.task import DType, Task, Workload

LEAST_BYTES_PER_NS = 16.0
"""No machine of today reads more slowly, with all its processors together; a loaded one seems to."""

SLACK = 0.10
"""Share by which a measured rate may be too low."""


def least_ns(task: Task, workload: Workload, dtype: DType, *, bytes_per_ns: float, kept_bytes: int) -> float:
    """Nanoseconds below which a call is impossible; 0 where nothing can be said.

    Args:
        task: Whose bytes.
        workload: On which axes.
        dtype: Element type.
        bytes_per_ns: What the machine reads from memory at most; 0 where it is not known.
        kept_bytes: What caches may still hold of a call's inputs when it begins.
    """
    if workload.residency != "cold" or bytes_per_ns <= 0:
        return 0.0
    read, _written = task.bytes_moved(dict(workload.axes), dtype)
    return max(read - kept_bytes, 0) / max(bytes_per_ns, LEAST_BYTES_PER_NS) * (1 - SLACK)


def refuse_impossible(workload: Workload, time_ns: float, bound_ns: float, resolution_ns: float) -> None:
    """Quarantine a time that no kernel can have.

    Args:
        workload: Where.
        time_ns: Median time, null taken off.
        bound_ns: As `least_ns` gives it.
        resolution_ns: What a call that does any work takes at least: R, the spread of the null, where that is CPU time.

    Raises:
        Fault: `quarantined`, `impossible`.
    """
    if time_ns <= resolution_ns:
        raise Fault(Verdict.QUARANTINED, Reason.IMPOSSIBLE, f"{workload.name}: takes no longer than a call that does nothing")
    if time_ns < bound_ns:
        raise Fault(
            Verdict.QUARANTINED,
            Reason.IMPOSSIBLE,
            f"{workload.name}: {time_ns / 1000:.0f} us, but its inputs alone take {bound_ns / 1000:.0f} us to come from memory",
        )
