"""What happens around one call: inputs in, a verified snapshot out (EVALUATOR section 3, steps 0 to 5).

The slot is frozen whenever this code touches its windows, so that what is read is one moment's memory: nothing is copied.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Caller, Fault
from evokern.evaluator.call.contestant import Axes
from evokern.evaluator.call.window import (
    Bytes,
    Frame,
    Placed,
    canary_broken,
    is_unmistakable,
    is_written,
    sentinel_left,
    sentinel_word,
    surround,
    words,
)
from evokern.evaluator.reference import edges
from evokern.evaluator.reference.oracle import InputSet
from evokern.evaluator.rule import correctness
from evokern.task import Argument, Role, Task

if TYPE_CHECKING:
    from evokern.evaluator.device.far import Far

FAR_ROWS = 512
"""Secret rows of a tensor that stays on its device, which is else checked whole: a kernel that is wrong on a share f of the rows of a
call is missed with (1 - f)^512."""

TILE_ROWS = 32
"""Secret rows checked after a timed call. A kernel that is wrong on a share f of the rows of a call is missed with (1 - f)^32."""

PEEK_SECONDS = 0.05
"""How long an unfinished call is watched, to tell work that goes on from work that was never done."""

PREFILLS = ("sentinel", "sentinel", "zeros", "stale")
"""What an output holds before a call, the same in every phase: a secret pattern, zeros as from a fresh allocation, or what the last
call of these shapes left. The last is a plausible answer, but to another question."""

WORKSPACE = ""
"""Under which name `Exchange.sentinels` keeps the pattern of the kernel's own workspace; no argument has it."""

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call's values and where they lie.

    Attributes:
        placed: All arguments, in order.
        values: The set of inputs and expected outputs.
        rows: Row of the set that each row of the call is, or None where they lie as drawn.
        sentinels: Pattern of each window beside its tensor, by name; an output may hold it too.
        prefill: What the outputs held before, from `PREFILLS`.
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
    padding: str = "",
    permute: bool = False,
    rows: Rows | None = None,
    places: np.random.Generator | None = None,
    prefill: str = "",
) -> Exchange:
    """Write one call's inputs and sentinels into a frozen runner's windows.

    Args:
        task: Whose call.
        caller: The runner.
        axes: Of the workload.
        values: The set.
        rng: Secret chance: offsets, strides, sentinels, permutation.
        layout: "contiguous", "offset" or "padded".
        padding: See `Frame.place`.
        permute: Whether to permute rows, where the task states that law.
        rows: Row of the set to write into each row, where the task states that law; a permutation where `permute` says so.
        places: Chance of offsets and strides alone, to call twice at the same addresses; `rng` where None.
        prefill: One of `PREFILLS`; by chance where empty.
    """
    frame = caller.frame
    assert frame is not None
    scalars = {a.name: values.inputs[a.name] for a in task.arguments if a.is_scalar}
    placed = frame.place(axes, layout, scalars, places or rng, padding)
    if permute and "rows" in task.laws:
        rows = rng.permutation(_leading(task, placed))
    exchange = Exchange(placed, values, rows, {}, _possible(prefill or str(rng.choice(PREFILLS)), frame, placed, values))
    for one in placed:
        if one.window is not None:
            word = exchange.sentinels[one.argument.name] = sentinel_word(one.dtype, rng)
            far = one.far()
            if far is None:
                _write_one(task, exchange, one, word, frame.previous[0])
            else:
                _write_far(task, exchange, one, far, word, frame.previous[0])
    exchange.sentinels[WORKSPACE] = rng.integers(0, 256, 8, np.uint8)
    frame.place_workspace(exchange.sentinels[WORKSPACE], places or rng)
    frame.previous = placed, values
    return exchange


def _write_one(task: Task, exchange: Exchange, one: Placed, word: Bytes, previous: Sequence[Placed]) -> None:
    """One argument's memory before a call: its values, and a pattern all around them."""
    role = one.argument.role
    # Copied before anything is filled: the two places may overlap.
    stale = _of(previous, one.argument).view.copy() if role is Role.OUT and exchange.prefill == "stale" else None
    surround(one, word)
    if stale is not None:
        one.view[...] = stale
    elif role is Role.WORKSPACE_ZEROED or (role is Role.OUT and exchange.prefill == "zeros"):
        one.view[...] = 0
    elif role in (Role.OUT, Role.WORKSPACE):
        words(one.view)[...] = word.view(f"u{len(word)}")[0]
    else:
        source = exchange.values.inputs[one.argument.name]
        if exchange.rows is not None and has_rows(task, one):
            # mode="clip" lets numpy write straight into the window; a row is never out of range.
            np.take(source, exchange.rows, axis=0, out=one.view, mode="clip")
        else:
            one.view[...] = source


