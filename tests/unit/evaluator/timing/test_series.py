from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from evokern.evaluation import Sample
from evokern.evaluator.timing.series import AGREE, Series, measurement, merged, typical
from evokern.task import Workload


def series(pairs: list[tuple[int, int]], *, null_ns: float = 0.0, margin: float = 0.0, clusters: int = 8) -> Series:
    """One block of equal pairs (candidate, opponent) per cluster, microseconds."""
    samples = []
    for cluster in range(clusters):
        for pair, (ours, theirs) in enumerate(pairs):
            samples.append(Sample("candidate", cluster, pair, ours * 1000, ours * 1000))
            samples.append(Sample("eager", cluster, pair, theirs * 1000, theirs * 1000))
    return Series(null_ns, margin, samples)


def test_the_ratio_is_the_opponents_time_over_ours_less_the_null() -> None:
    ratio = series([(1100, 2100), (1100, 2100)], null_ns=100_000).ratio("candidate", "eager")

    assert ratio is not None
    assert math.isclose(ratio.estimate, 2.0)
    assert ratio.low < 2.0 < ratio.high
    assert (ratio.pairs, ratio.clusters) == (16, 8)


def test_a_pair_with_a_void_half_does_not_count() -> None:
    found = series([(1000, 2000), (1000, 2000)])
    found.samples = [
        s if s.pair == 0 or s.who != "eager" else Sample(s.who, s.cluster, s.pair, s.cpu_ns * 50, s.wall_ns, "waited")
        for s in found.samples
    ]

    ratio = found.ratio("candidate", "eager")

    assert ratio is not None
    assert math.isclose(ratio.estimate, 2.0)
    assert ratio.pairs == 8
    assert found.void_share("eager") == 0.5


def test_no_valid_pair_is_no_ratio() -> None:
    found = Series(0.0, samples=[Sample("candidate", 0, 0, 1000, 1000, "waited"), Sample("eager", 0, 0, 1000, 1000)])

    assert found.ratio("candidate", "eager") is None


def test_a_time_below_the_null_stays_finite() -> None:
    ratio = series([(1, 2000)] * 2, null_ns=5000).ratio("candidate", "eager")

    assert ratio is not None
    assert math.isfinite(ratio.estimate)


def test_the_least_time_counts_where_calls_agree_and_the_mean_where_they_do_not() -> None:
    assert typical([100.0, 100.0 * AGREE]) == 100.0
    assert typical([100.0, 200.0]) == 150.0


def test_work_put_off_to_every_second_call_is_paid_for() -> None:
    ratio = series([(500, 1000), (1500, 1000)]).ratio("candidate", "eager")

    assert ratio is not None
    assert math.isclose(ratio.estimate, 1.0)


def test_work_put_off_to_every_second_allocation_is_paid_for() -> None:
    # The geometric mean over allocations would call this kernel twice as fast as its opponent; its user waits 2.6 times as long.
    found = series([(100, 1000)] * 2)
    found.samples = [
        Sample(s.who, s.cluster, s.pair, s.cpu_ns * 25, s.wall_ns) if s.who == "candidate" and s.cluster % 2 else s for s in found.samples
    ]

    ratio = found.ratio("candidate", "eager")

    assert ratio is not None
    assert 0.7 < ratio.estimate < 0.9
    assert ratio.low < ratio.estimate < ratio.high


def test_one_interrupted_call_is_nobodys_doing() -> None:
    found = series([(500, 1000)] * 2)
    found.samples[0] = Sample("candidate", 0, 0, 50_000_000, 50_000_000)

    ratio = found.ratio("candidate", "eager")

    assert ratio is not None
    assert ratio.estimate > 1.0  # 1.1: allocation 0 counts with its mean


def alternating(ours: Callable[[int], float], *, noise: float, void: Callable[[int], bool] = lambda _: False) -> Series:
    """A candidate whose n-th call takes `ours(n)` milliseconds and an even one, in processes of random age; void calls are taken again."""
    rng, found = random.Random(3), Series(0.0)
    for cluster in range(12):
        number = rng.randrange(2)
        for pair in range(2):
            taken = True
            while taken:
                number += 1
                taken = void(number)
                time = round(1e6 * ours(number) * rng.lognormvariate(0, noise))
                found.samples.append(Sample("candidate", cluster, pair, time, time, "waited" if taken else "", position=number))
            time = round(1e6 * rng.lognormvariate(0, noise))
            found.samples.append(Sample("eager", cluster, pair, time, time, position=pair))
    return found


def told(one: Series) -> float:
    ratio = one.ratio("candidate", "eager")
    assert ratio is not None
    return ratio.estimate


@pytest.mark.parametrize("noise", [0.003, 0.03])
def test_a_little_work_put_off_to_every_second_call_is_paid_for(noise: float) -> None:
    assert told(alternating(lambda n: 1.0 + 0.14 * (n % 2), noise=noise)) == pytest.approx(1 / 1.07, rel=0.02)


def test_calls_that_differ_no_more_than_the_opponents_count_with_the_least() -> None:
    found = alternating(lambda _: 1.0, noise=0.03)

    ours, theirs = found.by_cluster("candidate"), found.by_cluster("eager")
    assert told(found) == pytest.approx(math.exp(sum(math.log(theirs[c] / ours[c]) for c in ours) / len(ours)))


def test_what_void_calls_took_is_paid_for() -> None:
    found = alternating(lambda n: 5.0 if n % 2 == 0 else 1.0, noise=0.003, void=lambda n: n % 2 == 0)

    assert 0.3 < told(found) < 0.45  # it takes three times as long as the other on average


def test_void_calls_that_the_opponent_has_as_well_are_the_machines() -> None:
    found = series([(1000, 2000)] * 2)
    found.samples += [Sample(who, c, 0, 50_000_000, 50_000_000, "waited") for who in ("candidate", "eager") for c in range(4)]

    assert told(found) == pytest.approx(2.0)


def test_one_void_call_is_nobodys_doing() -> None:
    found = series([(1000, 2000)] * 2)
    found.samples.append(Sample("candidate", 0, 0, 50_000_000, 50_000_000, "waited"))

    assert told(found) == pytest.approx(2.0)


def test_a_margin_widens_the_interval_on_both_sides() -> None:
    plain, wide = (series([(1000, 2000)] * 2, margin=m).ratio("candidate", "eager") for m in (0.0, 0.1))

    assert plain is not None and wide is not None
    assert wide.estimate == plain.estimate
    assert math.isclose(math.log(plain.low / wide.low), 0.1)
    assert math.isclose(math.log(wide.high / plain.high), 0.1)


def test_a_second_measurement_keeps_what_the_first_saw() -> None:
    workload = Workload((("cols", 4), ("rows", 2)))
    clock = {"null_ns": 0.0, "resolution_ns": 0.0}
    first = measurement(workload, "candidate", series([(1000, 2000)] * 2), "eager", "incumbent", **clock, floor_us=None)
    second = measurement(workload, "candidate", series([(1000, 3000)] * 2), "eager", "baseline", **clock, floor_us=500.0)
    assert first is not None and second is not None

    both = merged(first, second)

    assert set(both.versus) == {"incumbent", "baseline"}
    assert both.share == pytest.approx(0.5)
    assert len(both.samples) == len(first.samples) + len(second.samples)
