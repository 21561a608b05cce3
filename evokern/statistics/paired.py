"""Paired comparison of two kernels' times, valid at every look.

A measurement is looked at after 2, 4, 8, ... allocations and stopped by what is seen, so an interval made for one look
would be wrong far more often than it says. Each allocation gives one number, the median of its pairs' log ratios; these
numbers are exchangeable even where pairs within an allocation are not (pages, alignment and cache colours are drawn once
an allocation). Their mean gets the confidence sequence that comes from inverting the scale-invariant mixture of the
t-statistic: exact for Gaussian numbers of unknown spread at any stopping time, from the second allocation on, which
asymptotic sequences are not.

Sources: Lai 1976, Annals of Statistics 4(2) (mixtures of the t-statistic); Wang and Ramdas 2023, arXiv:2310.03722
(anytime-valid t-tests); Rouder et al. 2009, Psychonomic Bulletin and Review 16(2) (the Gaussian effect-size form);
Waudby-Smith et al. 2024, arXiv:2103.06476 (why asymptotics suffice for many clusters, which this agrees with to a constant).
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evokern.evaluation import Ratio

PAIRED_RATIO = "paired_ratio/1"
"""Name and version of `paired_ratio`, to be stored beside its values."""

CONFIDENCE = 0.95
"""Coverage of every interval, over all looks together."""

CLUSTERS_FOR_A_GAIN = 8
"""Allocations needed before a lower bound is given at all (EVALUATOR section 4): fewer could share one lucky layout."""

EFFECT_VARIANCE = 10.0
"""Variance of the mixture over effect sizes (mean over spread). At 10 the bounds are finite from three clusters on and within
7 % of the tightest at eight, where most measurements end; larger values help losers leave at three, smaller ones long runs."""

SPREAD_FLOOR = 5e-4
"""Least spread between allocations that is believed, in log units: equal numbers from a coarse clock are not certainty."""

NO_CLAIM = sys.float_info.min
"""Lower bound where there are too few clusters for one: above 0, and below every ratio that could be measured."""

MARGIN_FLOOR = 0.01
"""Least noise margin (SEARCH.md, Admission)."""

_MAD_TO_SIGMA = 1.4826
"""Gaussian spread over median absolute deviation."""

_MEDIAN_TO_MEAN = math.sqrt(math.pi / 2)
"""Standard error of a Gaussian sample's median over that of its mean."""

_FEWEST_FOR_AN_INTERVAL = 2


def confidence_multiplier(clusters: int, *, confidence: float = CONFIDENCE, effect_variance: float = EFFECT_VARIANCE) -> float:
    """How many standard errors the mean may be away, at every look at once.

    The mixture's likelihood ratio after n clusters, with t the t-statistic, nu = n - 1 and A = 1 + n * effect_variance, is
    A^(-1/2) * [(1 + t^2/nu) / (1 + t^2/(nu A))]^(n/2). It is a martingale under the true mean, so by Ville's inequality it passes
    1 / (1 - confidence) at any time with probability at most 1 - confidence; the multiplier is the t at which it does.

    Args:
        clusters: Number of clusters seen, at least 0.
        confidence: Coverage over all looks, strictly between 0 and 1.
        effect_variance: Variance of the Gaussian mixture over mean / spread, > 0.

    Returns:
        The multiplier; `inf` where so few clusters exclude nothing.
    """
    if clusters < _FEWEST_FOR_AN_INTERVAL:
        return math.inf
    growth = 1.0 + clusters * effect_variance
    log_bound = (math.log(growth) - 2.0 * math.log1p(-confidence)) / clusters
    if log_bound >= math.log(growth):
        return math.inf
    bound = math.exp(log_bound)
    return math.sqrt((clusters - 1) * (bound - 1.0) / (1.0 - bound / growth))


