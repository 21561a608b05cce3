"""What tests of the evaluator's secrets share: one session of a task whose held-out sizes nobody meets elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evokern.evaluation import Evaluation
from evokern.evaluator.session import Session
from evokern.evaluator.statement import Opening
from evokern.task import DType
from tests.attacks.planted import HONEST, odd_sizes


@pytest.fixture(scope="session")
def primes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The session; its folder is that of `Opening.home`."""
    folder = tmp_path_factory.mktemp("primes")
    opening = Opening(str(odd_sizes(folder)), DType.FLOAT32, "cpu", 1, str(folder / "home"), baselines=("eager",))
    session = Session(opening, lambda _: None)
    yield session
    session.close()


@pytest.fixture(scope="session")
def honest(primes: Session) -> Evaluation:
    """What its whole ladder says of the honest kernel; judged again for a test that is run again, where it did not pass."""
    evaluation = primes.ladder.judge(HONEST, primes.build(HONEST), None)
    assert evaluation.passed, (evaluation.verdict, evaluation.reason, evaluation.detail)
    return evaluation
