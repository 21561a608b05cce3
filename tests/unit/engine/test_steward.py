"""The steward: whose fault a failure is, and when a machine is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from evokern.engine.steward import Steward, StewardSettings
from evokern.errors import Unavailable
from evokern.evaluation import REASONS, Evaluation, Reason, Rung, Verdict
from evokern.evaluator.statement import Health, charged
from evokern.executor.floor import Floor
from evokern.kernel import Candidate, Kernel
from evokern.task import DType
from evokern.testing.sim_executor import Landed, SimExecutor

NOISE, HOST, OPPONENT = Reason.NOISE, Reason.HOST_ERROR, Reason.OPPONENT
SICK = Health(ok=False, detail="a plain copy takes 90 us where it took 9")


def candidate(name: str) -> Candidate:
    return Candidate(Kernel("cpp", name), "t", DType.FLOAT32)


class Scripted(SimExecutor):
    """Fails as it is told: per kernel a list of reasons, one a time; a kernel without one passes."""

    def __init__(self, script: dict[str, Sequence[Reason]], health: Sequence[Health] = ()) -> None:
        super().__init__(lambda _: Landed(0.1))
        self.script, self.health = {name: list(reasons) for name, reasons in script.items()}, list(health)
        self.inside = 0
        self.company: dict[str, list[int]] = {}
        self.restarts = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        self.inside += 1
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
            found = await super().evaluate(candidate, incumbent)
            self.company.setdefault(candidate.kernel.source, []).append(self.inside)
        finally:
            self.inside -= 1
        reasons = self.script.get(candidate.kernel.source)
        if not reasons:
            return found
        reason = reasons.pop(0)
        verdict = {Reason.DEADLINE_RUN: Verdict.TIMED_OUT, Reason.MEMORY: Verdict.CRASHED}.get(reason, Verdict.INFRASTRUCTURE)
        return replace(found, verdict=verdict, reason=reason, measurements=())

    async def probe(self) -> Health:
        return self.health.pop(0) if self.health else Health(ok=True)

    async def restart(self) -> None:
        self.restarts += 1


class Slept:
    """Counts the seconds that were to be waited."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 30))


def steward_of(executor: Scripted, slept: Slept | None = None, **settings: Any) -> tuple[Steward, list[str]]:
    said: list[str] = []
    return Steward(executor, said.append, StewardSettings(**settings), slept or Slept()), said


def test_what_the_machine_did_once_is_asked_for_again_and_held_against_nobody() -> None:
    executor = Scripted({"a": [NOISE], "b": [HOST]})
    steward, said = steward_of(executor)

    async def both() -> list[Evaluation]:
        return await asyncio.gather(*(steward.evaluate(candidate(name), None) for name in "abc"))

    assert [found.verdict for found in run(both())] == [Verdict.PASSED] * 3
    assert executor.company["a"][-1] == executor.company["b"][-1] == 1, "the second time it was alone"
    assert said == []


@pytest.mark.parametrize(("reason", "verdict"), [(NOISE, Verdict.FLAKY), (HOST, Verdict.CRASHED), (Reason.DEVICE_ERROR, Verdict.CRASHED)])
def test_what_a_sound_machine_does_twice_alone_is_the_kernel_s_fault(reason: Reason, verdict: Verdict) -> None:
    executor = Scripted({"a": [reason, reason]})
    steward, _ = steward_of(executor)
    found = run(steward.evaluate(candidate("a"), None))
    assert (found.verdict, found.reason) == (verdict, reason)
    assert "alone" in found.detail
    assert found.judge == executor.signer.public


def test_what_goes_wrong_in_the_gate_is_told_as_one_bit() -> None:
    failed = Evaluation("k", "t", "float32", Verdict.INFRASTRUCTURE, HOST, "cols=4099", Rung.GATE, log="cols=4099")
    found = charged(failed)
    assert (found.verdict, found.reason, found.passed_held_out) == (Verdict.HELD_OUT_FAILED, Reason.HELD_OUT, False)
    assert "4099" not in str(found)
    assert found.detail == REASONS[Reason.HELD_OUT]


def test_a_judge_that_dies_in_the_gate_has_told_a_bit_each_time() -> None:
    class DiesInTheGate(Scripted):
        async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
            return replace(await super().evaluate(candidate, incumbent), rung=Rung.GATE, passed_held_out=None)

    steward, _ = steward_of(DiesInTheGate({"a": [HOST, HOST]}))
    found = run(steward.evaluate(candidate("a"), None))
    assert (found.verdict, found.passed_held_out) == (Verdict.HELD_OUT_FAILED, False)
    assert steward.take_bits(candidate("a").id) == 2


