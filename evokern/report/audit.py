"""The audit queue: kernels that somebody should look at, with what was found, the heaviest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from evokern.evaluation import Evaluation, Evidence, Verdict
from evokern.evaluator import screen
from evokern.printable import line
from evokern.report.tables import evidence_line, short
from evokern.report.words import words

if TYPE_CHECKING:
    from evokern.store import Journal

SUSPECTS = {Verdict.QUARANTINED, Verdict.HACKED}
"""Verdicts that ask for a look by themselves."""

SUSPECT_WEIGHT = 20
"""More than all evidence of any honest kernel together."""


def queue(journal: Journal, run: str) -> list[dict[str, Any]]:
    """Kernels of a run with evidence or a suspect verdict, each with its last evaluation.

    Args:
        journal: Where the run is kept.
        run: Full id.

    Returns:
        Documents of `entry`, by weight and then by id.
    """
    from evokern.store import payload

    last: dict[str, Evaluation] = {}
    for event in journal.events(run, *payload.VERDICTS):
        body = payload.read(event)
        if isinstance(body, payload.Evaluated | payload.Rejudged):
            last[body.evaluation.kernel_id] = body.evaluation
    entries = [entry(evaluation) for evaluation in last.values() if evaluation.evidence or evaluation.verdict in SUSPECTS]
    return sorted(entries, key=lambda found: (-found["weight"], found["kernel"]))


def entry(evaluation: Evaluation) -> dict[str, Any]:
    """What is to be looked at in one kernel: `kernel`, `verdict`, `reason`, `confirmed`, `weight`, `why`, `evidence`."""
    suspect = evaluation.verdict in SUSPECTS
    return {
        "kernel": evaluation.kernel_id,
        "verdict": str(evaluation.verdict),
        "reason": str(evaluation.reason),
        "confirmed": evaluation.confirmed,
        "weight": screen.weight(evaluation.evidence) + SUSPECT_WEIGHT * suspect,
        "why": words(evaluation.verdict, evaluation.reason).happened if suspect else "",
        "evidence": evidence_documents(evaluation.evidence),
    }


def evidence_documents(evidence: Iterable[Evidence]) -> list[dict[str, Any]]:
    """Pieces of evidence as JSON, the heaviest first."""
    found = [{"code": e.code, "weight": screen.weight([e]), "detail": e.detail, "line": e.line} for e in evidence]
    return sorted(found, key=lambda piece: -int(str(piece["weight"])))


def queue_text(document: Mapping[str, Any]) -> str:
    """The queue of a run for people."""
    if not document["kernels"]:
        return f"run {document['run']}: nothing to audit"
    return "\n".join([f"run {document['run']}: {len(document['kernels'])} to audit", *(f"\n{entry_text(k)}" for k in document["kernels"])])


def entry_text(found: Mapping[str, Any]) -> str:
    """One kernel of the queue."""
    reason = "" if found["reason"] == "none" else f": {found['reason']}"
    head = f"{short(found['kernel'])}  weight {found['weight']}  {found['verdict']}{reason}{' and confirmed' if found['confirmed'] else ''}"
    lines = [head, *([f"  {line(found['why'])}"] if found["why"] else [])]
    lines += map(evidence_line, found["evidence"])
    return "\n".join(lines if len(lines) > 1 else [*lines, "  nothing was found"])
