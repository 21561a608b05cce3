"""Bundles: what goes in comes out, and what is none is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from evokern_gpu.bundle import MAGIC, Bundle, bundle
from evokern_gpu.launches import Fill, Launch, LaunchList, Spot
from hypothesis import given, settings
from hypothesis import strategies as st

KEY = "0123456789abcdef" * 4
LIST: LaunchList = (Fill(Spot(2, 0), 0, 4, 8, 1, 0), Launch("k", (1, 1, 1), (32, 1, 1), 0, bytes(8), ((0, Spot(1, 4)),)))


def made() -> bytes:
    return bundle([b"one", b"other"], {KEY: LIST}, instruments=b"ours", arguments=2)


def altered(**fields: Any) -> bytes:
    data = made()
    length = int.from_bytes(data[8:16], "little")
    header = {**json.loads(data[16 : 16 + length]), **fields}
    text = json.dumps(header).encode()
    return MAGIC + len(text).to_bytes(8, "little") + text + data[16 + length :]


def test_what_goes_in_comes_out() -> None:
    found = Bundle.decode(made())

    assert found == Bundle(b"ours", (b"one", b"other"), {KEY: LIST}, 2)


def test_the_workspace_is_one_more_argument() -> None:
    with pytest.raises(ValueError, match="argument"):
        bundle([b"one"], {KEY: (Fill(Spot(3, 0), 0, 4, 8, 1, 0),)}, instruments=b"ours", arguments=2)


def test_a_first_kernel_may_not_begin_before_its_clock() -> None:
    early = Launch("k", (1, 1, 1), (32, 1, 1), 0, b"", (), overlaps=True)
    with pytest.raises(ValueError, match="clock"):
        bundle([b"one"], {KEY: (early, *LIST)}, instruments=b"ours", arguments=2)

    assert bundle([b"one"], {KEY: (*LIST, early)}, instruments=b"ours", arguments=2)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"EVKSEAL1",
        bytes(100),
        made()[:-1],
        made() + b"x",
        made()[:20],
        MAGIC + (1 << 63).to_bytes(8, "little"),
        MAGIC + (2).to_bytes(8, "little") + b"[]",
        altered(images=[]),
        altered(images=[4]),
        altered(images=[-1, 13]),
        altered(images=[4, 3, 5.0]),
        altered(images=[True, 6, 5]),
        altered(images=[1] * 300),
        altered(images=None),
        altered(arguments=0),
        altered(arguments=1 << 70),
        altered(arguments=1),
        altered(calls=[]),
        altered(calls={"short": []}),
        altered(calls={KEY: {}}),
        altered(calls={KEY: [{}]}),
        altered(calls={f"{number:064x}": [] for number in range(300)}),
        altered(calls={KEY: [{"kind": "fill"}] * 5000}),
    ],
)
def test_what_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Bundle.decode(data)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(made()) - 1), st.binary(min_size=1, max_size=9))
def test_any_change_is_read_or_refused(at: int, other: bytes) -> None:
    data = made()
    try:
        Bundle.decode(data[:at] + other + data[at + len(other) :])
    except ValueError:
        pass
