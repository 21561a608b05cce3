from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evokern.evaluation import Reason, Sample, Verdict
from evokern.evaluator.call.caller import Call, Fault
from evokern.evaluator.call.contestant import CANDIDATE, ResidentContestant
from evokern.evaluator.timing.clock import JudgedClock
from evokern.evaluator.timing.contest import CHARGED, Contest
from evokern.evaluator.timing.series import Series
from evokern.evaluator.timing.side import Side
from evokern.evaluator.timing.wear import KEPT_BYTES
from evokern.task import Workload

WORK_NS = 4_000_000
OURS, THEIRS = (ResidentContestant(name, {}, trusted=False, resident=False) for name in (CANDIDATE, "incumbent"))
EAGER = ResidentContestant("eager", {})


def clock(threads: int = 1, pressure: float = 0.0) -> JudgedClock:
    found = JudgedClock(None, threads, None, None, lambda _: 1.0, null_ns=50_000.0)  # type: ignore[arg-type]
    found._pressure = pressure
    return found


def call(waits_ns: int = 0, idle_ns: int = 0) -> Call:
    """A call that works for `WORK_NS` and waits besides, on processors that were idle for so long."""
    return Call(WORK_NS, WORK_NS + waits_ns, 0, 0, WORK_NS + waits_ns + 1000, idle_ns)


