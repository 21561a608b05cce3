"""The oracle: draws inputs and computes what the outputs should be (EVALUATOR section 1).

Two halves. `serve` runs in a slot of its own, for the reference and `make_inputs` are the task's code: it is given one set's
seed at a time and is believed for values only. `Oracle` is the judge's end; it never imports torch. Requests and answers are
small JSON datagrams; tensors travel through memory that the judge allocates and reuses.

Every value comes from (seed, distribution, axes) alone. Float inputs are drawn by distribution; what `make_inputs` returns
takes the place of integers, scalars and flags, and under the distribution "task" of floats too. Parameters are standard
normal under every distribution, so they are never at an identity value. Expected outputs are the reference's in float64 on
the very values that kernels get in the run's dtype.

A draw of `edges.NAME` has its float inputs at the ends of what the element type holds, as far as the reference is definite there.

On a device everything is drawn, computed and summed up there (`_DeviceServer`). What large outputs should be stays there too, in the
oracle's own memory, which no kernel's process maps; the judge asks for the rows that it looks at, after the call. Such an answer may
have been forgotten for want of memory: the draw is then made again, and gives the same bits.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import math
import mmap
import os
import socket
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evokern import record
from evokern.errors import Unavailable, UsageError
from evokern.evaluator.call.mapped import keep_memory_mapped
from evokern.evaluator.device.far import FAR_BYTES, kept_bytes
from evokern.evaluator.reference import edges
from evokern.evaluator.reference.mutants import LOOK, MOST_OPERATORS, dropped
from evokern.evaluator.rule.correctness import FLOAT32_ROUNDOFF, Floats, RowErrors, Scale, as_rows, row_errors, rows_within, scale_of
from evokern.task import RUN_DTYPE, Argument, DType, Role, Task, Tolerance, evaluate_expression

if TYPE_CHECKING:
    import torch

ENTRY = "evokern.evaluator.reference.oracle:serve"
"""What a slot runs."""

MODULES = ("torch", "evokern.evaluator.reference.oracle")
"""What its zygote imports."""

MAX_DATAGRAM = 1 << 16
SECONDS = 120.0
"""How long one draw may take."""

_ALIGNMENT = 64
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_NUMPY = {DType.FLOAT32: "f4", DType.FLOAT16: "f2", DType.BFLOAT16: "u2", DType.FLOAT8_E4M3FN: "u1"}
_NUMPY |= {DType.INT64: "i8", DType.INT32: "i4", DType.INT8: "i1", DType.BOOL: "?"}
_ROW_PARTS = ("row_rms", "row_mean", "row_scale", "row_terms", "eager_square", "eager_mean", "nearby_square")
_CHANGED_SCALAR = 2.0
_EDGES_TRIED = 4

Rows = NDArray[np.intp]
_Place = tuple[int | None, str, tuple[int, ...]]
"""Offset, dtype and shape of an array in a block; None where it stays on the device."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one output should be, and how it is judged, on all rows of a set or on some.

    Attributes:
        expected: Oracle's value, float64: in the output's shape where it is of all rows, else [rows, elements of a row].
        scale: How large it is.
        reference_error: Errors of the references, eager's first.
    """

    expected: Floats
    scale: Scale
    reference_error: list[RowErrors]


class Expected(Mapping[str, Floats]):
    """What outputs should be, by name; one that stayed on the device is fetched whole, every time that it is looked at.

    Args:
        near: Values that are here.
        far: Names of those that are not.
        fetch: Fetches one of them.
    """

    def __init__(self, near: Mapping[str, Floats], far: Sequence[str] = (), fetch: Callable[[str], Floats] | None = None) -> None:
        self._near, self.far, self._fetch = near, frozenset(far), fetch
        self._names = [*near, *far]

    def __getitem__(self, name: str) -> Floats:
        if name not in self.far:
            return self._near[name]
        assert self._fetch is not None
        return self._fetch(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass
class InputSet:
    """One draw: inputs, and what the outputs should be.

    Attributes:
        axes: Of the workload.
        distribution: How floats were drawn.
        seed: Of the draw.
        inputs: By argument, contiguous, in the run's dtype (bfloat16 as its bits, uint16); scalars as 0-d arrays.
        expected: Oracle's value of each output, float64, [shape of the output].
        scale: How large it is, per output; of one that stayed on the device without its magnitude, which `of` adds.
        reference_error: Errors of the references on these values, per output; eager's is first.
        reduction: K, the longest sum behind an output element.
    """

    axes: dict[str, int]
    distribution: str
    seed: int
    inputs: dict[str, NDArray[Any]]
    expected: Expected
    scale: dict[str, Scale]
    reference_error: dict[str, list[RowErrors]]
    reduction: int
    _block: _Block = field(repr=False)
    _owner: Oracle = field(repr=False)
    _request: Mapping[str, Any] = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it holds."""
        return self._block.size

    def add_reference(self, outputs: Mapping[str, NDArray[Any]], dtype: DType) -> None:
        """Take another reference's outputs on these inputs, such as the compiled one's, into the rule's e_ref."""
        for name, actual in outputs.items():
            if self.is_far(name):
                self.reference_error[name].append(self._owner.errors(self._request, name, actual))
            else:
                self.reference_error[name].append(row_errors(actual, self.expected[name], dtype))

    def is_far(self, name: str) -> bool:
        """Whether what an output should be stayed on the device, so that to see all of it takes long."""
        return name in self.expected.far

    def of(self, name: str, rows: Rows | None = None) -> Answer:
        """What an output should be; the oracle is asked where that stayed on the device.

        Args:
            name: Of the output.
            rows: Rows of the set, as `correctness.as_rows` counts them; None for all.
        """
        scale, errors = self.scale[name], self.reference_error[name]
        if self.is_far(name):
            expected, magnitude = self._owner.answer(self._request, name, rows)
        else:
            expected, magnitude = self.expected[name], scale.magnitude
            if rows is not None:
                expected, magnitude = as_rows(expected)[rows], None if magnitude is None else as_rows(magnitude)[rows]
        if rows is None:
            return Answer(expected, replace(scale, magnitude=magnitude), errors)
        allowance = None if scale.allowance is None else scale.allowance[rows]
        rms, mean, size, terms = (one[rows] for one in (scale.row_rms, scale.row_mean, scale.row_scale, scale.row_terms))
        some = [RowErrors(one.mean_square[rows], one.mean[rows]) for one in errors]
        return Answer(expected, Scale(rms, mean, size, terms, magnitude, allowance), some)

    def release(self) -> None:
        """Give the memory back to the oracle for its next draw; no array of this set may be used afterwards."""
        self.inputs, self.expected, self.scale, self.reference_error = {}, Expected({}), {}, {}
        self._owner.forget(self._request)
        self._owner.take_back(self._block)


