"""Large tensors of a call, which never leave the device: written there, looked at there, and judged on secret rows (EVALUATOR section 3).

What a byte-wise comparison can say is said of every byte: what was left unwritten, what lies beside a tensor, whether an input was
changed. What only the rule can say is said of secret rows, drawn after the call, which are all that travels to the host.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evokern.evaluator.call.window import SLACK_BYTES, Bytes, Placed
from evokern.evaluator.device.window import DeviceWindow

if TYPE_CHECKING:
    import torch

    from evokern.evaluator.reference.oracle import InputSet

FAR_BYTES = 1 << 23
"""A tensor of more bytes stays on the device."""

KEPT_BYTES = 24 << 30
"""Inputs that a judge keeps on the device, and expected values that an oracle does; the least recently used go first."""

KEPT_SHARE = 6
"""No more than one in so many of the device's bytes, for each of the two."""

Rows = NDArray[np.intp]
_WORDS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


def kept_bytes(device: torch.device) -> int:
    """How much one process keeps on a device of sets that it may need again, see `KEPT_BYTES` and `KEPT_SHARE`."""
    import torch

    if device.type != "cuda":
        return KEPT_BYTES
    return min(KEPT_BYTES, int(torch.cuda.get_device_properties(device).total_memory) // KEPT_SHARE)


class Far:
    """One large tensor of one call.

    Args:
        one: Where it lies.
        sources: Inputs on the device.
    """

    def __init__(self, one: Placed, sources: Sources) -> None:
        assert isinstance(one.window, DeviceWindow)
        self._one, self._sources, self._bytes = one, sources, one.window.tensor
        self._size = one.dtype.itemsize

    def surround(self, word: Bytes) -> None:
        """Fill what lies beside the tensor, between its rows included, with a word; the tensor itself is written afterwards."""
        self._about().fill_(self._value(word))

    def fill(self, word: Bytes) -> None:
        """Write a word to every element."""
        self._view().fill_(self._value(word))

    def write(self, values: InputSet, rows: Rows | None) -> None:
        """Write an input of a set, its rows in this order."""
        self._view().copy_(self._source(values, rows))

    def taken(self) -> Any:
        """A copy of the elements, on the device."""
        return self._view().clone()

    def put(self, taken: Any) -> None:
        """Write what `taken` gave."""
        self._view().copy_(taken)

    def left(self, word: Bytes) -> int:
        """How many elements still hold a word."""
        return int((self._view() == self._value(word)).sum().item())

    def canary_broken(self, word: Bytes) -> bool:
        """Whether anything beside the elements, within `SLACK_BYTES`, is not the word."""
        whole = self._about()
        beside = whole.numel() - self._one.view.size
        return bool(int((whole == self._value(word)).sum().item()) - self.left(word) != beside)

    def is_zero(self) -> bool:
        """Whether every element is zero, bit for bit."""
        return bool((self._view() == 0).all().item())

    def unchanged(self, values: InputSet, rows: Rows | None) -> bool:
        """Whether it still holds what `write` put there."""
        import torch

        return bool(torch.equal(self._view(), self._source(values, rows)))

    def equals(self, other: Far) -> bool:
        """Whether another tensor of the same shape holds the same bits."""
        import torch

        return bool(torch.equal(self._view(), other._view()))

    def fetch(self, rows: Rows) -> None:
        """Copy these rows to the mirror on the host, where the rule looks at them.

        Args:
            rows: Numbers over all axes but the last; of a vector, over its elements.
        """
        import torch

        shape = self._one.place.shape
        places = np.unravel_index(np.asarray(rows), shape[:-1] if len(shape) > 1 else shape)
        index = tuple(torch.from_numpy(np.asarray(place)).to(self._bytes.device) for place in places)
        self._one.view[places] = self._view()[index].cpu().numpy().view(self._one.view.dtype)

    def _source(self, values: InputSet, rows: Rows | None) -> Any:
        import torch

        source = self._sources.get(values, self._one.argument.name, self._bytes.device)
        return source if rows is None else source.index_select(0, torch.from_numpy(rows).to(source.device))

    def _about(self) -> torch.Tensor:
        """Words from up to `SLACK_BYTES` before the first element to as many after the last."""
        first, last = self._one.place.offset, self._one.place.offset + self._one.extent
        begin = max(first - SLACK_BYTES, first % self._size)
        end = min(last + SLACK_BYTES, self._bytes.numel())
        return self._bytes[begin : end - (end - begin) % self._size].view(_kind(self._size))

    def _view(self) -> torch.Tensor:
        place = self._one.place
        words = self._bytes[place.offset : place.offset + self._one.extent].view(_kind(self._size))
        return words.as_strided(place.shape, place.strides)

    @staticmethod
    def _value(word: Bytes) -> int:
        return int.from_bytes(word.tobytes(), "little", signed=True)


class Sources:
    """Inputs of sets, copied to the device once."""

    def __init__(self) -> None:
        # A set is held as long as its copies are, so that no other set has its identity.
        self._kept: OrderedDict[tuple[int, str], tuple[InputSet, torch.Tensor]] = OrderedDict()

    def get(self, values: InputSet, name: str, device: Any) -> torch.Tensor:
        """An input as words of its element's size, in the shape that it has."""
        import torch

        key = (id(values), name)
        if key not in self._kept:
            array = values.inputs[name]
            words = array.view(np.dtype(_WORDS[array.dtype.itemsize]))
            self._kept[key] = values, torch.from_numpy(words).to(device)
            most = kept_bytes(self._kept[key][1].device)
            while len(self._kept) > 1 and sum(tensor.nbytes for _, tensor in self._kept.values()) > most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key][1]


def _kind(size: int) -> Any:
    import torch

    return getattr(torch, _WORDS[size])
