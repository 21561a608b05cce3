from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from evokern.evaluator.call import protocol
from evokern.evaluator.call.window import (
    ALIGNMENT,
    PAD_ELEMENTS,
    PADDINGS,
    SLACK_BYTES,
    WIDE_ELEMENTS,
    Frame,
    Placed,
    Window,
    canary_broken,
    has_room,
    is_unmistakable,
    sentinel_left,
    sentinel_word,
    shape_of,
    surround,
    words,
)
from evokern.evaluator.reference.held_out import draw, sweep
from evokern.evaluator.rule.correctness import as_float
from evokern.task import DType, load_task

CORE = Path(__file__).parents[4] / "benchmarks" / "tasks" / "core"


@pytest.fixture
def frame() -> Frame:
    return Frame(load_task(CORE / "rmsnorm"), DType.FLOAT32, [{"rows": 7, "cols": 33}, {"rows": 2, "cols": 100}])


def placed(frame: Frame, layout: str, seed: int = 0) -> dict[str, Placed]:
    found = frame.place({"rows": 7, "cols": 33}, layout, {"eps": 1e-6}, np.random.default_rng(seed))
    return {one.argument.name: one for one in found}


def test_every_call_lies_elsewhere_and_inside_its_window(frame: Frame) -> None:
    offsets, flush = set(), set()
    for layout in ("contiguous", "offset", "padded"):
        for seed in range(50):
            for one in placed(frame, layout, seed).values():
                if one.window is None:
                    continue
                offsets.add(one.place.offset)
                room = one.window.size - one.place.offset - one.extent
                assert one.place.offset >= 0 and room >= 0
                assert min(one.place.offset, room) < SLACK_BYTES
                flush |= {(layout, end) for end, left in (("start", one.place.offset), ("end", room)) if left < ALIGNMENT}
                one.view[...] = 1.0
    assert len(offsets) > 50
    # The page behind a tensor is one that nobody may touch: some calls lie right beside it.
    assert len(flush) == 6


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
    surround(y, word)
    words(y.view)[...] = word.view(np.uint32)[0]

    assert sentinel_left(y, word) == y.view.size
    y.view[...] = 0.5
    assert sentinel_left(y, word) == 0
    assert not canary_broken(y, word)

    memory = words(y.window.bytes.view(np.float32))
    first = y.place.offset // 4
    end = first + y.extent // 4
    before, after = (len(around) // 4 for around in y.around())
    assert before + after > 0
    edges = [first - before, first - 1] if before else []
    edges += [end, end + after - 1] if after else []
    for beside in edges:
        kept = memory[beside]
        memory[beside] = 0
        assert canary_broken(y, word)
        memory[beside] = kept


def test_padding_between_rows_is_a_canary(frame: Frame) -> None:
    y = placed(frame, "padded")["y"]
    assert y.window is not None
    word = sentinel_word(y.dtype, np.random.default_rng(1))
    surround(y, word)
    y.view[...] = 0.5
    y.window.bytes.view(np.float32)[y.place.offset // 4 + 33] = 0.0

    assert canary_broken(y, word)


def test_a_workspace_has_canaries_too(frame: Frame) -> None:
    frame.add_workspace(1001)
    word = np.frombuffer(b"garbage!", np.uint8)
    places = set()
    for seed in range(40):
        frame.place_workspace(word, np.random.default_rng(seed))
        first, last = frame.workspace_offset, frame.workspace_offset + 1001
        places.add(first)
        assert frame.workspace is not None and last <= frame.workspace.size
        frame.workspace.bytes[first:last] = 1
        assert not frame.workspace_overrun(word)
        frame.workspace.bytes[first - 1 if first else last + 8] ^= 1
        assert frame.workspace_overrun(word)
    assert len(places) > 10


def test_a_call_gets_the_workspace_that_was_asked_for_its_shapes(frame: Frame) -> None:
    short, long = {"rows": 7, "cols": 33}, {"rows": 2, "cols": 100}
    frame.add_workspace(5000, {shape_of(short): 0, shape_of(long): 4000, (("cols", 1), ("rows", 1)): 5000})
    word = np.frombuffer(b"garbage!", np.uint8)
    for axes, size in ((short, 0), (long, 4000), (short, 0)):
        frame.place(axes, "contiguous", {"eps": 1e-6}, np.random.default_rng(0))
        frame.place_workspace(word, np.random.default_rng(0))
        assert frame.workspace_bytes == size
        assert not frame.workspace_overrun(word)
        assert frame.workspace is not None
        frame.workspace.bytes[frame.workspace_offset + size + 8] ^= 1
        assert frame.workspace_overrun(word)


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "cross_entropy", "bias_gelu", "group_norm", "rope", "rope_kv_write"])
def test_windows_have_one_size_whatever_they_are_for(name: str) -> None:
    task = load_task(CORE / name)
    visible = [dict(w.axes) for w in task.search]
    held_out = [dict(w.axes) for epoch in range(20) for w in [*draw(task, b"key", epoch), *sweep(task, b"key", epoch)]]
    sizes = []
    for shapes in ([visible[-1]], [visible[0]], visible, held_out):
        frame = Frame(task, DType.FLOAT32, shapes)
        sizes.append({window: made.size for window, made in frame.windows.items()})
        frame.close()
    assert all(found == sizes[0] for found in sizes)


