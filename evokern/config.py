"""Settings: flags over a TOML file over defaults, composed from frozen dataclasses.

`Config` is the whole of what a run can be told. Its fields are the keys of the file and, with `-` for `_`, the flags of
`evokern run`; a field that is itself a dataclass is a table. A key that no dataclass has is refused with its nearest match,
so that a misspelt setting never falls back to a default in silence.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from evokern.errors import UsageError
from evokern.event import Budget

T = TypeVar("T")

DEFAULT_SECONDS = 300.0
"""Search time of a run that was given no budget."""


@dataclass(frozen=True, slots=True)
class BudgetConfig:
    """When a run ends; whichever limit is reached first. All are above 0.

    Attributes:
        hours: Search time in hours; not together with `minutes`.
        minutes: Search time in minutes.
        evals: Kernels judged.
        tokens: Prompt and completion tokens.
        usd: US dollars spent on models.
    """

    hours: float | None = None
    minutes: float | None = None
    evals: int | None = None
    tokens: int | None = None
    usd: float | None = None

    def budget(self) -> Budget:
        """The same in the engine's units; five minutes where nothing was set."""
        seconds = None
        if self.hours is not None:
            seconds = self.hours * 3600
        elif self.minutes is not None:
            seconds = self.minutes * 60
        elif (self.evals, self.tokens, self.usd) == (None, None, None):
            seconds = DEFAULT_SECONDS
        return Budget(seconds=seconds, evaluations=self.evals, tokens=self.tokens, usd=self.usd)


@dataclass(frozen=True, slots=True)
class Config:
    """What a run can be told.

    Attributes:
        task: Name of a task, or path of its folder.
        backend: Name of a backend; "auto" for the best one that works here.
        dtype: Element type; empty for the task's default on that backend.
        model: Language model as litellm spells it; empty for none.
        threads: Threads granted to a kernel, at least 1.
        seed: Root of all chance in the search.
        seed_kernel: Files of further seed kernels.
        islands: How many islands, at least 1.
        builds: Builds in flight, at least 1.
        model_calls: Model calls in flight, at least 1.
        degenerate: Whether a task tagged degenerate may run.
        budget: When it ends.
    """

    task: str = ""
    backend: str = "auto"
    dtype: str = ""
    model: str = ""
    threads: int = 1
    seed: int = 0
    seed_kernel: tuple[str, ...] = ()
    islands: int = 4
    builds: int = 2
    model_calls: int = 4
    degenerate: bool = False
    budget: BudgetConfig = field(default_factory=BudgetConfig)


POSITIVE = ("hours", "minutes", "evals", "tokens", "usd", "threads", "islands", "builds", "model_calls")


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """What to say of an unknown name: the closest known one, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(names)}"


def load_config(file: Path | None, flags: Mapping[str, Any]) -> Config:
    """Settings of a run.

    Args:
        file: A TOML file with the fields of `Config`, or None.
        flags: Values given on the command line, by field name, those of the budget included; None or an empty tuple where
            a flag was not given.

    Raises:
        UsageError: A key is unknown, or a value has the wrong type or range; the message names the file or flag.
    """
    table = {} if file is None else _read_toml(file)
    _refuse_unknown(Config, table, str(file))
    limits = table.pop("budget", {})
    if not isinstance(limits, dict):
        raise UsageError("'budget' must be a table", where=str(file), mend="Write [budget] and its keys below it")
    from_file = _compose(BudgetConfig, limits, f"{file} [budget]")
    whole = _compose(Config, table, str(file))

    given = {name: value for name, value in flags.items() if value is not None and value != ()}
    budget_names = {f.name for f in dataclasses.fields(BudgetConfig)}
    budget_flags = {name: value for name, value in given.items() if name in budget_names}
    run_flags = {name: value for name, value in given.items() if name not in budget_names}
    if {"hours", "minutes"} & set(budget_flags):
        from_file = dataclasses.replace(from_file, hours=None, minutes=None)
    _compose(BudgetConfig, budget_flags, "")
    _compose(Config, run_flags, "")
    return dataclasses.replace(whole, **run_flags, budget=dataclasses.replace(from_file, **budget_flags))


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(file)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not valid TOML: {error}", where=str(file)) from error


def _refuse_unknown(kind: type, table: Mapping[str, Any], where: str) -> None:
    known = {f.name for f in dataclasses.fields(kind)}
    for name in table:
        if name not in known:
            raise UsageError(f"unknown setting '{name}'", where=where, mend=nearest(name, known))


def _compose(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """One dataclass from one table; `where` is empty for flags, which are then named in the message."""
    _refuse_unknown(typing.cast(type, kind), table, where)
    hints = typing.get_type_hints(kind)
    values = {name: _checked(name, value, hints[name], where or f"--{name.replace('_', '-')}") for name, value in table.items()}
    if values.get("hours") is not None and values.get("minutes") is not None:
        raise UsageError("hours and minutes are both given", where=where or "--hours", mend="Keep one of them")
    return kind(**values)


def _checked(name: str, value: Any, hint: Any, where: str) -> Any:
    wanted = tuple(t for t in (typing.get_args(hint) or (hint,)) if t is not type(None))
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise UsageError(f"'{name}' must be a list of texts, not {value!r}", where=where)
        return tuple(value)
    if wanted == (float,) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) not in wanted:
        names = " or ".join(t.__name__ for t in wanted)
        raise UsageError(f"'{name}' must be {names}, not {value!r}", where=where)
    if name in POSITIVE and not (value > 0 and math.isfinite(value)):
        raise UsageError(f"'{name}' must be above 0, not {value!r}", where=where)
    return value
