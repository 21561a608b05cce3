"""`evokern eval`: one kernel up the whole ladder, or with `--batch` many in one session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evokern.cli.answer import DID_NOT_HOLD, DONE, JsonFlag, print_answer, say


def evaluate(
    file: Annotated[
        Path | None, typer.Argument(help="The kernel's source; its ending names the dialect, such as .cpp.", show_default=False)
    ] = None,
    task: Annotated[str | None, typer.Option(help="Name of a task, or path of its folder.")] = None,
    backend: Annotated[str, typer.Option(help="Name of a backend, see `evokern plugins`; auto for the best one here.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Element type; the task's default on the backend if not given.")] = None,
    threads: Annotated[int, typer.Option(help="Threads granted to the kernel.")] = 1,
    batch: Annotated[
        Path | None,
        typer.Option(help="Judge many: a file of JSON lines (`source` or `path`, `dialect`, `task`, `id`), a folder of kernels, or -."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Judge a kernel: build, check, held-out gate, measure, confirm. Exit code 0 only where it passed, with --batch where all did."""
    from evokern.errors import UsageError

    if batch is not None:
        from evokern.cli.batch import evaluate_batch

        if file is not None:
            raise UsageError("a kernel and a batch are both given", where="--batch", mend="Keep one of them")
        return evaluate_batch(batch, task=task, backend=backend, dtype=dtype, threads=threads, as_json=as_json)
    if file is None:
        raise UsageError("Missing argument 'FILE'", mend="Name a kernel's source, or many with --batch")
    if task is None:
        raise UsageError("no task is named", where="--task", mend="`evokern task list` names those that are here")
    return _evaluate_one(file, task=task, backend=backend, dtype=dtype, threads=threads, as_json=as_json)


def _evaluate_one(file: Path, *, task: str, backend: str, dtype: str | None, threads: int, as_json: bool) -> int:
    import evokern
    from evokern.cli.run import settings_for
    from evokern.cli.source import read_kernel
    from evokern.config import load_config
    from evokern.evaluator.signing import Judges
    from evokern.report.documents import evaluation_document
    from evokern.report.tables import evaluation_text
    from evokern.store import home as open_home

    kernel = read_kernel(file)
    settings = settings_for(
        load_config(None, {"task": task, "backend": backend, "dtype": dtype, "threads": threads}), dialect=kernel.dialect
    )
    home = open_home()
    evaluation = evokern.evaluate(
        kernel, task=settings.task, backend=settings.backend, dtype=settings.dtype, threads=settings.threads, home=home, say=say
    )
    document = evaluation_document(evaluation, task=task, judges=Judges.of_home(home))
    print_answer("evokern.eval/1", document, evaluation_text(document), as_json=as_json)
    return DONE if evaluation.passed else DID_NOT_HOLD
