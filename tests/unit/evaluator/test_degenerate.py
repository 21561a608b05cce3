"""What is judged of a degenerate task says so, whatever the verdict."""

from __future__ import annotations

from typing import Any, cast

import pytest

from evokern.backend import Built
from evokern.evaluation import Fingerprint, Tier, Verdict
from evokern.evaluator.catalogue import find_task
from evokern.evaluator.ladder import Ladder
from evokern.kernel import Kernel
from evokern.task import DType

FINGERPRINT = Fingerprint("e", "cpu", "d", "", "g++", "", "", "ieee", 1, Tier.ISOLATED, "", ("eager",), 0)


@pytest.mark.parametrize("degenerate", [False, True])
def test_an_evaluation_is_marked(degenerate: bool) -> None:
    nothing = cast(Any, None)
    ladder = Ladder(
        task=find_task("softmax"), dtype=DType.FLOAT32, fingerprint=FINGERPRINT, secret=nothing, shelf=nothing, clock=nothing,
        baselines=nothing, times={}, held_out=(), build=nothing, contestant=nothing, describe=nothing, degenerate=degenerate,
    )  # fmt: skip
    found = ladder.judge(Kernel("cpp", "int"), Built(False, None, "compiler", "error: no"), None)
    assert (found.verdict, found.degenerate) == (Verdict.BUILD_FAILED, degenerate)
