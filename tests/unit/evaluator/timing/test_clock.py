from __future__ import annotations

import math

import pytest

from evokern.evaluation import Sample
from evokern.evaluator.timing.clock import CHARGED, JudgedClock, Series, measurement, merged
from evokern.task import Workload


def series(pairs: list[tuple[int, int]], *, null_ns: float = 0.0, clusters: int = 8) -> Series:
    """One block of two equal pairs (candidate, opponent) per cluster, microseconds."""
    samples = []
    for cluster in range(clusters):
        for pair, (ours, theirs) in enumerate(pairs):
            samples.append(Sample("candidate", cluster, pair, ours * 1000, ours * 1000))
            samples.append(Sample("eager", cluster, pair, theirs * 1000, theirs * 1000))
    return Series(null_ns, samples)


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
    assert found.void_share("eager") == CHARGED


def test_no_valid_pair_is_no_ratio() -> None:
    found = Series(0.0, [Sample("candidate", 0, 0, 1000, 1000, "waited"), Sample("eager", 0, 0, 1000, 1000)])

    assert found.ratio("candidate", "eager") is None


def test_a_time_below_the_null_stays_finite() -> None:
    ratio = series([(1, 2000)] * 2, null_ns=5000).ratio("candidate", "eager")

    assert ratio is not None
    assert math.isfinite(ratio.estimate)


def test_a_second_measurement_keeps_what_the_first_saw() -> None:
    clock = JudgedClock(None, 1, None, None, lambda w: 1.0)  # type: ignore[arg-type]
    workload = Workload((("cols", 4), ("rows", 2)))
    first = measurement(workload, "candidate", series([(1000, 2000)] * 2), "eager", "incumbent", clock, None)
    second = measurement(workload, "candidate", series([(1000, 3000)] * 2), "eager", "baseline", clock, 500.0)
    assert first is not None and second is not None

    both = merged(first, second)

    assert set(both.versus) == {"incumbent", "baseline"}
    assert both.share == pytest.approx(0.5)
    assert len(both.samples) == len(first.samples) + len(second.samples)
