"""Held-out sets: secret, repeatable, mixed, never a visible workload."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evokern.errors import UsageError
from evokern.evaluator.reference import edges
from evokern.evaluator.reference.held_out import (
    FEW_ROWS,
    FEWEST_BITS,
    SHARE_TOLD,
    SWEPT_ELEMENTS,
    SWEPT_OTHERS,
    SWEPT_ROWS,
    TILE,
    HeldOutWorkload,
    budget_bits,
    corners,
    draw,
    entropy_bits,
    most_workloads,
    strata,
    sweep,
)
from evokern.task import HeldOutSpace, Task, Workload, load_task

CORE = Path(__file__).parents[4] / "benchmarks" / "tasks" / "core"
NAMES = ("softmax", "rmsnorm", "cross_entropy", "bias_gelu")
KEYS = st.binary(min_size=32, max_size=32)


@pytest.fixture(scope="module", params=NAMES)
def task(request: pytest.FixtureRequest) -> Task:
    return load_task(CORE / request.param)


def axes(workload: HeldOutWorkload) -> dict[str, int]:
    return dict(workload.axes)


@given(key=KEYS, epoch=st.integers(0, 1000))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_every_set_is_mixed(task: Task, key: bytes, epoch: int) -> None:
    drawn = draw(task, key, epoch)
    assert len(drawn) == task.held_out.count == len({w.axes for w in drawn})
    assert not {w.axes for w in drawn} & {w.axes for w in task.search}
    for workload in drawn:
        assert all(low <= axes(workload)[axis] <= high for axis, low, high in task.held_out.axes)
        assert math.prod(axes(workload).values()) <= task.held_out.max_elements
    columns = [axes(w)["cols"] for w in drawn]
    rows = [axes(w)["rows"] for w in drawn]
    long = [w for w in drawn if w.timed_hint]
    assert 3 * len(long) >= len(drawn)
    assert {w.layout for w in long} >= set(task.held_out.layouts)
    assert max(columns) > max(dict(w.axes)["cols"] for w in task.search)
    assert 1 in columns
    assert 1 in rows
    assert any(1 < c < TILE for c in columns)
    assert any(c > 1 and all(c % d for d in range(2, math.isqrt(c) + 1)) for c in columns)
    assert any(r % 2 and c % 2 and r * c > task.held_out.max_elements // 4 for r, c in zip(rows, columns, strict=True))


@given(key=KEYS)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_a_set_follows_from_key_and_epoch_alone(task: Task, key: bytes) -> None:
    first = draw(task, key, 3)
    assert draw(task, key, 3) == first
    assert draw(task, key, 4) != first
    assert draw(task, bytes(31) + bytes([key[0] ^ 1]), 3) != first
    assert draw(replace(task, digest="another"), key, 3) != first


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("name", ["group_norm", "rope", "rope_kv_write"])
def test_sets_of_more_than_two_axes_are_mixed_too(name: str, device: str) -> None:
    task = load_task(CORE / name).on(device)
    inner = task.axes[-1]
    for epoch in range(20):
        drawn = draw(task, b"k" * 32, epoch)
        assert 3 * sum(w.timed_hint for w in drawn) >= len(drawn)
        assert {w.layout for w in drawn if w.timed_hint} == set(task.held_out.layouts)
        assert max(axes(w)[inner] for w in drawn) > max(dict(w.axes)[inner] for w in task.search)
        assert any(all(value % 2 for _, value in w.axes) for w in drawn if w.timed_hint)


def test_layouts_are_evenly_used(task: Task) -> None:
    counts = Counter(w.layout for epoch in range(60) for w in draw(task, b"k" * 32, epoch))
    assert set(counts) == set(task.held_out.layouts)
    assert max(counts.values()) - min(counts.values()) <= 60


def test_constraints_hold(task: Task) -> None:
    bound = replace(task, constraints=("cols % 8 == 0", "rows <= 4 * cols"))
    for workload in draw(bound, b"k" * 32, 0):
        assert axes(workload)["cols"] % 8 == 0
        assert axes(workload)["rows"] <= 4 * axes(workload)["cols"]


def test_a_task_that_wants_contiguous_gets_contiguous(task: Task) -> None:
    only = replace(task, held_out=replace(task.held_out, layouts=("contiguous",)))
    assert {w.layout for w in draw(only, b"k" * 32, 0)} == {"contiguous"}


def test_ranges_with_too_few_workloads_are_refused(task: Task) -> None:
    tiny = HeldOutSpace((("cols", 1, 2), ("rows", 1, 2)), count=5)
    with pytest.raises(UsageError, match="too few"):
        draw(replace(task, held_out=tiny), b"k" * 32, 0)


def test_a_visible_workload_is_never_drawn(task: Task) -> None:
    space = HeldOutSpace((("cols", 1, 3), ("rows", 1, 2)), count=5)
    visible = Workload((("cols", 3), ("rows", 2)))
    for epoch in range(20):
        assert visible.axes not in {w.axes for w in draw(replace(task, held_out=space, search=(visible,)), b"k" * 32, epoch)}


def test_a_set_is_retired_long_before_its_bits_are_told(task: Task) -> None:
    assert entropy_bits(task) > 100
    assert budget_bits(task) == int(SHARE_TOLD * entropy_bits(task)) > FEWEST_BITS


def test_a_small_space_is_retired_after_few_answers_but_not_at_once(task: Task) -> None:
    small = replace(task, held_out=HeldOutSpace((("cols", 1, 4), ("rows", 1, 2)), count=2, layouts=("contiguous",)))
    assert entropy_bits(small) == pytest.approx(2 * 3)
    assert budget_bits(small) == FEWEST_BITS


@given(key=KEYS, epoch=st.integers(0, 1000))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_sweep_is_a_small_shape_in_every_stratum(task: Task, key: bytes, epoch: int) -> None:
    swept = sweep(task, key, epoch)
    cornered = [(corner, layout) for corner in corners(task) for layout in task.held_out.layouts]
    assert len(swept) == len(strata(task)) + len(cornered) == most_workloads(task) - task.held_out.count
    for workload, ((axis, least, most), layout) in zip(swept[-len(cornered) :], cornered, strict=True):
        assert least <= axes(workload)[axis] <= most
        assert workload.layout == layout
    for workload, (axis, least, most) in zip(swept, strata(task), strict=False):
        sizes = axes(workload)
        assert least <= sizes[axis] <= most
        assert all(TILE // 2 < size <= SWEPT_OTHERS for name, size in workload.axes if name != axis)
        assert axis == "rows" or sizes["rows"] >= SWEPT_ROWS
        # Where there is no room, the other axis is as short as the edges of values and a vector let it be.
        assert math.prod(sizes.values()) <= max(SWEPT_ELEMENTS, sizes[axis] * (SWEPT_ROWS + TILE // 2))
    assert not {w.axes for w in swept} & {w.axes for w in task.search}
    assert sum(math.prod(axes(w).values()) for w in swept) < task.held_out.max_elements
    assert {w.layout for w in swept} == set(task.held_out.layouts)


def test_a_sweep_follows_from_key_and_epoch_alone(task: Task) -> None:
    assert sweep(task, b"k" * 32, 3) == sweep(task, b"k" * 32, 3)
    assert len({tuple(sweep(task, key, epoch)) for key in (b"k" * 32, b"l" * 32) for epoch in range(4)}) == 8


def test_every_edge_of_values_occurs_twice_beside_a_swept_row() -> None:
    assert SWEPT_ROWS >= 2 * len(edges.KINDS)


@given(key=KEYS, epoch=st.integers(0, 1000))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_no_tail_is_left_to_chance(task: Task, key: bytes, epoch: int) -> None:
    assert {axes(w)["cols"] % TILE for w in sweep(task, key, epoch) if axes(w)["cols"] > TILE} == set(range(TILE))


def test_remainders_follow_from_the_key(task: Task) -> None:
    first = {tuple(axes(w)["cols"] % TILE for w in sweep(task, b"k" * 32, epoch) if axes(w)["cols"] > 4096) for epoch in range(40)}
    assert len(first) > 20


def reaching(task: Task, high: int) -> Task:
    """The task with an inner axis that goes up to a size, and a held-out set too small to help."""
    return replace(task, held_out=HeldOutSpace((("cols", 1, high), ("rows", 1, 16384)), count=2, max_elements=1 << 22))


@pytest.mark.parametrize("high", [300, 4096, 20000, 32770, 65538, 100000])
@given(key=KEYS)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_no_range_of_sizes_is_left_to_chance(task: Task, high: int, key: bytes) -> None:
    wide = reaching(task, high)
    columns = {axes(w)["cols"] for w in sweep(wide, key, 0)}
    rows = {axes(w)["rows"] for w in sweep(wide, key, 0)}
    for begin in range(TILE, high // 2 + 1, 7):
        assert any(begin <= c for c in columns)
        assert any(begin <= c < 2 * begin for c in columns), begin
    for power in range(FEW_ROWS.bit_length() - 1, 14):
        assert any(1 << power < r <= 2 << power for r in rows), power
    for power in (1 << 15, 1 << 16):
        assert (max(columns) > power) == (high > power)


@pytest.mark.parametrize(("bits", "factor"), [(8, 1), *((16, factor) for factor in (4, 5, 8, 12, 20, 32, 100, 255))])
def test_an_index_that_loses_its_sign_is_met(task: Task, bits: int, factor: int) -> None:
    half = 1 << (bits - 1)
    for epoch in range(50):
        columns = [axes(w)["cols"] for w in sweep(task, b"k" * 32, epoch)]
        assert any(c * factor % (2 * half) >= half for c in columns)


def test_a_sweep_stays_within_constraints_and_what_a_task_allows(task: Task) -> None:
    bound = replace(task, constraints=("cols % 8 == 0", "rows <= 4 * cols"))
    swept = sweep(bound, b"k" * 32, 0)
    assert swept and all(axes(w)["cols"] % 8 == 0 and axes(w)["rows"] <= 4 * axes(w)["cols"] for w in swept)
    few = replace(task, held_out=replace(task.held_out, axes=(("cols", 1, 20000), ("rows", 64, 64)), max_elements=64 * 1000))
    swept = sweep(few, b"k" * 32, 0)
    assert 1000 >= max(axes(w)["cols"] for w in swept) > 512
    tiny = replace(task, held_out=HeldOutSpace((("cols", 1, 4), ("rows", 1, 2)), count=2))
    assert strata(tiny) == []
    assert 0 < len(sweep(tiny, b"k" * 32, 0)) <= len(corners(tiny)) * len(tiny.held_out.layouts)