def contest(mine: Call, theirs: Call, opponent: ResidentContestant = EAGER, judged: JudgedClock | None = None, count: int = 16) -> Contest:
    judged = judged or clock()
    series = Series(judged.null_ns)
    for name, one in ((CANDIDATE, mine), (opponent.name, theirs)):
        series.samples += [Sample(name, i // 2, i % 2, one.cpu_ns, one.wall_ns, judged.void(one)) for i in range(count)]
    return Contest(judged, OURS, opponent, {"w": series}, {CANDIDATE: [mine] * count, opponent.name: [theirs] * count})


def alternating(one: Call, other: Call, theirs: tuple[Call, Call], judged: JudgedClock, count: int = 16) -> Contest:
    """As `contest`, with two kinds of calls in turn on both sides."""
    series = Series(judged.null_ns)
    calls = {CANDIDATE: [one, other] * (count // 2), EAGER.name: list(theirs) * (count // 2)}
    for name, mine in calls.items():
        series.samples += [Sample(name, i // 2, i % 2, c.cpu_ns, c.wall_ns, judged.void(c)) for i, c in enumerate(mine)]
    return Contest(judged, OURS, EAGER, {"w": series}, calls)


def charged(one: Contest) -> tuple[Verdict, Reason]:
    with pytest.raises(Fault) as caught:
        one.charge()
    return caught.value.verdict, caught.value.reason


def test_two_that_work_all_the_time_are_not_charged() -> None:
    contest(call(), call()).charge()


def test_one_that_waits_while_processors_are_idle_is_charged() -> None:
    assert charged(contest(call(WORK_NS, WORK_NS), call())) == (Verdict.QUARANTINED, Reason.CLOCK_MISMATCH)


def test_one_that_the_machine_kept_waiting_is_not() -> None:
    contest(call(WORK_NS, 0), call()).charge()


def test_where_both_wait_the_machine_is_to_blame() -> None:
    contest(call(WORK_NS, WORK_NS), call(WORK_NS, WORK_NS)).charge()


@pytest.mark.parametrize("pressure", [0.0, 0.5])
def test_one_that_makes_every_second_call_void_is_charged(pressure: float) -> None:
    judged = clock(pressure=pressure)
    long = 10 * WORK_NS

    one = alternating(call(), call(long, long), (call(), call()), judged)

    assert one.series["w"].void_share(CANDIDATE) == 0.5
    assert charged(one) == (Verdict.QUARANTINED, Reason.CLOCK_MISMATCH)


def test_where_every_second_call_of_both_is_void_nobody_is_charged() -> None:
    long = call(10 * WORK_NS, 10 * WORK_NS)
    for pressure in (0.0, 0.5):
        alternating(call(), long, (call(), long), clock(pressure=pressure)).charge()


@pytest.mark.parametrize("pressure", [0.0, 0.5])
def test_one_that_sleeps_is_charged_although_the_machine_makes_every_call_of_both_void(pressure: float) -> None:
    kept_waiting, asleep = call(4 * WORK_NS), call(40 * WORK_NS)
    judged = clock(pressure=pressure)
    assert judged.void(kept_waiting)

    assert charged(contest(asleep, kept_waiting, judged=judged, count=24)) == (Verdict.QUARANTINED, Reason.CLOCK_MISMATCH)
    assert charged(contest(kept_waiting, asleep, THEIRS, judged, count=24)) == (Verdict.INFRASTRUCTURE, Reason.OPPONENT)
    stopped = contest(asleep, kept_waiting, judged=judged, count=24)
    stopped.calls[EAGER.name][:3] = [asleep] * 3  # the machine, for a moment
    assert charged(stopped) == (Verdict.QUARANTINED, Reason.CLOCK_MISMATCH)


def test_one_that_waits_as_a_restless_machine_may_make_it_is_not_charged() -> None:
    kept_waiting, asleep, judged = call(4 * WORK_NS), call(40 * WORK_NS), clock()

    contest(call(15 * WORK_NS), kept_waiting, judged=judged, count=24).charge()
    contest(asleep, kept_waiting, judged=judged, count=16).charge()
    for who, most in ((CANDIDATE, 17), (EAGER.name, 4)):
        one = contest(kept_waiting if who == CANDIDATE else asleep, kept_waiting, judged=judged, count=24)
        one.calls[who][:most] = [asleep] * most
        one.charge()


def test_a_few_void_calls_are_not_charged() -> None:
    one = contest(call(), call())
    one.series["w"].samples[:5] = [replace(s, void="waited") for s in one.series["w"].samples[:5]]

    one.charge()


def test_sleep_in_some_calls_that_are_taken_again_adds_up_over_a_series() -> None:
    judged, sleeps = clock(), call(WORK_NS, WORK_NS)
    one = contest(call(), call(), judged=judged, count=48)
    one.calls[CANDIDATE] += [sleeps] * 6
    one.series["w"].samples += [Sample(CANDIDATE, i, 0, sleeps.cpu_ns, sleeps.wall_ns, judged.void(sleeps)) for i in range(6)]

    assert one.series["w"].void_share(CANDIDATE) < CHARGED
    assert charged(one) == (Verdict.QUARANTINED, Reason.CLOCK_MISMATCH)


def test_waiting_that_no_single_call_shows_adds_up_over_a_series() -> None:
    little = round(0.05 * WORK_NS)
    assert not clock().void(call(little))

    assert charged(contest(call(little, little), call())) == (Verdict.QUARANTINED, Reason.CLOCK_MISMATCH)
    contest(call(little, little), call(), judged=clock(pressure=0.5)).charge()  # a contended machine


def test_on_several_threads_the_time_is_from_thaw_to_freeze() -> None:
    waiting = call(WORK_NS)

    assert clock(1).time_ns(waiting) == WORK_NS
    assert clock(4).time_ns(waiting) == waiting.span_ns
    assert not clock(4).void(waiting)
    contest(call(WORK_NS, WORK_NS), call(), judged=clock(4)).charge()


def test_an_incumbents_fault_is_not_the_candidates() -> None:
    assert charged(contest(call(), call(WORK_NS, WORK_NS), THEIRS)) == (Verdict.INFRASTRUCTURE, Reason.OPPONENT)


def test_memory_that_is_kept_with_every_call_is_wear() -> None:
    one = contest(call(), call())
    one.kept[CANDIDATE] = [[4 * KEPT_BYTES] * 16]

    assert charged(one) == (Verdict.QUARANTINED, Reason.WEAR)


def test_a_process_that_slows_down_is_wear() -> None:
    one = contest(call(), call())
    one.series["w"].samples = [
        Sample(s.who, s.cluster, s.pair, s.cpu_ns * (2 if s.who == CANDIDATE and s.cluster % 2 else 1), s.wall_ns)
        for s in one.series["w"].samples
    ]
    one.series["w"].aged = {1, 3, 5, 7}

    assert one.seems_worn()
    assert charged(one) == (Verdict.QUARANTINED, Reason.WEAR)


def test_every_measurement_checks_a_timed_call_of_each_side_on_each_workload_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole: list[tuple[str, str, bool]] = []

    def recorded(side: Side, workload: Workload, values: int, rng: object, **how: Any) -> Call:
        whole.append((side.contestant.name, workload.name, how.get("whole", False)))
        return call()

    workloads = [Workload((("rows", 8), ("cols", cols))) for cols in (8, 9)]
    judged = clock()
    judged.shelf = SimpleNamespace(timed=lambda _, index: index, count=lambda _: 8)  # type: ignore[assignment]
    judged.task = SimpleNamespace(search=workloads)  # type: ignore[assignment]
    monkeypatch.setattr(Side, "call", recorded)
    one = Contest(judged, OURS, THEIRS, {w.name: Series(0.0) for w in workloads})

    one.allocate(workloads, 0, 1, 0, np.random.default_rng(0))  # a measurement may end after it

    assert sorted((who, name) for who, name, due in whole if due) == sorted(
        (side.name, w.name) for side in (OURS, THEIRS) for w in workloads
    )
