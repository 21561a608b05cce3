"""`evokern task`: list, show, new, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evokern.cli.answer import DID_NOT_HOLD, DONE, JsonFlag, print_answer, say

app = typer.Typer(help="Tasks: what must be computed, on which shapes, how exactly.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(help="Name of a task, or path of its folder.")]


@app.command("list")
def list_all(as_json: JsonFlag = False) -> int:
    """List the tasks that are here."""
    from evokern.evaluator.catalogue import list_tasks
    from evokern.report.documents import task_summary
    from evokern.report.tables import aligned

    tasks = sorted(list_tasks(), key=lambda task: (task.suite, task.name))
    rows = [[task.name, task.suite, " ".join(task.dtypes), f"{len(task.search)}"] for task in tasks]
    text = aligned(["task", "suite", "dtypes", "workloads"], rows) if rows else "no tasks are here"
    print_answer("evokern.tasks/1", {"tasks": [task_summary(task) for task in tasks]}, text, as_json=as_json)
    return DONE


@app.command()
def show(name: Name, as_json: JsonFlag = False) -> int:
    """Show one task."""
    from evokern.evaluator.catalogue import find_task
    from evokern.report.documents import task_document

    task = find_task(name)
    document = task_document(task)
    lines = [
        f"{task.suite}/{task.name}: {task.description}",
        f"dtypes     {', '.join(task.dtypes)}; precision policy {task.policy}",
        *(f"{a['role']:<10} {a['name']} ({', '.join(a['shape'])}) {a['dtype']}" for a in document["arguments"]),
        *(f"workload   {w['name']}, {w['residency']}" for w in document["search"]),
        "held out   "
        + ", ".join(f"{axis} {low}-{high}" for axis, low, high in task.held_out.axes)
        + f", {task.held_out.count} secret shapes",
        f"laws       {', '.join(task.laws) or 'none'}",
        f"folder     {task.folder}",
    ]
    print_answer("evokern.task/1", document, "\n".join(lines), as_json=as_json)
    return DONE


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the task: a-z, 0-9 and _.")],
    folder: Annotated[Path, typer.Option(help="Folder that will hold the task's own.")] = Path(),
    as_json: JsonFlag = False,
) -> int:
    """Write a task's folder, complete and sound, to be changed to what you need."""
    from evokern.evaluator.catalogue import new_task

    made = new_task(name, folder)
    text = f"written: {made}\nnext: edit task.toml, reference.py and seeds/, then `evokern task check {made}`"
    print_answer("evokern.task-new/1", {"task": name, "folder": str(made)}, text, as_json=as_json)
    return DONE


@app.command()
def check(
    name: Name,
    backend: Annotated[str, typer.Option(help="Name of a backend; auto for the best one here.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Element type; the task's default if not given.")] = None,
    format: Annotated[
        str | None, typer.Option(help="Check a whole suite in this format instead: kernelbench. NAME is then a checkout's path.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="With --format: a level, as L1, or a problem, as L1/23; may be repeated.")] = None,
    parallel: Annotated[int | None, typer.Option(min=1, help="With --format: tasks at a time; one per processor if not given.")] = None,
    keep: Annotated[Path | None, typer.Option(help="With --format: file of rows, so that a later call goes on from there.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Say whether a task can tell kernels apart. Exit code 1 where it cannot, with the reasons."""
    if format is not None:
        return _check_suite(name, format, only or [], parallel, keep, as_json=as_json)
    from evokern.cli.run import settings_for
    from evokern.config import load_config
    from evokern.evaluator.catalogue import check_task
    from evokern.store import home as open_home

    settings = settings_for(load_config(None, {"task": name, "backend": backend, "dtype": dtype}))
    degenerate = list(check_task(settings, home=open_home()))
    text = f"{name}: sound" if not degenerate else "\n".join(f"{name}: {reason}" for reason in degenerate)
    print_answer("evokern.task-check/1", {"task": name, "sound": not degenerate, "degenerate": degenerate}, text, as_json=as_json)
    return DID_NOT_HOLD if degenerate else DONE


def _check_suite(path: str, form: str, only: list[str], parallel: int | None, keep: Path | None, *, as_json: bool) -> int:
    """Rows stream on standard error as they are done; the answer is printed at the end."""
    from evokern.cli import suite
    from evokern.errors import UsageError
    from evokern.export.suites.kernelbench import find_problems
    from evokern.store import home as open_home

    if form not in suite.FORMATS:
        raise UsageError(f"unknown format '{form}'", where="--format", mend=f"Use {', '.join(suite.FORMATS)}")
    folder = Path(path).expanduser()
    of = len(find_problems(folder, only))
    rows = []
    checking = suite.check_suite(folder, only, scratch=open_home() / "scratch", parallel=parallel or suite.default_parallel(), keep=keep)
    for done, row in enumerate(checking, start=1):
        say(suite.progress(row, done, of))
        rows.append(row)
    rows.sort(key=lambda row: [int(part) for part in row["task"].removeprefix("L").split("/")])
    degenerate = [row["task"] for row in rows if row["degenerate"]]
    document = {"format": form, "path": str(folder), **suite.summary(rows), "degenerate": degenerate, "tasks": rows}
    print_answer("evokern.suite-check/1", document, suite.table(rows), as_json=as_json)
    return DID_NOT_HOLD if degenerate else DONE
