"""Laws that a task states, tested on a kernel by what it does and not by what it is near to (EVALUATOR section 4, check)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.exchange import Exchange, Rows, outputs
from evokern.evaluator.call.window import is_written
from evokern.evaluator.rule import correctness
from evokern.evaluator.secrecy import Secret

if TYPE_CHECKING:
    from evokern.evaluator.rule.trial import Point, Trial
    from evokern.task import Task

ROUNDS = 8
"""Pairs of twin calls, each with another half of the rows changed."""


def refuse_inexact(task: Task, exchange: Exchange) -> None:
    """Where the task states `integers`: whole numbers in, the very whole numbers out, as far as the element type holds them.

    Raises:
        Fault: An output is near, but not equal.
    """
    if "integers" not in task.laws or exchange.values.distribution != "integers":
        return
    for one in exchange.placed:
        if is_written(one):
            expected = exchange.values.expected[one.argument.name]
            wanted = expected if exchange.rows is None else expected[exchange.rows]
            held = np.abs(wanted) <= (1 / one.dtype.unit_roundoff if one.dtype.is_float else np.inf)
            if (correctness.as_float(one.view, one.dtype)[held] != wanted[held]).any():
                raise Fault(Verdict.WRONG, Reason.LAW, f"'{one.argument.name}' is not exact on whole numbers")


def refuse_mixed_rows(trial: Trial, point: Point, secret: Secret) -> None:
    """Where the task states `rows`: twin calls, of which one has other rows in about half of the places; the rest must stay what it was.

    Raises:
        Fault: An output row changed whose input row did not.
    """
    count = trial.task.outputs[0].shape_for(dict(point.axes))[0] if "rows" in trial.task.laws else 1
    if count <= 1:
        return
    rng = secret.stream("rows")
    for number in range(ROUNDS):
        changed = rng.permutation(count) < max(1, count // 2)
        before, _ = _outputs(trial, point, secret.derive(number), np.arange(count))
        after, exchange = _outputs(trial, point, secret.derive(number), np.where(changed, rng.permutation(count), np.arange(count)))
        for name, old in before.items():
            _refuse_changed(trial, exchange, name, old, np.where(_as_column(changed, old), old, after[name]))


def _outputs(trial: Trial, point: Point, secret: Secret, rows: Rows) -> tuple[dict[str, NDArray[np.generic]], Exchange]:
    exchange, _ = trial.call(point, secret.stream("garbage"), rows=rows, places=secret.stream("places"), prefill="sentinel")
    return outputs(exchange), exchange


def _as_column(rows: NDArray[np.bool_], like: NDArray[np.generic]) -> NDArray[np.bool_]:
    return rows.reshape(-1, *(1 for _ in like.shape[1:]))


def _refuse_changed(trial: Trial, exchange: Exchange, name: str, before: NDArray[np.generic], after: NDArray[np.generic]) -> None:
    values = exchange.values
    dtype = next(one.dtype for one in exchange.placed if one.argument.name == name)
    finding = correctness.judge_repeat(
        before, after, values.expected[name], values.scale[name], values.reduction, trial.task.tolerance, dtype
    )
    if not finding.ok:
        raise Fault(Verdict.WRONG, Reason.LAW, f"'{name}': only other rows of the inputs changed, but {finding.detail}")
