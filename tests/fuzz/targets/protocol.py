"""Records of runner and judge: a violation, or a record that is the same after another journey."""

from __future__ import annotations

from evokern.evaluator.call.protocol import (
    Bind,
    Done,
    Go,
    ProtocolViolation,
    decode_bytes,
    decode_done,
    decode_request,
    encode_bind,
    encode_bytes,
    encode_done,
    encode_go,
)


def once(data: bytes) -> None:
    seq = int.from_bytes(data[8:16], "little")
    for read, again in ((_request, _encoded), (_done, encode_done), (_bytes, _encoded_bytes)):
        try:
            found = read(data, seq)
        except ProtocolViolation:
            continue
        assert read(again(found), found.seq if isinstance(found, Done | Go | Bind) else seq) == found


def _request(data: bytes, _: int) -> Bind | Go:
    return decode_request(data)


def _done(data: bytes, seq: int) -> Done:
    return decode_done(data, seq)


def _bytes(data: bytes, seq: int) -> tuple[int, int]:
    return seq, decode_bytes(data, seq)


def _encoded(found: Bind | Go) -> bytes:
    return encode_bind(found) if isinstance(found, Bind) else encode_go(found)


def _encoded_bytes(found: tuple[int, int]) -> bytes:
    return encode_bytes(*found)
