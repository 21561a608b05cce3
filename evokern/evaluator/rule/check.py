"""Check: whether a kernel is right on the shapes that everybody may know (EVALUATOR section 4)."""

from __future__ import annotations

from evokern.evaluator.call.contestant import KernelContestant
from evokern.evaluator.reference import edges
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.rule import laws, twins
from evokern.evaluator.rule.endurance import CHECK, CONFIRMATION, endure
from evokern.evaluator.rule.trial import Trial, elements, visible_points
from evokern.evaluator.secrecy import Secret
from evokern.task import DType, Task


def check(task: Task, dtype: DType, contestant: KernelContestant, shelf: Shelf, secret: Secret) -> float:
    """All visible workloads in secret order, then on the smallest the task's laws, twin calls and endurance.

    Returns:
        The worst error as a share of what the rule allows.

    Raises:
        Fault: The kernel is wrong, crashed, timed out or cheated.
    """
    points = visible_points(task)
    rng = secret.stream("check")
    smallest = min((p for p in points if p.distribution != edges.NAME), key=lambda p: elements(task, p.axes))
    with contestant.started([dict(w.axes) for w in task.search]) as caller:
        trial = Trial(task, dtype, caller, shelf)
        worst = max(trial.call(points[i], rng)[1] for i in rng.permutation(len(points)))
        worst = max(worst, endure(trial, points, secret.derive("endurance"), CHECK))
        twins.refuse_differing(trial, smallest, secret.derive("twins"))
        laws.refuse_mixed_rows(trial, smallest, secret.derive("rows"))
        return worst


def endured(task: Task, dtype: DType, contestant: KernelContestant, shelf: Shelf, secret: Secret) -> float:
    """A longer endurance on the smallest visible workload alone, for what is to be confirmed.

    Returns:
        The worst error as a share of what the rule allows.

    Raises:
        Fault: The kernel is wrong, crashed, timed out or cheated.
    """
    points = visible_points(task)
    least = min(elements(task, p.axes) for p in points)
    chosen = [p for p in points if elements(task, p.axes) == least]
    with contestant.started([dict(chosen[0].axes)]) as caller:
        return endure(Trial(task, dtype, caller, shelf), chosen, secret.derive("endurance"), CONFIRMATION)


__all__ = ["check", "endured"]
