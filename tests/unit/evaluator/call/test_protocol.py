from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evokern.evaluator.call.protocol import (
    MAX_RECORD,
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
    receive,
)

BIND = Bind(7, (Spec(2, 32, 2, 4096, read_only=True), Spec(0, 64, 1, 64), Spec(2, 32, 0, 0)), 128)
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


WORDS = st.integers(0, 2**64 - 1)
SIZES = st.integers(0, 2**62)
SPECS = st.builds(Spec, st.integers(0, 255), st.integers(0, 255), st.integers(0, 8), SIZES)
BINDS = st.builds(Bind, WORDS, st.lists(SPECS, max_size=8).map(tuple), SIZES)


@st.composite
def places(draw: st.DrawFn) -> Place:
    ndim = draw(st.integers(0, 4))
    numbers = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=ndim, max_size=ndim).map(tuple)
    return Place(draw(SIZES), draw(numbers), draw(numbers), draw(st.binary(min_size=8, max_size=8)))


GOES = st.builds(Go, WORDS, st.lists(places(), max_size=6).map(tuple), SIZES, SIZES, st.sampled_from([Kind.GO, Kind.SIZE]))
DONES = st.builds(Done, WORDS, st.integers(-(2**31), 2**31 - 1), WORDS)


@given(BINDS | GOES)
@settings(derandomize=True, deadline=None)
def test_every_request_arrives_as_it_was_sent(request_: Bind | Go) -> None:
    assert decode_request(encode_bind(request_) if isinstance(request_, Bind) else encode_go(request_)) == request_


@given(DONES, st.binary(max_size=64), WORDS)
@settings(derandomize=True, deadline=None)
def test_only_the_bytes_of_the_due_record_are_taken(done: Done, junk: bytes, seq: int) -> None:
    assert decode_done(encode_done(done), done.seq) == done
    for data in (junk, encode_done(done) + junk[:1] + b"\0", encode_done(done)[: len(junk) % 27]):
        for decode in (decode_done, decode_bytes):
            with pytest.raises(ProtocolViolation):
                decode(data, seq)
    if seq != done.seq:
        with pytest.raises(ProtocolViolation):
            decode_done(encode_done(done), seq)


@given(st.binary(max_size=200))
@settings(derandomize=True, deadline=None)
def test_no_bytes_make_a_runner_raise_anything_else(data: bytes) -> None:
    with contextlib.suppress(ProtocolViolation):
        decode_request(data)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    judge, runner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    judge.settimeout(5)
    with judge, runner:
        yield judge, runner


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (lambda runner: runner.send(b""), "empty"),
        (lambda runner: runner.send(bytes(MAX_RECORD + 1)), "more than"),
        (lambda runner: socket.send_fds(runner, [encode_done(Done(1, 0, 0))], [0]), "descriptors"),
        (lambda runner: socket.send_fds(runner, [b"x"], [0, 1, 2]), "descriptors"),
    ],
)
def test_a_record_holds_bytes_and_nothing_else(
    ends: tuple[socket.socket, socket.socket], sent: Callable[[socket.socket], object], said: str
) -> None:
    judge, runner = ends
    sent(runner)
    with pytest.raises(ProtocolViolation, match=said):
        receive(judge)
    runner.send(encode_done(Done(2, 0, 0)))
    assert decode_done(receive(judge), 2) == Done(2, 0, 0)


def test_the_end_of_a_runner_is_no_record(ends: tuple[socket.socket, socket.socket]) -> None:
    judge, runner = ends
    judge.setblocking(False)
    with pytest.raises(BlockingIOError):
        receive(judge)
    runner.close()
    assert receive(judge) == b""