class Oracle:
    """The judge's end of an oracle.

    Args:
        sock: Sequenced socket to a process that runs `serve` with `argument(task, dtype)`.
        task: Whose inputs and outputs.
        dtype: Element type of the run.

    Attributes:
        on_device: Whether it computes on a device, and keeps there what large outputs should be.

    Raises:
        UsageError: The reference cannot be loaded.
        Unavailable: The process ended or does not answer.
    """

    KEPT_BLOCKS = 4
    FAR_BYTES = FAR_BYTES

    def __init__(self, sock: socket.socket, task: Task, dtype: DType) -> None:
        self.task, self.dtype = task, dtype
        self._sock = sock
        self._sock.settimeout(SECONDS)
        self._free: list[_Block] = []
        self._has_magnitude = defines(task.reference, "magnitude")
        self.operators: list[list[Any]] = []  # of the last draw that asked for a mutant, see `mutants.dropped`
        self._draws, self._forgotten = 0, list[int]()
        self.on_device = bool(self._ask({"op": "load"}).get("on_device"))
        self._keeps = self.on_device

    def draw(
        self,
        axes: Mapping[str, int],
        distribution: str,
        seed: int,
        *,
        redraw: str = "",
        factor: float = 1.0,
        mutant: tuple[int, ...] | None = None,
    ) -> InputSet:
        """One set of inputs with its expected outputs.

        Args:
            axes: Value of every axis.
            distribution: Name from `evokern.task.DISTRIBUTIONS`, or `edges.NAME`.
            seed: In [0, 2^63); equal arguments give equal bits on the same machine.
            redraw: Name of one input that is drawn from another seed, all others staying as they are; a scalar of fixed
                value is doubled. Empty for none.
            factor: By which every float scalar of fixed value is multiplied.
            mutant: Which operator of the reference to drop in what is expected, see `mutants.dropped`; None for none. But for
                `LOOK`, only `expected` of the set is then filled.

        Raises:
            UsageError: The reference fails, or returns something that the task does not declare.
            Unavailable: The process ended or does not answer.
        """
        axes = dict(axes)
        plan = self._plan(axes)
        block = self._block_for(plan.size)
        self._draws += 1
        request: dict[str, Any] = {"axes": axes, "distribution": distribution, "seed": seed, "redraw": redraw, "places": plan.places}
        request |= {"reduction": self._reduction(axes), "factor": factor, "mutant": mutant, "number": self._draws}
        try:
            answer = self._ask({"op": "draw", **request, "forgotten": self._forgotten}, [block.descriptor])
        except UsageError:
            self.take_back(block)
            raise
        self._forgotten = []
        arrays = {name: block.array(place) for name, place in plan.places.items() if place[0] is not None}
        self.operators = answer["operators"]
        return self._input_set(request, arrays, answer["scalars"], block)

    @contextmanager
    def all_near(self) -> Iterator[None]:
        """For the length of a block, draws leave nothing on the device: for who looks at all of every output."""
        before, self._keeps = self._keeps, False
        try:
            yield
        finally:
            self._keeps = before

    def answer(self, drawn: Mapping[str, Any], name: str, rows: Rows | None) -> tuple[Floats, Floats | None]:
        """What an output that stayed on the device should be, and its magnitude where the reference tells it.

        Args:
            drawn: The request that drew the set.
            name: Of the output.
            rows: See `InputSet.of`.
        """
        shape = drawn["places"][f"out.{name}"][2]
        plan = _Plan()
        if rows is not None:
            shape = (len(rows), shape[-1] if len(shape) > 1 else 1)
            plan.add("rows", "i8", (len(rows),))
        parts = ["out", *(["magnitude"] if self._has_magnitude else [])]
        for part in parts:
            plan.add(part, "f8", shape)
        block = _Block(plan.size)
        if rows is not None:
            block.array(plan.places["rows"])[...] = rows
        try:
            self._ask({"op": "rows", "drawn": drawn, "output": name, "places": plan.places}, [block.descriptor])
        finally:
            block.close()
        found = [block.array(plan.places[part]) for part in parts]
        return found[0], found[1] if self._has_magnitude else None

    def errors(self, drawn: Mapping[str, Any], name: str, actual: NDArray[Any]) -> RowErrors:
        """How far a reference's output is from what it should be, where that stayed on the device.

        Args:
            drawn: The request that drew the set.
            name: Of the output.
            actual: The reference's, in the run's dtype.
        """
        plan = _Plan()
        plan.add("actual", actual.dtype.str[1:], actual.shape)
        for part in ("square", "mean"):
            plan.add(part, "f8", (_row_count(actual.shape),))
        block = self._block_for(plan.size)
        block.array(plan.places["actual"])[...] = actual
        try:
            self._ask({"op": "errors", "drawn": drawn, "output": name, "places": plan.places}, [block.descriptor])
            return RowErrors(block.array(plan.places["square"]).copy(), block.array(plan.places["mean"]).copy())
        finally:
            self.take_back(block)

    def forget(self, drawn: Mapping[str, Any]) -> None:
        """The device's memory for a set is wanted no more; the process is told with the next draw."""
        if self.on_device:
            self._forgotten.append(drawn["number"])

    def take_back(self, block: _Block) -> None:
        """Keep a block for the next draw, or unmap it where enough are kept."""
        if len(self._free) < self.KEPT_BLOCKS:
            self._free.append(block)
        else:
            block.close()

    def close(self) -> None:
        """Hang up; the process ends by itself. Sets that are still held stay valid."""
        self._sock.close()
        for block in self._free:
            block.close()
        self._free.clear()

    def _plan(self, axes: Mapping[str, int]) -> _Plan:
        plan = _Plan()
        for argument in self.task.inputs:
            if not argument.is_scalar:
                plan.add(f"in.{argument.name}", _NUMPY[argument.dtype_for(self.dtype)], argument.shape_for(axes))
        for argument in self.task.outputs:
            shape = argument.shape_for(axes)
            add = plan.leave if self._keeps and self._is_large(argument, shape) else plan.add
            add(f"out.{argument.name}", "f8", shape)
            for part in (*_ROW_PARTS, "allowance"):
                plan.add(f"{part}.{argument.name}", "f8", (_row_count(shape),))
            if self._has_magnitude:
                add(f"magnitude.{argument.name}", "f8", shape)
        return plan

    def _is_large(self, argument: Argument, shape: tuple[int, ...]) -> bool:
        return math.prod(shape) * argument.dtype_for(self.dtype).itemsize > self.FAR_BYTES

    def _input_set(
        self, request: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], scalars: Mapping[str, float], block: _Block
    ) -> InputSet:
        inputs: dict[str, NDArray[Any]] = {}
        for argument in self.task.inputs:
            kind = _NUMPY[argument.dtype_for(self.dtype)]
            inputs[argument.name] = np.array(scalars[argument.name], kind) if argument.is_scalar else arrays[f"in.{argument.name}"]
        names = [argument.name for argument in self.task.outputs]
        scales = {n: self._scale(arrays, n) for n in names}
        errors = {n: [RowErrors(arrays[f"eager_square.{n}"], arrays[f"eager_mean.{n}"]), self._nearby(arrays, n)] for n in names}
        near = {n: arrays[f"out.{n}"] for n in names if f"out.{n}" in arrays}
        expected = Expected(near, [n for n in names if n not in near], lambda name: self.answer(request, name, None)[0])
        axes, distribution, seed = request["axes"], request["distribution"], request["seed"]
        return InputSet(axes, distribution, seed, inputs, expected, scales, errors, request["reduction"], block, self, request)

    @staticmethod
    def _nearby(arrays: Mapping[str, NDArray[Any]], name: str) -> RowErrors:
        """What rounding the inputs once in float32 changes counts as a reference's error: exp2(x log2(e) - m log2(e)) is no better.

        Of its mean nothing is told: signs are drawn.
        """
        square = arrays[f"nearby_square.{name}"]
        return RowErrors(square, np.zeros(len(square)))

    @staticmethod
    def _scale(arrays: Mapping[str, NDArray[Any]], name: str) -> Scale:
        rms, mean, scale, terms = (arrays[f"{part}.{name}"] for part in ("row_rms", "row_mean", "row_scale", "row_terms"))
        return Scale(rms, mean, scale, terms, arrays.get(f"magnitude.{name}"), arrays[f"allowance.{name}"])

    def _reduction(self, axes: Mapping[str, int]) -> int:
        return max(1, evaluate_expression(self.task.reduction, axes))

    def _block_for(self, size: int) -> _Block:
        for index in reversed(range(len(self._free))):  # the last one given back is the likeliest to be in a cache
            if size <= self._free[index].size <= 2 * size:
                return self._free.pop(index)
        return _Block(size)

    def _ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        try:
            socket.send_fds(self._sock, [json.dumps(request).encode()], list(descriptors))
            data = self._sock.recv(MAX_DATAGRAM)
        except TimeoutError as error:
            raise Unavailable(f"the oracle did not answer within {SECONDS:.0f} s", where=self.task.name) from error
        except OSError as error:
            raise Unavailable(f"the oracle's process ended: {error}", where=self.task.name) from error
        if not data:
            raise Unavailable("the oracle's process ended", where=self.task.name, mend="It may have run out of memory")
        answer = record.fields(data)
        if "error" in answer:
            raise UsageError(str(answer["error"]), where=str(self.task.folder / "reference.py"))
        return answer


