"""Rooflines: floors and scores on worked numbers, and what takes a kernel's time told from the figures that say so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from evokern.evaluation import Bottleneck
from evokern.statistics.roofline import (
    Ceilings,
    Figures,
    Work,
    bottleneck,
    bound_us,
    floor_us,
    memory_us,
    share,
    sol_score,
    work_of,
)
from evokern.task import DType
from evokern.testing.requests import row_task

H200 = Ceilings(read=4.4e12, write=4.0e12, copy=4.27e12, launch_us=2.0, vector=60e12, matrix=800e12)
"""Figures of the order of an H200's."""

SOFTMAX = Work(bytes_read=88_000_000, bytes_written=80_000_000, flops=200_000_000)
"""20 us to read, 20 us to write."""


def figures(time_us: float, work: Work = SOFTMAX, ceilings: Ceilings | None = H200, **seen: Mapping[str, object]) -> Figures:
    traits = {name: str(value) for name, value in seen.get("traits", {}).items()}
    counters = {name: float(str(value)) for name, value in seen.get("counters", {}).items()}
    return Figures(time_us, work, ceilings, traits, counters)


def test_the_floor_is_a_launch_and_each_byte_at_its_own_rate() -> None:
    assert memory_us(SOFTMAX, H200) == pytest.approx(40.0)
    assert floor_us(SOFTMAX, H200) == pytest.approx(42.0)
    assert share(84.0, SOFTMAX, H200) == pytest.approx(0.5)


def test_the_bound_is_below_the_floor_and_counts_operations() -> None:
    assert bound_us(SOFTMAX, H200) == pytest.approx(168 / 4.27)
    assert bound_us(Work(1000, 1000, 8_000_000_000), H200) == pytest.approx(10.0)
    assert bound_us(Work(1000, 1000, 8_000_000_000), Ceilings(1e12, 1e12)) == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("time_us", "baseline_us", "expected"), [(50.0, 50.0, 0.5), (10.0, 50.0, 1.0), (9.0, 50.0, 1.0), (90.0, 50.0, 1 / 3), (20.0, 50.0, 0.8)]
)
def test_the_sol_score_goes_from_the_baseline_to_the_bound(time_us: float, baseline_us: float, expected: float) -> None:
    assert sol_score(time_us, baseline_us, 10.0) == pytest.approx(expected)


def test_a_baseline_at_the_bound_leaves_nothing_to_gain() -> None:
    assert sol_score(11.0, 10.0, 10.0) == 0.0
    assert sol_score(10.0, 9.0, 10.0) == 1.0


def test_the_work_of_a_task_is_its_cost(tmp_path: Path) -> None:
    task = row_task(tmp_path)
    axes = dict(task.search[0].axes)
    work = work_of(task, axes, DType.FLOAT32)
    assert (work.bytes_read, work.bytes_written) == task.bytes_moved(axes, DType.FLOAT32)
    assert work.bytes_moved == sum(task.bytes_moved(axes, DType.FLOAT32))
    assert work.flops > 0


def test_ceilings_of_a_device_are_those_of_the_element_type() -> None:
    kept = {"read": 4.0, "write": 3.0, "copy": 3.5, "launch_us": 2.0, "vector": 5.0, "matrix": 80.0, "matrix_float16": 81.0}
    of = {dtype: Ceilings.of_device(kept, dtype) for dtype in (DType.BFLOAT16, DType.FLOAT16, DType.FLOAT32)}
    assert [found.matrix if found else None for found in of.values()] == [80.0, 81.0, None]
    assert Ceilings.of_device({"read": 4.0}, DType.FLOAT32) is None


def test_a_copy_of_as_many_bytes_is_a_floor_of_its_time() -> None:
    assert floor_us(SOFTMAX, Ceilings.of_copy(SOFTMAX, 123.0)) == pytest.approx(123.0)


PLAIN = {"libm": "no", "simd": "wide"}
DEVICE = {"registers": 32, "spill_bytes": 0, "resident": "1.00", "units": "special shuffle"}
BUSY = {"dram_pct": 90, "l2_pct": 50, "read_bytes": 90e6, "written_bytes": 80e6}
IDLE = {"dram_pct": 30, "l2_pct": 20, "read_bytes": 90e6, "written_bytes": 80e6, "occupancy_pct": 90}


