"""The application: its commands, and how every way of ending becomes an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from evokern.cli import doctor, evaluate, mcp, plugins, profile, promote, run, runs, task, verify
from evokern.cli.answer import INTERRUPTED, print_error
from evokern.errors import EvokernError, Unavailable, UsageError, disk_full

app = typer.Typer(
    name="evokern",
    help="Search for fast, correct compute kernels.",
    epilog="Exit codes: 0 done; 1 what was asked did not hold; 2 wrong usage; 3 something needed is not here; 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        import evokern

        sys.stdout.write(f"evokern {evokern.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """Search for fast, correct compute kernels."""


app.command("run")(run.run)
app.command("resume")(run.resume)
app.command("status")(runs.status)
app.command("top")(runs.top)
app.command("show")(runs.show)
app.command("eval")(evaluate.evaluate)
app.command("profile")(profile.profile)
app.add_typer(task.app, name="task")
app.command("promote")(promote.promote)
app.command("verify")(verify.verify)
app.command("doctor")(doctor.doctor)
app.command("plugins")(plugins.plugins)
app.command("mcp")(mcp.mcp)


def main() -> None:
    """Run the command line on `sys.argv` and exit with its code."""
    sys.exit(answer(sys.argv[1:]))


def answer(argv: Sequence[str]) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code.
    """
    as_json = "--json" in argv
    if not argv:
        argv = ["--help"]
    try:
        code = app(list(argv), standalone_mode=False, prog_name="evokern")
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get("EVOKERN_DEBUG"):
            import traceback

            traceback.print_exc()
        return _answer_error(error, as_json=as_json)
    return code if isinstance(code, int) else 0


def _answer_error(error: BaseException, *, as_json: bool) -> int:
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # Whoever read the output has left; the interpreter must not try to flush into the closed pipe either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if isinstance(error, typer.TyperException) and type(error).__name__ == "NoArgsIsHelpError":
        sys.stdout.write(f"{error}\n")
        return UsageError.exit_code
    known = _as_evokern_error(error)
    print_error(known, as_json=as_json)
    return known.exit_code


def _as_evokern_error(error: BaseException) -> EvokernError:
    if isinstance(error, EvokernError):
        return error
    if isinstance(error, typer.TyperException):
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "evokern"
        return UsageError(message.strip().rstrip("."), mend=f"See `{command} --help`")
    full = disk_full(error)
    if full is not None:
        return full
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        return Unavailable(os.strerror(error.errno), where=str(error.filename or ""), mend="Set EVOKERN_HOME to another disk")
    if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        return _as_evokern_error(error.exceptions[0])
    name = f"{type(error).__name__}: {error}".rstrip(".: ")
    return EvokernError(f"unexpected {name}", mend="This is a defect of evokern; EVOKERN_DEBUG=1 shows the traceback")
