"""Meter: what a session may use and has used, over all of its runs, whoever works them.

A session is a name. Every process that serves it works a run of its own, and what they have used together is read from the journal:
no client, and no restart of a server, gets a budget twice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from evokern.errors import EvokernError
from evokern.event import SESSION, Budget, RunSettings, Spent
from evokern.serve.lock import locked
from evokern.store import Journal
from evokern.store.lease import is_worked
from evokern.store.queries import Charge, Run

LOCK = "meter.lock"
"""Within a home."""

MEND = "Show what is there with `top` and `show`; whoever started the server may give a larger budget or another session"

NOTHING = Charge(0, 0.0, 0)


class BudgetSpent(EvokernError):
    """A session has used what it may use."""


@dataclass(frozen=True, slots=True)
class Session:
    """What a budget is for.

    Attributes:
        name: As the user named it.
        task_digest: Of the task.
        dtype: Element type.
        backend: Name of the backend.
        threads: Threads granted to a kernel.
    """

    name: str
    task_digest: str
    dtype: str
    backend: str
    threads: int

    @classmethod
    def of(cls, settings: RunSettings) -> Session:
        """The session that a run's settings name; the empty name for a run of the evolver."""
        return cls(
            settings.options.get(SESSION, ""), settings.task_digest, str(settings.dtype), settings.backend, settings.threads
        )  # fmt: skip


class Meter:
    """Counts a session's evaluations and their seconds, and refuses what passes its budget.

    Args:
        journal: Of the home.
        session: Whose budget it is.
        budget: Its limits; those of evaluations and seconds count.
    """

    def __init__(self, journal: Journal, session: Session, budget: Budget) -> None:
        self.session, self.budget = session, budget
        self._journal, self._home = journal, journal.path.parent
        self._known: dict[str, Charge] = {}
        self._over: set[str] = set()
        self._gate = asyncio.Lock()

    def runs(self) -> list[Run]:
        """Runs of the session, the newest first."""
        return [run for run in self._journal.runs() if Session.of(run.settings) == self.session]

    def holds(self, run: str) -> bool:
        """Whether a run is one of the session's."""
        return Session.of(self._journal.run(run).settings) == self.session

    def spent(self) -> Spent:
        """What evaluations have cost that have ended."""
        return self._spent(self.runs())

    def own(self, run: str) -> Spent:
        """What the evaluations of one run have cost."""
        charge = self._charge(run)
        return Spent(charge.seconds, charge.evaluations)

    def _spent(self, runs: Sequence[Run]) -> Spent:
        charges = []
        for run in runs:
            charges.append(self._known[run.id] if run.id in self._over else self._charge(run.id))
            if run.state == "ended":
                self._over.add(run.id)
        return Spent(sum(charge.seconds for charge in charges), sum(charge.evaluations for charge in charges))

    @asynccontextmanager
    async def claim(self, under_way: Callable[[], int], run: str) -> AsyncIterator[None]:
        """A section in which one more evaluation may be begun; of all processes one is in such a section.

        Args:
            under_way: How many evaluations of this process's run were begun and have not ended.
            run: Id of that run.

        Raises:
            BudgetSpent: Nothing is left.
            Unavailable: The claim's file cannot be written.
        """
        async with self._gate:
            lock = await locked(self._home / LOCK)
            try:
                self._refuse_spent(under_way(), run)
                yield
            finally:
                os.close(lock)

    @asynccontextmanager
    async def settling(self) -> AsyncIterator[None]:
        """A section in which an evaluation's end is written and its claim dropped, so that nobody of this process counts it twice."""
        async with self._gate:
            yield

    def _refuse_spent(self, under_way: int, run: str) -> None:
        if self.budget == Budget():
            return
        runs = self.runs()
        # In this order: what another process ends in between is counted twice rather than not at all.
        begun = under_way + sum(self._begun_by(other) for other in runs if other.id != run)
        spent = self._spent(runs)
        limit = replace(spent, evaluations=spent.evaluations + begun).exceeds(self.budget)
        if limit:
            raise BudgetSpent(f"the budget of {self._limit(limit)} is spent", where=f"session '{self.session.name}'", mend=MEND)

    def _charge(self, run: str) -> Charge:
        known = self._known.get(run, NOTHING)
        more = self._journal.charged(run, after=known.sequence)
        charge = Charge(known.evaluations + more.evaluations, known.seconds + more.seconds, more.sequence)
        self._known[run] = charge
        return charge

    def _begun_by(self, run: Run) -> int:
        """Evaluations that another process has begun and not ended; what was under way when one died is given back."""
        return len(self._journal.unfinished(run.id)) if run.state == "running" and is_worked(self._home, run.id) else 0

    def _limit(self, name: str) -> str:
        if name == "evaluations":
            return f"{self.budget.evaluations} evaluations"
        return f"{(self.budget.seconds or 0.0) / 60:g} minutes of judging"