def argument(task: Task, dtype: DType, *, on_device: bool = False, device: str = "cuda") -> bytes:
    """The argument that `serve` is started with.

    Args:
        task: Whose reference.
        dtype: Element type of the run.
        on_device: Whether values are drawn and computed on a device.
        device: Which, as PyTorch names it.
    """
    arguments = [
        {
            "name": a.name,
            "scalar": a.is_scalar,
            "dtype": str(a.dtype_for(dtype)),
            "own": a.dtype == RUN_DTYPE,
            "role": str(a.role),
            "shape": list(a.shape),
            "value": a.value,
        }
        for a in task.arguments
    ]
    where = device if on_device else ""
    settings = {"reference": task.reference, "arguments": arguments, "dtype": str(dtype), "policy": task.policy, "device": where}
    rule = {"element": task.tolerance.element, "terms": task.tolerance.terms}
    return json.dumps({**settings, **rule, "rows": has_edges_by_row(task)}).encode()


def has_edges_by_row(task: Task) -> bool:
    """Whether a row of the inputs decides the same row of every output and nothing else, so that rows may be at different edges."""
    leading = task.outputs[0].shape[:1]
    return "rows" in task.laws and bool(leading) and all(a.shape[:1] == leading for a in task.outputs)


def defines(source: str, name: str) -> bool:
    """Whether a module's text has a top-level function of that name."""
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in ast.parse(source).body)


