"""Contestants: whoever can be called and timed under the same protocol, a candidate, the champion or a baseline."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from evokern.backend import Limits
from evokern.evaluation import Reason, Verdict
from evokern.evaluator import runner
from evokern.evaluator.caller import Caller, Fault
from evokern.evaluator.window import Frame
from evokern.sandbox.spawner import Spawner
from evokern.task import DType, Task

Axes = Mapping[str, int]

CANDIDATE = "candidate"
"""Name of the contestant that a verdict is about; faults of any other are the machine's."""

WORKSPACE_LIMIT = 1 << 30
"""Bytes of workspace that a kernel may ask for."""


class Contestant(Protocol):
    """Whoever can be called.

    Attributes:
        name: "candidate", "incumbent", "eager", "compile", "null", "copy".
        trusted: Whether its outputs need no check (baselines; the oracle gives the values).
    """

    name: str
    trusted: bool

    def enter(self, shapes: Sequence[Axes], workload: str = "") -> Caller:
        """A runner that is bound to windows of its own, large enough for these shapes.

        Args:
            shapes: Axes of every workload that it will be called on.
            workload: The one called next; matters to contestants that differ by workload.

        Raises:
            Fault: The kernel cannot be loaded.
        """
        ...

    def leave(self, caller: Caller) -> int:
        """Give the runner back.

        Returns:
            Processes that it had left running.
        """
        ...


@contextmanager
def entered(contestant: Contestant, shapes: Sequence[Axes], workload: str = "") -> Iterator[Caller]:
    """A contestant's runner for the length of a block; see `Contestant.enter`.

    Raises:
        Fault: The kernel cannot be loaded, or left processes behind.
    """
    caller = contestant.enter(shapes, workload)
    try:
        yield caller
    except BaseException:
        contestant.leave(caller)
        raise
    strays = contestant.leave(caller)
    if strays:
        raise Fault(Verdict.HACKED, Reason.RESIDUAL_WORK, f"{strays} processes were still there after its last call")



@dataclass
class KernelContestant:
    """A built kernel: every entry is a fresh process on fresh memory.

    Attributes:
        name: See `Contestant`.
        task: Whose arguments it takes.
        dtype: Element type of the run.
        artefact: The built library.
        entry: Its entry function.
        loader: The backend's `loader()`.
        spawner: Where slots come from.
        zygote: Name of the zygote that preloads the loader.
        limits: Of a slot.
        trusted: See `Contestant`.
    """

    name: str
    task: Task
    dtype: DType
    artefact: Path
    entry: str
    loader: str
    spawner: Spawner
    zygote: str
    limits: Limits
    environment: Mapping[str, str]
    trusted: bool = False

    def enter(self, shapes: Sequence[Axes], workload: str = "") -> Caller:
        """See `Contestant.enter`. Also asks the kernel how much workspace it wants."""
        frame = Frame(self.task, self.dtype, shapes)
        caller = self._start(frame)
        try:
            caller.bind(frame)
            wanted = max(self._workspace(caller, frame, axes) for axes in shapes)
            if wanted > WORKSPACE_LIMIT:
                raise Fault(Verdict.SCREENED, Reason.RESOURCES, f"asks for {wanted} bytes of workspace, more than {WORKSPACE_LIMIT}")
            if wanted:
                frame.add_workspace(wanted)
                caller.slot.thaw()
                caller.bind(frame)
        except BaseException:
            caller.close()
            raise
        return caller

    def leave(self, caller: Caller) -> int:
        """See `Contestant.leave`."""
        return caller.close()

    def _start(self, frame: Frame) -> Caller:
        # Windows are shared memory that the slot's memory limit counts once it touches them.
        limits = replace(self.limits, memory_bytes=self.limits.memory_bytes + frame.size)
        artefact = os.open(self.artefact, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return Caller(
                self.spawner,
                entry=runner.ENTRY,
                zygote=self.zygote,
                argument=runner.argument(self.loader, self.entry),
                limits=limits,
                artefact=artefact,
                environment=self.environment,
            )
        except BaseException:
            frame.close()
            raise
        finally:
            os.close(artefact)

    def _workspace(self, caller: Caller, frame: Frame, axes: Axes) -> int:
        scalars = {a.name: a.value or 0 for a in self.task.arguments if a.is_scalar}
        return caller.workspace_size(frame.place(axes, "contiguous", scalars, np.random.default_rng(0)))


@dataclass
class ResidentContestant:
    """A trusted process that stays, such as a torch baseline: starting it anew for each block would take seconds.

    Attributes:
        name: See `Contestant`.
        callers: The bound runner by workload; one runner may serve several.
        trusted: Always.
    """

    name: str
    callers: Mapping[str, Caller]
    trusted: bool = True

    def enter(self, shapes: Sequence[Axes], workload: str = "") -> Caller:
        """See `Contestant.enter`."""
        return self.callers[workload]

    def leave(self, caller: Caller) -> int:
        """See `Contestant.leave`; it stays."""
        return 0
