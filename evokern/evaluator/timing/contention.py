"""Who else had the processors: idle time is charged to a kernel that waits only where processors had nothing to do."""

from __future__ import annotations

import os
from collections.abc import Collection

CONTENDED = 0.05
"""From which share the machine is contended: of the wall time for which opponents queue, at the median of their last calls, or of
the last ten seconds in which some task of the machine had to wait for a processor (Linux's pressure stall information).

The scheduler says how long a runner's first thread had to queue but not how long the others had, so there a kernel with
threads seems to be idle; the CPU clock, which covers the whole slot, then stands alone up to `CONTENDED_SHARE`."""

VOID_SHARE = 0.06
"""Wall time beyond CPU time, as a share of it, from which a sample is void."""

CONTENDED_SHARE = 3.0
"""As `VOID_SHARE`, on a contended machine: what three others on the same processor can add."""

VOID_US, MOST_VOID_US = 60.0, 250.0
"""The same in microseconds, for short calls, at least and at most: between them it is what a kernel that never waits is seen to need."""


def waited(beyond_ns: float, cpu_ns: float, *, contended: bool, slack_ns: float = VOID_US * 1000) -> bool:
    """Whether a call spent too much wall time neither working nor queueing for its time to count.

    Args:
        beyond_ns: That time, beyond what a call that does nothing has.
        cpu_ns: CPU time of the call.
        contended: Whether others wanted the processors too.
        slack_ns: By how much such time scatters from call to call for no fault of a kernel's.
    """
    return beyond_ns > max((CONTENDED_SHARE if contended else VOID_SHARE) * cpu_ns, slack_ns)


def cpu_pressure() -> float:
    """Share of the last ten seconds in which some task had to wait for a processor; 0 where the kernel does not say."""
    try:
        with open("/proc/pressure/cpu", encoding="ascii") as stream:
            return float(stream.readline().split("avg10=")[1].split()[0]) / 100
    except (OSError, IndexError, ValueError):
        return 0.0


def idle_ns(cpus: Collection[int]) -> int:
    """How long these processors together have been idle, nanoseconds; 0 where the kernel does not say.

    It is told in ticks, so that a difference is off by up to one each; over many short calls that evens out.
    """
    tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    wanted = {f"cpu{cpu}" for cpu in cpus}
    total = 0
    try:
        with open("/proc/stat", encoding="ascii") as stream:
            for line in stream:
                if not line.startswith("cpu"):
                    break
                fields = line.split()
                if fields[0] in wanted:
                    total += (int(fields[4]) + int(fields[5])) * tick  # idle, and idle while it waits for a disk
    except (OSError, IndexError, ValueError):
        return 0
    return total
