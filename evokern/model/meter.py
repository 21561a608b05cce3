"""What calls cost: every one is counted, the failed and those in flight included.

Tokens are exact where the provider reports them. A request that may have been billed but reported nothing (a time-out, a
cancelled call) leaves its reservation standing as an upper bound, beside the exact count and never mixed into it. Money is
unknown, and not 0, as soon as one answered call had no known price or one request's use was not reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from evokern.model.protocol import Failure, Usage

MAY_BE_BILLED = (Failure.TIMED_OUT, Failure.CANCELLED, Failure.BAD_ANSWER, Failure.UNEXPECTED)
"""Failures after which nobody knows whether the provider counted the request."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Upper bound of what one request in flight may use, in tokens of prompt and answer; usd None where unpriced."""

    tokens: int
    usd: float | None


@dataclass(frozen=True, slots=True)
class Spend:
    """A snapshot of the meter.

    Attributes:
        calls: Requests sent, in-flight and failed ones included.
        in_flight: Requests sent and not yet ended.
        answered: Requests that gave a completion.
        failures: Requests that gave none, by kind; kinds that were never sent are here too but not in `calls`.
        prompt_tokens: Exact sum over answers that reported it.
        completion_tokens: The same for answers.
        unreported_calls: Ended requests whose tokens nobody reported.
        unreported_tokens_bound: Upper bound of what those may have used.
        reserved_tokens: Upper bound of what the requests in flight may use.
        usd: Money in US dollars; None where some answered call had no known price, or some request's use was not reported.
        usd_at_least: Money of the priced calls, a lower bound.
    """

    calls: int
    in_flight: int
    answered: int
    failures: Mapping[Failure, int]
    prompt_tokens: int
    completion_tokens: int
    unreported_calls: int
    unreported_tokens_bound: int
    reserved_tokens: int
    usd: float | None
    usd_at_least: float

    @property
    def tokens(self) -> int:
        """Exact tokens, prompt and answer."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def committed_tokens(self) -> int:
        """Upper bound of the tokens that are, or may come to be, billed: what a budget is held against."""
        return self.tokens + self.unreported_tokens_bound + self.reserved_tokens

    def to_json(self) -> dict[str, object]:
        """All fields; `usd` is null where it is unknown."""
        return {
            "calls": self.calls,
            "in_flight": self.in_flight,
            "answered": self.answered,
            "failures": {str(kind): count for kind, count in sorted(self.failures.items())},
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "unreported_calls": self.unreported_calls,
            "unreported_tokens_bound": self.unreported_tokens_bound,
            "reserved_tokens": self.reserved_tokens,
            "usd": self.usd,
            "usd_at_least": self.usd_at_least,
        }


@dataclass(slots=True)
class Meter:
    """Counts requests from `begin` to `answered` or `failed`, and holds them to a budget.

    Attributes:
        token_limit: Largest `committed_tokens`, or None for no limit.
        usd_limit: Largest money in US dollars, or None for no limit.
    """

    token_limit: int | None = None
    usd_limit: float | None = None
    _calls: int = 0
    _answered: int = 0
    _failures: Counter[Failure] = field(default_factory=Counter)
    _open: list[Reservation] = field(default_factory=list)
    _prompt_tokens: int = 0
    _completion_tokens: int = 0
    _unreported: int = 0
    _unreported_tokens: int = 0
    _unreported_usd: float = 0.0
    _usd: float = 0.0
    _unpriced: int = 0

    def allows(self, reservation: Reservation) -> bool:
        """Whether a request with this upper bound fits what is left, requests in flight taken at their own bounds."""
        if self.token_limit is not None and self.spend().committed_tokens + reservation.tokens > self.token_limit:
            return False
        if self.usd_limit is None:
            return True
        if reservation.usd is None:
            return False  # nothing of unknown price fits a budget of money
        in_flight = sum(r.usd or 0.0 for r in self._open)
        return self._usd + self._unreported_usd + in_flight + reservation.usd <= self.usd_limit

    def begin(self, reservation: Reservation) -> None:
        """A request is about to be sent."""
        self._calls += 1
        self._open.append(reservation)

    def answered(self, reservation: Reservation, usage: Usage) -> None:
        """A request begun with this reservation was answered."""
        self._open.remove(reservation)
        self._answered += 1
        self._add(reservation, usage)

    def failed(self, reservation: Reservation, failure: Failure, usage: Usage | None = None) -> None:
        """A request begun with this reservation gave no completion.

        Args:
            reservation: As given to `begin`.
            failure: Which kind.
            usage: What the provider reported all the same. Without it the bound stands where the provider may have worked
                on the request; an error status is not billed.
        """
        self._open.remove(reservation)
        self._failures[failure] += 1
        if usage is not None:
            self._add(reservation, usage)
        elif failure in MAY_BE_BILLED:
            self._leave_bound(reservation)

    def _add(self, reservation: Reservation, usage: Usage) -> None:
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            self._leave_bound(reservation)
        else:
            self._prompt_tokens += usage.prompt_tokens
            self._completion_tokens += usage.completion_tokens
        if usage.usd is None:
            self._unpriced += 1
        else:
            self._usd += usage.usd

    def _leave_bound(self, reservation: Reservation) -> None:
        self._unreported += 1
        self._unreported_tokens += reservation.tokens
        self._unreported_usd += reservation.usd or 0.0

    def not_sent(self, failure: Failure) -> None:
        """A call was refused before anything was sent."""
        self._failures[failure] += 1

    def spend(self) -> Spend:
        """Where it stands."""
        return Spend(
            calls=self._calls,
            in_flight=len(self._open),
            answered=self._answered,
            failures=dict(self._failures),
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            unreported_calls=self._unreported,
            unreported_tokens_bound=self._unreported_tokens,
            reserved_tokens=sum(r.tokens for r in self._open),
            usd=None if self._unpriced or self._unreported else self._usd,
            usd_at_least=self._usd,
        )
