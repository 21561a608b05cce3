from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from evokern.archive import ArchiveSettings, GridArchive
from evokern.evaluation import Elite, Evaluation, Reason, Verdict
from evokern.event import Event, Refusal, RefusalReason
from evokern.island import Ask, Bandit, Island, IslandSettings, Stall, replay
from evokern.kernel import Candidate
from evokern.store import payload
from evokern.store.payload import Migrated, Refused
from evokern.testing.archive_contract import AXES, elite

RUN = "sim-20261129T1015-3f2a"


@dataclass(frozen=True)
class Traits:
    name: str
    parents_wanted: int = 1
    needs_model: bool = False


OPERATORS = (Traits("retune"), Traits("rewrite"), Traits("cross", 2), Traits("mutate", 1, True))


def island(index: int = 0, *, operators: tuple[Traits, ...] = OPERATORS, has_model: bool = False, **settings: float) -> Island:
    archive = GridArchive(ArchiveSettings(AXES))
    return Island(index, archive, operators, seed=7, has_model=has_model, settings=IslandSettings(**settings))  # type: ignore[arg-type]


def seeded(index: int = 0, **rest: object) -> Island:
    one = island(index, **rest)  # type: ignore[arg-type]
    seed = elite(f"seed {index}", 1.0, island=index)
    one.tell(seed.candidate, seed.evaluation)
    return one


def child(ask: Ask, name: str, speedup: float, *, cell: str = "00") -> Elite:
    made = elite(name, speedup, cell=cell, island=ask.island, parents=ask.parent_ids)
    return replace(made, candidate=replace(made.candidate, operator=ask.operator))


def failed(candidate: Candidate, verdict: Verdict = Verdict.WRONG) -> Evaluation:
    return Evaluation(candidate.id, "t", "float32", verdict, Reason.NONE, seconds={"build": 1.0}, key=candidate.id)


def asked(one: Island, number: int, **rest: object) -> Ask:
    ask = one.ask(number, **rest)  # type: ignore[arg-type]
    assert ask is not None
    return ask


def test_an_island_without_elites_asks_nothing() -> None:
    assert island().ask(0) is None


def test_a_seed_is_placed_and_becomes_the_parent() -> None:
    one = seeded()
    ask = asked(one, 0)
    assert [parent.candidate.kernel.source for parent in ask.parents] == ["// seed 0"]
    assert ask.operator in ("retune", "rewrite")


def test_operators_that_need_a_model_or_more_parents_than_there_are_wait() -> None:
    assert {asked(seeded(), number).operator for number in range(40)} == {"retune", "rewrite"}
    rich = seeded(has_model=True)
    other = elite("other", 1.0, cell="11")
    rich.tell(other.candidate, other.evaluation)
    asks = [asked(rich, number) for number in range(40)]
    assert {ask.operator for ask in asks} == {"retune", "rewrite", "cross", "mutate"}
    assert all(len(set(ask.parent_ids)) == (2 if ask.operator == "cross" else 1) for ask in asks)


def test_a_paused_operator_is_not_chosen_and_none_at_all_gives_no_ask() -> None:
    one = seeded(has_model=True)
    assert "mutate" not in {asked(one, number, without=["mutate"]).operator for number in range(20)}
    assert one.ask(99, without=[operator.name for operator in OPERATORS]) is None


def test_verdicts_come_in_any_order_and_only_confirmed_passes_are_placed() -> None:
    one = seeded()
    asks = [asked(one, number) for number in range(6)]
    children = [child(ask, f"c{ask.number}", 1.0 + ask.number, cell=f"{ask.number}0") for ask in asks]
    for made in reversed(children[1:]):
        placement = one.tell(made.candidate, made.evaluation)
        assert placement is not None
        assert placement.placed
    assert one.tell(children[0].candidate, replace(children[0].evaluation, confirmed=False)) is None
    assert one.tell(children[0].candidate, failed(children[0].candidate)) is None
    assert len(one.archive) == 6
    assert all(arm.open == 0 for arm in one.bandit.arms.values())


def test_another_islands_candidate_is_an_error_of_the_caller() -> None:
    stray = elite("stray", 1.0, island=3)
    with pytest.raises(ValueError, match="island 3 told to island 0"):
        seeded().tell(stray.candidate, stray.evaluation)


def test_an_inapplicable_operator_is_masked_for_that_parent_only() -> None:
    one = seeded()
    other = elite("other", 1.0, cell="11")
    first = asked(one, 0).parent_ids
    one.refuse("retune", first, Refusal(RefusalReason.NOT_APPLICABLE))
    assert one.exhausted(first[0], "retune")
    assert {asked(one, number).operator for number in range(1, 20)} == {"rewrite"}
    one.tell(other.candidate, other.evaluation)
    pairs = {(ask.operator, ask.parent_ids[0]) for ask in (asked(one, number) for number in range(20, 120))}
    assert ("retune", other.candidate.id) in pairs
    assert ("retune", first[0]) not in pairs


