"""What a kernel meets in its two measurements."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from evokern.backend import Built
from evokern.evaluator.catalogue import find_task
from evokern.evaluator.ladder import Ladder
from evokern.evaluator.reference.sets import BASE_SETS, Shelf
from evokern.evaluator.rule import check
from evokern.evaluator.secrecy import Secret
from evokern.kernel import Kernel
from evokern.task import DType
from tests.unit.evaluator.test_judge import HONEST, NOW, TASK, ZEROS, said


class Met:
    """A clock that notes which sets it may take, and times nothing."""

    def __init__(self) -> None:
        self.sets: list[set[int]] = []

    def compare(self, *_: Any, only: Any, **__: Any) -> dict[str, Any]:
        self.sets.append(set(only(TASK.search[0])))
        return {}


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> Met:
    monkeypatch.setattr(check, "endured", lambda *_: 0.0)
    return Met()


def ladder(met: Met) -> Ladder:
    nothing, run = cast(Any, None), Secret(bytes(32))
    oracle: Any = SimpleNamespace(draw=lambda *_: SimpleNamespace(nbytes=1024))
    times: Any = {w.name: SimpleNamespace(timed=False) for w in TASK.search}
    opponent: Any = SimpleNamespace(name="eager")
    return Ladder(
        task=find_task("softmax"), dtype=DType.FLOAT32, fingerprint=NOW, secret=run, shelf=Shelf(TASK, oracle, run), clock=cast(Any, met),
        baselines=opponent, times=times, held_out=(), build=nothing, contestant=lambda *_: cast(Any, None), describe=nothing,
    )  # fmt: skip


def twice(one: Ladder, kernel: Kernel) -> None:
    one._screened(kernel, Built(True, None), None, one.secret)
    one.confirm(kernel, Built(True, None), said(kernel))


def test_a_confirmation_takes_the_sets_that_the_screening_left(met: Met) -> None:
    one = ladder(met)
    twice(one, HONEST)
    twice(one, ZEROS)

    screened, confirmed, others, others_confirmed = met.sets
    for first, second in ((screened, confirmed), (others, others_confirmed)):
        assert not first & second
        assert first | second == set(range(BASE_SETS))
    assert screened not in (others, others_confirmed)
