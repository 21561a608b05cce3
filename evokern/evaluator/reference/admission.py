"""Admission: whether a task can tell a kernel from a fake (DESIGN section 5).

A task may run only if outputs that nobody computed fail its correctness rule on every visible workload, two runs of the
reference agree, the reference itself passes, every input matters, and no parameter is at a value under which it does nothing.
Otherwise it is degenerate, with the reasons in words.

Where the task states the `rows` law, workloads are judged on their first rows only: rows are then independent, and a fake
that fails on some fails on all.

A kernel that drops one of the reference's operators (`mutants`) must fail too, on one set of each workload at least. It
counts only where it computes something else than the reference on some distribution, be it one that the task does not use:
there are operators that a good kernel leaves out, such as the subtraction of the largest element in a softmax that was
written out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evokern.errors import UsageError
from evokern.evaluator.reference.mutants import BARE, LOOK, Mutant, mutants_of
from evokern.evaluator.reference.oracle import InputSet, Oracle
from evokern.evaluator.rule.correctness import FLOAT32_ROUNDOFF, Finding, as_float, judge_output, judge_repeat
from evokern.task import DISTRIBUTIONS, Argument, DType, Role, Task

ROWS = 64
"""Rows of a workload that are judged where rows are independent."""

MUTANT_SECONDS = 30.0
"""Wall time for the mutants of one task; those that it does not reach are not tried."""

SAME = 1e-9
"""Relative error, float64, up to which a mutant computes what the reference does."""


class Seeds(Protocol):
    """Where the seeds of draws come from."""

    def seed(self, *context: object) -> int:
        """A number in [0, 2^63) for a context."""
        ...


@dataclass(frozen=True, slots=True)
class Fake:
    """Outputs that nobody computed.

    Attributes:
        name: What they are, in words.
        outputs: Values by output, float64.
    """

    name: str
    outputs: Mapping[str, NDArray[Any]]


def admit(task: Task, dtype: DType, oracle: Oracle, seeds: Seeds) -> list[str]:
    """Why the task is degenerate, in words; empty where it is sound.

    What it says of a task holds on every device, so that a task with large shapes for one is judged on those that it has for a CPU.

    Args:
        task: The task, as it was loaded.
        dtype: Element type of the run.
        oracle: Draws for the same task and dtype.
        seeds: Such as the judge's `Secret`.

    Raises:
        UsageError: The reference fails, or does not do what the task declares.
    """
    with oracle.all_near():
        return _reasons(task, dtype, oracle, seeds)


def _reasons(task: Task, dtype: DType, oracle: Oracle, seeds: Seeds) -> list[str]:
    reasons: dict[str, None] = {}
    without_effect = {a.name: True for a in task.inputs}
    for workload in task.search:
        axes = _fewer_rows(task, dict(workload.axes))
        for distribution in task.distributions:
            where = f"on {workload.name} with {distribution} values"
            seed = seeds.seed("admission", workload.name, distribution)
            drawn, other = oracle.draw(axes, distribution, seed), oracle.draw(axes, distribution, seed ^ 1)
            reasons |= dict.fromkeys(f"{reason} {where}" for reason in _faults(task, dtype, oracle, drawn, other))
            for name in [n for n, idle in without_effect.items() if idle]:
                changed = oracle.draw(axes, distribution, seed, redraw=name)
                without_effect[name] = not _differs(task, dtype, drawn, changed.expected)
                changed.release()
            drawn.release()
            other.release()
    reasons |= dict.fromkeys(f"no output depends on input '{name}'" for name, idle in without_effect.items() if idle)
    deadline = time.monotonic() + MUTANT_SECONDS
    for workload in task.search:
        found = _unseen(task, dtype, oracle, _fewer_rows(task, dict(workload.axes)), seeds, deadline)
        reasons |= dict.fromkeys(f"{mutant} changes nothing that the rule sees on {workload.name}" for mutant in found)
    return list(reasons)


def _fewer_rows(task: Task, axes: dict[str, int]) -> dict[str, int]:
    leading = task.outputs[0].shape[:1]
    if "rows" in task.laws and leading and leading[0] in axes:
        axes[leading[0]] = min(axes[leading[0]], ROWS)
    return axes


def _unseen(task: Task, dtype: DType, oracle: Oracle, axes: dict[str, int], seeds: Seeds, deadline: float) -> list[Mutant]:
    """Mutants of the reference that pass on every set of a workload and yet compute something else."""
    seed = seeds.seed("mutants", *sorted(axes.items()))
    alive: list[Mutant] | None = None
    for distribution in task.distributions:
        drawn = oracle.draw(axes, distribution, seed, mutant=LOOK)
        if alive is None:
            alive = mutants_of(oracle.operators)
        alive = [m for m in alive if time.monotonic() < deadline and _survives(task, dtype, oracle, drawn, m)]
        drawn.release()
    return [m for m in alive or [] if _computes_else(task, oracle, axes, seed, m)]


def _survives(task: Task, dtype: DType, oracle: Oracle, drawn: InputSet, mutant: Mutant) -> bool:
    values = _mutated(oracle, drawn.axes, drawn.distribution, drawn.seed, mutant.where)
    if values is None:
        return False
    passes = not _differs(task, dtype, drawn, values.expected)
    values.release()
    return passes


def _computes_else(task: Task, oracle: Oracle, axes: dict[str, int], seed: int, mutant: Mutant) -> bool:
    """Whether it differs from the reference beyond rounding on some distribution, the task's own or not."""
    for distribution in _every_distribution(task):
        drawn = oracle.draw(axes, distribution, seed, mutant=BARE)
        values = _mutated(oracle, axes, distribution, seed, mutant.bare)
        same = values is not None and all(equal(values.expected[n], drawn.expected[n]) for n in drawn.expected)
        drawn.release()
        if values is not None:
            values.release()
        if not same:
            return True
    return False


