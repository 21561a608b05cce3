from __future__ import annotations

import contextlib
import random

import pytest

from evokern.evaluator.call.protocol import (
    Bind,
    Done,
    Go,
    Kind,
    Place,
    ProtocolViolation,
    Spec,
    decode_bytes,
    decode_done,
    decode_request,
    encode_bind,
    encode_bytes,
    encode_done,
    encode_go,
)

BIND = Bind(7, (Spec(2, 32, 2, 4096), Spec(0, 64, 1, 64), Spec(2, 32, 0, 0)), 128)
GO = Go(8, (Place(64, (3, 5), (8, 1)), Place(0, (3,), (1,)), Place(0, (), (), b"\x01" * 8)), 0, 128)


@pytest.mark.parametrize("request_", [BIND, GO, Go(9, GO.places, kind=Kind.SIZE)])
def test_requests_arrive_as_they_were_sent(request_: Bind | Go) -> None:
    data = encode_bind(request_) if isinstance(request_, Bind) else encode_go(request_)

    assert decode_request(data) == request_


def test_answers_arrive_as_they_were_sent() -> None:
    assert decode_done(encode_done(Done(3, -1, 99)), 3) == Done(3, -1, 99)
    assert decode_bytes(encode_bytes(4, 1 << 40), 4) == 1 << 40


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        encode_done(Done(3, 0, 0))[:-1],
        encode_done(Done(3, 0, 0)) + b"\0",
        encode_done(Done(4, 0, 0)),
        encode_bytes(3, 0),
        b"\0" * 32,
    ],
)
def test_anything_but_the_done_that_is_due_is_a_violation(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode_done(data, 3)


def test_no_mutilated_request_raises_anything_else() -> None:
    rng = random.Random(0)
    for original in (encode_bind(BIND), encode_go(GO)):
        for _ in range(500):
            data = bytearray(original)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            with contextlib.suppress(ProtocolViolation):
                decode_request(bytes(data[: rng.randrange(len(data) + 1)]))
