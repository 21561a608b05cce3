"""Sealing: what a kernel launches, noted in its runner, as something that runs without its host code (EVALUATOR section 3).

What a runner says here is a claim of a candidate's process. It costs nothing to believe it: what is sealed is judged like any kernel,
by its outputs on sets that it has not seen, and it is what is timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evokern.backend import Built, Device, Noted, Replay
from evokern.evaluator.call.contestant import KernelContestant
from evokern.evaluator.call.exchange import Exchange, write
from evokern.evaluator.call.protocol import Spec
from evokern.evaluator.call.window import Shape, shape_of
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.secrecy import Secret
from evokern.task import Role, Task

TWICE = 2
"""Calls that are noted of each workload, at other addresses: what differs between them are addresses."""


class Unsealable(Exception):
    """A kernel has no sealed form; the text says why."""


@dataclass(frozen=True, slots=True)
class SealedForm:
    """A kernel without its host code.

    Attributes:
        content: Device binaries and launches, for `Device.sealed_loader`.
        workspaces: Bytes of workspace by shape.
        calls: Its calls by workload, to be looked at by a profiler.
    """

    content: bytes
    workspaces: Mapping[Shape, int]
    calls: Mapping[str, Replay]


def sealed_form(device: Device, contestant: KernelContestant, built: Built, task: Task, shelf: Shelf, secret: Secret) -> SealedForm:
    """Device binaries and launches of a kernel on every visible workload.

    Args:
        device: The judge's.
        contestant: The kernel with its host code.
        built: Its product.
        task: Whose workloads.
        shelf: Sets of inputs: a kernel may read what it is launched for.
        secret: Chance.

    Raises:
        Unsealable: It has no sealed form.
        Fault: It fails.
    """
    if not built.images:
        raise Unsealable("no device binary of it is known")
    noted, workspaces, calls = [], dict[Shape, int](), dict[str, Replay]()
    with contestant.started([dict(w.axes) for w in task.search]) as caller:
        for workload in task.search:
            rng, said = secret.stream("sealing", workload.name), []
            for number in range(TWICE):
                exchange = write(task, caller, dict(workload.axes), shelf.timed(workload, number), rng, layout="contiguous")
                said.append(caller.captured(exchange.placed))
            assert caller.frame is not None
            places = tuple(one.place for one in exchange.placed)
            workspaces[shape_of(dict(workload.axes))] = caller.frame.workspace_bytes
            noted.append(Noted(places, caller.frame.workspace_bytes, said[0], said[1]))
            calls[workload.name] = _call(exchange, caller.frame.workspace_bytes, cold=workload.residency == "cold")
    try:
        return SealedForm(device.sealed([image.read_bytes() for image in built.images], noted), workspaces, calls)
    except ValueError as refusal:
        raise Unsealable(str(refusal)) from None


def _call(exchange: Exchange, workspace_bytes: int, *, cold: bool) -> Replay:
    specs = [Spec(*one.dtype.dlpack, len(one.argument.shape), 0) for one in exchange.placed]
    zeroed = [one.argument.role is Role.WORKSPACE_ZEROED for one in exchange.placed]
    return Replay(specs, [one.place for one in exchange.placed], zeroed, workspace_bytes, cold)
