"""What happens around one call: inputs in, a verified snapshot out (EVALUATOR section 3, steps 0 to 5).

The slot is frozen whenever this code touches its windows, so that what is read is one moment's memory: nothing is copied.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Caller, Fault
from evokern.evaluator.call.contestant import Axes
from evokern.evaluator.call.window import (
    Bytes,
    Placed,
    canary_broken,
    fill,
    is_unmistakable,
    is_written,
    sentinel_left,
    sentinel_word,
    words,
)
from evokern.evaluator.reference.oracle import InputSet
from evokern.evaluator.rule import correctness
from evokern.task import DType, Role, Task

TILE_ROWS = 32
"""Secret rows checked after a timed call. A kernel that is wrong on a share f of the rows of a call is missed with (1 - f)^32."""

PEEK_SECONDS = 0.05
"""How long an unfinished call is watched, to tell work that goes on from work that was never done."""

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call's values and where they lie.

    Attributes:
        placed: All arguments, in order.
        values: The set of inputs and expected outputs.
        rows: Secret permutation of the rows, or None where they lie as drawn.
        sentinels: Pattern of each output's window, by name.
        prefill: What the outputs held before: "sentinel", "zeros", or "stale", a plausible answer to another question.
    """

    placed: Sequence[Placed]
    values: InputSet
    rows: Rows | None
    sentinels: dict[str, Bytes]
    prefill: str = "sentinel"


def has_rows(task: Task, placed: Placed) -> bool:
    """Whether an argument's leading axis is the one that the `rows` law speaks of."""
    leading = task.outputs[0].shape[:1]
    return placed.argument.shape[:1] == leading and placed.argument.role is not Role.PARAMETER


def write(
    task: Task,
    caller: Caller,
    axes: Axes,
    values: InputSet,
    rng: np.random.Generator,
    *,
    layout: str,
    permute: bool,
    places: np.random.Generator | None = None,
) -> Exchange:
    """Write one call's inputs and sentinels into a frozen runner's windows.

    Args:
        task: Whose call.
        caller: The runner.
        axes: Of the workload.
        values: The set.
        rng: Secret chance: offsets, strides, sentinels, permutation.
        layout: "contiguous", "offset" or "padded".
        permute: Whether to permute rows, where the task states that law.
        places: Chance of offsets and strides alone, to call twice at the same addresses; `rng` where None.
    """
    assert caller.frame is not None
    scalars = {a.name: values.inputs[a.name] for a in task.arguments if a.is_scalar}
    placed = caller.frame.place(axes, layout, scalars, places or rng)
    rows = rng.permutation(placed[-1].view.shape[0]) if permute and "rows" in task.laws else None
    sentinels = {}
    # A timed call is checked in tiles, which a stale answer could slip through; there outputs hold the sentinel or zeros.
    prefill = str(rng.choice(["sentinel", "sentinel", "sentinel", "zeros"] if permute else ["sentinel", "sentinel", "zeros", "stale"]))
    for one in placed:
        if one.window is None:
            continue
        if is_written(one):
            sentinels[one.argument.name] = sentinel_word(one.dtype, rng)
            fill(one.window, sentinels[one.argument.name])
            _prefill(one, values, prefill)
        if one.argument.role is not Role.OUT:
            source = values.inputs[one.argument.name]
            if rows is not None and has_rows(task, one):
                # mode="clip" lets numpy write straight into the window; a permutation is never out of range.
                np.take(source, rows, axis=0, out=one.view, mode="clip")
            else:
                one.view[...] = source
    if caller.frame.workspace is not None:
        fill(caller.frame.workspace, rng.integers(0, 256, 4, np.uint8))
    return Exchange(placed, values, rows, sentinels, prefill)


def _prefill(one: Placed, values: InputSet, prefill: str) -> None:
    """Put something into an output that a kernel may take for its own work."""
    if one.argument.role is not Role.OUT or prefill == "sentinel" or one.dtype is DType.BFLOAT16:
        return
    if prefill == "zeros":
        one.view[...] = 0
    else:
        expected = values.expected[one.argument.name]
        one.view[...] = np.roll(expected, 1, axis=0) if expected.shape[0] > 1 else expected * 2 + 1


