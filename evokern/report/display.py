"""What is shown while a run is on: a live view on a terminal, one line an event elsewhere.

Both write to standard error, so that standard output keeps the result alone, and both fulfil the engine's `Display` protocol.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from evokern.event import Event, EventKind
from evokern.printable import line
from evokern.report import tables
from evokern.report.standing import Standing, standing_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

LAST_EVENTS = 6
LONGEST_LINE = 2000
SECONDS_BETWEEN_STATUS_LINES = 30.0


class PlainDisplay:
    """One line an event, and a status line now and then.

    Args:
        stream: Where lines go.
        clock: Seconds, monotonic.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._last_status = clock()
        self._standing = Standing()

    def started(self, info: dict[str, Any]) -> None:
        """Say what runs where, and loudly where nothing of it will count."""
        self._standing = standing_of(info)
        self._say(started_line(info))

    def event(self, event: Event) -> None:
        """Say one line, if the event has one."""
        told = event_line(event)
        if told:
            self._say(told)

    def tick(self, status: dict[str, Any]) -> None:
        """Say how the run stands, at most twice a minute."""
        now = self._clock()
        if now - self._last_status < SECONDS_BETWEEN_STATUS_LINES:
            return
        self._last_status = now
        self._say(status_line(status, self._standing))

    def say(self, text: str) -> None:
        """Say it."""
        self._say(text)

    def ended(self, summary: dict[str, Any]) -> None:
        """Nothing more: the command prints the closing table."""

    def close(self) -> None:
        """Nothing is held."""

    def _say(self, text: str) -> None:
        self._stream.write(line(text, LONGEST_LINE) + "\n")
        self._stream.flush()


class LiveDisplay:
    """A view that is redrawn in place.

    Args:
        stream: A terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console: Console = Console(file=stream)
        self._live: Live | None = None
        self._status: dict[str, Any] = {}
        self._standing = Standing()
        self._events: collections.deque[str] = collections.deque(maxlen=LAST_EVENTS)

    def started(self, info: dict[str, Any]) -> None:
        """Print the head; when the run's clock starts, begin to draw below it."""
        from rich.live import Live

        self._standing = standing_of(info)
        self.say(started_line(info))
        if not info.get("device"):
            return
        self.close()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def event(self, event: Event) -> None:
        """Keep the line for the next drawing."""
        told = event_line(event)
        if told:
            self._events.append(line(told, LONGEST_LINE))
        if self._live is not None and not self._status:
            self._live.update(self.view(), refresh=True)

    def tick(self, status: dict[str, Any]) -> None:
        """Draw."""
        self._status = status
        if self._live is not None:
            self._live.update(self.view(), refresh=True)

    def say(self, text: str) -> None:
        """Print it above the view."""
        self._console.print(line(text, LONGEST_LINE), markup=False, highlight=False)

    def ended(self, summary: dict[str, Any]) -> None:
        """Clear the view."""
        self.close()

    def close(self) -> None:
        """Give the terminal back; harmless when called again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def view(self) -> RenderableType:
        """The whole view, as rich draws it."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        status = self._status
        parts: list[RenderableType] = []
        if status:
            parts.append(Text(status_line(status, self._standing), style="bold"))
            rows = tables.best_rows(status.get("best"))
            if rows:
                grid = Table(box=None, pad_edge=False)
                grid.add_column("workload")
                grid.add_column("us", justify="right")
                grid.add_column("over the faster baseline", justify="right")
                for row in rows:
                    grid.add_row(*map(Text, row))
                parts.append(grid)
            parts.append(Text(f"verdicts  {tables.counts_text(status.get('verdicts') or {})}"))
            parts.extend(Text(f"island {text}") for text in tables.island_lines(status.get("islands") or []))
            parts.append(Text(f"model     {tables.model_text(status.get('model'))}"))
        parts.extend(Text(told, style="dim") for told in self._events)
        return Group(*parts)


def display_for(stream: TextIO) -> PlainDisplay | LiveDisplay:
    """The live view on a terminal, plain lines otherwise."""
    return LiveDisplay(stream) if stream.isatty() else PlainDisplay(stream)


def started_line(info: Mapping[str, Any]) -> str:
    """What runs where, in one line: first while it makes ready, then, once the device is known, as its clock starts."""
    if info.get("device"):
        loud = standing_of(info).line
        return f"search begins on {info['device']}, sandbox tier {info.get('tier', '')}{f'; {loud}' if loud else ''}"
    model = f"model {info['model']}" if info.get("model") else "no model: LLM-free operators alone"
    return f"run {info['run']}: {info['task']} {info['dtype']} on {info['backend']}, {model}"


def status_line(status: Mapping[str, Any], standing: Standing | None = None) -> str:
    """How a run stands, in one line; a figure that does not count is no headline."""
    best = status.get("best")
    figure = standing.mark if standing and not standing.official else tables.ratio_text(best.get("ratio")) if best else ""
    champion = f"best {tables.short(best['kernel'])} {figure}" if best else "no best yet"
    budget = tables.budget_text(status.get("budget") or {})
    return f"{champion}; {status.get('evaluated', 0)} evaluated, {tables.rate_text(status.get('rate'))}; {budget}"


def event_line(event: Event) -> str:
    """An event in one line; empty for those that people need not see."""
    payload = event.payload
    match event.kind:
        case EventKind.EVALUATED:
            return _evaluated_line(payload)
        case EventKind.PLACED if payload["placement"]["champion"]:
            return f"champion {tables.short(payload['kernel_id'])} of island {payload['island']}"
        case EventKind.MIGRATED:
            return f"migrated {tables.short(payload['kernel_id'])} from island {payload['source']} to {payload['target']}"
        case EventKind.MODEL_CALLED if payload["outcome"] != "ok":
            return f"model call failed: {payload['outcome']}"
        case EventKind.RUN_RESUMED:
            return "resumed" + "".join(f", {change}" for change in payload["changes"])
        case EventKind.RUN_ENDED:
            return f"ended: {payload['reason']}"
        case _:
            return ""


def _evaluated_line(payload: Mapping[str, Any]) -> str:
    evaluation = payload["evaluation"]
    reason = "" if evaluation["reason"] == "none" else f" ({evaluation['reason']})"
    confirmed = " and confirmed" if evaluation["confirmed"] else ""
    return f"{evaluation['verdict']}{confirmed}{reason} {tables.short(evaluation['kernel_id'])}, island {payload['island']}"
