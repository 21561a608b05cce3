"""`evokern status`, `top` and `show`: looking at runs and kernels; nothing is changed."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evokern.cli.answer import DONE, JsonFlag, print_answer

if TYPE_CHECKING:
    from evokern.store import Journal

Run = Annotated[str, typer.Argument(help="Id of a run or a unique prefix; the latest one if not given.")]


def status(run: Run = "", as_json: JsonFlag = False) -> int:
    """Say how a run stands: evaluated, best, budget, verdicts, islands."""
    from evokern.report.status import status_of
    from evokern.report.tables import status_text
    from evokern.store.lease import is_worked

    with open_journal() as journal:
        found = journal.run(run)
        document = status_of(journal, found, worked=is_worked(journal.path.parent, found.id))
    print_answer("evokern.status/1", document, status_text(document), as_json=as_json)
    return DONE


def top(
    run: Run = "",
    count: Annotated[int, typer.Option(min=1, help="How many.")] = 10,
    as_json: JsonFlag = False,
) -> int:
    """List the fastest kernels of a run. Confirmed ones first, then by the lower bound of the speed-up."""
    from evokern.evaluator.signing import Judges
    from evokern.report.status import EVERY, by_lower_bound, ratio_document, standing_now
    from evokern.report.tables import top_text

    with open_journal() as journal:
        found, judges = journal.run(run), Judges.of_home(journal.path.parent)
        kernels = [
            {
                "kernel": entry.kernel_id,
                "ratio": ratio_document(entry.score),
                "confirmed": entry.confirmed,
                "operator": entry.operator,
                "island": entry.island,
                "parents": list(entry.parents),
                "edits": list(entry.edits),
                "standing": standing_now(journal.evaluations(found.id, entry.kernel_id), judges).document(),
            }
            for entry in by_lower_bound(journal.top(found.id, EVERY))[:count]
        ]
    document = {"run": found.id, "kernels": kernels}
    print_answer("evokern.top/1", document, top_text(document), as_json=as_json)
    return DONE


def show(
    kernel: Annotated[str, typer.Argument(help="Id of a kernel or a unique prefix; with --audit also of a run.")] = "",
    prompt: Annotated[bool, typer.Option("--prompt", help="Show what a language model was asked and answered, too.")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Show what an auditor should look at: in this kernel, or in all of a run, the heaviest first.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Show a kernel: its source, where it came from, how it was judged, and where it was refused what to do about it."""
    from evokern.errors import UsageError
    from evokern.report.tables import kernel_text

    if audit:
        return _audit(kernel, as_json=as_json)
    if not kernel:
        raise UsageError("Missing argument 'KERNEL'", mend="`evokern top` lists kernels")
    with open_journal() as journal:
        found = journal.kernel(kernel)
        document = {
            "kernel": found.id,
            "dialect": found.dialect,
            "entry": found.entry,
            "source": found.source,
            "runs": [_appearance(journal, run, found.id, prompt=prompt) for run in journal.appearances(found.id)],
        }
    print_answer("evokern.kernel/1", document, kernel_text(document), as_json=as_json)
    return DONE


def _audit(name: str, *, as_json: bool) -> int:
    """The audit queue of a run, or what was found in one kernel: hexadecimal digits alone name a kernel."""
    from evokern.report.audit import entry, queue, queue_text

    with open_journal() as journal:
        if name and all(digit in string.hexdigits for digit in name):
            found = journal.kernel(name)
            judged = {run: journal.evaluations(run, found.id) for run in journal.appearances(found.id)}
            documents = [{"run": run, "kernels": [entry(made[-1])]} for run, made in judged.items() if made]
            document: dict[str, Any] = {"kernel": found.id, "runs": documents}
        else:
            run = journal.run(name).id
            documents = [{"run": run, "kernels": queue(journal, run)}]
            document = documents[0]
    print_answer("evokern.audit/1", document, "\n\n".join(map(queue_text, documents)) or "never judged", as_json=as_json)
    return DONE


def open_journal() -> Journal:
    """The journal of this home, to be read only.

    Raises:
        Unavailable: No run has been made here yet.
    """
    from evokern.store import Journal, find_home

    return Journal(find_home(), read_only=True)


def _appearance(journal: Journal, run: str, kernel_id: str, *, prompt: bool) -> dict[str, Any]:
    """How a kernel came into one run and what became of it there."""
    from evokern.evaluator.signing import Judges
    from evokern.report.documents import evaluation_document

    proposed = journal.candidate(run, kernel_id)
    if proposed is None:
        return {"run": run}
    candidate, judges = proposed.candidate, Judges.of_home(journal.path.parent)
    row: dict[str, Any] = {
        "run": run,
        "operator": candidate.operator,
        "island": candidate.island,
        "parents": list(candidate.parents),
        "edits": list(candidate.edits),
        "evaluations": [evaluation_document(e, task=candidate.task, judges=judges) for e in journal.evaluations(run, kernel_id)],
    }
    if prompt:
        row |= {"prompt": proposed.prompt, "response": proposed.response}
    return row