def test_an_island_with_nothing_left_to_try_says_so_until_something_new_comes() -> None:
    one = seeded(operators=(Traits("retune"),))
    for number in range(3):
        ask = asked(one, number)
        one.refuse(ask.operator, ask.parent_ids, Refusal(RefusalReason.ALREADY_TRIED))
    assert one.ask(3) is None
    other = elite("other", 1.0, cell="11")
    one.welcome(other)
    assert asked(one, 4).parent_ids == (other.candidate.id,)


def test_a_failed_call_is_no_try_and_a_useless_answer_is() -> None:
    one = seeded(has_model=True)
    for number, reason in enumerate((RefusalReason.MODEL_FAILED, RefusalReason.MODEL_PAUSED, RefusalReason.BUDGET_SPENT)):
        ask = asked(one, number, without=["retune", "rewrite", "cross"])
        one.refuse(ask.operator, ask.parent_ids, Refusal(reason), seconds=5.0)
    assert (one.bandit.arms["mutate"].pulls, one.bandit.arms["mutate"].open) == (0, 0)
    ask = asked(one, 9, without=["retune", "rewrite", "cross"])
    one.refuse(ask.operator, ask.parent_ids, Refusal(RefusalReason.NO_BLOCK), seconds=5.0)
    assert (one.bandit.arms["mutate"].pulls, one.bandit.arms["mutate"].seconds) == (1, 5.0)
    assert one.told == 1


def test_the_machines_failure_is_not_a_try() -> None:
    one = seeded()
    ask = asked(one, 0)
    made = child(ask, "c", 2.0)
    assert one.tell(made.candidate, failed(made.candidate, Verdict.INFRASTRUCTURE)) is None
    assert (one.bandit.arms[ask.operator].pulls, one.bandit.arms[ask.operator].open, one.told) == (0, 0, 1)


def test_five_evaluations_without_gain_bring_another_operator_and_ten_a_far_parent() -> None:
    one = seeded(operators=(Traits("retune"), Traits("rewrite")))
    far = elite("far", 0.5, cell="99")
    one.tell(far.candidate, far.evaluation)
    first = one.archive.best()
    assert first is not None
    for number in range(5):
        assert one.stall is Stall.STEADY
        made = elite(f"vain {number}", 0.9, parents=(first.candidate.id,))
        one.tell(replace(made.candidate, operator="retune"), failed(made.candidate))
    assert one.stall is Stall.SWITCH
    assert {asked(one, number).operator for number in range(20)} == {"rewrite"}
    for number in range(5, 10):
        made = elite(f"vain {number}", 0.9, parents=(first.candidate.id,))
        one.tell(replace(made.candidate, operator="rewrite"), failed(made.candidate))
    assert one.stall is Stall.RESTART
    assert {asked(one, number).parent_ids for number in range(20, 40)} == {(far.candidate.id,)}
    assert asked(one, 40).stall is Stall.RESTART
    gain = child(asked(one, 41), "gain", 5.0, cell="98")
    one.tell(gain.candidate, gain.evaluation)
    assert one.stall is Stall.STEADY


def test_restarts_go_to_one_far_cell_after_another() -> None:
    one = seeded(operators=(Traits("retune"),))
    best = one.archive.best()
    assert best is not None
    for number, cell in enumerate(("91", "92", "93")):
        far = elite(f"far {number}", 0.5, cell=cell)
        one.tell(far.candidate, far.evaluation)
    starts = set()
    for number in range(100):
        made = elite(f"vain {number}", 0.9, parents=(best.candidate.id,))
        one.tell(replace(made.candidate, operator="retune"), failed(made.candidate))
        if one.stall is Stall.RESTART:
            starts.add(asked(one, number).parent_ids[0])
    assert len(starts) == 3


def simulate(islands: list[Island], count: int, *, in_flight: int, seed: int = 0) -> list[Event]:
    """A run without processes: asks stay open, verdicts come in random order, now and then an elite visits a neighbour."""
    rng = random.Random(seed)
    events: list[Event] = []
    open_: list[Elite] = []
    for one in islands:
        start = elite(f"seed {one.index}", 1.0, island=one.index)
        events += [payload.proposed(RUN, -1, start.candidate), payload.evaluated(RUN, start.evaluation, one.index)]
        one.tell(start.candidate, start.evaluation)
    for number in range(count):
        one = islands[number % len(islands)]
        ask = one.ask(number)
        if ask is None or rng.random() < 0.2:
            if ask is not None:
                refusal = Refusal(rng.choice(list(RefusalReason)))
                events.append(payload.refused(RUN, Refused(number, one.index, ask.operator, ask.parent_ids, refusal, seconds=0.25)))
                one.refuse(ask.operator, ask.parent_ids, refusal, seconds=0.25)
            continue
        parent = one.archive.get(ask.parent_ids[0])
        assert parent is not None
        made = child(ask, f"k{number}", math.exp(parent.score.log + rng.gauss(0, 0.2)), cell=rng.choice(["00", "01", "10"]))
        events.append(payload.proposed(RUN, number, made.candidate, seconds=rng.random()))
        open_.append(made)
        while len(open_) >= in_flight:
            done = open_.pop(rng.randrange(len(open_)))
            evaluation = replace(done.evaluation, seconds={"build": rng.random(), "measure": rng.random()})
            if rng.random() < 0.3:
                evaluation = failed(done.candidate, rng.choice([Verdict.WRONG, Verdict.TIMED_OUT, Verdict.INFRASTRUCTURE]))
            seconds = next(e.payload["seconds"] for e in events if e.key == done.candidate.id)
            events.append(payload.evaluated(RUN, evaluation, done.candidate.island))
            islands[done.candidate.island].tell(done.candidate, evaluation, seconds=seconds)
        if number % 40 == 39:
            best, target = one.archive.best(), (one.index + 1) % len(islands)
            assert best is not None
            events.append(payload.migrated(RUN, Migrated(best.candidate.id, one.index, target)))
            islands[target].welcome(best)
    return events