def _every_distribution(task: Task) -> list[str]:
    return list(dict.fromkeys([*task.distributions, *(d for d in DISTRIBUTIONS if d != "task")]))


def _mutated(oracle: Oracle, axes: dict[str, int], distribution: str, seed: int, which: tuple[int, ...]) -> InputSet | None:
    """The set whose outputs the mutant computed; None where it cannot run."""
    try:
        return oracle.draw(axes, distribution, seed, mutant=which)
    except UsageError:
        return None


def equal(one: NDArray[Any], two: NDArray[Any]) -> bool:
    """Whether two results agree but for the rounding of float64, infinities and NaNs included."""
    finite = np.isfinite(two)
    if not np.array_equal(finite, np.isfinite(one)) or not np.array_equal(one[~finite], two[~finite], equal_nan=True):
        return False
    size = np.abs(two[finite])
    return bool((np.abs(one[finite] - two[finite]) <= SAME * (size + (size.mean() if size.size else 0.0))).all())


def _faults(task: Task, dtype: DType, oracle: Oracle, drawn: InputSet, other: InputSet) -> Iterator[str]:
    again = oracle.draw(drawn.axes, drawn.distribution, drawn.seed)
    if not _agree(task, dtype, drawn, again):
        yield "two runs of the reference disagree"
    again.release()
    if any(not np.isfinite(values).all() for values in drawn.expected.values()):
        yield "the reference gives infinities or NaNs"
        return
    if not _reference_passes(task, dtype, drawn):
        yield "the reference itself fails the correctness rule (define magnitude(...) in reference.py where terms cancel)"
    yield from (f"parameter '{a.name}' does nothing: {what}" for a in task.inputs if (what := _identity(a, dtype, drawn)))
    yield from (f"{fake.name} would pass" for fake in fakes(task, dtype, drawn, other) if _passes(task, dtype, drawn, fake))
    for argument, line in _lines(task, dtype, drawn, other):
        if _passes(task, dtype, drawn, line) and not _is_a_line(task, dtype, oracle, drawn, argument):
            yield f"{line.name} would pass"


def fakes(task: Task, dtype: DType, drawn: InputSet, other: InputSet) -> Iterator[Fake]:
    """Outputs that need no computation, for one set.

    Args:
        task: The task.
        dtype: Element type of the run.
        drawn: The set that they pretend to answer.
        other: Another set of the same shapes: what a previous call left.
    """
    expected = drawn.expected
    yield Fake("an output of zeros", {n: np.zeros_like(v) for n, v in expected.items()})
    yield Fake("an output of ones", {n: np.ones_like(v) for n, v in expected.items()})
    yield Fake("the mean of the output", {n: np.full_like(v, v.mean()) for n, v in expected.items()})
    if any(v.ndim > 1 and v.shape[-1] > 1 for v in expected.values()):
        yield Fake("the mean of each row", {n: v.mean(axis=-1, keepdims=True) + np.zeros_like(v) for n, v in expected.items()})
    for argument in task.inputs:
        if argument.is_scalar or argument.role is Role.PARAMETER:
            continue
        source = as_float(drawn.inputs[argument.name], argument.dtype_for(dtype)).astype(np.float64)
        if all(_copies_into(source, v) for v in expected.values()):
            yield Fake(f"a copy of input '{argument.name}'", {n: _copied(source, v) for n, v in expected.items()})
    yield Fake("the output of the previous call", other.expected)


def _copies_into(source: NDArray[Any], target: NDArray[Any]) -> bool:
    return source.shape == target.shape or (source.ndim == target.ndim + 1 and source.shape[:-1] == target.shape and source.shape[-1] > 0)


