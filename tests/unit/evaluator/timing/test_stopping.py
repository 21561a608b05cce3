from __future__ import annotations

import math

import pytest

from evokern.evaluation import Ratio
from evokern.evaluator.timing.stopping import CLUSTERS, HOPELESS_FROM, MOST_CLUSTERS, MOST_UNDECIDED, WIDE, decided, never, settled


def ratio(estimate: float, width: float = 0.04) -> dict[str, Ratio]:
    """One workload's ratio; width in natural logarithms."""
    factor = math.exp(width / 2)
    return {"w": Ratio(estimate, estimate / factor, estimate * factor, 16, 8)}


@pytest.mark.parametrize(("estimate", "clusters"), [(0.5, 1), (2.0, 1), (0.9, 3), (1.2, 3)])
def test_screening_ends_early_where_the_kernel_is_far_from_the_incumbent(estimate: float, clusters: int) -> None:
    assert decided(ratio(estimate), clusters)


@pytest.mark.parametrize(("estimate", "clusters"), [(1.2, 1), (1.0, 3), (1.0, 7)])
def test_screening_goes_on_where_it_is_close(estimate: float, clusters: int) -> None:
    assert not decided(ratio(estimate), clusters)


def test_screening_ends_once_the_ratio_stands() -> None:
    assert decided(ratio(1.0), CLUSTERS)


def test_no_interval_is_quoted_from_fewer_allocations() -> None:
    assert not settled()(ratio(1.0), CLUSTERS - 1)
    assert settled()(ratio(1.0), CLUSTERS)


def test_a_wide_interval_gets_some_more_allocations() -> None:
    wide = ratio(1.0, 2 * WIDE)

    assert not settled()(wide, CLUSTERS)
    assert settled()(wide, MOST_CLUSTERS)


def test_the_measurement_goes_on_while_it_is_open_whether_the_bar_is_beaten() -> None:
    stop = settled(math.log(1.5))

    assert not stop(ratio(1.52, 0.1), CLUSTERS)
    assert not stop(ratio(1.52, 0.1), MOST_UNDECIDED - 1)
    assert stop(ratio(1.52, 0.1), MOST_UNDECIDED)
    assert stop(ratio(1.7, 0.1), CLUSTERS)  # beaten
    assert stop(ratio(1.3, 0.1), CLUSTERS)  # not beaten


def test_an_estimate_below_the_bar_is_hopeless_after_a_while() -> None:
    stop = settled(math.log(1.5))

    assert not stop(ratio(1.49, 0.1), HOPELESS_FROM - 1)
    assert stop(ratio(1.49, 0.1), HOPELESS_FROM)


def test_never_is_never() -> None:
    assert not never(ratio(9.0), 1000)
