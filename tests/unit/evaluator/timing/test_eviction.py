from __future__ import annotations

import os

from evokern.evaluator.timing.eviction import LEAST_BYTES, MOST_BYTES, PROVISIONAL_BYTES, Evictor


def test_what_is_read_is_bounded_whatever_the_cache_is_said_to_have() -> None:
    assert Evictor(1).size == LEAST_BYTES
    assert Evictor(1 << 40)._memory.nbytes == MOST_BYTES


def test_until_it_is_known_how_much_must_be_read_it_is_not_all() -> None:
    assert Evictor(1 << 40).size == PROVISIONAL_BYTES < MOST_BYTES


def test_calibration_reads_no_more_than_all_and_finds_a_rate() -> None:
    evictor = Evictor(16 << 20)
    evictor.calibrate()

    assert 0 < evictor.size <= 32 << 20
    assert evictor.bytes_per_ns > 0
    evictor.evict()


def test_helpers_are_pinned_to_processors_that_the_caller_does_not_use() -> None:
    allowed = os.sched_getaffinity(0)
    first = min(allowed)
    os.sched_setaffinity(0, {first})
    try:
        evictor = Evictor(1, allowed)
        assert len(evictor._helpers) == len(allowed) - 1
        evictor.evict()
    finally:
        os.sched_setaffinity(0, allowed)
