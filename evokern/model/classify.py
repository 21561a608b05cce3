"""From whatever the client library raised to one of the closed list of failures.

Providers differ in classes, but not in HTTP statuses, and litellm reports some transport problems as status 500; so the chain
of causes is looked at before the status. Classes are matched by name because importing them means importing litellm.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime

from evokern.model.protocol import Failure

LONGEST_RETRY_AFTER_S = 3600.0
"""A server that asks for more than this is asked again after this."""

BY_OWN_CLASS = {
    "ContextWindowExceededError": Failure.TOO_LONG,
    "ContentPolicyViolationError": Failure.FILTERED,
    "LiteLLMUnknownProvider": Failure.NOT_FOUND,
}
BY_CAUSE = (
    (Failure.TIMED_OUT, {"Timeout", "APITimeoutError", "TimeoutError", "ReadTimeout", "ConnectTimeout"}),
    (Failure.BAD_ANSWER, {"JSONDecodeError", "APIResponseValidationError", "ValidationError", "UnicodeDecodeError", "DecodingError"}),
    (Failure.UNREACHABLE, {"APIConnectionError", "ConnectError", "ConnectionError", "ConnectionRefusedError", "ReadError", "gaierror"}),
)
HTTP_STATUS_WAS_SENT = "HTTPStatusError"
"""The class that says there was a response with an error status, so that the status decides and not what it was parsed into."""

TOO_MANY_REQUESTS = 429
BY_STATUS = {
    401: Failure.UNAUTHORISED,
    402: Failure.OUT_OF_CREDIT,
    403: Failure.UNAUTHORISED,
    404: Failure.NOT_FOUND,
    408: Failure.TIMED_OUT,
    413: Failure.TOO_LONG,
    TOO_MANY_REQUESTS: Failure.RATE_LIMITED,
}
SERVER_ERRORS = range(500, 600)
CLIENT_ERRORS = range(400, 500)


def classify(error: BaseException) -> Failure:
    """Which kind of failure an exception of the client library stands for."""
    names = [type(e).__name__ for e in _causes(error)]
    if names[0] in BY_OWN_CLASS:
        return BY_OWN_CLASS[names[0]]
    if HTTP_STATUS_WAS_SENT not in names:
        for failure, classes in BY_CAUSE:
            if classes & set(names):
                return failure
    return _by_status(error)


def _by_status(error: BaseException) -> Failure:
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return Failure.UNEXPECTED
    if status == TOO_MANY_REQUESTS and "insufficient_quota" in str(error):
        return Failure.OUT_OF_CREDIT
    if status in BY_STATUS:
        return BY_STATUS[status]
    if status in SERVER_ERRORS:
        return Failure.SERVER_ERROR
    return Failure.REJECTED if status in CLIENT_ERRORS else Failure.UNEXPECTED


def retry_after_s(error: BaseException, now: float | None = None) -> float | None:
    """Seconds that the server asked to wait, from Retry-After (seconds or a date, RFC 9110 section 10.2.3) or retry-after-ms.

    Args:
        error: As raised by the client library, with the response's headers where there was a response.
        now: Seconds since the epoch, for dates; the present if None.

    Returns:
        Between 0 and `LONGEST_RETRY_AFTER_S`; None where the server said nothing that can be read.
    """
    headers = _headers(error)
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000.0)
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is None and text:
        seconds = _seconds_until(text, time.time() if now is None else now)
    return None if seconds is None else _bounded(seconds)


def _headers(error: BaseException) -> Mapping[str, str]:
    for source in (getattr(getattr(error, "response", None), "headers", None), getattr(error, "litellm_response_headers", None)):
        if source:
            return {str(name).lower(): str(value) for name, value in dict(source).items()}
    return {}


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _seconds_until(date: str, now: float) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError, OSError):
        return None


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
