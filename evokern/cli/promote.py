"""`evokern promote`: chosen elites into the committed archives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evokern.cli.answer import DID_NOT_HOLD, DONE, JsonFlag, print_answer

if TYPE_CHECKING:
    from evokern.evaluation import Evaluation
    from evokern.evaluator.signing import Judges
    from evokern.kernel import Candidate
    from evokern.store import Journal


def promote(
    what: Annotated[
        str, typer.Argument(metavar="RUN|KERNEL", help="A run, for its best kernel, or a kernel; a unique prefix of the id is enough.")
    ],
    into: Annotated[Path, typer.Option(help="The archives' folder.")] = Path("archives"),
    as_json: JsonFlag = False,
) -> int:
    """Copy an elite into the archives. Only confirmed, official ones that are faster than the baseline; again changes nothing."""
    from evokern.evaluator.signing import Judges

    with _journal() as journal:
        candidate, evaluations = chosen(journal, what)
        refusal = refusal_of(evaluations, Judges.of_home(journal.path.parent))
    if refusal:
        document: dict[str, Any] = {"kernel": candidate.id, "promoted": False, "reason": refusal}
        print_answer("evokern.promote/1", document, f"kernel {candidate.kernel.short} is not promoted: {refusal}", as_json=as_json)
        return DID_NOT_HOLD
    evaluation = _confirmed(evaluations)[-1]
    file, changed = write_elite(into, candidate, evaluation)
    document = {"kernel": candidate.id, "promoted": True, "changed": changed, "file": str(file)}
    text = f"kernel {candidate.kernel.short} {'promoted' if changed else 'was promoted already'}: {file}"
    print_answer("evokern.promote/1", document, text, as_json=as_json)
    return DONE


def _journal() -> Journal:
    from evokern.cli.runs import open_journal

    return open_journal()


def chosen(journal: Journal, what: str) -> tuple[Candidate, list[Evaluation]]:
    """The candidate that a run or kernel stands for, and its evaluations there.

    Raises:
        UsageError: Nothing or several things have that id, or the run has no confirmed kernel.
    """
    from evokern.errors import UsageError
    from evokern.report.status import EVERY, champion

    if any(run.id.startswith(what) for run in journal.runs()):
        run = journal.run(what).id
        best = champion(journal.top(run, EVERY))
        if best is None:
            raise UsageError(f"run {run} has no confirmed kernel", mend=f"`evokern status {run}` counts the verdicts")
        kernel_id = best.kernel_id
    else:
        kernel_id = journal.kernel(what).id
        run = journal.appearances(kernel_id)[-1]
    proposed = journal.candidate(run, kernel_id)
    if proposed is None:
        raise UsageError(f"kernel {kernel_id} was never proposed in run {run}")
    return proposed.candidate, journal.evaluations(run, kernel_id)


def refusal_of(evaluations: Iterable[Evaluation], judges: Judges) -> str:
    """Why a kernel with these evaluations may not be promoted; empty where it may.

    Args:
        evaluations: All of it, the last one last.
        judges: Those of this home.
    """
    from evokern.evaluation import Tier
    from evokern.statistics.score import score_of

    every = list(evaluations)
    if not every:
        return "it was never evaluated"
    last = every[-1]
    if not last.passed:
        return f"its verdict is {last.verdict}: {last.reason}"
    confirmed = _confirmed(every)
    if not confirmed:
        return "no second, independent measurement has confirmed its speed-up"
    chosen = confirmed[-1]
    if not judges.accept(chosen):
        return "its evaluation was not signed by a judge of this home; `evokern verify` says more"
    if chosen.degenerate:
        return "its task cannot tell good kernels from bad ones"
    if chosen.fingerprint is None or chosen.fingerprint.tier is Tier.UNSANDBOXED:
        return "it was judged without a sandbox; `evokern doctor` says what is missing"
    score = score_of(chosen)
    if score is None or score.low <= 0:
        shown = "unknown" if score is None else f"{score.ratio.low:.2f}x"
        return f"the lower bound of its speed-up over the baseline is {shown}, not above 1"
    return ""


def _confirmed(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    return [evaluation for evaluation in evaluations if evaluation.passed and evaluation.confirmed]


def write_elite(archives: Path, candidate: Candidate, evaluation: Evaluation) -> tuple[Path, bool]:
    """Write one elite; the same elite gives the same bytes, lines sorted by kernel id.

    Args:
        archives: The archives' folder.
        candidate: Whose source and lineage are written.
        evaluation: Its confirmed evaluation, with a fingerprint.

    Returns:
        The source's file, and whether anything changed.

    Raises:
        UsageError: The archive there is not one.
        Unavailable: It cannot be written.
    """
    from evokern.errors import Unavailable
    from evokern.kernel import SUFFIXES

    assert evaluation.fingerprint is not None
    folder = archives / candidate.task / device_folder(evaluation.fingerprint.device) / str(candidate.dtype)
    source = folder / "kernels" / f"{candidate.kernel.short}{SUFFIXES[candidate.kernel.dialect]}"
    lines = folder / "elites.jsonl"
    try:
        elites = _read(lines)
        elites[candidate.id] = elite_line(candidate, evaluation)
        text = "".join(elites[kernel_id] + "\n" for kernel_id in sorted(elites))
        changed = [_write(source, candidate.kernel.source), _write(lines, text)]
    except OSError as error:
        raise Unavailable(f"the archive cannot be written: {error.strerror}", where=str(folder)) from error
    return source, any(changed)


def elite_line(candidate: Candidate, evaluation: Evaluation) -> str:
    """One line of elites.jsonl: what was found, how sure, where it came from; no dates, no single samples."""
    from evokern import record
    from evokern.statistics.score import score_of

    score = score_of(evaluation)
    fields = {
        "schema": "evokern.elite/1",
        "kernel": candidate.id,
        "dialect": candidate.kernel.dialect,
        "entry": candidate.kernel.entry,
        "task": candidate.task,
        "task_digest": evaluation.task_digest,
        "dtype": str(candidate.dtype),
        "ratio": record.to_json(score.ratio) if score else None,
        "workloads": [
            {"name": m.workload, "clock": str(m.clock), "time_us": m.time_us, "versus": record.to_json(m.versus)}
            for m in evaluation.measurements
        ],
        "passed_held_out": evaluation.passed_held_out,
        "descriptors": evaluation.descriptors,
        "operator": candidate.operator,
        "parents": list(candidate.parents),
        "edits": list(candidate.edits),
        "fingerprint": record.to_json(evaluation.fingerprint),
        "judge": evaluation.judge,
        "signature": evaluation.signature,
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def device_folder(device: str) -> str:
    """A device's model as a folder name, such as `amd-epyc-7b13`."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") or "unknown"


def _read(file: Path) -> dict[str, str]:
    from evokern.errors import UsageError

    if not file.exists():
        return {}
    try:
        return {json.loads(line)["kernel"]: line for line in file.read_text().splitlines()}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"not an archive: {error}", where=str(file), mend="Mend or remove it") from error


def _write(file: Path, text: str) -> bool:
    """Write a file whole or not at all; False where it holds that text already."""
    data = text.encode("utf-8", "surrogatepass")
    if file.exists() and file.read_bytes() == data:
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".partial")
    partial.write_bytes(data)
    partial.replace(file)
    return True
