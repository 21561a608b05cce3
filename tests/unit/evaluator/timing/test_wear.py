from __future__ import annotations

import random

import pytest

from evokern.evaluation import Sample
from evokern.evaluator.timing.series import Series
from evokern.evaluator.timing.side import LONG_CALLS
from evokern.evaluator.timing.wear import (
    FEWEST,
    FEWEST_CALLS,
    KEPT_BYTES,
    KEPT_EACH,
    KEPT_LEAST,
    SETTLES,
    Stay,
    keeps_memory,
    looks,
    slows_down,
)

RNG = random.Random(5)


def series(*, slower: float, clusters: int = 8, noise: float = 0.02) -> Series:
    """Allocations of which every second one is older, and by how much the candidate is slower there."""
    found = Series(0.0)
    for cluster in range(clusters):
        old = cluster % 2 == 1
        machine = 1e6 * RNG.lognormvariate(0, noise)
        for who, factor in (("candidate", slower if old else 1.0), ("eager", 1.0)):
            time = round(machine * factor * RNG.lognormvariate(0, noise))
            found.samples += [Sample(who, cluster, pair, time, time) for pair in range(2)]
        if old:
            found.aged.add(cluster)
    return found


def test_a_kernel_that_slows_down_is_found() -> None:
    assert slows_down(series(slower=2.0), "candidate", "eager")


def test_an_even_one_seldom_seems_so_and_never_twice_as_long() -> None:
    assert sum(slows_down(series(slower=1.0, noise=0.1), "candidate", "eager") for _ in range(300)) <= 6
    assert not any(slows_down(series(slower=1.0, noise=0.1, clusters=16), "candidate", "eager") for _ in range(100))


def test_one_that_slows_down_later_than_some_processes_get_is_found() -> None:
    found = series(slower=2.0)
    found.samples = [
        Sample(s.who, s.cluster, s.pair, s.cpu_ns // 2, s.wall_ns) if (s.cluster, s.who) == (1, "candidate") else s for s in found.samples
    ]

    assert slows_down(found, "candidate", "eager")


def test_a_machine_that_slows_down_is_not_the_candidates_doing() -> None:
    found = series(slower=1.0)
    found.samples = [Sample(s.who, s.cluster, s.pair, s.cpu_ns * 3, s.wall_ns) if s.cluster in found.aged else s for s in found.samples]

    assert not slows_down(found, "candidate", "eager")


def test_too_few_allocations_say_nothing() -> None:
    assert not slows_down(series(slower=5.0, clusters=2 * FEWEST - 1), "candidate", "eager")


def test_memory_kept_with_every_call_is_found() -> None:
    assert keeps_memory([[2 * KEPT_BYTES] * FEWEST_CALLS])
    assert keeps_memory([[8 * KEPT_BYTES, 0] * FEWEST_CALLS])
    assert keeps_memory([[2 * KEPT_BYTES]] * FEWEST_CALLS)  # by as many processes


def test_a_small_leak_shows_in_long_stays() -> None:
    assert keeps_memory([[200 << 10] * (SETTLES + FEWEST_CALLS)])
    assert keeps_memory([[8 << 10] * 64, *[[0] * 20] * 3])
    assert keeps_memory([[0, 0, 0, 64 << 10] * 16])  # now and then


def test_a_pool_that_grows_once_or_a_small_leak_does_no_harm() -> None:
    assert not keeps_memory([[100 * KEPT_BYTES, *[0] * 20]])
    assert not keeps_memory([[*[0] * 20, 100 * KEPT_BYTES, *[0] * 20]])
    assert not keeps_memory([[KEPT_BYTES, KEPT_BYTES // 2, KEPT_BYTES // 4, *[0] * 50]])  # allocators that settle
    assert not keeps_memory([[200 << 10, -(200 << 10)] * 50])
    assert not keeps_memory([[1 << 10] * 50])
    assert not keeps_memory([[8 << 10] * 64, *[[0] * 20] * 4])  # one of five
    assert not keeps_memory([[0] * 50])
    assert not keeps_memory([])


STAYS = range(LONG_CALLS[0] // 2, LONG_CALLS[1] + 1)
"""How many calls a long stay may have: two workloads share them."""


def stay(calls: int, *, each: int = 0, once: int = 0, at: int = 0) -> Stay:
    """A process that keeps `each` bytes with every call, and `once` bytes besides with one call."""
    after = looks(calls)
    first, middle, last = ((40 << 20) + each * n + (once if n >= at else 0) for n in after)
    return Stay(after, (first, middle, last))


@pytest.mark.parametrize("calls", STAYS)
def test_a_leak_of_16_kib_a_call_shows_in_the_shortest_of_stays(calls: int) -> None:
    assert keeps_memory([], [stay(calls, each=16 << 10)])
    assert keeps_memory([], [stay(calls, each=16 << 10), stay(calls)])  # on one of two workloads


@pytest.mark.parametrize("calls", STAYS)
def test_what_is_made_once_is_no_leak(calls: int) -> None:
    assert not any(keeps_memory([], [stay(calls, once=100 * KEPT_BYTES, at=at)]) for at in range(calls + 1))
    assert not keeps_memory([], [stay(calls)])


@pytest.mark.parametrize("calls", STAYS)
def test_a_few_pages_and_less_than_one_a_call_do_no_harm(calls: int) -> None:
    after = looks(calls)
    assert not keeps_memory([], [Stay(after, (KEPT_EACH, KEPT_EACH + KEPT_LEAST, KEPT_EACH + 2 * KEPT_LEAST))])
    assert not keeps_memory([], [stay(calls, each=KEPT_EACH)])
    assert not keeps_memory([], [stay(calls, each=-(16 << 10))])


def test_memory_that_nobody_could_count_tells_nothing() -> None:
    assert not keeps_memory([], [Stay(looks(16), (0, 1 << 20, 2 << 20))])
