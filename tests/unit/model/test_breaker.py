"""The circuit breaker: opens after failures in a row, lets one trial through after each growing pause, closes on success."""

from __future__ import annotations

import pytest

from evokern.errors import UsageError
from evokern.model import Breaker, BreakerSettings
from evokern.model.breaker import Permit


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def breaker(clock: Clock, **settings: float) -> Breaker:
    fields = {"failures_to_open": 3, "first_pause_s": 5.0, "growth": 2.0, "longest_pause_s": 30.0, **settings}
    return Breaker(BreakerSettings(**fields), clock)  # type: ignore[arg-type]


def admitted(b: Breaker) -> Permit:
    permit = b.admit()
    assert permit is not None
    return permit


def test_stays_closed_while_failures_are_not_in_a_row() -> None:
    b = breaker(Clock())
    for _ in range(5):
        b.failed(admitted(b))
        b.failed(admitted(b))
        b.succeeded(admitted(b))
    assert b.state == "closed"
    assert b.openings == 0


def test_opens_after_failures_in_a_row_and_lets_nothing_through() -> None:
    b = breaker(Clock())
    for _ in range(3):
        b.failed(admitted(b))
    assert b.state == "open"
    assert [b.admit() for _ in range(100)] == [None] * 100
    assert b.pause_s() == 5.0


def test_pauses_grow_to_a_bound_while_trials_fail() -> None:
    clock = Clock()
    b = breaker(clock)
    for _ in range(3):
        b.failed(admitted(b))
    pauses = []
    for _ in range(6):
        pauses.append(b.pause_s())
        clock.now += b.pause_s()
        b.failed(admitted(b))
    assert pauses == [5.0, 10.0, 20.0, 30.0, 30.0, 30.0]
    assert b.openings == 7


def test_exactly_one_trial_goes_out_after_a_pause() -> None:
    clock = Clock()
    b = breaker(clock)
    for _ in range(3):
        b.failed(admitted(b))
    clock.now += 5.0
    trial = admitted(b)
    assert trial.is_trial
    assert b.state == "trial"
    assert b.admit() is None
    assert b.pause_s() > 0
    b.succeeded(trial)
    assert b.state == "closed"
    assert b.admit() == Permit(1, is_trial=False)


def test_an_abandoned_trial_leaves_the_way_to_the_next() -> None:
    clock = Clock()
    b = breaker(clock)
    for _ in range(3):
        b.failed(admitted(b))
    clock.now += 5.0
    b.abandoned(admitted(b))
    assert admitted(b).is_trial


def test_success_resets_the_growth() -> None:
    clock = Clock()
    b = breaker(clock)
    for _ in range(3):
        b.failed(admitted(b))
    clock.now += 5.0
    b.failed(admitted(b))
    assert b.pause_s() == 10.0
    clock.now += 10.0
    b.succeeded(admitted(b))
    for _ in range(3):
        b.failed(admitted(b))
    assert b.pause_s() == 5.0


def test_failures_of_requests_sent_before_an_opening_do_not_lengthen_the_pause() -> None:
    b = breaker(Clock())
    permits = [admitted(b) for _ in range(8)]
    for permit in permits:
        b.failed(permit)
    assert b.openings == 1
    assert b.pause_s() == 5.0


def test_a_late_success_closes_it() -> None:
    b = breaker(Clock())
    late = admitted(b)
    for _ in range(3):
        b.failed(admitted(b))
    b.succeeded(late)
    assert b.state == "closed"


def test_opens_at_once_and_for_as_long_as_the_endpoint_asked() -> None:
    b = breaker(Clock())
    b.failed(admitted(b), at_once=True, at_least_s=500.0)
    assert b.pause_s() == 500.0


def test_a_thousand_openings_do_not_overflow() -> None:
    clock = Clock()
    b = breaker(clock, growth=10.0)
    for _ in range(1000):
        clock.now += b.pause_s()
        b.failed(admitted(b), at_once=True)
    assert b.pause_s() == 30.0


@pytest.mark.parametrize("wrong", [{"failures_to_open": 0}, {"first_pause_s": 0.0}, {"growth": 0.5}, {"longest_pause_s": 1.0}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="circuit breaker needs"):
        breaker(Clock(), **wrong)
