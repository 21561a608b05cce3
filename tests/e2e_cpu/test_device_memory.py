"""Windows of a device: what travels, what stays, and that both are looked at as the host's are. On tensors of the host's memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from evokern.evaluator.call.window import Frame, Placed, canary_broken, fill, is_written, sentinel_left, sentinel_word, surround
from evokern.evaluator.catalogue import find_task
from evokern.evaluator.device import memory as of_memory
from evokern.evaluator.device.memory import DeviceMemory
from evokern.task import DType

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

AXES = {"rows": 37, "cols": 101}


class Block:
    """Stands for an allocation on a device: bytes of the host, as a tensor."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // 4096) * 4096
        self.bytes = torch.zeros(self.size, dtype=torch.uint8)
        self.descriptor, self.address = os.open(os.devnull, os.O_RDONLY), 0

    def close(self) -> None:
        os.close(self.descriptor)


class Bench:
    """Stands for a device, as far as windows ask it."""

    def window(self, size: int) -> Block:
        return Block(size)

    def tensor(self, window: Block) -> Any:
        return window.bytes


def frame_of(dtype: DType = DType.FLOAT32) -> tuple[Frame, DeviceMemory]:
    bench: Any = Bench()
    memory = DeviceMemory(bench)
    return Frame(find_task("rmsnorm"), dtype, [AXES], memory=memory), memory


def placed_in(frame: Frame, layout: str, seed: int) -> list[Placed]:
    return frame.place(AXES, layout, {"eps": 1e-6}, np.random.default_rng(seed))


@pytest.mark.parametrize("layout", ["contiguous", "offset", "padded"])
def test_what_is_written_about_a_tensor_is_on_the_device_and_comes_back(layout: str) -> None:
    frame, memory = frame_of()
    for seed in range(6):
        placed = placed_in(frame, layout, seed)
        rng = np.random.default_rng(seed)
        for one in placed:
            if one.window is not None:
                surround(one, sentinel_word(one.dtype, rng))
                one.view[...] = rng.normal(size=one.view.shape)
        memory.publish(frame, placed)
        for one in placed:
            if one.window is not None:
                window: Any = one.window
                first, last = one.place.offset, one.place.offset + one.extent
                assert np.array_equal(window.tensor[first:last].numpy(), one.window.bytes[first:last])
                window.tensor[first:last] = 7
        memory.collect(frame, placed)
        assert all((one.view.view(np.uint8) == 7).all() for one in placed if one.window is not None and one.view.flags.c_contiguous)
    frame.close()


@pytest.fixture
def far_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_memory, "FAR_BYTES", 0)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
@pytest.mark.parametrize("layout", ["contiguous", "padded"])
@pytest.mark.usefixtures("far_from")
def test_a_far_tensor_is_told_as_a_near_one_is(layout: str, dtype: DType) -> None:
    frame, memory = frame_of(dtype)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        for one in (one for one in placed_in(frame, layout, seed) if one.window is not None and is_written(one)):
            far, word = memory.far(one), sentinel_word(one.dtype, rng)
            assert far is not None
            far.surround(word)
            far.fill(word)
            assert far.left(word) == one.view.size
            assert not far.canary_broken(word)
            mirrored(one)
            assert (sentinel_left(one, word), canary_broken(one, word)) == (one.view.size, False)
            spoil(one, word)
            mirrored(one)
            assert (far.left(word), far.canary_broken(word)) == (sentinel_left(one, word), canary_broken(one, word))
            assert far.canary_broken(word)
    frame.close()


@pytest.mark.usefixtures("far_from")
def test_inputs_stay_as_they_were_written_and_rows_are_fetched() -> None:
    frame, memory = frame_of()
    rng = np.random.default_rng(3)
    for one in (one for one in placed_in(frame, "padded", 3) if one.window is not None and not is_written(one)):
        far = memory.far(one)
        assert far is not None
        source = rng.normal(size=one.view.shape).astype(np.float32)
        values: Any = Values({one.argument.name: source})
        rows = rng.permutation(one.view.shape[0]) if one.view.ndim > 1 else None
        far.write(values, rows)
        assert far.unchanged(values, rows)
        chosen = np.array([0, 2, 5])
        far.fetch(chosen)
        wanted = source if rows is None else source[rows]
        assert np.array_equal(one.view[chosen], wanted[chosen])
        taken = far.taken()
        far.fill(np.zeros(4, np.uint8))
        assert far.is_zero()
        assert not far.unchanged(values, rows)
        far.put(taken)
        assert far.unchanged(values, rows)
    frame.close()


def test_small_tensors_travel() -> None:
    frame, memory = frame_of()
    assert all(memory.far(one) is None for one in placed_in(frame, "contiguous", 0))
    frame.close()


class Values:
    """Stands for a set."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self.inputs = inputs


def mirrored(one: Placed) -> None:
    """Have the mirror say what the device holds."""
    window: Any = one.window
    window.bytes[:] = window.tensor.numpy()


def spoil(one: Placed, word: Any) -> None:
    """Write one element, and one byte beside the tensor."""
    window: Any = one.window
    size = one.dtype.itemsize
    fill(window.tensor.numpy()[one.place.offset : one.place.offset + size], ~word)
    after = one.place.offset + one.extent
    window.tensor[after if after < window.size else one.place.offset - 1] ^= 1
