"""`evokern profile`: where a kernel's time goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evokern.cli.answer import DID_NOT_HOLD, DONE, JsonFlag, print_answer, say

if TYPE_CHECKING:
    from evokern.evaluation import Evaluation, Profile
    from evokern.event import RunSettings
    from evokern.kernel import Kernel
    from evokern.store import Journal


def profile(
    what: Annotated[
        str, typer.Argument(metavar="KERNEL|FILE", help="A kernel of a run, by its id or a unique prefix, or a kernel's source in a file.")
    ],
    task: Annotated[str | None, typer.Option(help="Name of a task, or path of its folder; a kernel of a run has its own.")] = None,
    backend: Annotated[str, typer.Option(help="Name of a backend, see `evokern plugins`; auto for the best one here.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Element type; the task's default on the backend if not given.")] = None,
    threads: Annotated[int, typer.Option(help="Threads granted to the kernel.")] = 1,
    anew: Annotated[
        bool, typer.Option("--anew", help="Judge a kernel of a run once more, on this machine, with all that its device counts.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Say where a kernel's time goes: floor, bandwidth, bottleneck. The best of counters, resources and timing, and why no better."""
    if Path(what).is_file():
        return _of_file(Path(what), {"task": task, "backend": backend, "dtype": dtype, "threads": threads}, as_json=as_json)
    return _of_run(what, anew=anew, as_json=as_json)


def _of_file(file: Path, chosen: dict[str, Any], *, as_json: bool) -> int:
    from evokern.cli.run import settings_for
    from evokern.cli.source import read_kernel
    from evokern.config import load_config
    from evokern.errors import UsageError

    if chosen["task"] is None:
        raise UsageError("no task is named", where="--task", mend="`evokern task list` names those that are here")
    return _measured(read_kernel(file), settings_for(load_config(None, chosen)), as_json=as_json)


def _of_run(name: str, *, anew: bool, as_json: bool) -> int:
    """The kernel's last evaluation that was timed, of the latest run that has one; nothing is run for it."""
    from evokern.cli.runs import open_journal
    from evokern.errors import UsageError

    with open_journal() as journal:
        kernel = journal.kernel(name)
        judged = [(run, one) for run in journal.appearances(kernel.id) for one in journal.evaluations(run, kernel.id)]
        if not judged:
            raise UsageError("was never judged", where=kernel.short, mend="`evokern resume` goes on with its run")
        timed = [(run, one) for run, one in judged if one.measurements]
        if not timed:
            verdict = f"{judged[-1][1].verdict}: {judged[-1][1].reason}"
            raise UsageError(f"was not timed, as its verdict is {verdict}", where=kernel.short, mend="`evokern show` says more")
        run, evaluation = timed[-1]
        settings = journal.run(run).settings
        if not anew:
            return _print(evaluation, evaluation.profile or _worked_out(journal, run, evaluation, settings), settings, run, as_json=as_json)
    return _measured(kernel, settings, as_json=as_json)


def _worked_out(journal: Journal, run: str, evaluation: Evaluation, settings: RunSettings) -> Profile:
    """The profile of a kernel that was timed and is no elite, from what its run's journal holds."""
    from evokern import record
    from evokern.evaluator.catalogue import find_task
    from evokern.evaluator.profile import Counted, profile_of
    from evokern.evaluator.statement import Preparation
    from evokern.event import EventKind

    found = list(journal.events(run, EventKind.BASELINES))
    preparation = record.from_json(Preparation, found[-1].payload) if found else None
    made = profile_of(evaluation, find_task(settings.task), preparation, Counted(missing="nothing was run; --anew asks the device"))
    assert made is not None
    return made


def _measured(kernel: Kernel, settings: RunSettings, *, as_json: bool) -> int:
    """A kernel judged now, with all that its device counts; its verdict where it is not timed."""
    import evokern
    from evokern.evaluator.signing import Judges
    from evokern.report.documents import evaluation_document
    from evokern.report.tables import evaluation_text
    from evokern.store import home as open_home

    home = open_home()
    evaluation = evokern.evaluate(
        kernel, task=settings.task, backend=settings.backend, dtype=settings.dtype, threads=settings.threads, home=home, say=say,
        profiled=True,
    )  # fmt: skip
    if evaluation.profile is not None:
        return _print(evaluation, evaluation.profile, settings, None, as_json=as_json)
    document = evaluation_document(evaluation, task=settings.task, judges=Judges.of_home(home))
    print_answer("evokern.eval/1", document, evaluation_text(document), as_json=as_json)
    return DID_NOT_HOLD


def _print(evaluation: Evaluation, found: Profile, settings: RunSettings, run: str | None, *, as_json: bool) -> int:
    from evokern.report.profile import profile_document, profile_text
    from evokern.report.tables import short

    document = {
        "kernel": evaluation.kernel_id,
        "run": run,
        "task": settings.task,
        "backend": settings.backend,
        "verdict": str(evaluation.verdict),
        "confirmed": evaluation.confirmed,
        **profile_document(evaluation, found),
    }
    where = f" on {document['device']}" if document["device"] else ""
    head = f"kernel {short(evaluation.kernel_id)}  {Path(settings.task).name} {evaluation.dtype}{where}, {document['clock']} clock"
    print_answer("evokern.profile/1", document, f"{head}\n{profile_text(document)}", as_json=as_json)
    return DONE
