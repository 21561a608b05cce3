"""Profiles: where a kernel's time goes, as a ladder whose rung is named (EVALUATOR section 4).

    counters    what the device counted while the kernel ran; for elites and requests, as it takes seconds
    resources   what the compiler's product shows (registers, spills, vectors, occupancy), and a roofline
    timing      times alone, and a roofline

A profile says which rung it stands on and why the better ones were not to be had. The roofline is of the device's own ceilings where
they were measured, else of a plain copy of as many bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evokern.building.linkage import FACTS
from evokern.errors import UsageError
from evokern.evaluation import BASELINE, Bottleneck, Evaluation, Measurement, Profile, ProfileRung, WorkloadProfile
from evokern.evaluator.statement import Preparation
from evokern.statistics import roofline
from evokern.statistics.roofline import Ceilings, Figures, Work
from evokern.task import DType, Task

NOT_ASKED = "nobody asked for them: reading counters takes seconds"
NO_TRAITS = "nothing could be read from its product"

AUDITED = frozenset({*FACTS, "unsealed"})
"""Descriptors that say nothing of time: what its library asks of the system, and how it was timed."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What asking for counters gave.

    Attributes:
        by_workload: Counters by name, for each workload that they were read on.
        missing: Why there are none, in words; empty where there are.
    """

    by_workload: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    missing: str = NOT_ASKED


def profile_of(evaluation: Evaluation, task: Task, preparation: Preparation | None, counted: Counted | None = None) -> Profile | None:
    """The best profile that can be had.

    Args:
        evaluation: Of the kernel.
        task: What it computes.
        preparation: What its judge found at the start; None where that is not known.
        counted: What the device counted; None where it was not asked.

    Returns:
        None where the kernel was not timed.

    Raises:
        UsageError: The evaluation is of another task, or of this one before it was changed.
    """
    if not evaluation.measurements:
        return None
    if evaluation.task_digest != task.digest:
        raise UsageError("was judged on another version of this task", where=evaluation.kernel_id[:12], mend="Have it judged again")
    counted = counted or Counted()
    traits, missing = traits_of(evaluation), dict[str, str]()
    if not counted.by_workload:
        missing[str(ProfileRung.COUNTERS)] = counted.missing
        if not traits:
            missing[str(ProfileRung.RESOURCES)] = NO_TRAITS
    rung = ProfileRung.COUNTERS if counted.by_workload else ProfileRung.RESOURCES if traits else ProfileRung.TIMING
    dtype, axes = DType(evaluation.dtype), {w.name: dict(w.axes) for w in (*task.search_gpu, *task.search)}
    found = []
    for measured in evaluation.measurements:
        if measured.workload in axes and measured.time_us > 0:
            work = roofline.work_of(task, axes[measured.workload], dtype)
            ceilings = _ceilings(measured, work, preparation, dtype)
            counters = counted.by_workload.get(measured.workload, {})
            found.append(_workload(measured, Figures(measured.time_us, work, ceilings, traits, counters)))
    return Profile(rung, _foremost(found), tuple(found), missing)


def traits_of(evaluation: Evaluation) -> dict[str, str]:
    """What was read from a kernel's product that says something of its time."""
    return {name: value for name, value in evaluation.descriptors.items() if name not in AUDITED}


def _ceilings(measured: Measurement, work: Work, preparation: Preparation | None, dtype: DType) -> Ceilings | None:
    found = Ceilings.of_device(preparation.ceilings, dtype) if preparation else None
    if found is not None or not work.bytes_moved:
        return found
    if measured.share:  # of a plain copy, as the judge saw it
        return Ceilings.of_copy(work, measured.share * measured.time_us)
    copies = {w.workload: w.times_us["copy"] for w in preparation.workloads if w.times_us.get("copy")} if preparation else {}
    copy_us = copies.get(measured.workload)
    return Ceilings.of_copy(work, copy_us) if copy_us else None


def _workload(measured: Measurement, figures: Figures) -> WorkloadProfile:
    work, ceilings = figures.work, figures.ceilings
    cause, why = roofline.bottleneck(figures)
    return WorkloadProfile(
        workload=measured.workload,
        time_us=measured.time_us,
        bytes_read=work.bytes_read,
        bytes_written=work.bytes_written,
        flops=work.flops,
        launch_us=ceilings.launch_us if ceilings else None,
        memory_us=roofline.memory_us(work, ceilings) if ceilings else None,
        compute_us=figures.compute_us(),
        share=roofline.share(measured.time_us, work, ceilings) if ceilings else None,
        sol=_sol(measured, work, ceilings),
        bottleneck=cause,
        why=why,
        counters=dict(figures.counters),
    )


def _sol(measured: Measurement, work: Work, ceilings: Ceilings | None) -> float | None:
    if ceilings is None or BASELINE not in measured.versus:
        return None
    baseline_us = measured.versus[BASELINE].estimate * measured.time_us
    return roofline.sol_score(measured.time_us, baseline_us, roofline.bound_us(work, ceilings))


def _foremost(workloads: list[WorkloadProfile]) -> Bottleneck:
    """The bottleneck where there is most to gain."""
    told = [w for w in workloads if w.bottleneck is not Bottleneck.UNKNOWN]
    return min(told, key=lambda w: w.share or 0.0).bottleneck if told else Bottleneck.UNKNOWN