def test_a_multiple_of_an_axis_needs_no_more_room_than_so_many_elements() -> None:
    task = load_task(CORE / "rope")
    frame = Frame(task, DType.FLOAT32, [{"rows": 3, "heads": 2, "half": 5}])
    padded = 2 * task.held_out.max_elements + PAD_ELEMENTS * task.held_out.max_elements
    assert frame.windows["x"].size < 4 * padded
    assert frame.windows["x"].size == frame.windows["y"].size > frame.windows["cos"].size
    frame.close()


def test_an_eight_bit_sentinel_is_a_nan_or_finite() -> None:
    rng = np.random.default_rng(0)
    patterns = [sentinel_word(DType.FLOAT8_E4M3FN, rng) for _ in range(40)]
    unmistakable = [int(p[0]) for p in patterns if is_unmistakable(DType.FLOAT8_E4M3FN, p)]
    assert {byte & 0x7F for byte in unmistakable} == {0x7F}
    assert 8 < len(unmistakable) < 32
    finite = {int(p[0]) for p in patterns} - set(unmistakable)
    assert finite
    assert np.isfinite(as_float(np.array(sorted(finite), np.uint8), DType.FLOAT8_E4M3FN)).all()


def pages(window: Window) -> list[tuple[int, int]]:
    """Where pages exist, from and to."""
    found, end = [], 0
    while end < window.size:
        try:
            start = os.lseek(window.descriptor, end, os.SEEK_DATA)
        except OSError:
            break
        end = os.lseek(window.descriptor, start, os.SEEK_HOLE)
        found.append((start, end))
    return found


def test_pages_of_large_windows_exist_where_calls_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    task = load_task(CORE / "softmax")
    axes = {"rows": 7, "cols": 33}
    assert all(pages(window) == [(0, window.size)] for window in Frame(task, DType.FLOAT32, [axes]).windows.values())
    monkeypatch.setattr("evokern.evaluator.call.window.WHOLE_BYTES", 0)
    frame = Frame(task, DType.FLOAT32, [axes])
    frame.add_workspace(1 << 20, {shape_of(axes): 100})
    assert frame.workspace is not None
    made = [*frame.windows.values(), frame.workspace]
    before = [pages(window) for window in made]
    for window, ((start, first), (second, end)) in zip(made, before, strict=True):
        assert (start, end) == (0, window.size)
        assert 2 * SLACK_BYTES < first == end - second < 3 * SLACK_BYTES + 2 * mmap.PAGESIZE
    word = np.frombuffer(b"garbage!", np.uint8)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        for one in frame.place(axes, ("contiguous", "offset", "padded")[seed % 3], {}, rng):
            surround(one, word[:4])
            canary_broken(one, word[:4])
        frame.place_workspace(word, rng)
    assert [pages(window) for window in made] == before


def strides(frame: Frame, axes: dict[str, int], padding: str, seed: int) -> list[int]:
    """Elements from row to row of every matrix of a call, all of which must lie in its window."""
    found = frame.place(axes, "padded", {}, np.random.default_rng(seed), padding)
    for one in found:
        assert one.window is not None and 0 <= one.place.offset and one.place.offset + one.extent <= one.window.size
    return [one.place.strides[0] for one in found]


