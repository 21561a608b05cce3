"""A circuit breaker: an endpoint that keeps failing is left alone for growing pauses.

Closed, every call passes. After `failures_to_open` failures in a row it opens: calls are refused at once, so a dead endpoint
costs neither time nor turns. When the pause is over, exactly one call is let through as a trial; if it succeeds the breaker
closes, if it fails the pause grows. The states are those of Nygard, Release It! (2007), chapter 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from evokern.errors import UsageError


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When to stop calling, and for how long.

    Attributes:
        failures_to_open: Failed requests in a row, at least 1.
        first_pause_s: Seconds of the first pause, above 0.
        growth: Factor from one pause to the next, at least 1.
        longest_pause_s: Upper bound of a pause in seconds.
    """

    failures_to_open: int = 5
    first_pause_s: float = 5.0
    growth: float = 2.0
    longest_pause_s: float = 600.0

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.failures_to_open < 1 or not 0 < self.first_pause_s <= self.longest_pause_s or self.growth < 1:
            raise UsageError(
                "circuit breaker needs failures_to_open >= 1, 0 < first_pause_s <= longest_pause_s and growth >= 1",
                where="model",
            )


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to send one request; handed back with what came of it.

    Attributes:
        epoch: Count of openings when it was given: failures of requests sent before the last opening open nothing twice.
        is_trial: Whether it is the one request that tests an endpoint after a pause.
    """

    epoch: int
    is_trial: bool


class Breaker:
    """The breaker of one endpoint. Not for several threads: it lives on the event loop.

    Args:
        settings: When and for how long.
        clock: Seconds that only grow.

    Attributes:
        openings: How often it has opened.
    """

    def __init__(self, settings: BreakerSettings | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings or BreakerSettings()
        self.openings = 0
        self._clock = clock
        self._failures_in_row = 0
        self._openings_in_row = 0
        self._open_until: float | None = None
        self._trial_is_out = False

    @property
    def state(self) -> str:
        """Where it stands: "closed", "open", or "trial" from the end of a pause until one request has shown how things are."""
        if self._open_until is None:
            return "closed"
        return "open" if self.pause_s() > 0 and not self._trial_is_out else "trial"

    def pause_s(self) -> float:
        """Seconds until the next request may go; 0 if now. While a trial is out, the shortest pause."""
        if self._open_until is None:
            return 0.0
        if self._trial_is_out:
            return self.settings.first_pause_s
        return max(0.0, self._open_until - self._clock())

    def admit(self) -> Permit | None:
        """Leave to send a request now, or None."""
        if self.pause_s() > 0:
            return None
        is_trial = self._open_until is not None
        self._trial_is_out = is_trial
        return Permit(self.openings, is_trial)

    def succeeded(self, permit: Permit) -> None:
        """The endpoint answered: whatever was thought of it, it lives."""
        self._failures_in_row = self._openings_in_row = 0
        self._open_until = None
        self._trial_is_out = False

    def failed(self, permit: Permit, *, at_once: bool = False, at_least_s: float = 0.0) -> None:
        """The endpoint failed.

        Args:
            permit: The leave that was given.
            at_once: Open now, without waiting for more failures.
            at_least_s: Shortest pause in seconds, where the endpoint named one; it may pass `longest_pause_s`.
        """
        if permit.epoch != self.openings:
            return  # it was sent before the breaker opened, and has been counted by that
        self._failures_in_row += 1
        if permit.is_trial or at_once or self._failures_in_row >= self.settings.failures_to_open:
            self._open(at_least_s)

    def abandoned(self, permit: Permit) -> None:
        """The request was given up, or failed for a reason that says nothing of the endpoint: the next may be the trial."""
        if permit.is_trial and permit.epoch == self.openings:
            self._trial_is_out = False

    def _open(self, at_least_s: float) -> None:
        s = self.settings
        # The exponent is bounded because a float power overflows after a thousand openings.
        grown = s.first_pause_s * s.growth ** min(self._openings_in_row, 64)
        self._open_until = self._clock() + max(min(grown, s.longest_pause_s), at_least_s)
        self._openings_in_row += 1
        self.openings += 1
        self._failures_in_row = 0
        self._trial_is_out = False
