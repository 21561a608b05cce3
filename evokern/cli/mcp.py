"""`evokern mcp`: a task for a coding agent, over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from evokern.cli.answer import DONE, INTERRUPTED, JsonFlag, print_document, say

if TYPE_CHECKING:
    from evokern.event import RunSettings

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def mcp(
    task: Annotated[str, typer.Option(help="Name of a task, or path of its folder.")],
    backend: Annotated[str, typer.Option(help="Name of a backend, see `evokern plugins`; auto for the best one here.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Element type; the task's default on the backend if not given.")] = None,
    threads: Annotated[int, typer.Option(help="Threads granted to a kernel.")] = 1,
    budget_evals: Annotated[int | None, typer.Option(min=1, help="Kernels judged in all, over every client and restart.")] = None,
    budget_minutes: Annotated[float | None, typer.Option(help="Minutes of judging in all, likewise.")] = None,
    session: Annotated[str, typer.Option(help="What the budget is for: another name has another one.")] = "mcp",
    http: Annotated[
        int | None, typer.Option(min=0, max=65535, metavar="PORT", help="Listen on 127.0.0.1 instead of standard input; 0 for any port.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Serve a task to coding agents: evaluate, profile, top, show, task. On standard input and output, until the client hangs up."""
    from evokern.cli.run import settings_for
    from evokern.config import load_config
    from evokern.errors import UsageError
    from evokern.event import Budget
    from evokern.serve.bench import in_session
    from evokern.serve.protocol import require_mcp

    require_mcp()
    if not NAME.fullmatch(session):
        raise UsageError(f"'{session}' is no name for a session", where="--session", mend="Use letters, digits, '.', '_' and '-'")
    if budget_minutes is not None and not 0 < budget_minutes < float("inf"):
        raise UsageError(f"must be above 0, not {budget_minutes}", where="--budget-minutes")
    chosen = load_config(None, {"task": task, "backend": backend, "dtype": dtype, "threads": threads})
    budget = Budget(seconds=None if budget_minutes is None else budget_minutes * 60, evaluations=budget_evals)
    settings = in_session(settings_for(chosen), session, budget)
    if as_json and http is None:
        raise UsageError("standard output is the protocol's", where="--json", mend="Leave it out, or serve with --http")
    if asyncio.run(_serve(settings, http, as_json=as_json)):
        return DONE
    return INTERRUPTED


async def _serve(settings: RunSettings, port: int | None, *, as_json: bool) -> bool:
    """Serve to the end; False where a signal ended it."""
    from evokern.serve.bench import Bench
    from evokern.serve.protocol import serve_http, serve_stdio, until_stopped
    from evokern.serve.tools import Tools
    from evokern.serve.turn import Turn
    from evokern.store import Journal
    from evokern.store import home as open_home

    def listening(text: str) -> None:
        say(text)
        if as_json:
            print_document("evokern.mcp/1", {"url": text.rsplit(maxsplit=1)[-1], "session": settings.options["session"]})

    home = open_home()
    with Journal(home) as journal:
        async with Bench(settings, journal=journal, turn=Turn(home)) as bench:
            tools = Tools(bench, journal)
            say(f"serving {bench.task.name}, {settings.dtype}, backend {settings.backend}, session '{settings.options['session']}'")
            whole = await until_stopped(serve_stdio(tools) if port is None else serve_http(tools, port, listening))
            if not whole:
                await bench.close("interrupted")
    if not whole and port is None:
        # A thread of this process still waits for the client's next line, and would keep it from ending.
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    return whole
