from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from evokern.evaluation import BASELINE, Clock, Evaluation, Measurement, Ratio, Score, Verdict
from evokern.statistics import chain, combine, paired_ratio, score_of
from evokern.statistics.paired import NO_CLAIM


def ratio(estimate: float, spread: float = 0.1) -> Ratio:
    return Ratio(estimate, estimate * math.exp(-spread), estimate * math.exp(spread), 64, 8)


def evaluation(*ratios: dict[str, Ratio], verdict: Verdict = Verdict.PASSED) -> Evaluation:
    measurements = tuple(Measurement(f"w{i}", Clock.JUDGED, 1.0, 0.1, 0.01, None, versus) for i, versus in enumerate(ratios))
    return Evaluation("k", "t", "float32", verdict, measurements=measurements)


def test_the_score_is_the_geometric_mean_and_halfwidths_add_as_squares() -> None:
    score = combine({"a": ratio(2.0, 0.3), "b": ratio(0.5, 0.4)})
    assert score.log == pytest.approx(0.0)
    assert (score.low, score.high) == (pytest.approx(-0.25), pytest.approx(0.25))


def test_one_workload_without_a_bound_leaves_the_whole_without_one() -> None:
    score = combine([ratio(2.0), Ratio(2.0, NO_CLAIM, math.inf, 4, 2)])
    assert score.low < -100
    assert score.high == math.inf


def test_a_score_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        combine([])


def test_chaining_multiplies_ratios_and_never_narrows() -> None:
    first, second = combine([ratio(1.5, 0.3)]), combine([ratio(2.0, 0.4)])
    chained = chain(first, second)
    assert math.exp(chained.log) == pytest.approx(3.0)
    assert chained.log - chained.low == pytest.approx(0.5)
    assert chained.high - chained.log == pytest.approx(0.5)
    assert chain(first, Score(0.0, 0.0, 0.0)) == first


def test_the_combined_interval_covers_at_every_look() -> None:
    rng = np.random.default_rng(11)
    truths = np.log([1.1, 1.3, 0.9])
    wrong = 0
    for _ in range(200):
        medians = truths[:, None] + rng.normal(0, 0.02, (3, 16))
        for look in (8, 12, 16):
            score = combine([paired_ratio(row[:look], range(look)) for row in medians])
            if not score.low <= truths.mean() <= score.high:
                wrong += 1
                break
    assert wrong / 200 <= 0.05


def test_only_a_passed_kernel_measured_on_every_workload_has_a_score() -> None:
    both = evaluation({BASELINE: ratio(2.0)}, {BASELINE: ratio(8.0)})
    assert score_of(both) == combine([ratio(2.0), ratio(8.0)])
    assert score_of(evaluation({BASELINE: ratio(2.0)}, {"incumbent": ratio(8.0)})) is None
    assert score_of(evaluation()) is None
    assert score_of(dataclasses.replace(both, verdict=Verdict.WRONG)) is None
    assert score_of(both, "incumbent") is None
