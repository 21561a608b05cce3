"""Two captures of one call on two sets of addresses -> a launch list whose addresses are (argument, offset).

A word of the parameters that moved by as much as one argument did, and lies in that argument's window in both, is a place in it. One
that lies in the window of an argument that moved, and did not move with it, was kept from an earlier call. Both captures come from a
process with candidate code, so they are read as anybody's; a list that lies about what is launched computes something else than the
kernel, which the checks of its outputs find.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from evokern_gpu import fields
from evokern_gpu.capture import MOST_BYTES, SCHEMA, Unsealable, words
from evokern_gpu.launches import WORD, Copy, Fill, Item, Launch, LaunchList, Spot, from_json

_MOST_ARGUMENTS = 257


@dataclass(frozen=True, slots=True)
class Capture:
    """One capture.

    Attributes:
        items: In order, on absolute addresses.
        reason: Why there are none; empty otherwise.
        places: Address of each argument's first element and of the workspace; 0 where there is none.
        windows: (address, bytes) of each argument's window and of the workspace's.
    """

    items: tuple[Item, ...]
    reason: str
    places: tuple[int, ...]
    windows: tuple[tuple[int, int], ...]

    @classmethod
    def decode(cls, record: bytes) -> Capture:
        """A capture from its record.

        Raises:
            Unsealable: It is none.
        """
        if len(record) > MOST_BYTES:
            raise Unsealable("answers with too much")
        try:
            held = fields.mapping(fields.parsed(record, "a capture"), "a capture")
            if held.get("schema") != SCHEMA:
                raise ValueError("another schema")
            places = [_address(one) for one in fields.sequence(held.get("places"), "places", _MOST_ARGUMENTS)]
            windows = [_window(one) for one in fields.sequence(held.get("windows"), "windows", _MOST_ARGUMENTS)]
            if len(places) != len(windows):
                raise ValueError("places and windows differ in number")
            items = [from_json(one, arguments=None) for one in fields.sequence(held.get("items"), "items")]
            return cls(tuple(items), fields.text(held.get("reason"), "a reason"), tuple(places), tuple(windows))
        except ValueError as error:
            raise Unsealable(f"answers with no list of launches ({error})") from error


def relocated(first: bytes, second: bytes) -> LaunchList:
    """The launch list of a call.

    Args:
        first: What `DeviceKernel.capture` answered.
        second: The same of a call that differs in the addresses of its arguments and in nothing else. One that did not move is found
            too, by its window alone.

    Raises:
        Unsealable: There is none; the reason in words after "it".
    """
    one, other = Capture.decode(first), Capture.decode(second)
    for capture in (one, other):
        if capture.reason:
            raise Unsealable(capture.reason)
    if [bool(place) for place in one.places] != [bool(place) for place in other.places]:
        raise Unsealable("was given other arguments in the second call")
    if [type(item) for item in one.items] != [type(item) for item in other.items]:
        raise Unsealable("launches something else where its arguments lie elsewhere")
    found = _Places(one, other)
    return tuple(found.item(here, there) for here, there in zip(one.items, other.items, strict=True))


class _Places:
    """Tells places in windows.

    Args:
        one: A capture.
        other: The other.
    """

    def __init__(self, one: Capture, other: Capture) -> None:
        self._one, self._other = one, other

    def item(self, here: Item, there: Item) -> Item:
        if isinstance(here, Launch) and isinstance(there, Launch):
            return self._launch(here, there)
        if isinstance(here, Fill) and isinstance(there, Fill):
            self._same("a fill", _sizes(here), _sizes(there))
            return Fill(self._needed(here.to, there.to, "fills"), *_sizes(here))
        assert isinstance(here, Copy) and isinstance(there, Copy)
        self._same("a copy", _sizes(here), _sizes(there))
        return Copy(self._needed(here.source, there.source, "copies from"), self._needed(here.to, there.to, "copies to"), *_sizes(here))

    def _launch(self, here: Launch, there: Launch) -> Launch:
        self._same(here.name, _way(here), _way(there))
        if here.addresses or there.addresses:
            raise Unsealable(f"gives {here.name} memory of its own")
        packed, addresses = bytearray(here.parameters), []
        for (at, value), (_, moved) in zip(words(here.parameters), words(there.parameters), strict=True):
            spot = self._spot(value, moved)
            if spot is not None:
                addresses.append((at, spot))
                packed[at : at + WORD] = bytes(WORD)
            elif value != moved:
                raise Unsealable(f"gives {here.name} a parameter that changes from call to call and is no place in a window")
            elif self._is_kept(value):
                raise Unsealable(f"gives {here.name} an address that it kept from an earlier call")
        rest = len(packed) // WORD * WORD
        if here.parameters[rest:] != there.parameters[rest:]:
            raise Unsealable(f"gives {here.name} a parameter that changes from call to call and is no place in a window")
        return dataclasses.replace(here, parameters=bytes(packed), addresses=tuple(addresses))

    def _needed(self, here: Spot, there: Spot, what: str) -> Spot:
        found = self._spot(here.offset, there.offset)
        if found is None:
            raise Unsealable(f"{what} memory that is no window's")
        return found

    def _spot(self, value: int, moved: int) -> Spot | None:
        """The place in a window that is here in one capture and there in the other."""
        for number, (place, elsewhere) in enumerate(zip(self._one.places, self._other.places, strict=True)):
            if place and moved - value == elsewhere - place and _holds(self._one, number, value) and _holds(self._other, number, moved):
                return Spot(number, value - place)
        return None

    def _is_kept(self, value: int) -> bool:
        """Whether a word that did not move is an address in a window whose argument did."""
        return any(_holds(self._one, number, value) for number, place in enumerate(self._one.places) if place)

    @staticmethod
    def _same(what: str, here: object, there: object) -> None:
        if here != there:
            raise Unsealable(f"launches {what} in another way where its arguments lie elsewhere")


def _holds(capture: Capture, number: int, address: int) -> bool:
    start, size = capture.windows[number]
    return start <= address <= start + size


def _way(launch: Launch) -> tuple[object, ...]:
    sizes = launch.grid, launch.block, launch.shared_bytes, len(launch.parameters)
    return (launch.name, *sizes, launch.cluster, launch.cooperative, launch.overlaps)


def _sizes(item: Fill | Copy) -> Sequence[int]:
    if isinstance(item, Fill):
        return item.value, item.element_bytes, item.width, item.height, item.pitch
    return item.width, item.height, item.source_pitch, item.pitch


def _address(value: object) -> int:
    return fields.number(value, "an address", 0, fields.ADDRESSES - 1)


def _window(value: object) -> tuple[int, int]:
    start, size = fields.pair(value, "a window")
    return _address(start), _address(size)
