from __future__ import annotations

from evokern.errors import Unavailable
from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.contestant import ResidentContestant
from evokern.evaluator.secrecy import Secret
from evokern.evaluator.timing.side import FEWEST_BEFORE, MOST_BEFORE, Ages, opponent_fault


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
    assert "wrong" in fault.detail and "tolerance" in fault.detail


def test_a_baseline_that_dies_ends_the_session() -> None:
    assert isinstance(opponent_fault(ResidentContestant("eager", {}), Fault(Verdict.CRASHED, Reason.SIGNAL)), Unavailable)
