"""What an output at the edges of values may be off by because its inputs are rounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evokern.evaluator.reference import edges
from evokern.evaluator.rule.correctness import element_alone, judge_output, row_errors, scale_of
from evokern.task import DType, Tolerance

WHOLE = np.array([0])


def test_the_allowance_is_the_largest_change_of_a_long_row() -> None:
    expected = np.zeros((2, edges.FEW))
    one, other = expected.copy(), expected.copy()
    one[0, 3], other[0, 5], other[1, 0] = 1e-6, -3e-6, 2e-6

    allowed = edges.allowance(expected, [one, other], edges.of_rows(2))

    assert allowed == pytest.approx(edges.ROUNDINGS * np.array([3e-6, 2e-6]))


def test_short_rows_at_the_same_edge_share_theirs_and_ordinary_ones_keep_their_own() -> None:
    rows = 2 * len(edges.KINDS) + 1
    edge = edges.of_rows(rows)
    edge[-1] = -1
    changed = np.zeros(rows)
    changed[0], changed[-1] = 1.0, 3.0

    allowed = edges.allowance(np.zeros(rows), [changed], edge) / edges.ROUNDINGS

    assert allowed[0] == allowed[len(edges.KINDS)] == 1.0
    assert allowed[-1] == 3.0
    assert not allowed[1 : len(edges.KINDS)].any()


def test_a_change_without_bound_allows_anything_so_that_the_row_is_dropped() -> None:
    expected = np.ones((1, edges.FEW))
    changed = expected.copy()
    changed[0, 0] = np.inf

    assert np.isinf(edges.allowance(expected, [changed], WHOLE))
    assert np.isinf(edges.allowance(np.full((1, edges.FEW), np.nan), [expected], WHOLE))


def test_ordinary_values_allow_some_roundings_of_the_inputs_and_no_cheap_row() -> None:
    expected = np.ones((4, 32))
    changed = expected.copy()
    changed[0, 3], changed[1, 0], changed[2, 5] = 1 + 1e-6, 0.99, np.nan

    allowed = edges.ordinary_allowance(expected, changed, 4.0, np.array([1.0, 0.5, 1.0, 1.0]))

    # Four roundings, or a share of the row's RMS: that is 5e-4 of one that may be off at the edges, and below what an exponential of
    # degree 3 is off by.
    assert allowed == pytest.approx([4e-6, 0.5 * edges.MOST_ORDINARY, 0.0, 0.0])
    assert 300 * 2.0**-24 < edges.MOST_ORDINARY < 1e-4


def test_a_quarter_of_the_parameters_is_large() -> None:
    torch = pytest.importorskip("torch")
    chance = torch.Generator().manual_seed(3)
    values = torch.ones(40)

    moved = edges.some_large(torch, values, chance)

    assert sorted(moved.tolist())[:30] == [1.0] * 30
    assert all(edges.LARGE_FACTOR / 2 <= one <= edges.LARGE_FACTOR for one in sorted(moved.tolist())[30:])
    assert values.tolist() == [1.0] * 40, "the ordinary ones stay as they are"
    assert edges.some_large(torch, -torch.ones(1, 1), chance).item() <= -edges.LARGE_FACTOR / 2


def test_the_rule_grants_what_is_allowed_and_no_more() -> None:
    expected = np.ones((4, 32))
    scale = scale_of(expected)
    errors = [row_errors(expected.astype(np.float32), expected, DType.FLOAT32)]
    granted = replace(scale, allowance=np.full(4, 1e-3))
    for off, passes in ((9e-4, True), (1.1e-3, False)):
        actual = (expected + off).astype(np.float32)
        found = judge_output(actual, expected, granted, 1, element_alone(Tolerance()), DType.FLOAT32, errors)
        assert found.ok is passes
        assert not judge_output(actual, expected, scale, 1, element_alone(Tolerance()), DType.FLOAT32, errors).ok


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(64, 5), (4, 3, 2), (7,), (3, 1), ()])
def test_nearby_values_are_a_rounding_away_and_the_two_largest_of_a_row_in_opposite_ways(shape: tuple[int, ...]) -> None:
    import torch

    generator = torch.Generator().manual_seed(1)
    values = torch.randn(shape, generator=generator) + 10

    moved = edges.nearby(torch, values, 2.0**-24, generator) / values.double() - 1

    assert np.allclose(moved.abs().numpy(), 2.0**-24, rtol=1e-6, atol=0)
    if shape and shape[-1] > 1:
        largest = moved.gather(-1, values.topk(2, dim=-1).indices)
        assert (largest[..., 0] * largest[..., 1] < 0).all()
