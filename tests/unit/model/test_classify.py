"""Whatever a client library raises ends in one kind of the closed list."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from evokern.model import Failure
from evokern.model.classify import LONGEST_RETRY_AFTER_S, classify, retry_after_s


class StatusError(Exception):
    """An error with a status, as every client library has one."""

    def __init__(self, status: int, text: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status_code = status
        self.response = SimpleNamespace(headers=headers or {})


def chained(outer: Exception, *causes: Exception) -> Exception:
    """The outer exception with causes below it."""
    current = outer
    for cause in causes:
        current.__cause__ = cause
        current = cause
    return outer


def named(name: str) -> Exception:
    """An exception of a class with this name."""
    error: Exception = type(name, (Exception,), {})("x")
    return error


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (400, Failure.REJECTED),
        (401, Failure.UNAUTHORISED),
        (402, Failure.OUT_OF_CREDIT),
        (403, Failure.UNAUTHORISED),
        (404, Failure.NOT_FOUND),
        (408, Failure.TIMED_OUT),
        (413, Failure.TOO_LONG),
        (422, Failure.REJECTED),
        (429, Failure.RATE_LIMITED),
        (500, Failure.SERVER_ERROR),
        (503, Failure.SERVER_ERROR),
        (529, Failure.SERVER_ERROR),
        (302, Failure.UNEXPECTED),
    ],
)
def test_by_status(status: int, failure: Failure) -> None:
    assert classify(StatusError(status)) is failure


def test_a_spent_quota_is_no_passing_rate_limit() -> None:
    failure = classify(StatusError(429, "code: insufficient_quota"))
    assert failure is Failure.OUT_OF_CREDIT
    assert not failure.is_transient


def test_the_cause_decides_where_the_library_made_up_the_status() -> None:
    assert classify(chained(StatusError(500), named("APIConnectionError"), named("ConnectError"))) is Failure.UNREACHABLE
    assert classify(chained(StatusError(500), named("JSONDecodeError"))) is Failure.BAD_ANSWER
    assert classify(chained(StatusError(408), named("APITimeoutError"), named("APIConnectionError"))) is Failure.TIMED_OUT


def test_the_status_decides_where_there_was_a_response() -> None:
    assert classify(chained(StatusError(502), named("HTTPStatusError"), named("JSONDecodeError"))) is Failure.SERVER_ERROR


def test_prompts_at_fault_do_not_blame_the_endpoint() -> None:
    for name, failure in (("ContextWindowExceededError", Failure.TOO_LONG), ("ContentPolicyViolationError", Failure.FILTERED)):
        assert classify(named(name)) is failure
        assert not failure.blames_endpoint


def test_a_bug_of_the_library_is_a_failure_too() -> None:
    assert classify(KeyError("choices")) is Failure.UNEXPECTED
    assert classify(TimeoutError()) is Failure.TIMED_OUT


def test_a_ring_of_causes_ends() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first) is Failure.UNEXPECTED


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "1e300"}, LONGEST_RETRY_AFTER_S),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 40.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(StatusError(429, headers=headers), now=60.0) == seconds


def test_no_response_means_no_retry_after() -> None:
    assert retry_after_s(ValueError("x")) is None