def _write_far(task: Task, exchange: Exchange, one: Placed, far: Far, word: Bytes, previous: Sequence[Placed]) -> None:
    """The same for a tensor that stays on its device."""
    role = one.argument.role
    before = _of(previous, one.argument).far() if role is Role.OUT and exchange.prefill == "stale" else None
    stale = None if before is None else before.taken()
    far.surround(word)
    if stale is not None:
        far.put(stale)
    elif role is Role.WORKSPACE_ZEROED or (role is Role.OUT and exchange.prefill == "zeros"):
        far.fill(np.zeros_like(word))
    elif role in (Role.OUT, Role.WORKSPACE):
        far.fill(word)
    else:
        far.write(exchange.values, exchange.rows if has_rows(task, one) else None)


def _possible(prefill: str, frame: Frame, placed: Sequence[Placed], values: InputSet) -> str:
    """The prefill itself, or the sentinel where what the last call left has other shapes or answers this very question."""
    previous, answered = frame.previous
    alike = [p.place.shape for p in previous] == [p.place.shape for p in placed]
    return prefill if prefill != "stale" or (alike and answered is not values) else "sentinel"


def _of(placed: Sequence[Placed], argument: Argument) -> Placed:
    return next(one for one in placed if one.argument.name == argument.name)


def _leading(task: Task, placed: Sequence[Placed]) -> int:
    return int(_of(placed, task.outputs[0]).view.shape[0])


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
        name = one.argument.name
        if is_written(one):
            _refuse_unwritten(caller, exchange, one)
            worst = max(worst, _verify_values(task, caller, exchange, one))
        elif one.argument.role is Role.WORKSPACE_ZEROED:
            if not _is_zero(one):
                raise Fault(Verdict.WRONG, Reason.WORKSPACE_DIRTY, f"'{name}' must be zero again after a call")
        elif one.argument.role is not Role.WORKSPACE and not _unchanged(task, exchange, one):
            raise Fault(Verdict.WRONG, Reason.INPUT_CHANGED, f"'{name}' was changed")
        if _canary_broken(one, exchange.sentinels[name]):
            raise Fault(Verdict.WRONG, Reason.CANARY, f"memory beside '{name}' was written")
    assert caller.frame is not None
    if caller.frame.workspace_overrun(exchange.sentinels[WORKSPACE]):
        raise Fault(Verdict.WRONG, Reason.CANARY, "memory beside the workspace was written")
    return worst


def verify_tiles(task: Task, caller: Caller, exchange: Exchange, rng: np.random.Generator) -> None:
    """Check a timed call: every output element written, and secret rows right.

    Raises:
        Fault: Something is wrong.
    """
    for one in exchange.placed:
        if is_written(one):
            _refuse_unwritten(caller, exchange, one)
            _verify_values(task, caller, exchange, one, _tile(one, TILE_ROWS, rng) if "rows" in task.laws else None)


def _tile(one: Placed, most: int, rng: np.random.Generator) -> Rows:
    """Secret rows of an output, counted over all axes but the last."""
    count = one.view.size // one.view.shape[-1] if one.view.ndim > 1 else one.view.size
    return np.sort(rng.choice(count, min(count, most), replace=False))


def _order(task: Task, exchange: Exchange, one: Placed) -> Rows | None:
    """Row of what is expected that each row of an output answers to; None where they agree."""
    if exchange.rows is None or not has_rows(task, one):
        return None
    within = math.prod(one.view.shape[1:-1])
    return exchange.rows if within == 1 else (exchange.rows[:, None] * within + np.arange(within)).ravel()


def _answered(order: Rows | None, rows: Rows) -> Rows:
    """Rows of what is expected that these rows of an output answer to."""
    return rows if order is None else order[rows]


