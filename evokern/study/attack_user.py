"""A user of a built kernel, inside a slot: many calls on fresh values, each told to the referee as soon as it is over.

It shares nothing with the evaluator but the kernel contract: shapes, values, buffers, order, tolerance and clock are its own. An honest
kernel is called beside the one that is watched, on the same values and in either order, as the measure of the machine.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evokern.evaluator.call.protocol import Go, Place, Spec
from evokern.evaluator.call.scatter import scattered

ENTRY = "evokern.study.attack_user:serve"

EPS = 1e-6
"""Of the core task rmsnorm."""

UNIT = 2.0**-24
"""Unit roundoff of float32."""

SPREADS = ((0.0, 1.0), (0.0, 10.0), (5.0, 1.0), (-30.0, 3.0))
"""Means and standard deviations of values."""

REUSED = 0.6
"""Share of calls on the buffers of the last call on that shape."""

PADDED = 0.25
"""Share of fresh buffers with padded rows."""

CANARY = np.float32(1234.5)
"""What lies between padded rows."""

Floats = NDArray[np.float32]
Exact = NDArray[np.float64]


def softmax(x: Exact, _: Exact) -> Exact:
    """[rows, cols] -> [rows, cols]."""
    exponentials = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def rmsnorm(x: Exact, weight: Exact) -> Exact:
    """[rows, cols], [cols] -> [rows, cols]."""
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + EPS) * weight)


EXPECTED: Mapping[str, Callable[[Exact, Exact], Exact]] = {"softmax": softmax, "rmsnorm": rmsnorm}


@dataclass(frozen=True)
class Buffers:
    """Memory of a call; rows may be padded.

    Attributes:
        x: Input.
        mine: Output of the watched kernel.
        theirs: Output of the honest one.
    """

    x: Floats
    mine: Floats
    theirs: Floats


@dataclass
class Told:
    """One call.

    Attributes:
        group: Name of its group of shapes.
        share: Largest error over what rounding explains.
        rms: Root mean square of the error.
        honest_rms: The same of the honest kernel, or what rounding explains where that is more; 0 where both gave the same bits.
        bad: What else is wrong with it; empty for nothing.
        ns: What it cost.
        honest_ns: What the honest one cost.
        kept: By how many bytes private memory grew.
        fired: Defects that acted.
        padded: Whether rows were padded.
        first: Whether its process meets the shape for the first time, which is a build.
    """

    group: str
    share: float = 0.0
    rms: float = 0.0
    honest_rms: float = 0.0
    bad: str = ""
    ns: int = 0
    honest_ns: int = 0
    kept: int = 0
    fired: int = 0
    padded: bool = False
    first: bool = False


@dataclass
class Group:
    """Shapes of one kind.

    Attributes:
        name: As the referee calls it.
        shapes: Rows and columns; drawn from in turn.
        weight: How often it is called.
    """

    name: str
    shapes: Sequence[tuple[int, int]]
    weight: float
    turn: int = 0
    buffers: dict[tuple[int, int], Buffers] = field(default_factory=dict)
    values: dict[tuple[int, int], list[Floats]] = field(default_factory=dict)


def serve(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Call, and tell of every call.

    Args:
        sock: To the referee; one JSON `Told` a record, in the order of the calls.
        descriptors: The watched library's, then the honest one's.
        argument: JSON; loader, task, entry, seed, calls, groups [[name, shapes, weight], ...], pauses {call: seconds}.
    """
    # As processes of a user's are: forks of one process lie where it lies, and would all be slow, or none, by a bit of an address.
    scattered(lambda: _serve(sock, descriptors, argument))


