from __future__ import annotations

import math

import numpy as np
import pytest

from evokern.evaluation import Ratio
from evokern.statistics import (
    CLUSTERS_FOR_A_GAIN,
    confidence_multiplier,
    paired_ratio,
    shifted,
    unexplained_bias,
    widened,
)
from evokern.statistics.paired import NO_CLAIM

LOOKS = (2, 3, 4, 8, 16, 32)
PAIRS = 6


def sample_log_ratios(rng: np.random.Generator, *, truth: float, noise: float, clusters: int, tails: bool) -> np.ndarray:
    """Log ratios of paired times, shape (clusters, PAIRS): log-normal noise per call, an effect per allocation, interrupts."""
    calls = rng.normal(0.0, noise, (2, clusters, PAIRS))
    if tails:
        calls += (rng.random((2, clusters, PAIRS)) < 0.05) * rng.exponential(1.0, (2, clusters, PAIRS))
    allocation = rng.normal(0.0, noise / 2, (clusters, 1))
    if tails:
        allocation = allocation * rng.standard_t(4, (clusters, 1))
    return truth + allocation + calls[1] - calls[0]


def misses(*, truth: float, noise: float, tails: bool, runs: int, seed: int) -> float:
    """Share of runs in which the interval excluded the truth at any look."""
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(runs):
        values = sample_log_ratios(rng, truth=truth, noise=noise, clusters=max(LOOKS), tails=tails)
        owners = np.repeat(np.arange(max(LOOKS)), PAIRS)
        ratios = [paired_ratio(values[:look].ravel(), owners[: look * PAIRS]) for look in LOOKS]
        wrong += any(not r.low <= math.exp(truth) <= r.high for r in ratios)
    return wrong / runs


@pytest.mark.parametrize("noise", [0.01, 0.10])
@pytest.mark.parametrize("tails", [False, True], ids=["gaussian", "heavy"])
def test_the_interval_holds_the_truth_over_all_looks_together(noise: float, tails: bool) -> None:
    assert misses(truth=math.log(1.2), noise=noise, tails=tails, runs=300, seed=7) <= 0.05


def test_a_plain_t_interval_looked_at_as_often_would_fail_here() -> None:
    """The simulation can tell: 1.96 standard errors at every look miss far more often than 5 %."""
    rng = np.random.default_rng(7)
    wrong = 0
    for _ in range(400):
        medians = np.median(sample_log_ratios(rng, truth=0.0, noise=0.05, clusters=32, tails=False), axis=1)
        wrong += any(abs(medians[:n].mean()) > 1.96 * medians[:n].std(ddof=1) / math.sqrt(n) for n in LOOKS)
    assert wrong / 400 > 0.2


def test_a_clear_gain_is_claimed_at_eight_allocations_and_a_clear_loss_at_four() -> None:
    rng = np.random.default_rng(3)
    gain = sample_log_ratios(rng, truth=math.log(1.2), noise=0.01, clusters=8, tails=True)
    owners = np.repeat(np.arange(8), PAIRS)
    assert paired_ratio(gain.ravel(), owners).low > 1.1
    loss = sample_log_ratios(rng, truth=math.log(0.8), noise=0.01, clusters=4, tails=True)
    assert paired_ratio(loss.ravel(), owners[: 4 * PAIRS]).high < 0.95


def test_fewer_than_eight_allocations_claim_no_gain_however_many_pairs() -> None:
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(CLUSTERS_FOR_A_GAIN - 1), 100)
    ratio = paired_ratio(rng.normal(1.0, 1e-3, owners.size), owners)
    assert ratio.low == NO_CLAIM
    assert 2.6 < ratio.estimate < ratio.high < 2.9
    assert (ratio.pairs, ratio.clusters) == (700, 7)


@pytest.mark.parametrize("clusters", [1, 2])
def test_one_or_two_allocations_exclude_nothing(clusters: int) -> None:
    ratio = paired_ratio([0.5] * clusters, range(clusters))
    assert (ratio.low, ratio.high) == (NO_CLAIM, math.inf)


