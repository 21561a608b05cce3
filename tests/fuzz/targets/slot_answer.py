"""What a slot's command says at its end, what a user's module makes its process say, and what a model's server says about waiting."""

from __future__ import annotations

from evokern import record
from evokern.errors import EvokernError
from evokern.evaluator.reference import published
from evokern.model.classify import LONGEST_RETRY_AFTER_S, classify, retry_after_s
from evokern.sandbox import spawner
from evokern.sandbox.order import memory_file
from evokern.sandbox.slot import Death
from tests.fuzz.harness import halves


class _Response:
    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers


class _Refused(Exception):
    def __init__(self, headers: dict[str, str], status: object) -> None:
        super().__init__("refused")
        self.response, self.status_code = _Response(headers), status


def once(data: bytes) -> None:
    first, second = halves(data)
    death = Death(0, False, False, False, 0, 0, "")
    try:
        done = spawner._completed(
            death, first.encode("utf-8", "surrogateescape"), [memory_file(data)], seconds=0.0, timed_out=False, most=1 << 16
        )
        assert all(isinstance(name, str) and isinstance(held, bytes) for name, held in done.files.items())
    except EvokernError:
        pass
    try:
        published._column(record.fields(first))
    except EvokernError as refusal:
        assert "\n" not in refusal.line
    error = _Refused({"Retry-After": first, "retry-after-ms": second}, len(data))
    assert classify(error)
    seconds = retry_after_s(error, now=1.7e9)
    assert seconds is None or 0 <= seconds <= LONGEST_RETRY_AFTER_S
