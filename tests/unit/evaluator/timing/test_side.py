from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evokern.errors import Unavailable
from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.contestant import ResidentContestant
from evokern.evaluator.secrecy import Secret
from evokern.evaluator.timing.side import FEWEST_BEFORE, LONG_CALLS, LONG_SETS, MOST_BEFORE, Ages, Side, coarse, opponent_fault
from evokern.task import Workload

SETS = 12
WORKLOAD = Workload((("rows", 8), ("cols", 8)))


class Recorded(Side):
    """A side that remembers on which sets it was called, and makes no call."""

    def __init__(self, *, resident: bool = False) -> None:
        clock: Any = SimpleNamespace(shelf=SimpleNamespace(timed=lambda _, index: index, count=lambda _: SETS))
        super().__init__(clock, ResidentContestant("candidate", {}, trusted=resident, resident=resident), {})
        self.asked: list[tuple[Any, dict[str, Any]]] = []

    def call(self, workload: Workload, values: Any, rng: Any, **how: Any) -> Any:
        self.asked.append((values, how))


def test_one_of_every_two_allocations_is_older() -> None:
    ages = Ages(Secret(bytes(32)).stream("ages"))
    drawn = [ages.draw() for _ in range(200)]

    assert all((a == 0) != (b == 0) for a, b in zip(drawn[::2], drawn[1::2], strict=True))
    older = [n for n in drawn if n]
    assert FEWEST_BEFORE <= min(older) and max(older) <= MOST_BEFORE
    assert len(set(older)) > 20
    assert 0 < sum(n == 0 for n in drawn[::2]) < 100  # which one it is, is a coin's doing


def test_ages_cannot_be_foreseen_without_the_key() -> None:
    first, second = (Ages(Secret(bytes([k] * 32)).stream("ages")) for k in (1, 2))

    assert [first.draw() for _ in range(16)] != [second.draw() for _ in range(16)]


def test_a_champions_fault_is_no_verdict_on_its_challenger() -> None:
    champion = ResidentContestant("incumbent", {}, resident=False)

    fault = opponent_fault(champion, Fault(Verdict.WRONG, Reason.TOLERANCE, "'y': off by 3"))

    assert isinstance(fault, Fault)
    assert (fault.verdict, fault.reason) == (Verdict.INFRASTRUCTURE, Reason.OPPONENT)
    assert fault.detail == "the opponent 'incumbent' failed: wrong, tolerance"


@pytest.mark.parametrize(("claimed", "kept"), [(0, 0), (7, 7), (1_234_567, 1_200_000), (2**64 - 1, 18 * 10**18)])
def test_a_claim_is_kept_to_two_digits(claimed: int, kept: int) -> None:
    assert coarse(claimed) == kept


def test_a_baseline_that_dies_ends_the_session() -> None:
    assert isinstance(opponent_fault(ResidentContestant("eager", {}), Fault(Verdict.CRASHED, Reason.SIGNAL)), Unavailable)


@pytest.mark.parametrize("calls", LONG_CALLS)
def test_a_long_stay_leaves_sets_that_its_process_has_not_seen(calls: int) -> None:
    side, rng = Recorded(), Secret(bytes(32)).stream("stay")
    side.warm(WORKLOAD, [int(i) for i in rng.permutation(SETS)], rng)

    side.stay_longer(WORKLOAD, calls, rng)

    stayed, left = {values for values, _ in side.asked}, side._unseen[WORKLOAD.name]
    assert len(side.asked) == 1 + calls
    assert not stayed & set(left)
    assert len(left) == SETS - 1 - LONG_SETS
    assert {how["evict"] for _, how in side.asked[1:]} == {True, False}  # caches tell no call from a timed one


def test_a_trusted_process_has_no_long_stay() -> None:
    side, rng = Recorded(resident=True), Secret(bytes(32)).stream("stay")
    side.warm(WORKLOAD, list(range(SETS)), rng)

    side.stay_longer(WORKLOAD, LONG_CALLS[1], rng)

    assert len(side.asked) == 1