class _Block:
    """Memory shared with the oracle's process: sealed in size, so that it cannot be cut off under the judge."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.descriptor = os.memfd_create("set", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEALS)
        self._map = mmap.mmap(self.descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)

    def array(self, place: _Place) -> NDArray[Any]:
        """The array at a place."""
        offset, kind, shape = place
        assert offset is not None
        return np.ndarray(tuple(shape), np.dtype(kind), self._map, offset)

    def close(self) -> None:
        # The map goes with the last array on it.
        os.close(self.descriptor)


class _Plan:
    """Where each array lies in a block."""

    def __init__(self) -> None:
        self.size = mmap.PAGESIZE
        self.places: dict[str, _Place] = {}

    def add(self, name: str, kind: str, shape: tuple[int, ...]) -> None:
        offset = -(-self.size // _ALIGNMENT) * _ALIGNMENT
        self.places[name] = (offset, kind, shape)
        self.size = offset + np.dtype(kind).itemsize * int(np.prod(shape, dtype=np.int64))

    def leave(self, name: str, kind: str, shape: tuple[int, ...]) -> None:
        """Note an array that stays on the device."""
        self.places[name] = (None, kind, shape)


def _row_count(shape: Sequence[int]) -> int:
    return math.prod(shape[:-1] if len(shape) > 1 else shape)


# From here on: the process that holds the reference.


def serve(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Answer the judge until it hangs up.

    Args:
        sock: Sequenced socket to the judge.
        descriptors: None are expected.
        argument: As `argument` makes it.
    """
    keep_memory_mapped()
    settings = json.loads(argument)
    server = _DeviceServer(settings) if settings["device"] else _Server(settings)
    while True:
        data, received, _, _ = socket.recv_fds(sock, MAX_DATAGRAM, 1)
        if not data:
            return
        try:
            answer = server.answer(json.loads(data), received)
        except _ReferenceError as refusal:
            answer = {"error": str(refusal)}
        finally:
            for descriptor in received:
                os.close(descriptor)
        sock.send(json.dumps(answer).encode())


class _ReferenceError(Exception):
    """The reference does not do what the task declares."""


class _Measures(NamedTuple):
    """What is found of outputs: by `rule.correctness` and `edges` in numpy, or by `on_device` in torch."""

    scale_of: Callable[..., Scale] = scale_of
    row_errors: Callable[..., RowErrors] = row_errors
    rows_within: Callable[..., Any] = rows_within
    allowance: Callable[..., Any] = edges.allowance
    ordinary_allowance: Callable[..., Any] = edges.ordinary_allowance


