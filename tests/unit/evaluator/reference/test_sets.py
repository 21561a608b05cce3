from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from evokern.errors import UsageError
from evokern.evaluator.catalogue import find_task
from evokern.evaluator.reference import edges
from evokern.evaluator.reference.sets import BASE_BYTES, BASE_SETS, FEWEST_SETS, LEAST_FACTOR, MOST_FACTOR, Shelf
from evokern.evaluator.rule.correctness import RowErrors, scale_of
from evokern.evaluator.secrecy import Secret
from evokern.task import DType, Workload

WORKLOAD = Workload((("rows", 8), ("cols", 8)))
RUN = Secret(bytes(32))


def shelf(nbytes: int = 1024) -> Shelf:
    oracle: Any = SimpleNamespace(draw=lambda *_: SimpleNamespace(nbytes=nbytes))
    return Shelf(find_task("softmax"), cast(Any, oracle), RUN)


@pytest.mark.parametrize(("nbytes", "count"), [(1024, BASE_SETS), (BASE_BYTES, FEWEST_SETS)])
def test_a_kernels_two_measurements_share_no_set(nbytes: int, count: int) -> None:
    one = shelf(nbytes)
    first, second = (one.half(WORKLOAD, RUN.derive("k"), second=second) for second in (False, True))

    assert sorted(first + second) == list(range(count))
    assert len(first) == len(second)
    assert first == one.half(WORKLOAD, RUN.derive("k"), second=False)  # the same in a run that is resumed


def test_which_sets_a_kernel_meets_depends_on_a_secret_of_its_own() -> None:
    one = shelf()
    drawn = {tuple(sorted(one.half(WORKLOAD, RUN.derive(f"kernel {i}"), second=False))) for i in range(50)}
    other_run = {tuple(sorted(one.half(WORKLOAD, Secret(b"o" * 32).derive(f"kernel {i}"), second=False))) for i in range(50)}

    assert len(drawn) > 45
    assert len(drawn & other_run) < 5
    workloads = [WORKLOAD, Workload((("rows", 9), ("cols", 8)))]
    assert len({tuple(one.half(w, RUN.derive("k"), second=False)) for w in workloads}) == 2


class Scaled:
    """An oracle whose outputs are 1, and differ by `moves` times what the scalar was multiplied by.

    Args:
        moves: By distribution; infinity for outputs that are not finite, and NaN for a reference that refuses another scalar.
        error: Eager's own, relative, where the scalar is another.
    """

    dtype, on_device = DType.FLOAT32, False

    def __init__(self, moves: dict[str, float], error: float = 0.0) -> None:
        self.moves, self.error, self.held = moves, error, 0

    def draw(self, axes: Any, distribution: str, seed: int, *, factor: float = 1.0) -> Any:
        move = self.moves.get(distribution, 0.0)
        if factor != 1.0 and np.isnan(move):
            raise UsageError("a probability above 1")
        self.held += 1
        values = np.ones((2, 4)) + (move * (factor - 1) if factor != 1.0 else 0.0)
        error = RowErrors(np.full(2, self.error**2 if factor != 1.0 else 0.0), np.zeros(2))
        return SimpleNamespace(
            distribution=distribution, factor=factor, nbytes=8, reduction=1, expected={"y": values}, scale={"y": scale_of(values)},
            reference_error={"y": [error]}, release=self._release,
        )  # fmt: skip

    def _release(self) -> None:
        self.held -= 1


def other_scalars(one: Scaled, index: int = 0) -> Any:
    drawn = Shelf(find_task("softmax"), cast(Any, one), RUN).checked({"rows": 2, "cols": 4}, edges.SCALARS, index)
    assert one.held == 1, "all other draws are given back"
    return drawn


def test_other_scalars_are_tried_where_they_tell_most() -> None:
    names = find_task("softmax").distributions
    found = [other_scalars(Scaled({names[1]: 0.1, names[2]: 1e-9}), index) for index in range(20)]

    assert {drawn.distribution for drawn in found} == {names[1]}
    assert len({drawn.factor for drawn in found}) == 20
    assert all(LEAST_FACTOR <= drawn.factor <= MOST_FACTOR for drawn in found)


@pytest.mark.parametrize(("move", "error"), [(0.0, 0.0), (np.inf, 0.0), (np.nan, 0.0), (0.1, 1e-3)])
def test_a_task_whose_scalars_cannot_be_others_is_left_as_it_is(move: float, error: float) -> None:
    found = other_scalars(Scaled(dict.fromkeys(find_task("softmax").distributions, move), error))

    assert found.factor == 1.0
