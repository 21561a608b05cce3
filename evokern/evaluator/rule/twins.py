"""Twin calls: the same values, and nothing else the same that a kernel should not care about.

A kernel that reads memory which nobody wrote for it (its workspace, what an output held before, the room between rows or
beside a tensor) computes something else where that memory holds something else. Each call is right by the rule already; here
calls are compared with one another, which shows much less than the rule allows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.exchange import outputs
from evokern.evaluator.call.window import words
from evokern.evaluator.reference.oracle import InputSet
from evokern.evaluator.rule import correctness
from evokern.evaluator.rule.trial import Point, Trial, layouts
from evokern.evaluator.secrecy import Secret

GARBAGES = 6
"""Calls with different garbage around the same values: one bit that follows it is the same in all of them once in 32 times."""

Outputs = dict[str, NDArray[np.generic]]


def refuse_differing(trial: Trial, point: Point, secret: Secret) -> None:
    """Call on the same values with other garbage around them, and at another address.

    Raises:
        Fault: Outputs differ by more than a quarter of what the rule allows; or by a bit, and that bit follows the garbage.
    """
    roomy = replace(point, layout=layouts(trial.task)[-1])
    first, values = _outputs(trial, roomy, secret, garbage=0)
    for garbage in range(1, GARBAGES):
        other, _ = _outputs(trial, roomy, secret, garbage=garbage)
        if not _equal(first, other):
            again, _ = _outputs(trial, roomy, secret, garbage=0)
            if _equal(first, again):
                text = "outputs follow what memory held that is no input: a workspace, an output before the call, or room beside a tensor"
                raise Fault(Verdict.FLAKY, Reason.NOT_REPEATABLE, text)
            _refuse_apart(trial, first, other, values)
    elsewhere, _ = _outputs(trial, replace(point, layout="contiguous"), secret, garbage=GARBAGES, places="elsewhere")
    _refuse_apart(trial, first, elsewhere, values)


def _outputs(trial: Trial, point: Point, secret: Secret, *, garbage: int, places: str = "places") -> tuple[Outputs, InputSet]:
    prefill = "zeros" if garbage % 2 else "sentinel"
    exchange, _ = trial.call(point, secret.stream("garbage", garbage), places=secret.stream(places), prefill=prefill)
    # Copied at once: the next call writes into the same windows.
    return outputs(exchange), exchange.values


def _equal(one: Outputs, two: Outputs) -> bool:
    return all(np.array_equal(words(one[name]), words(two[name])) for name in one)


def _refuse_apart(trial: Trial, one: Outputs, two: Outputs, values: InputSet) -> None:
    for argument in trial.task.outputs:
        name = argument.name
        answer = values.of(name)
        finding = correctness.judge_repeat(
            one[name],
            two[name],
            answer.expected,
            answer.scale,
            values.reduction,
            trial.task.tolerance,
            argument.dtype_for(trial.dtype),
            deterministic=trial.task.deterministic,
        )
        if not finding.ok:
            raise Fault(Verdict.FLAKY, finding.reason, f"'{name}': {finding.detail}")
