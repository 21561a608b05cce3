"""Launch lists: what a graph may be, addresses found from two captures, and records that lie."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from evokern_gpu import capture, relocation
from evokern_gpu.capture import Noted, Unsealable, chained
from evokern_gpu.launches import ABSOLUTE, Copy, Fill, Item, Launch, Spot, call_key, from_json, to_json
from hypothesis import given, settings
from hypothesis import strategies as st

from evokern.evaluator.call.protocol import Place

WINDOWS = [(0x7F00_0000_0000, 1 << 21), (0x7F00_1000_0000, 1 << 21), (0, 0), (0x7F00_2000_0000, 1 << 21)]
"""Of an input, an output, a scalar and the workspace."""

HERE = [0x7F00_0000_0400, 0x7F00_1000_0000, 0, 0x7F00_2000_0040]
THERE = [0x7F00_0000_2000, 0x7F00_1000_1000, 0, 0x7F00_2000_0080]


def launch(*words: int, name: str = "kernel", **how: Any) -> Launch:
    return Launch(name, (4, 1, 1), (256, 1, 1), 0, struct.pack(f"<{len(words)}Q", *words), (), **how)


def record(items: Sequence[Item], places: Sequence[int], windows: Sequence[tuple[int, int]] = WINDOWS) -> bytes:
    return Noted(tuple(items)).encode(places=places[:-1], workspace=places[-1], windows=windows)


def relocated(here: Item, there: Item) -> Item:
    (found,) = relocation.relocated(record([here], HERE), record([there], THERE))
    return found


def test_words_that_move_with_an_argument_are_places_in_it() -> None:
    found = relocated(launch(HERE[0], HERE[1] + 512, 4096, HERE[3] - 8), launch(THERE[0], THERE[1] + 512, 4096, THERE[3] - 8))

    assert isinstance(found, Launch)
    assert found.addresses == ((0, Spot(0, 0)), (8, Spot(1, 512)), (24, Spot(3, -8)))
    assert found.parameters == struct.pack("<4Q", 0, 0, 4096, 0)
    assert found.placed([1 << 40, 2 << 40, 0, 3 << 40]) == struct.pack("<4Q", 1 << 40, (2 << 40) + 512, 4096, (3 << 40) - 8)


def test_an_argument_that_did_not_move_is_found_by_its_window() -> None:
    one = [HERE[0], HERE[1], 0, HERE[3]]
    (found,) = relocation.relocated(record([launch(HERE[0] + 4, 7)], one), record([launch(HERE[0] + 4, 7)], one))

    assert isinstance(found, Launch)
    assert found.addresses == ((0, Spot(0, 4)),)


def test_the_end_of_an_argument_is_a_place_in_it() -> None:
    end = WINDOWS[1][0] + WINDOWS[1][1]
    found = relocated(launch(end - 4096), launch(end))

    assert isinstance(found, Launch)
    assert found.addresses == ((0, Spot(1, end - 4096 - HERE[1])),)


def test_a_tail_that_is_no_word_is_kept() -> None:
    here = dataclasses.replace(launch(HERE[0]), parameters=struct.pack("<Qi", HERE[0], 77))
    there = dataclasses.replace(here, parameters=struct.pack("<Qi", THERE[0], 77))
    found = relocated(here, there)

    assert isinstance(found, Launch)
    assert found.parameters == struct.pack("<Qi", 0, 77)


@pytest.mark.parametrize(
    ("here", "there", "words"),
    [
        (launch(HERE[0], 1), launch(THERE[0], 2), "changes from call to call"),
        (launch(HERE[0]), launch(THERE[0] + 8), "changes from call to call"),
        (launch(1 << 46), launch((1 << 46) + THERE[0] - HERE[0]), "changes from call to call"),
        (launch(HERE[0]), launch(HERE[0]), "kept from an earlier call"),
        (launch(1), dataclasses.replace(launch(1), grid=(5, 1, 1)), "in another way"),
        (launch(1), launch(1, name="other"), "in another way"),
        (launch(1), launch(1, 2), "in another way"),
        (launch(1), launch(1, cluster=(2, 1, 1)), "in another way"),
        (launch(1), launch(1, overlaps=True), "in another way"),
        (launch(1, cooperative=True), launch(1), "in another way"),
        (dataclasses.replace(launch(5), addresses=((0, Spot(ABSOLUTE, 5)),)), launch(5), "memory of its own"),
        (launch(1), Fill(Spot(ABSOLUTE, THERE[0]), 0, 4, 1, 1, 0), "something else"),
        (Fill(Spot(ABSOLUTE, 1 << 46), 0, 4, 8, 1, 0), Fill(Spot(ABSOLUTE, 1 << 46), 0, 4, 8, 1, 0), "no window's"),
        (Fill(Spot(ABSOLUTE, HERE[0]), 0, 4, 8, 1, 0), Fill(Spot(ABSOLUTE, THERE[0]), 1, 4, 8, 1, 0), "in another way"),
        (
            Copy(Spot(ABSOLUTE, 1 << 46), Spot(ABSOLUTE, HERE[1]), 8, 1, 0, 0),
            Copy(Spot(ABSOLUTE, 1 << 46), Spot(ABSOLUTE, THERE[1]), 8, 1, 0, 0),
            "copies from",
        ),
    ],
)
def test_what_is_no_place_is_refused_with_the_reason(here: Item, there: Item, words: str) -> None:
    with pytest.raises(Unsealable, match=words):
        relocated(here, there)


def test_a_four_byte_number_that_changes_is_refused() -> None:
    here = dataclasses.replace(launch(1), parameters=struct.pack("<Qi", HERE[0], 1))
    there = dataclasses.replace(here, parameters=struct.pack("<Qi", THERE[0], 2))
    with pytest.raises(Unsealable, match="changes from call to call"):
        relocated(here, there)


def test_fills_and_copies_are_relocated() -> None:
    fill = Fill(Spot(ABSOLUTE, HERE[3] + 4), 5, 4, 16, 3, 256)
    copy = Copy(Spot(ABSOLUTE, HERE[0]), Spot(ABSOLUTE, HERE[1] + 8), 64, 2, 128, 256)
    moved = [
        dataclasses.replace(fill, to=Spot(ABSOLUTE, THERE[3] + 4)),
        dataclasses.replace(copy, source=Spot(ABSOLUTE, THERE[0]), to=Spot(ABSOLUTE, THERE[1] + 8)),
    ]

    first, second = relocation.relocated(record([fill, copy], HERE), record(moved, THERE))

    assert first == Fill(Spot(3, 4), 5, 4, 16, 3, 256)
    assert first.spots == (Spot(3, 4), Spot(3, 4 + 2 * 256 + 64 - 1))
    assert second == Copy(Spot(0, 0), Spot(1, 8), 64, 2, 128, 256)
    assert second.spots == (Spot(0, 0), Spot(0, 128 + 63), Spot(1, 8), Spot(1, 8 + 256 + 63))


def test_a_reason_is_passed_on_and_other_arguments_are_refused() -> None:
    bad = Noted(reason="uses the default stream").encode(places=HERE[:-1], workspace=HERE[-1], windows=WINDOWS)
    with pytest.raises(Unsealable, match="uses the default stream"):
        relocation.relocated(record([launch(1)], HERE), bad)
    with pytest.raises(Unsealable, match="other arguments"):
        relocation.relocated(record([launch(1)], HERE), record([launch(1)], [*THERE[:-1], 0]))


def test_too_much_for_a_record_is_a_reason() -> None:
    told = record([launch(*range(500))] * 4, HERE)

    assert len(told) <= capture.MOST_BYTES
    with pytest.raises(Unsealable, match="too much"):
        relocation.relocated(told, told)


def test_items_survive_their_json() -> None:
    items: list[Item] = [
        Launch("n", (1, 2, 3), (32, 2, 1), 99, bytes(range(24)), ((8, Spot(0, -5)), (16, Spot(2, 1 << 40))), (2, 1, 1), True, True),
        Fill(Spot(1, 4), 2**32 - 1, 2, 3, 4, 5),
        Copy(Spot(0, 1), Spot(2, 3), 4, 5, 6, 7),
    ]

    assert [from_json(json.loads(json.dumps(to_json(item))), arguments=3) for item in items] == items


def _but(item: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {**item, **other}


GOOD = to_json(Launch("n", (1, 1, 1), (1, 1, 1), 0, bytes(16), ((8, Spot(0, 0)),)))
FILL = to_json(Fill(Spot(0, 0), 0, 4, 1, 1, 0))


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        {},
        {"kind": "other"},
        _but(GOOD, name=5),
        _but(GOOD, name="x" * 5000),
        _but(GOOD, name="a\0b"),
        _but(GOOD, name="\ud800"),
        _but(GOOD, grid=[0, 1, 1]),
        _but(GOOD, grid=[1, 1]),
        _but(GOOD, grid=[1, 1, 1, 1]),
        _but(GOOD, grid=[1, 65536, 1]),
        _but(GOOD, grid=[1.0, 1, 1]),
        _but(GOOD, grid=[True, 1, 1]),
        _but(GOOD, block=[1024, 2, 1]),
        _but(GOOD, block="111"),
        _but(GOOD, shared_bytes=-1),
        _but(GOOD, shared_bytes=1 << 40),
        _but(GOOD, parameters="zz"),
        _but(GOOD, parameters="00" * 40_000),
        _but(GOOD, parameters=None),
        _but(GOOD, addresses=[[16, 0, 0]]),
        _but(GOOD, addresses=[[-8, 0, 0]]),
        _but(GOOD, addresses=[[4, 0, 0]]),
        _but(GOOD, addresses=[[8, 3, 0]]),
        _but(GOOD, addresses=[[8, -1, 0]]),
        _but(GOOD, addresses=[[8, 0, 1 << 60]]),
        _but(GOOD, addresses=[[8, 0]]),
        _but(GOOD, addresses=[[]]),
        _but(GOOD, addresses=[8]),
        _but(GOOD, cluster=[0, 1, 1]),
        _but(GOOD, cooperative=1),
        _but(GOOD, overlaps=None),
        _but(FILL, to=[0]),
        _but(FILL, to=[3, 0]),
        _but(FILL, element_bytes=3),
        _but(FILL, element_bytes=8),
        _but(FILL, width=0),
        _but(FILL, height=1 << 60),
        _but(FILL, value=1 << 32),
    ],
)
def test_items_that_are_none_are_refused(told: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_json(told, arguments=3)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["schema", "reason", "places", "windows", "items", "kind", "grid"]), inner, max_size=5)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=64) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_capture_or_refused(data: bytes) -> None:
    with pytest.raises(Unsealable):
        relocation.relocated(data, data)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["schema", "reason", "places", "windows", "items"]), JSON)
def test_any_field_of_a_capture_is_read_or_refused(name: str, value: Any) -> None:
    held = {**json.loads(record([launch(HERE[0], 3)], HERE)), name: value}
    try:
        relocation.relocated(json.dumps(held).encode(), record([launch(THERE[0], 3)], THERE))
    except Unsealable:
        pass


def test_deep_nesting_is_refused() -> None:
    data = b'{"schema":' + b"[" * 8000 + b"]" * 8000 + b"}"
    with pytest.raises(Unsealable):
        relocation.relocated(data[: capture.MOST_BYTES], data)


class TestChain:
    def test_is_followed_from_its_start(self) -> None:
        assert chained([30, 10, 20], [(10, 20, 0, 0), (20, 30, 1, 1)]) == [(10, False), (20, False), (30, True)]
        assert chained([1, 2, 3], [(1, 3, 0, 0), (1, 2, 0, 0), (2, 3, 0, 0)]) == [(1, False), (2, False), (3, False)]
        assert chained([7], []) == [(7, False)]
        assert chained([], []) == []

    @pytest.mark.parametrize(
        ("nodes", "edges", "words"),
        [
            ([1, 2], [], "beside each other"),
            ([1, 2, 3], [(1, 2, 0, 0), (1, 3, 0, 0)], "beside each other"),
            ([1, 2, 3], [(1, 3, 0, 0), (2, 3, 0, 0)], "beside each other"),
            ([1, 2, 3], [(1, 2, 0, 0), (2, 1, 0, 0)], "circle"),
            ([1, 2], [(1, 2, 1, 2)], "not known"),
            ([1, 2], [(1, 2, 5, 0)], "not known"),
        ],
    )
    def test_anything_else_is_refused(self, nodes: list[int], edges: list[tuple[int, int, int, int]], words: str) -> None:
        with pytest.raises(Unsealable, match=words):
            chained(nodes, edges)


class TestKey:
    PLACES = (Place(64, (4, 8), (8, 1)), Place(0, (), (), b"\x01" + bytes(7)))

    def test_depends_on_what_launches_may_depend_on(self) -> None:
        x, scalar = self.PLACES
        same = dataclasses.replace(x, offset=128)
        others = [
            (dataclasses.replace(x, shape=(4, 7)), scalar),
            (dataclasses.replace(x, strides=(9, 1)), scalar),
            (dataclasses.replace(x, offset=72), scalar),
            (x, dataclasses.replace(scalar, scalar=bytes(8))),
            (x,),
        ]

        assert call_key((same, scalar), 5) == call_key(self.PLACES, 5)
        assert len({call_key(places, 5) for places in [self.PLACES, *others]}) == 6
        assert call_key(self.PLACES, 6) != call_key(self.PLACES, 5)
