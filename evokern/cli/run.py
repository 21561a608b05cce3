"""`evokern run` and `evokern resume`: settings to the engine, and the closing table."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evokern.cli.answer import DID_NOT_HOLD, DONE, INTERRUPTED, JsonFlag, print_answer, print_document, say

if TYPE_CHECKING:
    from evokern.config import Config
    from evokern.engine import Engine
    from evokern.event import RunSettings
    from evokern.report.display import LiveDisplay, PlainDisplay

Hours = Annotated[float | None, typer.Option(help="End after so many hours of search.")]
Minutes = Annotated[float | None, typer.Option(help="End after so many minutes of search; 5 where no limit is given.")]
Evals = Annotated[int | None, typer.Option(help="End after so many evaluated kernels.")]
Tokens = Annotated[int | None, typer.Option(help="End after so many tokens of a language model.")]
Usd = Annotated[float | None, typer.Option(help="End after so many US dollars spent on a language model.")]
Model = Annotated[str | None, typer.Option(help="Language model as litellm spells it; EVOKERN_MODEL if not given; none is fine.")]


def run(
    task: Annotated[str | None, typer.Option(help="Name of a task, or path of its folder.")] = None,
    hours: Hours = None,
    minutes: Minutes = None,
    evals: Evals = None,
    tokens: Tokens = None,
    usd: Usd = None,
    backend: Annotated[str | None, typer.Option(help="Name of a backend, see `evokern plugins`; auto for the best one here.")] = None,
    model: Model = None,
    dtype: Annotated[str | None, typer.Option(help="Element type; the task's default on the backend if not given.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads granted to a kernel; 1 if not given.")] = None,
    seed_kernel: Annotated[list[str] | None, typer.Option(help="File of a further seed kernel; may be repeated.")] = None,
    seed: Annotated[int | None, typer.Option(help="Root of all chance in the search; 0 if not given.")] = None,
    degenerate: Annotated[
        bool, typer.Option("--degenerate", help="Run a task that cannot tell kernels apart too; nothing that comes of it counts.")
    ] = False,
    config: Annotated[Path | None, typer.Option(help="TOML file with these settings; flags win over it.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Search for a faster kernel."""
    from evokern.config import load_config
    from evokern.errors import UsageError
    from evokern.store import home as open_home

    flags = {
        "task": task, "hours": hours, "minutes": minutes, "evals": evals, "tokens": tokens, "usd": usd, "backend": backend,
        "model": model, "dtype": dtype, "threads": threads, "seed_kernel": tuple(seed_kernel or ()), "seed": seed,
        "degenerate": degenerate or None,
    }  # fmt: skip
    chosen = load_config(config, flags)
    if not chosen.task:
        raise UsageError("no task is named", where="--task", mend="`evokern task list` names those that are here")
    home = open_home()
    settings = settings_for(chosen, model_given=model is not None)
    display = _display()

    from evokern.engine import Engine

    return _follow(Engine(settings, home=home, display=display), display, as_json=as_json)


def resume(
    run: Annotated[str, typer.Argument(help="Id of a run or a unique prefix; the latest one if not given.")] = "",
    hours: Hours = None,
    minutes: Minutes = None,
    evals: Evals = None,
    tokens: Tokens = None,
    usd: Usd = None,
    model: Model = None,
    as_json: JsonFlag = False,
) -> int:
    """Continue a run where it stopped. Limits given here replace all of the run's own; what changed is said."""
    from evokern.config import load_config
    from evokern.engine import Engine
    from evokern.store import home as open_home

    limits = {"hours": hours, "minutes": minutes, "evals": evals, "tokens": tokens, "usd": usd}
    changes: dict[str, Any] = {}
    if any(value is not None for value in limits.values()):
        changes["budget"] = load_config(None, limits).budget.budget()
    if model is not None:
        changes["model"] = model
    home = open_home()
    _refuse_session(home, run)
    display = _display()
    engine = Engine.resume(run, home=home, changes=changes, display=display)
    engine.refuse_spent()
    return _follow(engine, display, as_json=as_json)