def test_equal_readings_of_a_coarse_clock_are_not_certainty() -> None:
    ratio = paired_ratio([0.1] * 64, np.repeat(np.arange(8), 8))
    assert ratio.low < math.exp(0.1) < ratio.high


def test_scatter_within_allocations_widens_the_interval_when_their_medians_agree_by_luck() -> None:
    owners = np.repeat(np.arange(8), 5)
    quiet = paired_ratio(np.tile([-0.001, 0.0, 0.0, 0.0, 0.001], 8), owners)
    loud = paired_ratio(np.tile([-0.2, -0.1, 0.0, 0.1, 0.2], 8), owners)
    assert loud.high > quiet.high * 1.05


def test_one_interrupt_per_allocation_leaves_the_estimate_alone() -> None:
    values = np.tile([0.1, 0.1, 0.1, 0.1, -2.0], 8)
    assert paired_ratio(values, np.repeat(np.arange(8), 5)).estimate == pytest.approx(math.exp(0.1))


def test_swapping_the_two_sides_turns_the_ratio_over() -> None:
    rng = np.random.default_rng(1)
    owners = np.repeat(np.arange(10), 7)
    values = rng.normal(0.3, 0.05, owners.size)
    there, back = paired_ratio(values, owners), paired_ratio(-values, owners)
    assert back.estimate == pytest.approx(1 / there.estimate)
    assert (back.low, back.high) == (pytest.approx(1 / there.high), pytest.approx(1 / there.low))


def test_the_multiplier_falls_with_clusters_and_grows_slowly_later() -> None:
    multipliers = [confidence_multiplier(n) for n in (3, 4, 8, 16, 32)]
    assert multipliers == sorted(multipliers, reverse=True)
    assert 4.0 < confidence_multiplier(8) < 4.6
    assert confidence_multiplier(10_000) > confidence_multiplier(100)


@pytest.mark.parametrize(
    ("log_ratios", "clusters"),
    [([], []), ([0.1, 0.2], [0]), ([[0.1]], [[0]]), ([0.1, math.nan], [0, 0]), ([math.inf], [0])],
)
def test_bad_samples_are_refused(log_ratios: list[float], clusters: list[int]) -> None:
    with pytest.raises(ValueError, match=r"log ratio"):
        paired_ratio(log_ratios, clusters)


def test_a_margin_widens_an_interval_and_a_shift_moves_it() -> None:
    ratio = Ratio(2.0, 1.8, 2.2, 16, 8)

    wide, moved = widened(ratio, 0.1), shifted(ratio, -0.1)

    assert (wide.estimate, wide.pairs, wide.clusters) == (2.0, 16, 8)
    assert math.isclose(math.log(ratio.low / wide.low), 0.1) and math.isclose(math.log(wide.high / ratio.high), 0.1)
    for before, after in ((ratio.estimate, moved.estimate), (ratio.low, moved.low), (ratio.high, moved.high)):
        assert math.isclose(math.log(after / before), -0.1)


def test_where_no_bound_is_claimed_none_is_invented() -> None:
    unclaimed = paired_ratio([0.1, 0.2], [0, 1])

    assert widened(unclaimed, 0.5).low == shifted(unclaimed, 3.0).low == unclaimed.low


def test_scatter_is_no_bias() -> None:
    rng = np.random.default_rng(3)
    found = [unexplained_bias(rng.normal(0, 0.1, 6)) for _ in range(500)]

    assert np.mean(found) < 0.01
    assert unexplained_bias(rng.normal(0.05, 0.001, 6)) == pytest.approx(0.05, abs=0.002)
    assert unexplained_bias([-0.05] * 4) == pytest.approx(0.05)
    with pytest.raises(ValueError, match="at least 2"):
        unexplained_bias([0.1])