def _serve(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    order = json.loads(argument)
    module, function = order["loader"].split(":")
    load = getattr(importlib.import_module(module), function)
    kernels = [load(descriptor, order["entry"]) for descriptor in descriptors]
    counter = ctypes.c_int64.in_dll(ctypes.CDLL(f"/dev/fd/{descriptors[0]}"), order["counter"])
    user = User(order["task"], kernels, np.random.default_rng(order["seed"]), counter)
    groups = [Group(name, [(r, c) for r, c in shapes], weight) for name, shapes, weight in order["groups"]]
    total = sum(group.weight for group in groups)
    for number in range(order["calls"]):
        time.sleep(order["pauses"].get(str(number), 0.0))
        group = groups[int(user.rng.choice(len(groups), p=[g.weight / total for g in groups]))]
        sock.send(json.dumps(vars(user.called(group))).encode())


class User:
    """Calls two kernels on the same values.

    Args:
        task: Name of the task.
        kernels: The watched one, the honest one.
        rng: All chance.
        counter: How often defects acted.
    """

    def __init__(self, task: str, kernels: Sequence[Any], rng: np.random.Generator, counter: ctypes.c_int64) -> None:
        self.rng = rng
        self._task, self._kernels, self._counter = task, kernels, counter
        self._weights: dict[int, Floats] = {}
        self._met: set[tuple[int, int]] = set()

    def called(self, group: Group) -> Told:
        """One call of both, and what came of it."""
        shape = group.shapes[group.turn % len(group.shapes)]
        group.turn += 1
        values = self._values(group, shape)
        buffers = self._buffers(group, shape)
        buffers.x[:, : shape[1]] = values
        told = Told(group.name, padded=buffers.x.shape[1] > shape[1], first=shape not in self._met)
        self._met.add(shape)
        got, costs = values, [0, 0]
        first = int(self.rng.integers(2))
        for which in (first, 1 - first):
            before, fired = private_bytes(), self._counter.value
            status, costs[which] = self._run(which, buffers, shape)
            if which == 0:
                # At once, as a user takes it: what comes later does not count.
                got = buffers.mine[:, : shape[1]].copy()
                told.kept, told.fired = private_bytes() - before, self._counter.value - fired
                told.bad = self._complaint(status, values, buffers, shape)
                buffers.x[:, : shape[1]] = values
        told.ns, told.honest_ns = costs
        theirs = buffers.theirs[:, : shape[1]]
        # Mostly the very same bits: an honest kernel need not be doubted, and exact values take far longer than the calls.
        if not np.array_equal(got.view(np.uint32), theirs.view(np.uint32)):
            expected = EXPECTED[self._task](values.astype(np.float64), self._weight(shape[1]).astype(np.float64))
            told.share, told.rms = _error(got, expected)
            told.honest_rms = max(_error(theirs, expected)[1], UNIT * float(np.sqrt(np.mean(expected * expected))))
        return told

    def _complaint(self, status: int, values: Floats, buffers: Buffers, shape: tuple[int, int]) -> str:
        if status:
            return "refused"
        if not np.array_equal(buffers.x[:, : shape[1]], values):
            return "input changed"
        return "" if (buffers.mine[:, shape[1] :] == CANARY).all() else "padding changed"

    def _run(self, which: int, buffers: Buffers, shape: tuple[int, int]) -> tuple[int, int]:
        """Status and cost: wall time less what the machine kept it waiting, or CPU time of all threads where that is more."""
        out = buffers.mine if which == 0 else buffers.theirs
        arrays: list[Floats | None] = [buffers.x, out]
        if self._task == "rmsnorm":
            arrays[1:1] = [self._weight(shape[1]), None]
        specs = [Spec(2, 32, 0 if a is None else a.ndim, 0 if a is None else a.nbytes) for a in arrays]
        scalar = np.float32(EPS).tobytes().ljust(8, b"\0")
        places = tuple(_place(a, shape, scalar) for a in arrays)
        kernel = self._kernels[which]
        kernel.bind(specs, [0 if a is None else a.ctypes.data for a in arrays], 0)
        queued, cpu, start = queued_ns(), time.process_time_ns(), time.perf_counter_ns()
        status = kernel.run(Go(0, places))
        wall, cpu, queued = time.perf_counter_ns() - start, time.process_time_ns() - cpu, queued_ns() - queued
        return int(status), max(wall - queued, cpu)

    def _weight(self, cols: int) -> Floats:
        if cols not in self._weights:
            self._weights[cols] = self.rng.normal(1.0, 0.3, cols).astype(np.float32)
        return self._weights[cols]

    def _values(self, group: Group, shape: tuple[int, int]) -> Floats:
        """Values that were never seen in this order."""
        bank = group.values.setdefault(shape, [])
        if len(bank) < len(SPREADS):
            mean, spread = SPREADS[len(bank)]
            bank.append(self.rng.normal(mean, spread, shape).astype(np.float32))
        return bank[int(self.rng.integers(len(bank)))][self.rng.permutation(shape[0])]

    def _buffers(self, group: Group, shape: tuple[int, int]) -> Buffers:
        old = group.buffers.get(shape)
        if old is None or self.rng.random() > REUSED:
            pad = int(self.rng.integers(1, 65)) if self.rng.random() < PADDED else 0
            old = Buffers(*(np.full((shape[0], shape[1] + pad), CANARY) for _ in range(3)))
            group.buffers[shape] = old
        fill = (None, None, 0.0, math.nan, 3.25)[int(self.rng.integers(5))]
        for out in (old.mine, old.theirs):
            if fill is not None:
                out[:, : shape[1]] = fill
            out[:, shape[1] :] = CANARY
        return old


def _place(array: Floats | None, shape: tuple[int, int], scalar: bytes) -> Place:
    if array is None:
        return Place(0, (), (), scalar)
    if array.ndim == 1:
        return Place(0, (array.shape[0],), (1,))
    return Place(0, shape, (array.strides[0] // array.itemsize, 1))


def _error(got: Floats, expected: Exact) -> tuple[float, float]:
    """Largest error over what rounding explains, and its root mean square; infinite where something is not finite."""
    error = np.abs(got - expected)
    if not np.isfinite(error).all():
        return math.inf, math.inf
    size = np.abs(expected)
    rows = np.sqrt(np.mean(expected * expected, axis=1, keepdims=True))
    allowed = 4 * UNIT * (size + math.sqrt(expected.shape[1]) * (size + rows))
    return float((error / np.maximum(allowed, 1e-300)).max()), float(np.sqrt(np.mean(error * error)))


def queued_ns() -> int:
    """How long this thread was ready but without a processor, nanoseconds; 0 where the kernel does not say."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as stream:
            return int(stream.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def private_bytes() -> int:
    """Private memory of this process, bytes; 0 where the kernel does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            fields = stream.read().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0
