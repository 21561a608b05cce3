"""Check: whether a kernel is right on the shapes that everybody may know (EVALUATOR section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evokern.evaluator.call.contestant import KernelContestant
from evokern.evaluator.reference import edges
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.rule import laws, twins
from evokern.evaluator.rule.endurance import CHECK, CONFIRMATION, endure
from evokern.evaluator.rule.trial import LARGE, Trial, elements, visible_points
from evokern.evaluator.secrecy import Secret
from evokern.task import DType, Task


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found of a kernel that passed it.

    Attributes:
        error: The worst error as a share of what the rule allows.
        least_cpu_ns: CPU time of a call on each visible workload whose inputs were like those of timed calls, the least of a few.
    """

    error: float
    least_cpu_ns: Mapping[str, int]


def check(task: Task, dtype: DType, contestant: KernelContestant, shelf: Shelf, secret: Secret) -> Checked:
    """All visible workloads in secret order, then on the smallest endurance, twin calls and the task's laws, these on a larger one too.

    Raises:
        Fault: The kernel is wrong, crashed, timed out or cheated.
    """
    points = visible_points(task)
    rng = secret.stream("check")
    plain = [p for p in points if p.distribution != edges.NAME]
    smallest = min(plain, key=lambda p: elements(task, p.axes))
    larger = max((p for p in plain if elements(task, p.axes) < LARGE), key=lambda p: elements(task, p.axes), default=smallest)
    with contestant.started([dict(w.axes) for w in task.search]) as caller:
        trial = Trial(task, dtype, caller, shelf)
        worst = max(trial.call(points[i], rng)[1] for i in rng.permutation(len(points)))
        least = _least_cpu_ns(task, trial)
        worst = max(worst, endure(trial, points, secret.derive("endurance"), CHECK))
        twins.refuse_differing(trial, smallest, secret.derive("twins"))
        laws.refuse_mixed_rows(trial, smallest, secret.derive("rows"))
        if larger.axes != smallest.axes:
            laws.refuse_overlooked_rows(trial, larger, secret.derive("lone rows"))
        return Checked(worst, least)


def _least_cpu_ns(task: Task, trial: Trial) -> dict[str, int]:
    plain = [(p.axes, call.cpu_ns) for p, call in trial.calls if p.layout == "contiguous" and p.distribution != edges.NAME]
    return {w.name: min(took for axes, took in plain if axes == w.axes) for w in task.search if any(axes == w.axes for axes, _ in plain)}


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


__all__ = ["Checked", "check", "endured"]