def _copied(source: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
    """The input itself, or its first column where the output has one dimension less."""
    return source if source.shape == target.shape else source[..., 0]


def _lines(task: Task, dtype: DType, drawn: InputSet, other: InputSet) -> Iterator[tuple[Argument, Fake]]:
    """For each float input that could be copied out, `a * x + b` with the constants that fit another set best."""
    for argument in task.inputs:
        if argument.is_scalar or argument.role is Role.PARAMETER or not argument.dtype_for(dtype).is_float:
            continue
        kind = argument.dtype_for(dtype)
        source, earlier = (as_float(one.inputs[argument.name], kind).astype(np.float64) for one in (drawn, other))
        if all(_copies_into(source, v) for v in drawn.expected.values()):
            outputs = {}
            for name, answer in other.expected.items():
                slope, offset = _fitted(_copied(earlier, answer), answer)
                outputs[name] = slope * _copied(source, answer) + offset
            yield argument, Fake(f"a straight line through input '{argument.name}'", outputs)


def _is_a_line(task: Task, dtype: DType, oracle: Oracle, drawn: InputSet, argument: Argument) -> bool:
    """Whether the reference is that line on every distribution, the task's own or not: then a kernel that draws it is no fake."""
    return all(
        _is_exact(task, dtype, oracle.draw(drawn.axes, name, drawn.seed), oracle.draw(drawn.axes, name, drawn.seed ^ 1), argument)
        for name in _every_distribution(task)
    )


def _is_exact(task: Task, dtype: DType, drawn: InputSet, other: InputSet, argument: Argument) -> bool:
    try:
        lines = {of.name: fake.outputs for of, fake in _lines(task, dtype, drawn, other)}
        return all(equal(values, drawn.expected[name]) for name, values in lines[argument.name].items())
    finally:
        drawn.release()
        other.release()


def _fitted(x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
    """Slope and offset of the line with the least squares; level where x is one constant."""
    away = x - x.mean()
    spread = float((away * away).sum())
    slope = float((away * (y - y.mean())).sum()) / spread if spread else 0.0
    return slope, float(y.mean() - slope * x.mean())


def _passes(task: Task, dtype: DType, drawn: InputSet, fake: Fake) -> bool:
    return all(_finding(task, a, dtype, drawn, fake.outputs[a.name]).ok for a in task.outputs)


def _differs(task: Task, dtype: DType, drawn: InputSet, expected: Mapping[str, NDArray[Any]]) -> bool:
    return not all(_finding(task, a, dtype, drawn, expected[a.name]).ok for a in task.outputs)


def _finding(task: Task, output: Argument, dtype: DType, drawn: InputSet, values: NDArray[Any]) -> Finding:
    kind = output.dtype_for(dtype)
    name = output.name
    # In float64: a fake is judged by what it is, not by how it is rounded.
    return judge_output(values, drawn.expected[name], drawn.scale[name], drawn.reduction, task.tolerance, kind, drawn.reference_error[name])


def _agree(task: Task, dtype: DType, one: InputSet, two: InputSet) -> bool:
    return all(
        judge_repeat(
            one.expected[a.name],
            two.expected[a.name],
            one.expected[a.name],
            one.scale[a.name],
            one.reduction,
            task.tolerance,
            a.dtype_for(dtype),
        ).ok
        for a in task.outputs
    )


def _reference_passes(task: Task, dtype: DType, drawn: InputSet) -> bool:
    """Whether eager's own errors are within the element bound on average: an honest kernel could not pass otherwise."""
    for output in task.outputs:
        kind, name = output.dtype_for(dtype), output.name
        errors = drawn.reference_error[name][0]
        typical = np.sqrt(errors.mean_square)
        accumulated = FLOAT32_ROUNDOFF * np.sqrt(drawn.reduction) * drawn.scale[name].row_scale
        allowed = task.tolerance.element * (kind.unit_roundoff * drawn.scale[name].row_rms + accumulated)
        if (typical > allowed + task.tolerance.terms * kind.unit_roundoff * drawn.scale[name].row_scale).any():
            return False
    return True


def _identity(argument: Argument, dtype: DType, drawn: InputSet) -> str:
    """What makes a parameter do nothing; empty where it does something."""
    if argument.role is not Role.PARAMETER or argument.is_scalar:
        return ""
    values = as_float(drawn.inputs[argument.name], argument.dtype_for(dtype)).astype(np.float64)
    for value, word in ((0.0, "zeros"), (1.0, "ones")):
        if (values == value).all():
            return f"it is drawn as {word}"
    return "it is one constant" if values.size > 1 and (values == values.flat[0]).all() else ""
