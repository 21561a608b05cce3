from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evokern.evaluator.call.window import Frame, Placed, canary_broken, fill, is_unmistakable, sentinel_left, sentinel_word, words
from evokern.task import DType, load_task

CORE = Path(__file__).parents[4] / "benchmarks" / "tasks" / "core"


@pytest.fixture
def frame() -> Frame:
    return Frame(load_task(CORE / "rmsnorm"), DType.FLOAT32, [{"rows": 7, "cols": 33}, {"rows": 2, "cols": 100}])


def placed(frame: Frame, layout: str, seed: int = 0) -> dict[str, Placed]:
    found = frame.place({"rows": 7, "cols": 33}, layout, {"eps": 1e-6}, np.random.default_rng(seed))
    return {one.argument.name: one for one in found}


def test_every_call_lies_elsewhere_and_inside_its_window(frame: Frame) -> None:
    offsets = set()
    for layout in ("contiguous", "offset", "padded"):
        for seed in range(50):
            for one in placed(frame, layout, seed).values():
                if one.window is None:
                    continue
                offsets.add(one.place.offset)
                last = one.place.offset + 4 * sum((n - 1) * s for n, s in zip(one.place.shape, one.place.strides, strict=True)) + 4
                assert 0 < one.place.offset and last < one.window.size
                one.view[...] = 1.0
    assert len(offsets) > 50


def test_layouts_are_what_they_are_called(frame: Frame) -> None:
    assert placed(frame, "contiguous")["x"].place.strides == (33, 1)
    assert placed(frame, "contiguous")["x"].place.offset % 64 == 0
    assert placed(frame, "padded")["x"].place.strides[0] > 33
    assert {placed(frame, "offset", seed)["x"].place.offset % 64 for seed in range(40)} != {0}


def test_scalars_travel_by_value(frame: Frame) -> None:
    eps = placed(frame, "contiguous")["eps"]

    assert eps.window is None
    assert np.frombuffer(eps.place.scalar[:4], np.float32)[0] == np.float32(1e-6)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.INT32])
def test_sentinels_are_fresh_and_some_of_them_no_honest_value_equals(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    patterns = [sentinel_word(dtype, rng) for _ in range(40)]
    unmistakable = [p for p in patterns if is_unmistakable(dtype, p)]

    assert len({p.tobytes() for p in patterns}) > 30
    assert bool(unmistakable) == dtype.is_float
    if dtype in (DType.FLOAT32, DType.FLOAT16):
        values = {p.tobytes(): p.view(dtype)[0] for p in patterns}
        assert all(not np.isfinite(values[p.tobytes()]) for p in unmistakable)
        assert sum(np.isfinite(value) for value in values.values()) == len(patterns) - len(unmistakable) > 8


@pytest.mark.parametrize("layout", ["contiguous", "offset", "padded"])
def test_what_is_beside_an_output_is_a_canary(frame: Frame, layout: str) -> None:
    y = placed(frame, layout)["y"]
    assert y.window is not None
    word = sentinel_word(y.dtype, np.random.default_rng(1))
    fill(y.window, word)

    assert sentinel_left(y, word) == y.view.size
    y.view[...] = 0.5
    assert sentinel_left(y, word) == 0
    assert not canary_broken(y, word)

    memory = words(y.window.bytes.view(np.float32))
    first = y.place.offset // 4
    for beside in (first - 1, first + sum((n - 1) * s for n, s in zip(y.place.shape, y.place.strides, strict=True)) + 1):
        kept = memory[beside]
        memory[beside] = 0
        assert canary_broken(y, word)
        memory[beside] = kept


def test_padding_between_rows_is_a_canary(frame: Frame) -> None:
    y = placed(frame, "padded")["y"]
    assert y.window is not None
    word = sentinel_word(y.dtype, np.random.default_rng(1))
    fill(y.window, word)
    y.view[...] = 0.5
    y.window.bytes.view(np.float32)[y.place.offset // 4 + 33] = 0.0

    assert canary_broken(y, word)


def test_a_window_cannot_change_its_size(frame: Frame) -> None:
    import os

    with pytest.raises(PermissionError):
        os.ftruncate(frame.windows["x"].descriptor, 1)
