"""Task: what must be computed, on which shapes, how exactly.

A task is a folder with `task.toml`, `reference.py` and `seeds/` (DESIGN section 5). Field names follow FlashInfer-Trace's
Definition where it has them (axes, inputs, outputs, constraints). Loading reads and checks every field and never runs the
reference: that is the oracle's work, in a process of its own.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import operator
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from evokern.errors import UsageError


class Role(StrEnum):
    """What an argument is for; the caller allocates every one of them."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    PARAMETER = "parameter"
    WORKSPACE = "workspace"
    WORKSPACE_ZEROED = "workspace_zeroed"
    STATIC = "static"


class DType(StrEnum):
    """Element types, with FlashInfer-Trace's names."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    INT64 = "int64"
    INT32 = "int32"
    INT8 = "int8"
    BOOL = "bool"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        sizes = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "int64": 8, "int32": 4, "int8": 1, "bool": 1}
        return sizes[self.value]

    @property
    def unit_roundoff(self) -> float:
        """Half the distance from 1 to the next number (0 for integers)."""
        return {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float8_e4m3fn": 2.0**-4}.get(self.value, 0.0)

    @property
    def is_float(self) -> bool:
        """Whether values are rounded."""
        return self.unit_roundoff > 0

    @property
    def dlpack(self) -> tuple[int, int]:
        """DLPack's type code and bits (dlpack.h: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn)."""
        return {
            "float32": (2, 32),
            "float16": (2, 16),
            "bfloat16": (4, 16),
            "float8_e4m3fn": (10, 8),
            "int64": (0, 64),
            "int32": (0, 32),
            "int8": (0, 8),
            "bool": (6, 8),
        }[self.value]


DISTRIBUTIONS: dict[str, str] = {
    "normal": "standard normal",
    "wide": "normal with standard deviation 10",
    "tiny": "normal with standard deviation 1e-3",
    "shifted": "normal around 50",
    "spiked": "normal, one element in 97 multiplied by 40",
    "integers": "whole numbers from -4 to 4",
    "task": "whatever make_inputs of the reference draws",
}
"""Value distributions that a task may name; the oracle draws them."""

LAWS: dict[str, str] = {
    "rows": "changing one row of the inputs changes the same row of the outputs only, so rows may be permuted together",
    "integers": "from whole numbers come whole numbers, and the very ones: on the distribution `integers` outputs are exact",
}
"""Metamorphic laws that a task may claim and the evaluator tests."""

POLICIES = ("ieee", "tf32")
RESIDENCIES = ("cold", "warm")
DEVICES = ("cpu", "gpu")
"""Kinds of devices that a task may have shapes of its own for, see `Task.on`."""

SEARCHABLE = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
RUN_DTYPE = "dtype"
"""How task.toml names the element type a run is for."""


UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `ast` raises of a text that is no Python: a null byte is a ValueError, and nesting too deep one of the last two."""


def evaluate_expression(text: str, axes: Mapping[str, int]) -> int:
    """The value of an arithmetic expression over axes, such as `rows * cols`.

    Args:
        text: Whole numbers, axis names, + - * / // % and parentheses.
        axes: Value of each axis.

    Returns:
        The value, rounded down to a whole number.

    Raises:
        UsageError: The text is not such an expression, or names an axis that does not exist.
    """
    return _evaluated(text, tuple(sorted(axes.items())))


@lru_cache(4096)
def _evaluated(text: str, items: tuple[tuple[str, int], ...]) -> int:
    # Every call of every kernel asks for the same few shapes.
    axes = dict(items)
    operations: dict[type[ast.operator], Callable[[float, float], float]] = {
        ast.Add: lambda a, b: a + b,
        ast.Sub: lambda a, b: a - b,
        ast.Mult: lambda a, b: a * b,
        ast.FloorDiv: lambda a, b: a // b,
        ast.Div: lambda a, b: a / b,
        ast.Mod: lambda a, b: a % b,
    }

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.Name) and node.id in axes:
            return axes[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in operations:
            return float(operations[type(node.op)](value(node.left), value(node.right)))
        raise UsageError(f"'{text}' is not an arithmetic expression over the axes {', '.join(sorted(axes))}")

    try:
        return math.floor(value(ast.parse(text, mode="eval").body))
    except (*UNREADABLE, ArithmeticError) as error:
        raise UsageError(f"'{text}' is not an arithmetic expression: {error}") from error


def constraints_hold(constraints: Sequence[str], axes: Mapping[str, int]) -> bool:
    """Whether axes satisfy constraints such as `cols % 8 == 0` or `1 <= rows < cols`.

    Args:
        constraints: Comparisons of arithmetic expressions.
        axes: Value of each axis.

    Raises:
        UsageError: A constraint is not a comparison of arithmetic expressions over the axes.
    """
    return all(_comparison_holds(text, axes) for text in constraints)


def _comparison_holds(text: str, axes: Mapping[str, int]) -> bool:
    comparisons: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
    }
    try:
        node = ast.parse(text, mode="eval").body
        unparsed = [ast.unparse(side) for side in (node.left, *node.comparators)] if isinstance(node, ast.Compare) else []
    except UNREADABLE as error:
        raise UsageError(f"'{text}' is not a comparison: {error}") from error
    if not isinstance(node, ast.Compare) or any(type(op) not in comparisons for op in node.ops):
        raise UsageError(f"'{text}' is not a comparison of arithmetic expressions", mend="Such as 'cols % 8 == 0'")
    sides = [evaluate_expression(side, axes) for side in unparsed]
    return all(comparisons[type(op)](a, b) for op, a, b in zip(node.ops, sides, sides[1:], strict=False))


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the kernel, in the task's order.

    Attributes:
        name: As in the reference's `run`.
        shape: One expression over axes per dimension; empty for a scalar, which kernels receive as a 0-d host tensor.
        dtype: A `DType` name, or "dtype" for the one the run is for.
        role: What it is for.
        value: A scalar's fixed value, or None where the oracle draws it.
    """

    name: str
    shape: tuple[str, ...]
    dtype: str
    role: Role
    value: float | None = None

    @property
    def is_scalar(self) -> bool:
        """Whether it travels by value."""
        return not self.shape

    def dtype_for(self, dtype: DType) -> DType:
        """Its element type in a run for `dtype`."""
        return dtype if self.dtype == RUN_DTYPE else DType(self.dtype)

    def shape_for(self, axes: Mapping[str, int]) -> tuple[int, ...]:
        """Its shape where the axes have these values."""
        return tuple(evaluate_expression(text, axes) for text in self.shape)


@dataclass(frozen=True, slots=True)
class Workload:
    """One visible point of the task's shape space.

    Attributes:
        axes: Value of every axis, sorted by name.
        residency: Where the inputs are before a timed call: "cold" (evicted) or "warm".
    """

    axes: tuple[tuple[str, int], ...]
    residency: str = "cold"

    @property
    def name(self) -> str:
        """Axes as text, such as `cols=4096,rows=2048`."""
        return ",".join(f"{axis}={value}" for axis, value in self.axes)


