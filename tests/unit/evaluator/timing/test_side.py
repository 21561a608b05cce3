from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evokern.errors import Unavailable
from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Call, Fault
from evokern.evaluator.call.contestant import ResidentContestant
from evokern.evaluator.secrecy import Secret
from evokern.evaluator.timing.side import FEWEST_BEFORE, LONG_CALLS, LONG_SETS, MOST_BEFORE, Ages, Side, coarse, opponent_fault
from evokern.evaluator.timing.wear import SETTLES
from evokern.task import Workload

SETS = 12
WORKLOAD = Workload((("rows", 8), ("cols", 8)))


class Recorded(Side):
    """A side that remembers on which sets it was called, and makes no call.

    Args:
        resident: Whether it is a trusted process that stays.
        void: Why no call's time counts; empty where all do.
    """

    def __init__(self, *, resident: bool = False, void: str = "") -> None:
        shelf = SimpleNamespace(timed=lambda _, index: index, count=lambda _: SETS)
        clock: Any = SimpleNamespace(shelf=shelf, time_ns=lambda call: call.cpu_ns, void=lambda _: void)
        slot = SimpleNamespace(written_bytes=lambda: 1000 * len(self.asked))
        callers: Any = {WORKLOAD.name: SimpleNamespace(slot=slot)}
        super().__init__(clock, ResidentContestant("candidate", {}, trusted=resident, resident=resident), callers)
        self.asked: list[tuple[Any, dict[str, Any]]] = []

    def call(self, workload: Workload, values: Any, rng: Any, **how: Any) -> Any:
        self.asked.append((values, how))
        return Call(1, 1, 0, 0)


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
    (counted,) = side.counted
    assert counted.after == (SETTLES, (SETTLES + calls) // 2, calls)
    assert counted.written == tuple(1000 * (1 + number) for number in counted.after)  # the warm call comes before


def test_a_trusted_process_has_no_long_stay() -> None:
    side, rng = Recorded(resident=True), Secret(bytes(32)).stream("stay")
    side.warm(WORKLOAD, list(range(SETS)), rng)

    side.stay_longer(WORKLOAD, LONG_CALLS[1], rng)

    assert len(side.asked) == 1
    assert not side.counted


@pytest.mark.parametrize("void", ["", "waited"])
def test_one_of_the_first_timed_calls_is_checked_whole_whatever_the_coins_say(void: str) -> None:
    rng, found = Secret(bytes(32)).stream("whole"), set()
    for _ in range(40):  # a position that is never drawn: 2 * 2^-40
        side = Recorded(void=void)
        side.warm(WORKLOAD, list(range(SETS)), rng)
        side.check_one(WORKLOAD, 2, rng)
        for pair in range(2):
            side.samples(WORKLOAD, rng, 0, pair, [])
        whole = [how["whole"] for _, how in side.asked[1:]]
        assert sum(whole) == 1
        found.add(whole.index(True))

    assert found == {0, 1}