def verify_all(task: Task, caller: Caller, exchange: Exchange) -> float:
    """Check every byte that a call may have written, and every one it may not.

    Returns:
        The worst error as a share of what the rule allows.

    Raises:
        Fault: Something is wrong; the detail names the argument and the kind of error.
    """
    worst = 0.0
    for one in exchange.placed:
        if one.window is None:
            continue
        if is_written(one):
            word = exchange.sentinels[one.argument.name]
            _refuse_unwritten(caller, exchange, one)
            worst = max(worst, _verify_values(task, caller, exchange, one))
            if canary_broken(one, word):
                raise Fault(Verdict.WRONG, Reason.CANARY, f"memory beside '{one.argument.name}' was written")
        elif not _unchanged(task, exchange, one):
            raise Fault(Verdict.WRONG, Reason.INPUT_CHANGED, f"'{one.argument.name}' was changed")
    return worst


def verify_tiles(task: Task, caller: Caller, exchange: Exchange, rng: np.random.Generator) -> None:
    """Check a timed call: every output element written, and secret rows right.

    Raises:
        Fault: Something is wrong.
    """
    for one in exchange.placed:
        if is_written(one):
            _refuse_unwritten(caller, exchange, one)
            size = one.view.shape[0]
            tile = np.sort(rng.choice(size, min(size, TILE_ROWS), replace=False)) if "rows" in task.laws else None
            _verify_values(task, caller, exchange, one, tile)


def _verify_values(task: Task, caller: Caller, exchange: Exchange, one: Placed, tile: Rows | None = None) -> float:
    name = one.argument.name
    finding = correctness.judge_output(
        one.view,
        exchange.values.expected[name],
        exchange.values.scale[name],
        exchange.values.reduction,
        task.tolerance,
        one.dtype,
        exchange.values.reference_error[name],
        sentinel=int.from_bytes(exchange.sentinels[name].tobytes(), "little") if exchange.prefill == "sentinel" else None,
        rows=tile,
        order=exchange.rows,
    )
    if not finding.ok:
        refuse_work_in_progress(caller, one)
        raise Fault(Verdict.WRONG, finding.reason, f"'{name}': {finding.detail}")
    return finding.worst


def _refuse_unwritten(caller: Caller, exchange: Exchange, one: Placed) -> None:
    """Refuse outputs that were not written, where what they held before cannot be mistaken for an answer."""
    word = exchange.sentinels[one.argument.name]
    if exchange.prefill != "sentinel" or not is_unmistakable(one.dtype, word):
        return
    left = sentinel_left(one, word)
    if left:
        refuse_work_in_progress(caller, one)
        raise Fault(Verdict.WRONG, Reason.SENTINEL_LEFT, f"{left} of {one.view.size} elements of '{one.argument.name}' were never written")


def refuse_work_in_progress(caller: Caller, one: Placed) -> None:
    """Charge a kernel whose output still changes after it said that it was done; the slot is frozen before and after.

    Raises:
        Fault: It does.
    """
    before = one.view.copy()
    caller.slot.thaw()
    time.sleep(PEEK_SECONDS)
    caller.slot.freeze()
    if not np.array_equal(words(one.view), words(before)):
        raise Fault(
            Verdict.HACKED, Reason.EARLY_COMPLETION, f"'{one.argument.name}' was still being written after the kernel said it was done"
        )


def _unchanged(task: Task, exchange: Exchange, one: Placed) -> bool:
    source = exchange.values.inputs[one.argument.name]
    if exchange.rows is not None and has_rows(task, one):
        source = source[exchange.rows]
    return bool(np.array_equal(words(one.view), words(source)))


def outputs(exchange: Exchange) -> dict[str, NDArray[np.generic]]:
    """Copies of the outputs of a call, by name."""
    return {one.argument.name: one.view.copy() for one in exchange.placed if is_written(one)}


__all__ = ["Exchange", "has_rows", "outputs", "verify_all", "verify_tiles", "write"]
