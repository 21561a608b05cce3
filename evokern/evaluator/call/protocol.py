"""The records that judge and runner exchange: fixed binary layouts over a sequenced socket (EVALUATOR section 3).

One record is one datagram of a SOCK_SEQPACKET socket. The judge sends BIND, SIZE and GO, and where there is a device SAMPLE, WARM and
CAPTURE; the runner answers each with one DONE or BYTES of fixed length and the same sequence number, CAPTURE with JSON. Anything else
from the runner is a protocol violation. Windows travel as descriptors beside BIND. Integers are little-endian.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

MAGIC = b"EVK1"
MAX_RECORD = 1 << 14
"""Bytes of the longest record; longer ones are cut off by the socket and refused by length."""


class Kind(IntEnum):
    """What a record is."""

    BIND = 1
    SIZE = 2
    GO = 3
    DONE = 4
    BYTES = 5
    SAMPLE = 6
    """As GO, on a device: between two events of it, with caches emptied and the device kept busy until all is enqueued. Its DONE claims
    the time between the events."""
    WARM = 7
    """As SAMPLE, with caches as they are."""
    CAPTURE = 8
    """As GO, but answered with what would be launched, in JSON, and nothing is done."""


_HEADER = struct.Struct("<4sBBHQ")
_SPEC = struct.Struct("<BBB?Q")
_TAIL = struct.Struct("<QQ")
_DONE = struct.Struct("<4sBBHQiQ")
_BYTES = struct.Struct("<4sBBHQQ")


class ProtocolViolation(Exception):
    """A record that was not the one due; the runner that sent it is at fault."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Static half of one argument.

    Attributes:
        code: DLPack type code.
        bits: DLPack bits.
        ndim: Number of dimensions; 0 for a scalar, which has no window.
        window_bytes: Size of its window; 0 for a scalar.
        read_only: Whether its window is sealed against writes, so that it can be mapped for reading alone.
    """

    code: int
    bits: int
    ndim: int
    window_bytes: int
    read_only: bool = False

    @property
    def is_scalar(self) -> bool:
        """Whether it travels by value."""
        return self.ndim == 0


@dataclass(frozen=True, slots=True)
class Bind:
    """The arguments of all calls that follow; one descriptor a window, then the workspace's where it has bytes."""

    seq: int
    specs: tuple[Spec, ...]
    workspace_bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    """One argument of one call.

    Attributes:
        offset: Byte offset of its first element in the window.
        shape: Elements per dimension.
        strides: Elements between neighbours, per dimension.
        scalar: Bytes of the value, little-endian, padded to 8; zeros for tensors.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    scalar: bytes = bytes(8)


@dataclass(frozen=True, slots=True)
class Go:
    """One call; with `kind` SIZE, the question how much workspace it would need; see `Kind` for the others."""

    seq: int
    places: tuple[Place, ...]
    workspace_offset: int = 0
    workspace_bytes: int = 0
    kind: Kind = Kind.GO


@dataclass(frozen=True, slots=True)
class Done:
    """The runner's answer: a hint and a claim, never a clock.

    Attributes:
        seq: Of the record that it answers.
        status: What the kernel returned.
        claimed_ns: The runner's own time for the call.
    """

    seq: int
    status: int
    claimed_ns: int


def receive(sock: socket.socket) -> bytes:
    """One record from a runner, or b"" where it has hung up. It may hold nothing but bytes.

    Args:
        sock: The judge's end.

    Raises:
        ProtocolViolation: An empty or oversized datagram, or one with descriptors; these are closed by the system.
        TimeoutError: Nothing came within the socket's time.
        BlockingIOError: Nothing is there and the socket does not wait.
    """
    data, _, flags, _ = sock.recvmsg(MAX_RECORD)
    if flags & socket.MSG_CTRUNC:
        raise ProtocolViolation("a record with descriptors")
    if flags & socket.MSG_TRUNC:
        raise ProtocolViolation(f"a record of more than {MAX_RECORD} bytes")
    if not data and not _hung_up(sock):
        raise ProtocolViolation("an empty record")
    return data


def _hung_up(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, 0)  # POLLHUP is always told
    return bool(poll.poll(0))


def encode_bind(bind: Bind) -> bytes:
    """Bytes of a BIND record."""
    specs = b"".join(_SPEC.pack(s.code, s.bits, s.ndim, s.read_only, s.window_bytes) for s in bind.specs)
    return _HEADER.pack(MAGIC, Kind.BIND, len(bind.specs), 0, bind.seq) + specs + _TAIL.pack(bind.workspace_bytes, 0)


def encode_go(go: Go) -> bytes:
    """Bytes of a GO or SIZE record."""
    parts = [_HEADER.pack(MAGIC, go.kind, len(go.places), 0, go.seq)]
    for place in go.places:
        ndim = len(place.shape)
        parts.append(struct.pack(f"<BQ8s{2 * ndim}q", ndim, place.offset, place.scalar, *place.shape, *place.strides))
    parts.append(_TAIL.pack(go.workspace_offset, go.workspace_bytes))
    return b"".join(parts)


def encode_done(done: Done) -> bytes:
    """Bytes of a DONE record."""
    return _DONE.pack(MAGIC, Kind.DONE, 0, 0, done.seq, done.status, done.claimed_ns)


def encode_bytes(seq: int, count: int) -> bytes:
    """Bytes of a BYTES record, the answer to SIZE."""
    return _BYTES.pack(MAGIC, Kind.BYTES, 0, 0, seq, count)


def decode_request(data: bytes) -> Bind | Go:
    """The judge's record, in the runner.

    Raises:
        ProtocolViolation: Not a BIND, SIZE or GO record.
    """
    try:
        magic, kind, count, _, seq = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise ProtocolViolation("wrong magic")
        if kind == Kind.BIND:
            return _decode_bind(data, count, seq)
        return _decode_go(data, Kind(kind), count, seq)
    except (struct.error, ValueError, IndexError) as error:
        raise ProtocolViolation(str(error)) from error


def _decode_bind(data: bytes, count: int, seq: int) -> Bind:
    start = _HEADER.size
    specs: Sequence[tuple[int, int, int, bool, int]] = [_SPEC.unpack_from(data, start + i * _SPEC.size) for i in range(count)]
    workspace_bytes, _ = _TAIL.unpack_from(data, start + count * _SPEC.size)
    return Bind(seq, tuple(Spec(code, bits, ndim, size, read_only) for code, bits, ndim, read_only, size in specs), workspace_bytes)


def _decode_go(data: bytes, kind: Kind, count: int, seq: int) -> Go:
    at, places = _HEADER.size, []
    for _ in range(count):
        ndim = data[at]
        layout = struct.Struct(f"<BQ8s{2 * ndim}q")
        _, offset, scalar, *numbers = layout.unpack_from(data, at)
        places.append(Place(offset, tuple(numbers[:ndim]), tuple(numbers[ndim:]), scalar))
        at += layout.size
    workspace_offset, workspace_bytes = _TAIL.unpack_from(data, at)
    return Go(seq, tuple(places), workspace_offset, workspace_bytes, kind)


def decode_done(data: bytes, seq: int) -> Done:
    """The runner's DONE, in the judge.

    Args:
        data: The datagram.
        seq: The sequence number that is due.

    Raises:
        ProtocolViolation: Wrong length, kind or sequence number.
    """
    if len(data) != _DONE.size:
        raise ProtocolViolation(f"a record of {len(data)} bytes where DONE has {_DONE.size}")
    magic, kind, _, _, answered, status, claimed_ns = _DONE.unpack(data)
    if (magic, kind, answered) != (MAGIC, Kind.DONE, seq):
        raise ProtocolViolation("not the DONE that was due")
    return Done(answered, status, claimed_ns)


def decode_bytes(data: bytes, seq: int) -> int:
    """The runner's answer to SIZE, in the judge.

    Raises:
        ProtocolViolation: Wrong length, kind or sequence number.
    """
    if len(data) != _BYTES.size:
        raise ProtocolViolation(f"a record of {len(data)} bytes where BYTES has {_BYTES.size}")
    magic, kind, _, _, answered, count = _BYTES.unpack(data)
    if (magic, kind, answered) != (MAGIC, Kind.BYTES, seq):
        raise ProtocolViolation("not the BYTES that was due")
    return int(count)