def inexact(task: Task, exchange: Exchange, one: Placed) -> bool:
    """Whether an output is another whole number than it should be, where its element type holds that.

    Of one that stays on its device secret rows are looked at.
    """
    name, far, order = one.argument.name, one.far(), _order(task, exchange, one)
    if far is None:
        found, answered = correctness.as_rows(one.view), order
    else:
        rows = _tile(one, FAR_ROWS, np.random.default_rng(secrets.randbits(128)))
        far.fetch(rows)
        found, answered = correctness.as_rows(one.view)[rows], _answered(order, rows)
    wanted = correctness.as_rows(exchange.values.of(name, answered).expected)
    held = np.abs(wanted) <= (1 / one.dtype.unit_roundoff if one.dtype.is_float else np.inf)
    return bool((correctness.as_float(found, one.dtype)[held] != wanted[held]).any())


def _verify_values(task: Task, caller: Caller, exchange: Exchange, one: Placed, tile: Rows | None = None) -> float:
    name, far = one.argument.name, one.far()
    if far is not None:
        tile = _tile(one, FAR_ROWS, np.random.default_rng(secrets.randbits(128))) if tile is None else tile
        far.fetch(tile)
    at_edges, order = exchange.values.distribution == edges.NAME, _order(task, exchange, one)
    alone = tile if exchange.values.is_far(name) else None
    answer = exchange.values.of(name, None if alone is None else _answered(order, alone))
    finding = correctness.judge_output(
        one.view,
        answer.expected,
        answer.scale,
        exchange.values.reduction,
        correctness.element_alone(task.tolerance) if at_edges else task.tolerance,
        one.dtype,
        answer.reference_error,
        sentinel=int.from_bytes(exchange.sentinels[name].tobytes(), "little") if exchange.prefill == "sentinel" else None,
        rows=tile,
        order=order,
        alone=alone is not None,
    )
    if not finding.ok:
        refuse_work_in_progress(caller, one)
        where = " (its row of inputs is at an edge of values, such as very low, constant, or partly -inf)" if at_edges else ""
        raise Fault(Verdict.WRONG, finding.reason, f"'{name}': {finding.detail}{where}")
    return finding.worst


def _refuse_unwritten(caller: Caller, exchange: Exchange, one: Placed) -> None:
    """Refuse outputs that were not written, where what they held before cannot be mistaken for an answer."""
    word = exchange.sentinels[one.argument.name]
    if exchange.prefill != "sentinel" or not is_unmistakable(one.dtype, word):
        return
    far = one.far()
    left = sentinel_left(one, word) if far is None else far.left(word)
    if left:
        refuse_work_in_progress(caller, one)
        raise Fault(Verdict.WRONG, Reason.SENTINEL_LEFT, f"{left} of {one.view.size} elements of '{one.argument.name}' were never written")


def refuse_work_in_progress(caller: Caller, one: Placed) -> None:
    """Charge a kernel whose output still changes after it said that it was done; the slot is frozen before and after.

    Raises:
        Fault: It does.
    """
    frame, far = caller.frame, one.far()
    assert frame is not None
    if far is not None:
        return  # a device's own queue is waited for before anything is looked at
    before = one.view.copy()
    caller.slot.thaw()
    time.sleep(PEEK_SECONDS)
    caller.slot.freeze()
    frame.memory.collect(frame, [one])
    if not np.array_equal(words(one.view), words(before)):
        raise Fault(
            Verdict.HACKED, Reason.EARLY_COMPLETION, f"'{one.argument.name}' was still being written after the kernel said it was done"
        )


def _is_zero(one: Placed) -> bool:
    far = one.far()
    return not one.view.any() if far is None else far.is_zero()


def _canary_broken(one: Placed, word: Bytes) -> bool:
    far = one.far()
    return canary_broken(one, word) if far is None else far.canary_broken(word)


def _unchanged(task: Task, exchange: Exchange, one: Placed) -> bool:
    far = one.far()
    if far is not None:
        return far.unchanged(exchange.values, exchange.rows if has_rows(task, one) else None)
    source = exchange.values.inputs[one.argument.name]
    if exchange.rows is not None and has_rows(task, one):
        source = source[exchange.rows]
    return bool(np.array_equal(words(one.view), words(source)))


def outputs(exchange: Exchange) -> dict[str, NDArray[np.generic]]:
    """Copies of the outputs of a call, by name."""
    for one in exchange.placed:
        far = one.far() if is_written(one) else None
        if far is not None:
            far.fetch(np.arange(math.prod(one.place.shape[:-1] or one.place.shape)))
    return {one.argument.name: one.view.copy() for one in exchange.placed if is_written(one)}


__all__ = ["Exchange", "has_rows", "inexact", "outputs", "verify_all", "verify_tiles", "write"]
