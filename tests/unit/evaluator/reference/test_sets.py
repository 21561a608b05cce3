from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from evokern.evaluator.catalogue import find_task
from evokern.evaluator.reference.sets import BASE_BYTES, BASE_SETS, FEWEST_SETS, Shelf
from evokern.evaluator.secrecy import Secret
from evokern.task import Workload

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
