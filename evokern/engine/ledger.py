"""Ledger: what a run has used and found, kept up event by event."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from evokern.event import Budget, Event, EventKind, ModelCall, Spent
from evokern.store import payload as events

ON_THE_CLOCK = (EventKind.EVALUATED, EventKind.REFUSED, EventKind.PLACED)
"""Events that show how far the clock of a leg that was killed had got: it wrote no end."""


@dataclass
class Ledger:
    """What a run has used and found.

    Attributes:
        settled: Ids of kernels with a verdict.
        verdicts: Counts by verdict.
        calls: Model calls.
        tokens: Prompt and completion tokens.
        usd: Money, where the price is known.
        unknown: Calls of unknown price.
        external: Verdicts that no judge of this home signed.
        rejudged: Events in which an elite was judged again.
        withdrawn: Of those, the ones in which it failed.
        bits: Answers of the gate spent on the present held-out set.
        epoch: Held-out sets retired.
        rotated: The epoch for which one was retired before its time; elites of earlier ones are gated again.
        before_s: Search time of earlier legs.
        since: Monotonic time at which this leg's clock started; None while it stands.
    """

    settled: set[str] = field(default_factory=set)
    verdicts: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unknown: int = 0
    external: int = 0
    rejudged: int = 0
    withdrawn: int = 0
    bits: int = 0
    epoch: int = 0
    rotated: int = 0
    before_s: float = 0.0
    since: float | None = None

    def restore(self, history: Iterable[Event]) -> None:
        """Take a run's events, in the journal's order."""
        started: float | None = None
        for event in history:
            body = events.read(event)
            if isinstance(body, events.Evaluated):
                self.take_verdict(body)
            elif isinstance(body, events.Rejudged):
                self.take_rejudged(body)
            elif event.kind in (EventKind.ROTATED, EventKind.CLOSED):
                self.retire_held_out(early=event.kind is EventKind.ROTATED)
            elif isinstance(body, ModelCall):
                self.take_call(body)
            if event.kind in (EventKind.BASELINES, EventKind.RUN_RESUMED):
                started = event.at
            elif isinstance(body, events.Ended):
                started, self.before_s = None, body.spent.seconds
            elif started is not None and event.kind in ON_THE_CLOCK:
                self.before_s += max(0.0, event.at - started)
                started = event.at

    def take_verdict(self, body: events.Evaluated) -> None:
        """Count a verdict."""
        self.settled.add(body.evaluation.kernel_id)
        self.verdicts[body.evaluation.verdict] += 1
        self.external += body.external
        self.bits += body.bits

    def take_rejudged(self, body: events.Rejudged) -> None:
        """Count a verdict on somebody who had one."""
        self.rejudged += 1
        self.withdrawn += not body.evaluation.passed
        self.bits += body.bits

    def retire_held_out(self, *, early: bool) -> None:
        """Another held-out set, of which nothing has been told yet."""
        self.epoch += 1
        self.bits = 0
        self.rotated = self.epoch if early else self.rotated

    def take_call(self, call: ModelCall) -> None:
        """Count a model call, whatever came of it."""
        self.calls += 1
        self.tokens += call.prompt_tokens + call.completion_tokens
        self.usd += call.usd or 0.0
        self.unknown += call.usd is None

    def start_clock(self) -> None:
        """A leg's search begins."""
        self.since = time.monotonic()

    def stop_clock(self) -> Spent:
        """A leg's search is over; what was spent in all."""
        spent = self.spent()
        self.before_s, self.since = spent.seconds, None
        return spent

    def spent(self) -> Spent:
        """In the budget's units."""
        leg = 0.0 if self.since is None else time.monotonic() - self.since
        return Spent(self.before_s + leg, len(self.settled), self.tokens, self.usd, self.unknown)

    def scarcer(self, budget: Budget) -> str:
        """Which of tokens and money a model's client that sends nothing more has run out of."""
        shares = {"tokens": (self.tokens, budget.tokens), "usd": (self.usd, budget.usd)}
        limited = {name: used / limit for name, (used, limit) in shares.items() if limit}
        return max(limited, key=lambda name: limited[name], default="tokens")