def _refuse_session(home: Path, run: str) -> None:
    """Whose kernels come from outside has no search that could go on."""
    from evokern.errors import UsageError
    from evokern.event import SESSION
    from evokern.store import Journal

    with Journal(home, read_only=True) as journal:
        found = journal.run(run)
    if SESSION in found.settings.options:
        mend = "Serve the same session again, or give the id of another run"
        raise UsageError(f"its kernels came from outside, in session '{found.settings.options[SESSION]}'", where=found.id, mend=mend)


def settings_for(config: Config, *, model_given: bool = True, dialect: str = "") -> RunSettings:
    """The engine's settings from what the user said.

    Args:
        config: Checked settings.
        model_given: Whether the model was named on the command line; an empty name then means none, whatever EVOKERN_MODEL says.
        dialect: What the backend must take; that of the first seed kernel, if any, where empty.

    Raises:
        UsageError: The task, backend, dtype or a seed kernel is wrong.
        Unavailable: The backend cannot be loaded here.
    """
    import os

    from evokern import plugins
    from evokern.cli.choice import chosen_backend
    from evokern.errors import UsageError
    from evokern.evaluator.catalogue import find_task
    from evokern.event import RunSettings
    from evokern.report.tables import counted
    from evokern.task import DType, default_dtype

    task = find_task(config.task)
    seeds = tuple(_seed(Path(name)) for name in config.seed_kernel)
    backend = chosen_backend(config.backend, dialect or (seeds[0][0] if seeds else ""))
    # A name that stands for nothing is refused before a run is recorded.
    plugins.load("backend", backend)
    processors = len(os.sched_getaffinity(0))
    if config.threads > processors:
        raise UsageError(f"{config.threads} threads on {counted(processors, 'processor')}", where="--threads", mend=f"At most {processors}")
    dtype = default_dtype(task, gpu=backend != "cpu")
    if config.dtype:
        known = ", ".join(task.dtypes)
        if config.dtype not in task.dtypes:
            raise UsageError(f"task {task.name} has no dtype '{config.dtype}'", where="--dtype", mend=f"It has: {known}")
        dtype = DType(config.dtype)
    return RunSettings(
        # A path is kept whole: the run may be resumed from another folder.
        task=str(task.folder) if Path(config.task).exists() else config.task,
        task_digest=task.digest,
        dtype=dtype,
        backend=backend,
        threads=config.threads,
        budget=config.budget.budget(),
        seed=config.seed,
        islands=config.islands,
        model=config.model or ("" if model_given else os.environ.get("EVOKERN_MODEL", "")),
        builds=config.builds,
        model_calls=config.model_calls,
        seeds=seeds,
        degenerate=config.degenerate,
    )


def _seed(file: Path) -> tuple[str, str]:
    from evokern.cli.source import read_kernel

    kernel = read_kernel(file)
    return kernel.dialect, kernel.source


def _display() -> PlainDisplay | LiveDisplay:
    from evokern.report.display import display_for

    return display_for(sys.stderr)


def _follow(engine: Engine, display: PlainDisplay | LiveDisplay, *, as_json: bool) -> int:
    """Run the engine to its end or to Ctrl-C, and answer."""
    from evokern import record
    from evokern.errors import DiskFull, disk_full
    from evokern.report.tables import closing_text

    try:
        summary = record.to_json(asyncio.run(_run_until_interrupted(engine)))
    except asyncio.CancelledError:
        summary = {"run": engine.run_id, "state": "interrupted"}
    except Exception as error:
        full = disk_full(error)
        if full is None or not engine.recorded:
            raise
        raise DiskFull(full.what, where=full.where, mend=f"{full.mend}, then `evokern resume {engine.run_id}`") from error
    finally:
        display.close()
    if summary["state"] == "interrupted":
        resume_command = f"evokern resume {summary['run']}"
        say(f"interrupted; everything committed is kept. To go on: {resume_command}")
        if as_json:
            print_document("evokern.run/1", {**summary, "resume": resume_command})
        return INTERRUPTED
    print_answer("evokern.run/1", summary, closing_text(summary), as_json=as_json)
    return DONE if summary.get("kernel") else DID_NOT_HOLD


async def _run_until_interrupted(engine: Engine) -> Any:
    """Ctrl-C or SIGTERM cancels the run once, which lets it close its processes and journal; a second one ends at once."""
    task = asyncio.ensure_future(engine.run())
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        say("stopping; once more to stop at once")
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    return await task
