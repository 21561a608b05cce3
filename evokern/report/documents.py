"""Documents of an evaluation and of a task, as `--json` and the MCP tools print them."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from evokern import record
from evokern.evaluation import BASELINE, REASONS
from evokern.report.audit import evidence_documents
from evokern.report.standing import standing
from evokern.report.words import words

if TYPE_CHECKING:
    from evokern.evaluation import Evaluation, Measurement
    from evokern.evaluator.signing import Judges
    from evokern.task import Task


def evaluation_document(evaluation: Evaluation, *, task: str, judges: Judges) -> dict[str, Any]:
    """The fields of `evokern.eval/1`.

    Args:
        evaluation: The evaluator's answer.
        task: The task as the user named it.
        judges: Those that are enrolled in this home.
    """
    fingerprint, told = evaluation.fingerprint, words(evaluation.verdict, evaluation.reason)
    return {
        "kernel": evaluation.kernel_id,
        "task": task,
        "dtype": evaluation.dtype,
        "verdict": str(evaluation.verdict),
        "reason": str(evaluation.reason),
        "meaning": REASONS[evaluation.reason],
        "happened": told.happened,
        "next": told.next,
        "detail": evaluation.detail,
        "rung": str(evaluation.rung),
        "confirmed": evaluation.confirmed,
        "held_out": {None: "not reached", True: "passed", False: "failed"}[evaluation.passed_held_out],
        "tier": str(fingerprint.tier) if fingerprint else None,
        "standing": standing(evaluation, judges).document(),
        "degenerate": evaluation.degenerate,
        "judge": evaluation.judge,
        "evidence": evidence_documents(evaluation.evidence),
        "workloads": [
            {
                "name": m.workload,
                "clock": str(m.clock),
                "time_us": m.time_us,
                "claimed_us": _claimed_us(m),
                "null_us": m.null_us,
                "resolution_us": m.resolution_us,
                "share": m.share,
                "ratio": _ratio(m.versus[BASELINE]) if BASELINE in m.versus else None,
                "versus": {name: _ratio(ratio) for name, ratio in m.versus.items()},
            }
            for m in evaluation.measurements
        ],
        "error": evaluation.error,
        "descriptors": evaluation.descriptors,
        "seconds": evaluation.seconds,
        "fingerprint": {**record.to_json(fingerprint), "digest": fingerprint.digest} if fingerprint else None,
        "key": evaluation.key,
        "log": evaluation.log,
    }


def _claimed_us(measurement: Measurement) -> float | None:
    """Median of what the kernel's own process said that its calls took; a claim, shown beside the time and never scored."""
    from evokern.evaluator.call.contestant import CANDIDATE

    claims = [s.claimed_ns for s in measurement.samples if s.claimed_ns and not s.void and s.who == CANDIDATE]
    return median(claims) / 1000 if claims else None


def _ratio(ratio: Any) -> dict[str, Any]:
    """A ratio's fields; an interval without an upper bound stays infinite here and becomes null in the document."""
    return {"estimate": ratio.estimate, "low": ratio.low, "high": ratio.high, "pairs": ratio.pairs, "clusters": ratio.clusters}


def task_summary(task: Task) -> dict[str, Any]:
    """What a list of tasks shows of one."""
    return {
        "name": task.name,
        "suite": task.suite,
        "description": task.description,
        "dtypes": list(task.dtypes),
        "folder": str(task.folder),
    }


def task_document(task: Task) -> dict[str, Any]:
    """The fields of `evokern.task/1`."""
    return {
        **task_summary(task),
        "policy": task.policy,
        "arguments": [{"name": a.name, "shape": list(a.shape), "dtype": a.dtype, "role": str(a.role)} for a in task.arguments],
        "search": [{"name": w.name, "axes": dict(w.axes), "residency": w.residency} for w in task.search],
        "held_out": {"axes": {axis: [low, high] for axis, low, high in task.held_out.axes}, "count": task.held_out.count},
        "distributions": list(task.distributions),
        "laws": list(task.laws),
        "deterministic": task.deterministic,
        "digest": task.digest,
    }