def test_a_replay_of_the_events_rebuilds_every_island_exactly() -> None:
    live = [island(index, has_model=True) for index in range(3)]
    events = simulate(live, 300, in_flight=8)
    again = [island(index, has_model=True) for index in range(3)]
    placed = replay(again, [replace(event, at=1.0) for event in events])
    assert [one.state() for one in again] == [one.state() for one in live]
    assert placed >= sum(one.archive.best() is not None for one in again)
    assert all(len(one.archive) > 1 for one in again)
    for one in again:
        assert {arm: state.open for arm, state in one.bandit.arms.items()} == {
            arm: state.open for arm, state in live[one.index].bandit.arms.items()
        }


def test_one_island_restored_alone_equals_itself_among_all() -> None:
    live = [island(index) for index in range(2)]
    events = simulate(live, 200, in_flight=4, seed=3)
    alone = island(1)
    alone.restore(events)
    assert alone.state() == live[1].state()
    assert asked(alone, 1000) == asked(live[1], 1000)


def test_arms_may_come_and_go_on_resume() -> None:
    live = [island(0, has_model=True)]
    events = simulate(live, 120, in_flight=4)
    fewer = island(0, operators=(Traits("retune"), Traits("splice")))
    fewer.restore(events)
    assert {asked(fewer, number).operator for number in range(500, 530)} <= {"retune", "splice"}
    assert "splice" in {asked(fewer, number).operator for number in range(500, 530)}
    assert fewer.bandit.arms["rewrite"].pulls == live[0].bandit.arms["rewrite"].pulls


def test_chance_comes_from_the_requests_number_alone() -> None:
    one, other = seeded(), seeded()
    asked(one, 0)
    one.drop(asked(one, 1))
    other.drop(asked(other, 1))
    one.bandit.arms.clear()
    other.bandit.arms.clear()
    assert asked(one, 5) == asked(other, 5)


def pulls_of_the_best(*, in_flight: int, seed: int, rounds: int = 400) -> int:
    """How often the best of four arms was tried; rewards come when `in_flight` tries are open."""
    rng = random.Random(seed)
    bandit = Bandit()
    rates = {"a": 0.1, "b": 0.4, "c": 0.2, "d": 0.05}
    open_: list[str] = []
    tried: Counter[str] = Counter()
    for _ in range(rounds):
        name = bandit.choose(list(rates), rng)
        bandit.pull(name)
        tried[name] += 1
        open_.append(name)
        if len(open_) >= in_flight:
            done = open_.pop(0)
            bandit.reward(done, 0.05 if rng.random() < rates[done] else 0.0, 1.0)
    return tried["b"]


def test_rewards_that_come_late_cost_the_bandit_little() -> None:
    seeds = range(12)
    prompt = sum(pulls_of_the_best(in_flight=1, seed=seed) for seed in seeds)
    late = sum(pulls_of_the_best(in_flight=8, seed=seed) for seed in seeds)
    assert prompt > 2 * 12 * 400 / 4, "the best of four arms gets far more than its even share"
    assert (12 * 400 - late) <= 1.25 * (12 * 400 - prompt)


def test_eight_asks_at_once_do_not_all_go_to_one_arm() -> None:
    bandit, rng = Bandit(), random.Random(0)
    for name, gain in (("a", 0.5), ("b", 0.1), ("c", 0.0)):
        bandit.pull(name)
        bandit.reward(name, gain, 1.0)
    names = []
    for _ in range(8):
        names.append(bandit.choose(["a", "b", "c"], rng))
        bandit.pull(names[-1])
    assert len(set(names)) > 1


def test_a_slow_arm_must_gain_more_to_be_preferred() -> None:
    bandit, rng = Bandit(), random.Random(0)
    for _ in range(30):
        for name, seconds in (("quick", 1.0), ("slow", 20.0)):
            bandit.pull(name)
            bandit.reward(name, 0.1, seconds)
    assert bandit.choose(["quick", "slow"], rng) == "quick"
