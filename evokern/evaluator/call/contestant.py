"""Contestants: whoever can be called and timed under the same protocol, a candidate, the champion or a baseline."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from evokern.backend import Built, Limits
from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call import runner
from evokern.evaluator.call.caller import Caller, Fault
from evokern.evaluator.call.window import HOST, Frame, Memory, Shape, shape_of
from evokern.evaluator.reference.held_out import most_workloads
from evokern.sandbox.order import sealed_copy
from evokern.sandbox.spawner import Spawner
from evokern.task import DType, Task, Workload

Axes = Mapping[str, int]

CANDIDATE = "candidate"
"""Name of the contestant that a verdict is about; faults of any other are the machine's."""

WORKSPACE_LIMIT = 1 << 30
"""Bytes of workspace that a kernel may ask for."""

QUESTIONS = 16
"""How often a kernel is asked for its workspace at a start; more often where a task has more workloads, and then at every start."""


class Contestant(Protocol):
    """Whoever can be called and timed.

    Attributes:
        name: "candidate", "incumbent", "eager", "compile", "null", "copy".
        trusted: Whether its outputs need no check (baselines; the oracle gives the values).
        resident: Whether one process serves every measurement, so that its death is the end of the session.
        null_ns: What a call of it costs beside its work; None where that is what the clock took for a kernel that does nothing.
        sealed: Whether no host code of a candidate's runs in its processes, so that a device's events are believed there.
    """

    name: str
    trusted: bool
    resident: bool
    null_ns: float | None
    sealed: bool

    def enter(self, workloads: Sequence[Workload]) -> Mapping[str, Caller]:
        """Bound runners by workload; one may serve several.

        Args:
            workloads: All that it will be called on.

        Raises:
            Fault: The kernel cannot be loaded.
        """
        ...

    def leave(self, callers: Mapping[str, Caller]) -> int:
        """Give the runners back.

        Returns:
            Processes that they had left running.
        """
        ...

    def stock(self, workloads: Sequence[Workload], count: int) -> None:
        """Start runners for so many entries to come, side by side; one that was not started ahead is started when it is entered."""
        ...

    def release(self) -> None:
        """End what was started ahead and not entered."""
        ...


@contextmanager
def entered(contestant: Contestant, workloads: Sequence[Workload]) -> Iterator[Mapping[str, Caller]]:
    """A contestant's runners for the length of a block; see `Contestant.enter`.

    Raises:
        Fault: The kernel cannot be loaded, or left processes behind.
    """
    callers = contestant.enter(workloads)
    try:
        yield callers
    except BaseException:
        contestant.leave(callers)
        raise
    refuse_strays(contestant.leave(callers))


