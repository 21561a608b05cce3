"""Laws that a task states, tested on a kernel by what it does and not by what it is near to (EVALUATOR section 4, check)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.exchange import Exchange, Rows, inexact, outputs
from evokern.evaluator.call.window import is_written
from evokern.evaluator.rule import correctness
from evokern.evaluator.secrecy import Secret

if TYPE_CHECKING:
    from evokern.evaluator.rule.trial import Point, Trial
    from evokern.task import Task

ARRANGEMENTS = 4
"""How often rows are laid out anew, so that not the same few of them lie in the places that a fault is about."""

CALLS = 5
"""Calls on each arrangement, all but the first with other rows changed: one more, or half of all, in turn."""

LONE_CALLS = 11
"""Calls on a larger workload, all but the first with one more row changed."""


def refuse_inexact(task: Task, exchange: Exchange) -> None:
    """Where the task states `integers`: whole numbers in, the very whole numbers out, as far as the element type holds them.

    Raises:
        Fault: An output is near, but not equal.
    """
    if "integers" not in task.laws or exchange.values.distribution != "integers":
        return
    for one in exchange.placed:
        if is_written(one) and inexact(task, exchange, one):
            raise Fault(Verdict.WRONG, Reason.LAW, f"'{one.argument.name}' is not exact on whole numbers")


def refuse_mixed_rows(trial: Trial, point: Point, secret: Secret) -> None:
    """Where the task states `rows`: a row of outputs stays what it was where only other rows of the inputs changed.

    Of the twin calls on an arrangement all but the first have other rows in some places, and a place is compared with the last call
    in which its own row was there. A row that follows the others has another value in each. Where two such values are told apart
    with a chance of a half, a fault in one place of nine is missed with (1 - 1/2 * 1/2)^8 (1 - 1/2 * 8/9)^4 (1 - 1/2 * 4/9)^4 = 0.003.
    A row that changes alone is what a kernel misses that looks at some elements and takes the rest for those of the call before.

    Raises:
        Fault: An output row changed whose input row did not, or one did not whose input row did.
    """
    count = _rows(trial, point)
    if count > 1:
        half = max(1, count // 2)
        for number in range(ARRANGEMENTS):
            changes = [1 if call % 2 else half for call in range(1, CALLS)]
            _refuse_following(trial, point, secret.derive(number), count, changes)


def refuse_overlooked_rows(trial: Trial, point: Point, secret: Secret) -> None:
    """The same with one more row changed in every call, for a workload with more rows than a kernel looks at.

    One that looks at every second row is missed with 2^-10 = 0.001.

    Raises:
        Fault: As `refuse_mixed_rows`.
    """
    count = _rows(trial, point)
    if count > 1:
        _refuse_following(trial, point, secret, count, [1] * (LONE_CALLS - 1))


def _rows(trial: Trial, point: Point) -> int:
    """Rows of an output that the law is about, none where the task does not state it."""
    return trial.task.outputs[0].shape_for(dict(point.axes))[0] if "rows" in trial.task.laws else 0


def _refuse_following(trial: Trial, point: Point, secret: Secret, count: int, changes: Sequence[int]) -> None:
    """A call on one arrangement of the rows, and one for each number of places that change: a single one beside those before it."""
    rng = secret.stream("rows")
    lying = arranged = rng.permutation(count)
    as_drawn = np.argsort(arranged)  # the order that expected values are in
    known, _ = _outputs(trial, point, secret, arranged)
    for places in changes:
        lying = np.where(rng.permutation(count) < places, rng.permutation(count), lying if places == 1 else arranged)
        after, exchange = _outputs(trial, point, secret, lying)
        changed = lying != arranged
        for name, old in known.items():
            new = np.where(_as_column(changed, old), old, after[name])
            _refuse_changed(trial, exchange, name, old[as_drawn], new[as_drawn])
            known[name] = new


def _outputs(trial: Trial, point: Point, secret: Secret, rows: Rows) -> tuple[dict[str, NDArray[np.generic]], Exchange]:
    exchange, _ = trial.call(point, secret.stream("garbage"), rows=rows, places=secret.stream("places"), prefill="sentinel")
    return outputs(exchange), exchange


def _as_column(rows: NDArray[np.bool_], like: NDArray[np.generic]) -> NDArray[np.bool_]:
    return rows.reshape(-1, *(1 for _ in like.shape[1:]))


def _refuse_changed(trial: Trial, exchange: Exchange, name: str, before: NDArray[np.generic], after: NDArray[np.generic]) -> None:
    values = exchange.values
    dtype = next(one.dtype for one in exchange.placed if one.argument.name == name)
    answer = values.of(name)
    finding = correctness.judge_repeat(before, after, answer.expected, answer.scale, values.reduction, trial.task.tolerance, dtype)
    if not finding.ok:
        raise Fault(Verdict.WRONG, Reason.LAW, f"'{name}': only other rows of the inputs changed, but {finding.detail}")
