"""`evokern eval`: one kernel up the whole ladder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evokern.cli.answer import DID_NOT_HOLD, DONE, JsonFlag, print_answer

if TYPE_CHECKING:
    from evokern.evaluation import Evaluation, Measurement
    from evokern.evaluator.signing import Judges


def evaluate(
    file: Annotated[Path, typer.Argument(help="The kernel's source; its ending names the dialect, such as .cpp.")],
    task: Annotated[str, typer.Option(help="Name of a task, or path of its folder.")],
    backend: Annotated[str, typer.Option(help="Name of a backend, see `evokern plugins`; auto for the best one here.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Element type; the task's default on the backend if not given.")] = None,
    threads: Annotated[int, typer.Option(help="Threads granted to the kernel.")] = 1,
    as_json: JsonFlag = False,
) -> int:
    """Judge one kernel: build, check, held-out gate, measure, confirm. Exit code 0 only where it passed."""
    import evokern
    from evokern.cli.run import settings_for
    from evokern.cli.source import read_kernel
    from evokern.config import load_config
    from evokern.evaluator.signing import Judges
    from evokern.report.tables import evaluation_text
    from evokern.store import home as open_home

    kernel = read_kernel(file)
    settings = settings_for(load_config(None, {"task": task, "backend": backend, "dtype": dtype, "threads": threads}))
    home = open_home()
    evaluation = evokern.evaluate(
        kernel, task=settings.task, backend=settings.backend, dtype=settings.dtype, threads=settings.threads, home=home
    )
    document = evaluation_document(evaluation, task=task, judges=Judges.of_home(home))
    print_answer("evokern.eval/1", document, evaluation_text(document), as_json=as_json)
    return DONE if evaluation.passed else DID_NOT_HOLD


def evaluation_document(evaluation: Evaluation, *, task: str, judges: Judges) -> dict[str, Any]:
    """The fields of `evokern.eval/1`.

    Args:
        evaluation: The evaluator's answer.
        task: The task as the user named it.
        judges: Those that are enrolled in this home.
    """
    from evokern import record
    from evokern.evaluation import BASELINE, REASONS
    from evokern.report.audit import evidence_documents
    from evokern.report.standing import standing
    from evokern.report.words import words

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
    from statistics import median

    from evokern.evaluator.call.contestant import CANDIDATE

    claims = [s.claimed_ns for s in measurement.samples if s.claimed_ns and not s.void and s.who == CANDIDATE]
    return median(claims) / 1000 if claims else None


def _ratio(ratio: Any) -> dict[str, Any]:
    """A ratio's fields; an interval without an upper bound stays infinite here and becomes null in the document."""
    return {"estimate": ratio.estimate, "low": ratio.low, "high": ratio.high, "pairs": ratio.pairs, "clusters": ratio.clusters}