class _Server:
    """Draws and computes on the host, in the memory that the judge sent."""

    measures = _Measures()

    def __init__(self, settings: Mapping[str, Any]) -> None:
        import torch

        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        torch.set_float32_matmul_precision("high" if settings["policy"] == "tf32" else "highest")
        self.torch = torch
        self.device = torch.device(settings["device"] or "cpu")
        self.settings = settings
        self.dtype: torch.dtype = getattr(torch, settings["dtype"])
        self.inputs = [a for a in settings["arguments"] if a["role"] not in (Role.OUT, Role.WORKSPACE, Role.WORKSPACE_ZEROED)]
        self.outputs = [a for a in settings["arguments"] if a["role"] in (Role.OUT, Role.INOUT)]
        self.names: dict[str, Any] = {}
        self.operators: list[list[Any]] = []

    def answer(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
        if request["op"] == "load":
            self.names = load_reference(self.settings["reference"])
            return {}
        # Closed with the last array on it, when the draw is done.
        return self._draw(request, mmap.mmap(descriptors[0], 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE))

    def _draw(self, request: Mapping[str, Any], shared: mmap.mmap) -> dict[str, Any]:
        arrays = {
            name: np.ndarray(tuple(shape), np.dtype(kind), shared, offset) for name, (offset, kind, shape) in request["places"].items()
        }
        return self._told(self._drawn(request, arrays))

    def _drawn(self, request: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Fill the arrays of a set; returns its inputs."""
        inputs = self._inputs(request, {name: tuple(place[2]) for name, place in request["places"].items()})
        if request["distribution"] == edges.NAME:
            return self._computed_at_edges(request, inputs, arrays)
        self._compute(request, inputs, arrays, request["mutant"])
        return inputs

    def _told(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        scalars = {n: v for n, v in inputs.items() if not isinstance(v, self.torch.Tensor)}
        return {"scalars": scalars, "operators": self.operators[:MOST_OPERATORS]}

    def _held(self, tensor: torch.Tensor) -> Any:
        """A tensor as `measures` take it."""
        return _to_numpy(tensor)

    def _put(self, arrays: Mapping[str, Any], name: str, content: Any) -> None:
        """Set one array of a draw to what `_held` or a measure gave."""
        arrays[name][...] = content

    def _on_host(self, found: Any) -> NDArray[Any]:
        """What a measure gave, for numpy."""
        result: NDArray[Any] = found
        return result

    def _computed_at_edges(self, request: Mapping[str, Any], inputs: dict[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Compute with inputs at edges, those left as they were for which the reference is not definite; the inputs at last."""
        by_row = self.settings["rows"]
        inputs = self._with_large_parameters(request, inputs, arrays)
        kept = np.ones(arrays[f"out.{self.outputs[0]['name']}"].shape[0] if by_row else 1, np.bool_)
        for attempt in range(_EDGES_TRIED):
            moved = self._at_edges(request, inputs, attempt, kept)
            eager = self._compute(request, moved, arrays)
            self._allow_rounded_inputs(request, moved, arrays, np.where(kept, edges.of_rows(len(kept)), -1))
            definite = self._definite_rows(eager, arrays, request["reduction"])
            if (definite | ~kept).all():
                return moved
            kept &= definite | (not by_row)
        self._compute(request, inputs, arrays)
        for output in self.outputs:
            arrays[f"allowance.{output['name']}"][...] = 0.0
        return inputs

    def _with_large_parameters(self, request: Mapping[str, Any], inputs: dict[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Ordinary inputs whose parameters have large entries, where the reference is definite on them; else the inputs as they are."""
        chance, moved = self._generator(request, "large parameters", False), dict(inputs)
        for one in self.inputs:
            if not one["scalar"] and self._is_float(one) and one["role"] == Role.PARAMETER:
                moved[one["name"]] = edges.some_large(self.torch, inputs[one["name"]], chance)
        if all(moved[name] is value for name, value in inputs.items()):
            return inputs
        eager = self._compute(request, moved, arrays)
        return moved if self._definite_rows(eager, arrays, request["reduction"]).all() else inputs

    def _at_edges(self, request: Mapping[str, Any], inputs: Mapping[str, Any], attempt: int, kept: NDArray[np.bool_]) -> dict[str, Any]:
        """By row all edges at once, but for rows that are not kept; else one edge after the other for all of a tensor."""
        leading, moved = self.outputs[0]["shape"][:1], dict(inputs)
        order = self.torch.randperm(len(edges.KINDS), generator=self._generator(request, "edge", False), device=self.device)
        for one in self.inputs:
            name = one["name"]
            if one["scalar"] or not self._is_float(one) or one["role"] == Role.PARAMETER:
                continue
            chance = self._generator(request, f"{name} at an edge", False)
            if not self.settings["rows"]:
                moved[name] = edges.whole(self.torch, inputs[name], chance, edges.KINDS[int(order[attempt])])
            elif one["shape"][:1] == leading:
                moved[name] = edges.rows(self.torch, inputs[name], chance)
                left = self.torch.from_numpy(~kept).to(self.device)
                moved[name][left] = inputs[name][left]
        return moved

    def _allow_rounded_inputs(
        self, request: Mapping[str, Any], inputs: Mapping[str, Any], arrays: Mapping[str, Any], edge: NDArray[np.intp]
    ) -> None:
        """Write what outputs may be off by because of how inputs are rounded, see `edges.allowance`."""
        changed = []
        for number in range(edges.NEARBY):
            changed.append(self._nearby(request, inputs, arrays, number))
        for output in self.outputs:
            name = output["name"]
            others = [self._held(outputs[name]) for outputs in changed]
            self._put(arrays, f"allowance.{name}", self.measures.allowance(arrays[f"out.{name}"], others, edge))

    def _nearby(
        self, request: Mapping[str, Any], inputs: Mapping[str, Any], arrays: Mapping[str, Any], number: int
    ) -> dict[str, torch.Tensor]:
        """The reference in float64 on inputs that were rounded once, up or down by chance."""
        chance = self._generator(request, f"nearby {number}", False)
        moved = {n: edges.nearby(self.torch, v, FLOAT32_ROUNDOFF, chance) if self._is_wide(v) else _copied(v) for n, v in inputs.items()}
        return self._outputs("run", moved, arrays, self.torch.float64)

    def _is_wide(self, value: Any) -> bool:
        return isinstance(value, self.torch.Tensor) and value.is_floating_point()

    def _definite_rows(self, eager: Mapping[str, Any], arrays: Mapping[str, Any], reduction: int) -> NDArray[np.bool_]:
        """On which rows the reference is finite and tells something, and eager is well within the rule; one entry for a whole tensor."""
        tolerance = Tolerance(element=self.settings["element"], terms=self.settings["terms"])
        found: list[Any] = []
        for output in self.outputs:
            name, kind = output["name"], DType(output["dtype"])
            expected = arrays[f"out.{name}"]
            allowance = arrays[f"allowance.{name}"]
            scale = replace(self.measures.scale_of(expected, arrays.get(f"magnitude.{name}")), allowance=allowance)
            definite = self.measures.rows_within(eager[name], expected, scale, reduction, tolerance, kind, edges.SHARE)
            definite &= allowance <= edges.MOST_ALLOWED * scale.row_rms
            within = self._on_host(definite)
            found.append(within.reshape(expected.shape[0] if self.settings["rows"] else 1, -1).all(axis=1))
        together: NDArray[np.bool_] = np.logical_and.reduce(found)
        return together

    def _compute(
        self,
        request: Mapping[str, Any],
        inputs: Mapping[str, Any],
        arrays: Mapping[str, Any],
        mutant: Sequence[int] | None = None,
    ) -> dict[str, Any]:
        """Write inputs, expected outputs and what the rule needs of them; returns eager's outputs."""
        for name, value in inputs.items():
            if isinstance(value, self.torch.Tensor):
                self._put(arrays, f"in.{name}", self._held(value))
        # Computed on values of their own: a reference that works in place would otherwise change what kernels get.
        wide = {n: v.double() if self._is_wide(v) else _copied(v) for n, v in inputs.items()}
        with dropped(mutant) as self.operators:
            expected = self._outputs("run", wide, arrays, self.torch.float64)
        if mutant is not None and tuple(mutant) != LOOK:
            # Compared with another set's outputs: of this one nothing but its values is wanted.
            for output in self.outputs:
                self._put(arrays, f"out.{output['name']}", self._held(expected[output["name"]]))
            return {}
        magnitude = self._outputs("magnitude", wide, arrays, self.torch.float64) if "magnitude" in self.names else {}
        del wide
        eager = self._outputs("run", {n: _copied(v) for n, v in inputs.items()}, arrays, None)
        for output in self.outputs:
            self._write_output(output, arrays, expected[output["name"]], magnitude.get(output["name"]), eager[output["name"]])
        nearby = self._nearby(request, inputs, arrays, 0)
        for name in (output["name"] for output in self.outputs):
            values, moved = arrays[f"out.{name}"], self._held(nearby[name])
            self._put(arrays, f"nearby_square.{name}", self.measures.row_errors(moved, values, DType.FLOAT32).mean_square)
            allowed = self.measures.ordinary_allowance(values, moved, self.settings["element"], arrays[f"row_rms.{name}"])
            self._put(arrays, f"allowance.{name}", allowed)
        return {name: self._held(value) for name, value in eager.items()}

    def _write_output(
        self,
        output: Mapping[str, Any],
        arrays: Mapping[str, Any],
        expected: torch.Tensor,
        magnitude: torch.Tensor | None,
        eager: torch.Tensor,
    ) -> None:
        name = output["name"]
        self._put(arrays, f"out.{name}", self._held(expected))
        if magnitude is not None:
            self._put(arrays, f"magnitude.{name}", self._held(magnitude.abs()))
        values = arrays[f"out.{name}"]
        scale = self.measures.scale_of(values, arrays.get(f"magnitude.{name}"))
        errors = self.measures.row_errors(self._held(eager), values, DType(output["dtype"]))
        parts = {"row_rms": scale.row_rms, "row_mean": scale.row_mean, "row_scale": scale.row_scale, "row_terms": scale.row_terms}
        for part, content in {**parts, "eager_square": errors.mean_square, "eager_mean": errors.mean}.items():
            self._put(arrays, f"{part}.{name}", content)

    def _inputs(self, request: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
        """Every input by name: tensors in their dtype, scalars as Python numbers."""
        made = self._made_inputs(request, "")
        remade = self._made_inputs(request, request["redraw"]) if request["redraw"] in made else made
        inputs: dict[str, Any] = {}
        for argument in self.inputs:
            name = argument["name"]
            redrawn = name == request["redraw"]
            source = remade if redrawn else made
            if argument["value"] is not None:
                inputs[name] = self._fixed(argument, redrawn, request["factor"])
            elif name in source and (argument["scalar"] or not self._drawn_by_distribution(argument, request["distribution"])):
                inputs[name] = self._checked_input(argument, source[name], shapes.get(f"in.{name}", ()))
            elif not argument["own"] and not self._is_float(argument):
                raise _ReferenceError(f"input '{name}' has dtype {argument['dtype']}: make_inputs must draw it")
            else:
                generator = self._generator(request, name, redrawn)
                inputs[name] = self._float(argument, request["distribution"], shapes.get(f"in.{name}", ()), generator)
        return inputs

    def _made_inputs(self, request: Mapping[str, Any], redraw: str) -> dict[str, Any]:
        if "make_inputs" not in self.names:
            if request["distribution"] == "task":
                raise _ReferenceError("distribution 'task' needs a function make_inputs(axes, dtype, generator)")
            return {}
        # On the host wherever the reference computes: the task's code says of no tensor where it is to be.
        chance = self._generator(request, "make_inputs", bool(redraw), on_host=True)
        made = self._call("make_inputs", dict(request["axes"]), self.dtype, chance)
        if not isinstance(made, dict) or not set(made) <= {a["name"] for a in self.inputs}:
            raise _ReferenceError("make_inputs must return a dict from names of inputs to tensors or numbers")
        return made

    def _drawn_by_distribution(self, argument: Mapping[str, Any], distribution: str) -> bool:
        return distribution != "task" and self._is_float(argument)

    def _is_float(self, argument: Mapping[str, Any]) -> bool:
        return DType(argument["dtype"]).is_float

    def _fixed(self, argument: Mapping[str, Any], redrawn: bool, factor: float) -> float | int:
        value = argument["value"] * factor if self._is_float(argument) else argument["value"]
        if redrawn:
            value = value * _CHANGED_SCALAR if value else 1.0
        # As the kernel receives it: rounded to its type.
        rounded = self.torch.tensor(value, dtype=getattr(self.torch, argument["dtype"])).item()
        return float(rounded) if self._is_float(argument) else int(rounded)

    def _generator(self, request: Mapping[str, Any], name: str, redrawn: bool, *, on_host: bool = False) -> torch.Generator:
        text = json.dumps([request["seed"], request["distribution"], name, redrawn])
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
        return self.torch.Generator("cpu" if on_host else self.device).manual_seed(seed)

    def _float(self, argument: Mapping[str, Any], distribution: str, shape: tuple[int, ...], generator: torch.Generator) -> Any:
        kind = "normal" if argument["role"] == Role.PARAMETER or distribution == edges.NAME else distribution
        values = _DRAWS[kind](self.torch, shape, generator).to(getattr(self.torch, argument["dtype"]))
        return float(values) if argument["scalar"] else values

    def _checked_input(self, argument: Mapping[str, Any], value: Any, shape: tuple[int, ...]) -> Any:
        name, kind = argument["name"], getattr(self.torch, argument["dtype"])
        if argument["scalar"]:
            return self.torch.as_tensor(value).to(kind).item()
        if not isinstance(value, self.torch.Tensor) or tuple(value.shape) != shape or value.dtype is not kind:
            declared = f"{argument['dtype']} of shape {list(shape)}"
            raise _ReferenceError(f"make_inputs returned {_described(value)} for '{name}', the task declares {declared}")
        return value.contiguous().to(self.device)

    def _outputs(
        self, function: str, inputs: Mapping[str, Any], arrays: Mapping[str, Any], dtype: torch.dtype | None
    ) -> dict[str, torch.Tensor]:
        """What the reference returns, checked against the task's outputs; floats as `dtype`, or their own where None."""
        returned = self._call(function, *inputs.values())
        values = returned if isinstance(returned, tuple | list) else (returned,)
        if len(values) != len(self.outputs):
            raise _ReferenceError(f"{function} returns {len(values)} values, the task declares {len(self.outputs)} outputs")
        results = {}
        for output, value in zip(self.outputs, values, strict=True):
            name, shape = output["name"], arrays[f"out.{output['name']}"].shape
            kind = getattr(self.torch, output["dtype"]) if dtype is None or not self._is_float(output) else dtype
            if function != "run":
                kind = self.torch.float64
            if not isinstance(value, self.torch.Tensor) or tuple(value.shape) != shape or value.dtype is not kind:
                text = f"{function} returned {_described(value)} for '{name}', should be {kind} of shape {list(shape)}"
                raise _ReferenceError(text.replace("torch.", ""))
            results[name] = value.detach().contiguous().resolve_conj().to(self.device)
        return results

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            return self.names[function](*arguments)
        except Exception as error:
            raise _ReferenceError(f"{function} failed: {type(error).__name__}: {error}"[:2000]) from error


class _DeviceServer(_Server):
    """Draws and computes on a device, and keeps there what large outputs should be."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        from evokern.evaluator.reference import on_device

        names = _Measures._fields
        self.measures = _Measures(*(getattr(on_device, name) for name in names))
        self._kept: OrderedDict[int, dict[str, torch.Tensor]] = OrderedDict()

    def answer(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
        if request["op"] == "load":
            return {**super().answer(request, descriptors), "on_device": True}
        shared = mmap.mmap(descriptors[0], 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        work = {"draw": self._draw, "rows": self._hand_out_rows, "errors": self._find_errors}[request["op"]]
        full = self.torch.cuda.OutOfMemoryError
        try:
            return work(request, shared)
        except (_ReferenceError, full) as error:
            if not self._kept or not isinstance(error.__cause__ or error, full):
                raise
        # Others want the device's memory too, and what is kept here can be found again.
        self._kept.clear()
        self.torch.cuda.empty_cache()
        return work(request, shared)

    def _draw(self, request: Mapping[str, Any], shared: mmap.mmap) -> dict[str, Any]:
        for number in request["forgotten"]:
            self._kept.pop(number, None)
        inputs, arrays = self._arrays(request)
        for name, place in request["places"].items():
            if place[0] is not None and not arrays[name].is_meta:
                self._shared(shared, place, arrays[name].dtype).copy_(arrays[name])
        return self._told(inputs)

    def _arrays(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """A set's inputs, and its arrays as tensors; those that nobody asks for have a shape alone."""
        arrays = {name: self.torch.empty(tuple(shape), device="meta") for name, (_, _, shape) in request["places"].items()}
        inputs = self._drawn(request, arrays)
        left = {name: arrays[name] for name, place in request["places"].items() if place[0] is None}
        if left:
            self._kept[request["number"]] = left
            most = kept_bytes(self.device)
            while len(self._kept) > 1 and sum(one.nbytes for kept in self._kept.values() for one in kept.values()) > most:
                self._kept.popitem(last=False)
        return inputs, arrays

    def _answers(self, drawn: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """What stayed here of a draw, which is made again where that was forgotten."""
        if drawn["number"] not in self._kept:
            self._arrays(drawn)
        self._kept.move_to_end(drawn["number"])
        return self._kept[drawn["number"]]

    def _hand_out_rows(self, request: Mapping[str, Any], shared: mmap.mmap) -> dict[str, Any]:
        places, answers = request["places"], self._answers(request["drawn"])
        for part in ("out", "magnitude"):
            if part not in places:
                continue
            found = answers[f"{part}.{request['output']}"]
            if "rows" in places:
                rows = self._shared(shared, places["rows"], self.torch.int64).to(self.device)
                found = found.reshape(-1, found.shape[-1] if found.ndim > 1 else 1).index_select(0, rows)
            self._shared(shared, places[part], found.dtype).copy_(found)
        return {}

    def _find_errors(self, request: Mapping[str, Any], shared: mmap.mmap) -> dict[str, Any]:
        places, name = request["places"], request["output"]
        kind = DType(next(one["dtype"] for one in self.outputs if one["name"] == name))
        actual = self._shared(shared, places["actual"], getattr(self.torch, kind)).to(self.device)
        errors: Any = self.measures.row_errors(actual, self._answers(request["drawn"])[f"out.{name}"], kind)
        for part, found in (("square", errors.mean_square), ("mean", errors.mean)):
            self._shared(shared, places[part], found.dtype).copy_(found)
        return {}

    def _shared(self, shared: mmap.mmap, place: Sequence[Any], kind: torch.dtype) -> torch.Tensor:
        """The tensor at a place of the judge's memory."""
        offset, _, shape = place
        if not math.prod(shape):
            return self.torch.empty(tuple(shape), dtype=kind)
        return self.torch.frombuffer(shared, dtype=kind, count=math.prod(shape), offset=offset).view(tuple(shape))

    def _held(self, tensor: torch.Tensor) -> Any:
        return tensor

    def _put(self, arrays: Any, name: str, content: Any) -> None:
        arrays[name] = content if name.startswith("in.") else content.double()

    def _on_host(self, found: Any) -> NDArray[Any]:
        result: NDArray[Any] = found.cpu().numpy()
        return result


def load_reference(source: str) -> dict[str, Any]:
    """The names that a reference's text defines.

    Raises:
        _ReferenceError: It fails while it is loaded.
    """
    module = types.ModuleType("reference")
    # Compilers of PyTorch look up where a function comes from.
    sys.modules[module.__name__] = module
    names = vars(module)
    try:
        exec(compile(source, "reference.py", "exec"), names)
    except Exception as error:
        raise _ReferenceError(f"cannot be loaded: {type(error).__name__}: {error}"[:2000]) from error
    return names


def _normal(torch: Any, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    values: torch.Tensor = torch.randn(shape, generator=generator, device=generator.device)
    return values


def _spiked(torch: Any, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    values = _normal(torch, shape, generator)
    first = int(torch.randint(0, min(97, max(values.numel(), 1)), (), generator=generator, device=generator.device))
    values.view(-1)[first::97] *= 40
    return values


_DRAWS: dict[str, Callable[[Any, tuple[int, ...], Any], Any]] = {
    "normal": _normal,
    "wide": lambda torch, shape, generator: _normal(torch, shape, generator).mul_(10),
    "tiny": lambda torch, shape, generator: _normal(torch, shape, generator).mul_(1e-3),
    "shifted": lambda torch, shape, generator: _normal(torch, shape, generator).add_(50),
    "spiked": _spiked,
    "integers": lambda torch, shape, generator: torch.randint(-4, 5, shape, generator=generator, device=generator.device).float(),
    "task": _normal,
}


def drawn(distribution: str, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Float32 values of a distribution from `evokern.task.DISTRIBUTIONS`."""
    import torch

    values: torch.Tensor = _DRAWS[distribution](torch, tuple(shape), generator)
    return values


def _copied(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value


def _to_numpy(tensor: torch.Tensor) -> NDArray[Any]:
    import torch

    if tensor.dtype is torch.bfloat16:
        tensor = tensor.view(torch.int16)
    if tensor.dtype is torch.float8_e4m3fn:
        tensor = tensor.view(torch.uint8)
    result: NDArray[Any] = tensor.numpy()
    return result.view(np.uint16) if result.dtype == np.int16 else result


def _described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{value.dtype} of shape {list(shape)}"
