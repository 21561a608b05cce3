"""Where a session's kernels run: this machine's processors, or a device that it has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from evokern.backend import Backend, Built
from evokern.errors import Unavailable
from evokern.evaluator.call.contestant import KernelContestant
from evokern.evaluator.call.window import HOST, Memory
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.timing.clock import JudgedClock
from evokern.evaluator.timing.eviction import Evictor
from evokern.kernel import Kernel
from evokern.sandbox.policy import Policy
from evokern.task import Task, Workload

SHORTEST_US, SHORTEST_NULLS = 500.0, 4.0
"""A CPU workload whose baseline takes less than so many microseconds, or nulls, is checked, not timed (EVALUATOR section 3 says a
millisecond, which is four nulls of the machine that it was written on; others are twice as fast)."""


class Machine(Protocol):
    """What differs between processors and devices.

    Attributes:
        kind: Of its device, as `Task.on` knows it.
        device_entry: `module:Class` that holds a device's windows in a process of PyTorch's; empty for the host's memory.
        memory: Where windows of kernels live.
        torch_memory: Where those of baselines live.
        torch_modules: Modules that a process of PyTorch's imports besides.
        zygotes: Modules that zygotes import beside those of kernels and of PyTorch, by name.
        torch_policy: Of slots that hold PyTorch.
        memory_bytes: Host memory that a kernel's runner may use beside its windows.
        forks: Runners after which a zygote of kernels is started afresh.
    """

    kind: str
    device_entry: str
    memory: Memory
    torch_memory: Memory
    torch_policy: Policy
    torch_modules: Sequence[str]
    zygotes: Mapping[str, Sequence[str]]
    memory_bytes: int
    forks: int

    def clock(self, task: Task, threads: int, shelf: Shelf, deadline: Callable[[Workload], float]) -> JudgedClock:
        """The judge's clock."""
        ...

    def timed(self, contestant: KernelContestant, kernel: Kernel, built: Built) -> tuple[KernelContestant, str]:
        """The same kernel as it is to be timed, and why that is not without its host code; empty where it is, or has no such form."""
        ...

    def ceilings(self) -> dict[str, float]:
        """What it does at best (`evokern.backend.Device.ceilings`); empty where nothing was measured but a plain copy."""
        ...

    def counters(
        self, contestant: KernelContestant, kernel: Kernel, built: Built, workloads: Sequence[Workload]
    ) -> dict[str, dict[str, float]]:
        """What it counts while a kernel runs, by workload; takes seconds.

        Raises:
            Unavailable: It cannot be had; the text says why.
        """
        ...

    def shortest_us(self, clock: JudgedClock) -> float:
        """Microseconds that a baseline must take on a workload for it to be timed."""
        ...

    def kept_bytes(self) -> int:
        """What may be left in caches of a call's inputs when it begins."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


PRIVATE_CACHE_BYTES = 4 << 20
"""What may be left of a call's inputs in a core's own caches after eviction, which reads on other cores too; the largest today."""

KERNEL_FORKS = 6
"""Runners after which a process that they are forked from is started afresh: an evaluation has some seventy, and so a dozen places for
its heaps and stacks, of which any bit is set in some and not in others. Starting one takes 60 ms, beside what is being done."""


class HostMachine:
    """This machine's processors.

    Args:
        cpus: Those that kernels run on.
    """

    kind = "cpu"
    device_entry = ""
    memory: Memory = HOST
    torch_memory: Memory = HOST
    torch_policy = Policy.TORCH
    torch_modules: Sequence[str] = ()
    zygotes: Mapping[str, Sequence[str]] = {}
    memory_bytes = 1 << 30
    forks = KERNEL_FORKS

    def __init__(self, cpus: Collection[int]) -> None:
        self._cpus = cpus

    def clock(self, task: Task, threads: int, shelf: Shelf, deadline: Callable[[Workload], float]) -> JudgedClock:
        """See `Machine`."""
        return JudgedClock(task, threads, shelf, Evictor(last_level_cache(), self._cpus), deadline)

    def timed(self, contestant: KernelContestant, kernel: Kernel, built: Built) -> tuple[KernelContestant, str]:
        """The contestant itself: there is no device that could run it without its host code."""
        return contestant, ""

    def ceilings(self) -> dict[str, float]:
        """Nothing: a plain copy of each workload's bytes is what a processor is held against."""
        return {}

    def counters(
        self, contestant: KernelContestant, kernel: Kernel, built: Built, workloads: Sequence[Workload]
    ) -> dict[str, dict[str, float]]:
        """None are read on a processor."""
        raise Unavailable("no counters are read on a processor")

    def shortest_us(self, clock: JudgedClock) -> float:
        """See `Machine`."""
        return max(SHORTEST_US, SHORTEST_NULLS * clock.null_ns / 1000)

    def kept_bytes(self) -> int:
        """See `Machine`."""
        return PRIVATE_CACHE_BYTES

    def close(self) -> None:
        """Nothing is held."""


def machine_of(backend: Backend, home: Path, cpus: Collection[int]) -> Machine:
    """Where a backend's kernels run.

    Raises:
        Unavailable: It needs a device that is not here.
    """
    device = backend.device(home)
    if device is None:
        return HostMachine(cpus)
    from evokern.evaluator.device.machine import DeviceMachine

    return DeviceMachine(device, home)


def last_level_cache() -> int:
    """Bytes of the largest cache of this processor; 32 MiB where the kernel does not say."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return max((int(size[:-1]) * units[size[-1]] for size in sizes if size and size[-1] in units), default=32 << 20)