@pytest.mark.parametrize(
    ("seen", "cause", "words"),
    [
        (figures(3.0, Work(1000, 1000, 10)), Bottleneck.LAUNCH, "a launch takes 2 of 3 us"),
        (figures(45.0, traits=DEVICE), Bottleneck.MEMORY, "its bytes take 89 %"),
        (figures(45.0, traits=DEVICE | {"spill_bytes": 8}), Bottleneck.MEMORY, "89 %"),
        (figures(200.0, traits=DEVICE | {"spill_bytes": 128}), Bottleneck.SPILLS, "128 bytes a thread are spilled"),
        (figures(200.0, traits=DEVICE | {"resident": "0.25"}), Bottleneck.OCCUPANCY, "25 % of the possible threads"),
        (figures(80.0, traits=DEVICE), Bottleneck.MEMORY, "the largest part"),
        (figures(200.0, traits=DEVICE), Bottleneck.LATENCY, "its bytes take 20 % of its time"),
        (figures(100.0, Work(1000, 1000, 6_000_000_000)), Bottleneck.COMPUTE, "its operations take 100 %"),
        (figures(100.0, Work(1000, 1000, 6_000_000_000), traits={"units": "tensor"}), Bottleneck.LATENCY, "its operations 8 %"),
        (figures(200.0, ceilings=Ceilings.of_copy(SOFTMAX, 50.0), traits=PLAIN), Bottleneck.LATENCY, "its arithmetic is wide"),
        (figures(200.0, ceilings=Ceilings.of_copy(SOFTMAX, 50.0), traits=PLAIN | {"libm": "scalar"}), Bottleneck.COMPUTE, "one element"),
        (figures(200.0, ceilings=Ceilings.of_copy(SOFTMAX, 50.0), traits=PLAIN | {"simd": "none"}), Bottleneck.COMPUTE, "one element"),
        (figures(60.0, ceilings=Ceilings.of_copy(SOFTMAX, 50.0), traits=PLAIN | {"simd": "none"}), Bottleneck.MEMORY, "83 %"),
        (figures(200.0, ceilings=Ceilings.of_copy(SOFTMAX, 50.0)), Bottleneck.UNKNOWN, "nothing tells arithmetic from waiting"),
        (figures(200.0, ceilings=None), Bottleneck.UNKNOWN, "nothing is known"),
    ],
)
def test_a_bottleneck_is_told_with_its_numbers(seen: Figures, cause: Bottleneck, words: str) -> None:
    found, why = bottleneck(seen)
    assert found is cause
    assert words in why


@pytest.mark.parametrize(
    ("counters", "cause", "words"),
    [
        (BUSY | {"read_bytes": 256e6}, Bottleneck.MEMORY, "90 % of its peak and moves 2.00 times the bytes that it must"),
        (BUSY | {"dram_pct": 10, "l2_pct": 85}, Bottleneck.MEMORY, "the last cache's throughput is at 85 %"),
        (IDLE | {"fma_pct": 70}, Bottleneck.COMPUTE, "single-precision units are busy 70 %"),
        (IDLE | {"xu_pct": 65}, Bottleneck.COMPUTE, "special-function units are busy 65 %"),
        (IDLE | {"issue_pct": 80}, Bottleneck.COMPUTE, "schedulers issue in 80 %"),
        (IDLE | {"local_load_sectors": 1e6}, Bottleneck.SPILLS, "32 MB go through local memory"),
        (IDLE | {"occupancy_pct": 12}, Bottleneck.OCCUPANCY, "12 % of the possible warps"),
        (IDLE | {"stall_barrier": 9.5, "stall_wait": 2}, Bottleneck.LATENCY, "warps wait at barriers, 9.5 cycles"),
        ({"time_ns": 5.0}, Bottleneck.LATENCY, "neither memory nor arithmetic is busy"),
    ],
)
def test_what_the_device_counted_goes_before_what_the_product_shows(counters: dict[str, object], cause: Bottleneck, words: str) -> None:
    found, why = bottleneck(figures(200.0, traits=DEVICE | {"resident": "0.1"}, counters=counters))
    assert found is cause
    assert words in why


@pytest.mark.parametrize("value", ["", "many", "nan", "-1"])
def test_a_trait_that_is_no_number_says_nothing(value: str) -> None:
    found, _ = bottleneck(
        figures(200.0, traits={"resident": value if value != "-1" else "2", "spill_bytes": value if value == "" else "0"})
    )
    assert found is Bottleneck.LATENCY