@pytest.mark.parametrize("reason", [Reason.DEADLINE_RUN, Reason.MEMORY])
def test_a_deadline_or_memory_among_others_is_asked_for_once_more_alone(reason: Reason) -> None:
    executor = Scripted({"a": [reason], "b": [reason, reason]})
    steward, _ = steward_of(executor)

    async def both() -> list[Evaluation]:
        executor.gate.clear()
        asking = [asyncio.ensure_future(steward.evaluate(candidate(name), None)) for name in "ab"]
        await asyncio.sleep(0.01)
        executor.gate.set()
        return [await one for one in asking]

    first, second = run(both())
    assert (first.verdict, second.reason) == (Verdict.PASSED, reason), "the second failure is the kernel's own"
    assert len(executor.company["b"]) == 2


def test_a_deadline_of_a_kernel_that_was_alone_is_its_own_at_once() -> None:
    executor = Scripted({"a": [Reason.DEADLINE_RUN]})
    steward, _ = steward_of(executor)
    assert run(steward.evaluate(candidate("a"), None)).verdict is Verdict.TIMED_OUT
    assert executor.evaluated == [candidate("a").id]


def test_an_opponent_s_failure_is_handed_on() -> None:
    executor = Scripted({"a": [OPPONENT]})
    steward, _ = steward_of(executor)
    assert run(steward.evaluate(candidate("a"), None)).reason is OPPONENT
    assert len(executor.evaluated) == 1


def test_an_unsound_machine_rests_gets_a_new_judge_and_blames_nobody() -> None:
    executor, slept = Scripted({"a": [HOST, HOST]}, health=[SICK, SICK, Health(ok=True)]), Slept()
    steward, said = steward_of(executor, slept)
    assert run(steward.evaluate(candidate("a"), None)).verdict is Verdict.PASSED
    assert executor.restarts == 2
    assert slept.seconds == [5.0, 10.0], "each rest is longer than the one before"
    assert SICK.detail in said[0]


def test_failures_in_a_row_call_for_a_new_judge_although_the_probe_finds_nothing() -> None:
    names = "abcd"
    executor = Scripted({name: [HOST, HOST] for name in names})
    steward, _ = steward_of(executor, in_a_row=4)

    async def all_of_them() -> list[Evaluation]:
        return [await steward.evaluate(candidate(name), None) for name in names]

    assert [found.verdict for found in run(all_of_them())] == [Verdict.CRASHED] * 3 + [Verdict.PASSED]
    assert executor.restarts == 1


def test_a_machine_that_stays_unsound_is_given_up_in_one_line() -> None:
    executor, slept = Scripted({"a": [HOST] * 9}, health=[SICK] * 20), Slept()
    steward, _ = steward_of(executor, slept, rests=3)
    with pytest.raises(Unavailable, match="failed again and again") as caught:
        run(steward.evaluate(candidate("a"), None))
    assert caught.value.exit_code == 3
    assert "evokern resume" in caught.value.line
    assert len(slept.seconds) == 3


def test_every_answer_of_the_gate_is_counted() -> None:
    executor = Scripted({"a": [NOISE]})
    steward, _ = steward_of(executor)
    run(steward.evaluate(candidate("a"), None))
    assert (steward.take_bits(candidate("a").id), steward.take_bits(candidate("a").id)) == (2, 0)


def test_who_wants_to_be_alone_waits_for_all_and_comes_before_later_ones() -> None:
    order: list[str] = []

    async def scene() -> None:
        floor, leave = Floor(), asyncio.Event()

        async def together(name: str) -> None:
            async with floor.shared() as visit:
                order.append(name)
                await leave.wait()
            order.append(f"{name} left, alone {visit.alone}")

        async def alone() -> None:
            async with floor.alone():
                order.append("alone")

        tasks = [asyncio.ensure_future(together("first"))]
        await asyncio.sleep(0)
        tasks.append(asyncio.ensure_future(together("second")))
        await asyncio.sleep(0)
        tasks.append(asyncio.ensure_future(alone()))
        await asyncio.sleep(0)
        tasks.append(asyncio.ensure_future(together("late")))
        await asyncio.sleep(0.01)
        assert order == ["first", "second"]
        leave.set()
        await asyncio.gather(*tasks)

    run(scene())
    assert order.index("alone") < order.index("late")
    assert "first left, alone False" in order
    assert "late left, alone True" in order


def test_who_is_cancelled_while_waiting_to_be_alone_holds_nobody_up() -> None:
    async def scene() -> bool:
        floor = Floor()
        async with floor.shared():
            waiting = asyncio.ensure_future(floor.alone().__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.sleep(0)
            async with floor.shared() as visit:
                return visit.alone

    assert run(scene()) is False
