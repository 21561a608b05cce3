"""The meter: every request counted once, exact tokens apart from bounds, money unknown rather than 0."""

from __future__ import annotations

from evokern.model import Failure, Meter, Usage
from evokern.model.meter import Reservation

ROOM = Reservation(1000, None)


def test_requests_in_flight_count_with_their_bound() -> None:
    meter = Meter()
    meter.begin(ROOM)
    meter.begin(ROOM)
    spend = meter.spend()
    assert (spend.calls, spend.in_flight, spend.reserved_tokens, spend.tokens, spend.committed_tokens) == (2, 2, 2000, 0, 2000)


def test_tokens_of_answers_are_exact_and_the_bound_is_given_back() -> None:
    meter = Meter()
    meter.begin(ROOM)
    meter.answered(ROOM, Usage(120, 30, 0.25))
    spend = meter.spend()
    assert (spend.prompt_tokens, spend.completion_tokens, spend.committed_tokens, spend.usd) == (120, 30, 150, 0.25)
    assert spend.in_flight == spend.unreported_calls == 0


def test_an_unknown_price_makes_the_sum_unknown_and_never_zero() -> None:
    meter = Meter()
    for usage in (Usage(10, 10, 0.5), Usage(10, 10, None)):
        meter.begin(ROOM)
        meter.answered(ROOM, usage)
    spend = meter.spend()
    assert spend.usd is None
    assert spend.usd_at_least == 0.5
    assert spend.to_json()["usd"] is None


def test_an_answer_without_usage_leaves_its_bound_apart_from_the_exact_count() -> None:
    meter = Meter()
    meter.begin(ROOM)
    meter.answered(ROOM, Usage())
    spend = meter.spend()
    assert (spend.tokens, spend.unreported_calls, spend.unreported_tokens_bound) == (0, 1, 1000)


def test_a_time_out_may_have_been_billed_and_an_error_status_was_not() -> None:
    meter = Meter()
    for failure in (Failure.TIMED_OUT, Failure.CANCELLED, Failure.RATE_LIMITED, Failure.SERVER_ERROR):
        meter.begin(ROOM)
        meter.failed(ROOM, failure)
    spend = meter.spend()
    assert spend.calls == 4
    assert spend.unreported_calls == 2
    assert spend.committed_tokens == 2000
    assert spend.usd is None
    assert dict(spend.failures) == {
        Failure.TIMED_OUT: 1,
        Failure.CANCELLED: 1,
        Failure.RATE_LIMITED: 1,
        Failure.SERVER_ERROR: 1,
    }


def test_a_failed_call_that_reported_its_use_is_counted_exactly() -> None:
    meter = Meter()
    meter.begin(ROOM)
    meter.failed(ROOM, Failure.BAD_ANSWER, Usage(7, 3, None))
    assert (meter.spend().tokens, meter.spend().unreported_calls) == (10, 0)


def test_calls_that_were_not_sent_are_no_calls() -> None:
    meter = Meter()
    meter.not_sent(Failure.PAUSED)
    assert meter.spend().calls == 0
    assert meter.spend().failures == {Failure.PAUSED: 1}


def test_token_budget_takes_requests_in_flight_at_their_bound() -> None:
    meter = Meter(token_limit=2500)
    assert meter.allows(ROOM)
    meter.begin(ROOM)
    assert meter.allows(ROOM)
    meter.begin(ROOM)
    assert not meter.allows(ROOM)
    meter.answered(ROOM, Usage(100, 100))
    assert meter.allows(ROOM)


def test_money_budget_takes_requests_in_flight_at_their_bound() -> None:
    priced = Reservation(1000, 0.4)
    meter = Meter(usd_limit=1.0)
    meter.begin(priced)
    meter.begin(priced)
    assert not meter.allows(priced)
    assert not Meter(usd_limit=1.0).allows(ROOM), "an unknown price fits no budget"
    meter.answered(priced, Usage(10, 10, 0.01))
    assert meter.allows(priced)
    meter.failed(priced, Failure.TIMED_OUT)
    meter.begin(priced)
    assert not meter.allows(priced)