@dataclass(frozen=True, slots=True)
class HeldOutSpace:
    """Where the secret workloads are drawn from.

    Attributes:
        axes: Inclusive range per axis.
        count: How many workloads one epoch holds.
        max_elements: Upper bound of the product of the axes, so that a draw fits in memory.
        layouts: "contiguous", "offset" (base address at any element), "padded" (row stride above the row length).
    """

    axes: tuple[tuple[str, int, int], ...]
    count: int = 8
    max_elements: int = 1 << 23
    layouts: tuple[str, ...] = ("contiguous", "offset", "padded")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Constants of the correctness rule (EVALUATOR section 4, check). A task that changes one says why.

    Attributes:
        element: Factor on the element bound, see `evokern.evaluator.rule.correctness`.
        rms_reference: Factor on the reference's own RMS error.
        rms_floor: Multiple of u_out RMS(y) that is always allowed.
        bias_sigma: Standard errors by which the mean signed error may be off zero.
        bias_floor: Multiple of u_out mean|y|, and of u_acc mean|terms| where a task tells them, that the mean signed error may always have.
        terms: Factor on u_out s that is added to the element bound, where terms may be rounded to the run's type before they are added up.
        reason: Why a task departs from the defaults.
    """

    element: float = 4.0
    rms_reference: float = 1.5
    rms_floor: float = 0.3
    bias_sigma: float = 4.0
    bias_floor: float = 0.5
    terms: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """What the computation must move and do, as expressions of the axes (bytes for a 4-byte dtype use `itemsize`)."""

    bytes_read: str
    bytes_written: str
    flops: str


@dataclass(frozen=True, slots=True)
class Task:
    """What must be computed, on which shapes, how exactly; loaded from a folder by `load_task`.

    Attributes:
        name: Unique within its suite; `[a-z0-9_]+`.
        suite: Folder above it.
        description: One or two sentences.
        dtypes: Element types a run may be for.
        policy: Precision policy that kernels and baselines obey.
        axes: Names of the axes.
        arguments: Inputs, then outputs, in the order of the call.
        reduction: Expression for K, the longest sum behind one output element.
        constraints: Boolean expressions over axes that every workload satisfies.
        search: Visible workloads.
        held_out: Where the secret ones are drawn from.
        search_gpu: Visible workloads where the device is a GPU; empty where they are those of `search`.
        held_out_gpu: Where the secret ones are then drawn from; None for `held_out`.
        distributions: Names from `DISTRIBUTIONS`.
        laws: Names from `LAWS`.
        tolerance: Constants of the correctness rule.
        cost: Bytes and flops.
        deterministic: Whether repeats must be bit-equal.
        reference: Source text of reference.py.
        digest: sha256 over every file that decides a verdict, hex.
        folder: Where it was loaded from.
    """

    name: str
    suite: str
    description: str
    dtypes: tuple[DType, ...]
    policy: str
    axes: tuple[str, ...]
    arguments: tuple[Argument, ...]
    reduction: str
    constraints: tuple[str, ...]
    search: tuple[Workload, ...]
    held_out: HeldOutSpace
    search_gpu: tuple[Workload, ...]
    held_out_gpu: HeldOutSpace | None
    distributions: tuple[str, ...]
    laws: tuple[str, ...]
    tolerance: Tolerance
    cost: Cost
    deterministic: bool
    reference: str
    digest: str
    folder: Path = field(compare=False)

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """Arguments that carry values into the call, scalars and parameters included."""
        return tuple(a for a in self.arguments if a.role in (Role.IN, Role.INOUT, Role.PARAMETER, Role.STATIC))

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """Arguments whose final content is judged."""
        return tuple(a for a in self.arguments if a.role in (Role.OUT, Role.INOUT))

    def on(self, device: str) -> Task:
        """The task as it is run on a kind of device: with the shapes that it has for that kind, else as it is.

        What keeps one processor busy for a millisecond is over on a GPU before its clock sees it.

        Args:
            device: From `DEVICES`.

        Raises:
            UsageError: There is no such kind.
        """
        if device not in DEVICES:
            raise UsageError(f"'{device}' is no kind of device", mend=f"One of {', '.join(DEVICES)}")
        if device == "cpu":
            return self
        return replace(self, search=self.search_gpu or self.search, held_out=self.held_out_gpu or self.held_out)

    def bytes_moved(self, axes: Mapping[str, int], dtype: DType) -> tuple[int, int]:
        """Bytes that must be read and written on a workload, at least."""
        names = {**axes, "itemsize": dtype.itemsize}
        return evaluate_expression(self.cost.bytes_read, names), evaluate_expression(self.cost.bytes_written, names)


def default_dtype(task: Task, *, gpu: bool) -> DType:
    """The dtype of a run that names none: float32 on a CPU, bfloat16 on a GPU, else the task's first."""
    wanted = DType.BFLOAT16 if gpu else DType.FLOAT32
    return wanted if wanted in task.dtypes else task.dtypes[0]