def refuse_strays(strays: int) -> None:
    """Charge a kernel for processes that outlived its last call.

    Raises:
        Fault: There are any.
    """
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
        zygotes: Names of zygotes that preload the loader. Each start takes one of them by chance: all that are forked from one lie
            at the same addresses.
        limits: Of a slot.
        trusted: See `Contestant`.
        digest: sha256 of the library, hex, which it must still have whenever it is taken.
        server: The built `Backend.server()`, or None.
        memory: Where its windows live.
        sealed: See `Contestant`.
        workspaces: Bytes of workspace by shape, where that was told before; else every runner is asked.
        everywhere: Processors on which calls that are not timed take turns; those of `limits` where empty.
    """

    name: str
    task: Task
    dtype: DType
    artefact: Path
    entry: str
    loader: str
    spawner: Spawner
    zygotes: Sequence[str]
    limits: Limits
    environment: Mapping[str, str]
    trusted: bool = False
    resident: bool = False
    null_ns: float | None = None
    digest: str = ""
    server: Built | None = None
    memory: Memory = HOST
    sealed: bool = False
    workspaces: Mapping[Shape, int] | None = None
    _stocked: list[Future[Caller]] = field(default_factory=list, init=False, repr=False)
    everywhere: Sequence[int] = ()

    def enter(self, workloads: Sequence[Workload]) -> Mapping[str, Caller]:
        """See `Contestant.enter`: one fresh runner serves all of them."""
        caller = self._stocked.pop(0).result() if self._stocked else self.start([dict(w.axes) for w in workloads])
        return {w.name: caller for w in workloads}

    def stock(self, workloads: Sequence[Workload], count: int) -> None:
        """See `Contestant.stock`; all entries until `release` must be on the same workloads. Returns when all of them have started."""
        shapes = [dict(w.axes) for w in workloads]
        with ThreadPoolExecutor(count, "stock") as starters:
            self._stocked += [starters.submit(self.start, shapes) for _ in range(count)]

    def release(self) -> None:
        """See `Contestant.release`."""
        while self._stocked:
            started = self._stocked.pop()
            if started.exception() is None:
                started.result().close()

    def leave(self, callers: Mapping[str, Caller]) -> int:
        """See `Contestant.leave`."""
        return next(iter(callers.values())).close()

    @contextmanager
    def started(self, shapes: Sequence[Axes]) -> Iterator[Caller]:
        """One fresh runner for the length of a block, for calls that are not timed: `Caller.move` has it work on other processors.

        Raises:
            Fault: As `start`, or it left processes behind.
        """
        caller = self.start(shapes, moves=bool(self.everywhere))
        try:
            yield caller
        except BaseException:
            caller.close()
            raise
        refuse_strays(caller.close())

    def start(self, shapes: Sequence[Axes], *, moves: bool = False) -> Caller:
        """A fresh runner on fresh memory, with as much workspace for each call as it asks for.

        Args:
            shapes: Axes of all that it will be called on.
            moves: Whether it may work on any of `everywhere`.

        Raises:
            Fault: It cannot be loaded, crashed, or asks for too much.
        """
        frame = Frame(self.task, self.dtype, shapes, memory=self.memory)
        caller = self._start(frame, moves=moves)
        try:
            caller.bind(frame)
            wanted = self._workspaces(caller, frame, shapes) if self.workspaces is None else self.workspaces
            most = max(wanted.values())
            if most > WORKSPACE_LIMIT:
                raise Fault(Verdict.SCREENED, Reason.RESOURCES, f"asks for {most} bytes of workspace, more than {WORKSPACE_LIMIT}")
            if most:
                frame.add_workspace(most, wanted)
                caller.slot.thaw()
                caller.bind(frame)
        except BaseException:
            caller.close()
            raise
        return caller

    def _start(self, frame: Frame, *, moves: bool) -> Caller:
        # Windows on the host are shared memory that the slot's memory limit counts once it touches them.
        shared = frame.size if self.memory is HOST else 0
        cpus = tuple(self.everywhere) if moves else self.limits.cpus
        limits = replace(self.limits, memory_bytes=self.limits.memory_bytes + shared, cpus=cpus)
        artefacts: list[int] = []
        try:
            artefacts.append(_sealed(self.artefact, self.digest))
            if self.server is not None and self.server.artefact is not None:
                artefacts.append(_sealed(self.server.artefact, self.server.digest))
            return Caller(
                self.spawner,
                entry=runner.ENTRY,
                zygote=secrets.choice(self.zygotes),
                argument=runner.argument(self.loader, self.entry),
                limits=limits,
                artefacts=artefacts,
                environment=self.environment,
                policy=self.memory.policy,
                timed=self.memory is HOST,
                sealed=self.sealed,
                moves=len(self.limits.cpus) if moves else 0,
            )
        except BaseException:
            frame.close()
            raise
        finally:
            for artefact in artefacts:
                os.close(artefact)

    def _workspaces(self, caller: Caller, frame: Frame, shapes: Sequence[Axes]) -> dict[Shape, int]:
        scalars = {a.name: a.value or 0 for a in self.task.arguments if a.is_scalar}
        rng = np.random.default_rng(secrets.randbits(128))
        asked = questions(self.task, shapes, rng)
        sizes = caller.workspace_sizes([frame.place(dict(shape), "contiguous", scalars, rng) for shape in asked])
        # One that answers the same question in two ways gets what it said last.
        return dict(zip(asked, sizes, strict=True))


def _sealed(artefact: Path, digest: str) -> int:
    try:
        return sealed_copy(artefact, digest)
    except (OSError, ValueError) as error:
        raise Fault(Verdict.INFRASTRUCTURE, Reason.HOST_ERROR, f"the built library was lost: {error}") from None


def questions(task: Task, shapes: Sequence[Axes], rng: np.random.Generator) -> list[Shape]:
    """The shapes for which a kernel is asked how much workspace it needs, in order.

    There are as many of them at every start, and among visible shapes they follow one law: neither their number nor what they are
    tells whether a runner will be checked, timed, or called for long.

    Args:
        task: Its visible workloads are asked about at every start, some of them again.
        shapes: Axes of all that will be called.
        rng: Secret chance.
    """
    visible = [shape_of(dict(w.axes)) for w in task.search]
    distinct = list(dict.fromkeys([*visible, *(shape_of(axes) for axes in shapes)]))
    decoys = max(QUESTIONS, len(visible) + most_workloads(task)) - len(distinct)
    asked = distinct + [visible[i] for i in rng.integers(len(visible), size=max(decoys, 0))]
    return [asked[i] for i in rng.permutation(len(asked))]


@dataclass
class ResidentContestant:
    """A trusted process that stays, such as a torch baseline: starting it anew for each block would take seconds.

    Attributes:
        name: See `Contestant`.
        callers: The bound runner by workload; one runner may serve several.
        trusted: Always.
        null_ns: See `Contestant`; of the same process with nothing to compute.
    """

    name: str
    callers: Mapping[str, Caller]
    trusted: bool = True
    resident: bool = True
    null_ns: float | None = None
    sealed: bool = False

    def enter(self, workloads: Sequence[Workload]) -> Mapping[str, Caller]:
        """See `Contestant.enter`."""
        return self.callers

    def leave(self, callers: Mapping[str, Caller]) -> int:
        """See `Contestant.leave`; they stay."""
        return 0

    def stock(self, workloads: Sequence[Workload], count: int) -> None:
        """Nothing is to be started."""

    def release(self) -> None:
        """Nothing was."""