def paired_ratio(
    log_ratios: ArrayLike, clusters: ArrayLike, *, confidence: float = CONFIDENCE, spread_floor: float = SPREAD_FLOOR
) -> Ratio:
    """How many times faster the candidate is than its opponent, with an interval that is valid at every look.

    The median within an allocation, because single calls are hit by interrupts and have a long right tail; the mean over
    allocations, because their medians are near Gaussian and the interval is exact there. The spread is the largest of what
    is seen between allocations, what the scatter within them implies, and the floor: it can only widen the interval.

    Look at whole allocations only: a half-filled one changes its median later, which the guarantee does not cover.

    Args:
        log_ratios: log(opponent's time / candidate's time) of each valid pair, shape (pairs,), float64, finite.
        clusters: Index of the allocation of each pair, shape (pairs,), any integers.
        confidence: Coverage of the interval over all looks.
        spread_floor: Least spread between allocations that is believed, log units.

    Returns:
        Geometric mean and interval. `high` is finite from three clusters on; `low` is `NO_CLAIM` below eight.

    Raises:
        ValueError: No pair at all, shapes that differ, or a ratio that is not finite.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    owners = np.asarray(clusters)
    if values.ndim != 1 or values.shape != owners.shape or values.size == 0:
        raise ValueError(
            f"one cluster index per log ratio is needed, and at least one pair; found shapes {values.shape} and {owners.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError("every log ratio must be finite; void pairs are to be left out")
    order = np.argsort(owners, kind="stable")
    groups = np.split(values[order], np.flatnonzero(np.diff(owners[order])) + 1)
    medians = np.array([_median(group) for group in groups])
    count = len(groups)
    mean = float(medians.mean())
    reach = confidence_multiplier(count, confidence=confidence)
    if not math.isinf(reach):
        reach *= _spread(medians, groups, spread_floor) / math.sqrt(count)
    low = math.exp(mean - reach) if count >= CLUSTERS_FOR_A_GAIN else 0.0
    return Ratio(estimate=math.exp(mean), low=max(low, NO_CLAIM), high=math.exp(mean + reach), pairs=int(values.size), clusters=count)


def _spread(medians: NDArray[np.float64], groups: list[NDArray[np.float64]], floor: float) -> float:
    """Standard deviation of one cluster's median that the interval believes."""
    between = float(medians.std(ddof=1))
    errors = [_MEDIAN_TO_MEAN * _MAD_TO_SIGMA * _median(np.abs(g - _median(g))) / math.sqrt(g.size) for g in groups if g.size > 1]
    within = math.sqrt(sum(e * e for e in errors) / len(groups))
    return max(between, within, floor)


def _median(values: NDArray[np.float64]) -> float:
    return float(values[0]) if values.size == 1 else float(np.median(values))


def widened(ratio: Ratio, margin: float) -> Ratio:
    """A ratio whose interval also answers for what a kernel differs from itself.

    Args:
        ratio: Any.
        margin: Half of what is added to its width, natural logarithm, at least 0.
    """
    factor = math.exp(margin)
    low = ratio.low if ratio.low <= NO_CLAIM else max(ratio.low / factor, NO_CLAIM)
    return replace(ratio, low=low, high=ratio.high * factor)


def shifted(ratio: Ratio, by: float) -> Ratio:
    """A ratio moved with its interval by a natural logarithm."""
    factor = math.exp(by)
    low = ratio.low if ratio.low <= NO_CLAIM else max(ratio.low * factor, NO_CLAIM)
    return replace(ratio, estimate=ratio.estimate * factor, low=low, high=ratio.high * factor)


def unexplained_bias(log_ratios: ArrayLike) -> float:
    """By how much a kernel differs from itself beyond what scatter explains: what an interval does not answer for.

    Args:
        log_ratios: log ratio of a kernel's times to its own, one an allocation, shape (allocations,), float64; at least two.

    Returns:
        The mean's distance from 0 less its standard error, at least 0; natural logarithm.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    if values.size < _FEWEST_FOR_AN_INTERVAL:
        raise ValueError(f"a bias needs at least {_FEWEST_FOR_AN_INTERVAL} allocations, found {values.size}")
    return max(abs(float(values.mean())) - float(values.std(ddof=1)) / math.sqrt(values.size), 0.0)