class _Fields:
    """A TOML table that is read field by field, so that a misspelt field is an error with its place."""

    def __init__(self, table: Any, where: str) -> None:
        if not isinstance(table, dict):
            raise UsageError(f"must be a table, not {type(table).__name__}", where=where)
        self.table, self.where, self.read = table, where, set[str]()

    def take(self, name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        self.read.add(name)
        if name not in self.table:
            if default is ...:
                raise UsageError(f"field '{name}' is missing", where=self.where)
            return default
        value = self.table[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            names = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)
            raise UsageError(f"field '{name}' must be {names}, not {value!r}", where=self.where)
        return value

    def choice(self, name: str, allowed: Any, default: Any = ...) -> str:
        value = str(self.take(name, str, default))
        if value not in allowed:
            raise UsageError(f"field '{name}' is '{value}', must be one of {', '.join(map(str, allowed))}", where=self.where)
        return value

    def names(self, name: str, allowed: Any, default: Any = ...) -> tuple[str, ...]:
        values = tuple(str(v) for v in self.take(name, list, default))
        for value in values:
            if value not in allowed:
                raise UsageError(f"'{value}' in '{name}' is not one of {', '.join(map(str, allowed))}", where=self.where)
        return values

    def done(self) -> None:
        unknown = sorted(set(self.table) - self.read)
        if unknown:
            raise UsageError(f"unknown field '{unknown[0]}'; known here: {', '.join(sorted(self.read))}", where=self.where)


def _argument(name: str, table: Any, axes: tuple[str, ...], where: str, default_role: Role) -> Argument:
    fields = _Fields(table, f"{where} [{name}]")
    shape = fields.take("shape", list, None)
    dtype = fields.choice("dtype", [RUN_DTYPE, *DType])
    role = Role(fields.choice("role", list(Role), str(default_role)))
    value = fields.take("value", (int, float), None)
    fields.take("description", str, "")
    fields.done()
    argument = Argument(name, tuple(map(str, shape or ())), dtype, role, None if value is None else float(value))
    try:
        argument.shape_for(dict.fromkeys(axes, 3))
    except UsageError as error:
        raise UsageError(error.what, where=fields.where) from error
    if default_role is Role.OUT and role not in (Role.OUT, Role.INOUT):
        raise UsageError(f"an output cannot have role '{role}'", where=fields.where)
    return argument


def _workload(table: Any, axes: tuple[str, ...], where: str) -> Workload:
    fields = _Fields(table, where)
    values = fields.take("axes", dict)
    residency = fields.choice("residency", RESIDENCIES, "cold")
    fields.done()
    if set(values) != set(axes):
        raise UsageError(f"axes must be exactly {', '.join(axes)}", where=where)
    for axis, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"axis '{axis}' must be a whole number of at least 1, not {value!r}", where=where)
    return Workload(tuple(sorted(values.items())), residency)


def _workloads(tables: list[Any], name: str, axes: tuple[str, ...], where: str) -> tuple[Workload, ...]:
    return tuple(_workload(table, axes, f"{where} [[{name}]] {number}") for number, table in enumerate(tables, 1))


def _held_out(table: Any, name: str, axes: tuple[str, ...], where: str) -> HeldOutSpace:
    fields = _Fields(table, f"{where} [{name}]")
    ranges = fields.take("axes", dict)
    if set(ranges) != set(axes):
        raise UsageError(f"axes must be exactly {', '.join(axes)}", where=fields.where)
    for axis, bounds in ranges.items():
        good = isinstance(bounds, list) and len(bounds) == 2 and all(isinstance(b, int) for b in bounds)  # noqa: PLR2004 - a pair
        if not good or not 1 <= bounds[0] <= bounds[1]:
            raise UsageError(f"axis '{axis}' needs a range [low, high] with 1 <= low <= high, not {bounds!r}", where=fields.where)
    space = HeldOutSpace(
        tuple(sorted((axis, int(low), int(high)) for axis, (low, high) in ranges.items())),
        int(fields.take("count", int, 8)),
        int(fields.take("max_elements", int, 1 << 23)),
        fields.names("layouts", ("contiguous", "offset", "padded"), ["contiguous", "offset", "padded"]),
    )
    fields.done()
    if space.count < 1 or space.max_elements < 1:
        raise UsageError("'count' and 'max_elements' must be at least 1", where=fields.where)
    return space


def _tolerance(table: Any, where: str) -> Tolerance:
    fields = _Fields(table, f"{where} [tolerance]")
    standard = Tolerance()
    names = ("element", "rms_reference", "rms_floor", "bias_sigma", "bias_floor", "terms")
    tolerance = Tolerance(
        **{n: float(fields.take(n, (int, float), getattr(standard, n))) for n in names}, reason=fields.take("reason", str, "")
    )
    fields.done()
    if tolerance != standard and not tolerance.reason:
        raise UsageError("a changed constant needs a 'reason'", where=fields.where)
    return tolerance


def _checked_python(source: str, where: str) -> None:
    try:
        tree = ast.parse(source)
    except UNREADABLE as error:
        raise UsageError(f"not valid Python: {error}", where=where) from error
    if not any(isinstance(n, ast.FunctionDef) and n.name == "run" for n in tree.body):
        raise UsageError("defines no top-level function 'run'", where=where)