@pytest.mark.parametrize(("rows", "cols"), [(127, 1021), (9, 33), (7, 1), (2, 70000), (1200, 100), (1500, 9)])
def test_padded_rows_may_be_slices_of_a_wide_matrix(rows: int, cols: int) -> None:
    axes, task = {"rows": rows, "cols": cols}, load_task(CORE / "softmax")
    frame = Frame(task, DType.FLOAT32, [axes])
    assert has_room(task, axes)
    met = [strides(frame, axes, "widely", seed) for seed in range(100)]
    assert all(rows * stride <= WIDE_ELEMENTS and max(cols, 128) <= stride - cols <= max(2 * cols, 256) for two in met for stride in two)
    assert any(stride % cols == 0 for two in met for stride in two)
    assert {stride % 8 for two in met for stride in two} == set(range(8))
    assert len({tuple(two) for two in met}) > 20 and any(first != second for first, second in met)
    by_chance = [stride - cols for seed in range(100) for stride in strides(frame, axes, "", seed)]
    assert 0 < sum(pad > PAD_ELEMENTS for pad in by_chance) < len(by_chance) / 2
    frame.close()


@pytest.mark.parametrize("axes", [{"rows": 9, "cols": 33}, {"rows": 5, "cols": 64}, {"rows": 2048, "cols": 1003}])
def test_evenly_padded_rows_are_whole_vectors_in_every_argument(axes: dict[str, int]) -> None:
    frame = Frame(load_task(CORE / "softmax"), DType.FLOAT32, [axes])
    met = {stride for seed in range(100) for stride in strides(frame, axes, "evenly", seed)}
    assert all(stride % 8 == 0 and 0 < stride - axes["cols"] <= PAD_ELEMENTS for stride in met)
    assert len(met) == PAD_ELEMENTS // 8
    frame.close()


@pytest.mark.parametrize("axes", [{"rows": 2048, "cols": 1003}, {"rows": 16384, "cols": 9}])
def test_large_workloads_are_no_dearer(axes: dict[str, int]) -> None:
    task = load_task(CORE / "softmax")
    frame = Frame(task, DType.FLOAT32, [axes])
    assert not has_room(task, axes)
    for padding in PADDINGS:
        assert all(stride - axes["cols"] <= PAD_ELEMENTS for seed in range(40) for stride in strides(frame, axes, padding, seed))
    frame.close()


def test_nobody_else_can_write_an_input(frame: Frame) -> None:
    """Whatever descriptor he has of it, one that he opened himself included."""
    for name, window in frame.windows.items():
        again = os.open(f"/proc/self/fd/{window.descriptor}", os.O_RDWR)
        for descriptor in (window.descriptor, again):
            if name == "y":
                mmap.mmap(descriptor, window.size)[0] = 7
                continue
            for write in (lambda at=descriptor: mmap.mmap(at, mmap.PAGESIZE), lambda at=descriptor: os.pwrite(at, b"7", 0)):
                with pytest.raises(PermissionError):
                    write()
        os.close(again)
        window.bytes[0] = 3
        assert mmap.mmap(window.descriptor, window.size, prot=mmap.PROT_READ)[0] == 3


def test_a_runner_is_told_what_it_can_only_read(frame: Frame) -> None:
    bind = protocol.decode_request(frame.bind(1)[0])
    assert isinstance(bind, protocol.Bind)
    told = {argument.name: spec.read_only for argument, spec in zip(frame.task.arguments, bind.specs, strict=True)}
    assert told == {"x": True, "weight": True, "eps": False, "y": False}


def test_a_trusted_process_may_map_its_inputs_as_it_likes() -> None:
    trusted = Frame(load_task(CORE / "rmsnorm"), DType.FLOAT32, [{"rows": 7, "cols": 33}], trusted=True)
    bind = protocol.decode_request(trusted.bind(1)[0])
    assert isinstance(bind, protocol.Bind) and not any(spec.read_only for spec in bind.specs)
    for window in trusted.windows.values():
        mmap.mmap(window.descriptor, window.size)[0] = 7
    trusted.close()


def test_a_window_cannot_change_its_size(frame: Frame) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(frame.windows["x"].descriptor, 1)
