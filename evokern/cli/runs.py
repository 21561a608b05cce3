"""`evokern status`, `top` and `show`: looking at runs and kernels; nothing is changed."""

from __future__ import annotations

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
    from evokern.report.status import EVERY, by_lower_bound, ratio_document
    from evokern.report.tables import top_text

    with open_journal() as journal:
        found = journal.run(run)
        kernels = [
            {
                "kernel": entry.kernel_id,
                "ratio": ratio_document(entry.score),
                "confirmed": entry.confirmed,
                "operator": entry.operator,
                "island": entry.island,
                "parents": list(entry.parents),
                "edits": list(entry.edits),
            }
            for entry in by_lower_bound(journal.top(found.id, EVERY))[:count]
        ]
    document = {"run": found.id, "kernels": kernels}
    print_answer("evokern.top/1", document, top_text(document), as_json=as_json)
    return DONE


def show(
    kernel: Annotated[str, typer.Argument(help="Id of a kernel or a unique prefix.")],
    prompt: Annotated[bool, typer.Option("--prompt", help="Show what a language model was asked and answered, too.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Show a kernel: its source, where it came from, how it was judged."""
    from evokern.report.tables import kernel_text

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


def open_journal() -> Journal:
    """The journal of this home, to be read only.

    Raises:
        Unavailable: No run has been made here yet.
    """
    from evokern.store import Journal, find_home

    return Journal(find_home(), read_only=True)


def _appearance(journal: Journal, run: str, kernel_id: str, *, prompt: bool) -> dict[str, Any]:
    """How a kernel came into one run and what became of it there."""
    from evokern.cli.evaluate import evaluation_document

    proposed = journal.candidate(run, kernel_id)
    if proposed is None:
        return {"run": run}
    candidate = proposed.candidate
    row: dict[str, Any] = {
        "run": run,
        "operator": candidate.operator,
        "island": candidate.island,
        "parents": list(candidate.parents),
        "edits": list(candidate.edits),
        "evaluations": [evaluation_document(e, task=candidate.task) for e in journal.evaluations(run, kernel_id)],
    }
    if prompt:
        row |= {"prompt": proposed.prompt, "response": proposed.response}
    return row