def _checked_expressions(task: Task, where: str) -> None:
    try:
        for workload in (*task.search, *task.search_gpu):
            if not constraints_hold(task.constraints, dict(workload.axes)):
                raise UsageError(f"search workload {workload.name} breaks a constraint")
        for expression in (task.reduction, task.cost.bytes_read, task.cost.bytes_written, task.cost.flops):
            evaluate_expression(expression, {**dict.fromkeys(task.axes, 3), "itemsize": 4})
    except UsageError as error:
        raise UsageError(error.what, where=where, mend=error.mend) from error


def load_task(folder: Path) -> Task:
    """The task in a folder.

    Args:
        folder: Holds `task.toml` and `reference.py`.

    Raises:
        UsageError: A file or field is missing, unknown or wrong; the message names it.
    """
    where = str(folder / "task.toml")
    try:
        raw = (folder / "task.toml").read_bytes()
        reference = (folder / "reference.py").read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot be read as a task: {error}", where=str(folder), mend="A task folder holds task.toml and reference.py"
        ) from error
    try:
        table = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not valid TOML: {error}", where=where) from error

    fields = _Fields(table, where)
    axes = tuple(fields.take("axes", list))
    for axis in axes:
        if not (isinstance(axis, str) and axis.isidentifier()):
            raise UsageError(f"an axis is named by a word, not {axis!r}", where=where)
    inputs = fields.take("inputs", dict)
    outputs = fields.take("outputs", dict)
    if not axes or not outputs or set(inputs) & set(outputs):
        raise UsageError("needs at least one axis and one output, and input and output names that differ", where=where)
    arguments = tuple(_argument(n, t, axes, where, Role.IN) for n, t in inputs.items())
    arguments += tuple(_argument(n, t, axes, where, Role.OUT) for n, t in outputs.items())
    _checked_python(reference, str(folder / "reference.py"))
    cost = _Fields(fields.take("cost", dict), f"{where} [cost]")
    held_out_gpu = fields.take("held_out_gpu", dict, None)
    task = Task(
        name=str(fields.take("name", str)),
        suite=folder.parent.name,
        description=str(fields.take("description", str)),
        dtypes=tuple(DType(d) for d in fields.names("dtypes", SEARCHABLE)),
        policy=fields.choice("policy", POLICIES, "ieee"),
        axes=axes,
        arguments=arguments,
        reduction=str(fields.take("reduction", str, "1")),
        constraints=tuple(map(str, fields.take("constraints", list, []))),
        search=_workloads(fields.take("search", list), "search", axes, where),
        held_out=_held_out(fields.take("held_out", dict), "held_out", axes, where),
        search_gpu=_workloads(fields.take("search_gpu", list, []), "search_gpu", axes, where),
        held_out_gpu=None if held_out_gpu is None else _held_out(held_out_gpu, "held_out_gpu", axes, where),
        distributions=fields.names("distributions", DISTRIBUTIONS, ["normal", "wide", "tiny", "shifted", "spiked", "integers"]),
        laws=fields.names("laws", LAWS, []),
        tolerance=_tolerance(fields.take("tolerance", dict, {}), where),
        cost=Cost(*(str(cost.take(n, str)) for n in ("bytes_read", "bytes_written", "flops"))),
        deterministic=bool(fields.take("deterministic", bool, False)),
        reference=reference,
        digest=hashlib.sha256(b"evokern.task/1\0" + raw + b"\0" + reference.encode()).hexdigest(),
        folder=folder,
    )
    cost.done()
    fields.done()
    if not task.search or not task.dtypes or not task.distributions:
        raise UsageError("needs at least one search workload, dtype and distribution", where=where)
    _checked_expressions(task, where)
    return task


def task_to_json(task: Task) -> dict[str, Any]:
    """The visible half of a task, for `--json`; nothing of the held-out space beyond its ranges."""
    return {
        "name": task.name,
        "suite": task.suite,
        "description": task.description,
        "dtypes": list(task.dtypes),
        "policy": task.policy,
        "axes": list(task.axes),
        "arguments": [{"name": a.name, "shape": list(a.shape), "dtype": a.dtype, "role": a.role} for a in task.arguments],
        "search": [{**dict(w.axes), "residency": w.residency} for w in task.search],
        "search_gpu": [{**dict(w.axes), "residency": w.residency} for w in task.search_gpu],
        "distributions": list(task.distributions),
        "laws": list(task.laws),
        "digest": task.digest,
        "folder": str(task.folder),
    }


def canonical_json(value: Any) -> bytes:
    """Bytes that are equal for equal values: sorted keys, no white space, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
