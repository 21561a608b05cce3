"""Those who passed, judged again: on a schedule, when they fail as opponents, and on a new held-out set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evokern.engine import engine as engine_module
from evokern.engine import upkeep
from evokern.errors import EvokernError
from evokern.evaluation import Evaluation, Reason, Verdict
from evokern.event import Budget, EventKind, RunSettings
from evokern.kernel import Candidate, Kernel
from evokern.store import Journal
from evokern.testing.sim_executor import Landed, SimExecutor
from tests.unit.test_engine import begin, landscape, of, replayed, resume, run, source_of, states


class Breaking(SimExecutor):
    """Kernels that pass so many times and fail from then on, as the opponents of others first."""

    def __init__(self, broken: Callable[[Kernel], bool], *, when: int, alone_too: bool = True, **more: Any) -> None:
        super().__init__(landscape, **more)
        self.broken, self.when, self.alone_too = broken, when, alone_too
        self.opponents: list[str | None] = []

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        found = await super().evaluate(candidate, incumbent)
        self.opponents.append(incumbent.id if incumbent else None)
        if len(self.evaluated) <= self.when:
            return found
        if incumbent is not None and self.broken(incumbent):
            fault = {"verdict": Verdict.INFRASTRUCTURE, "reason": Reason.OPPONENT, "measurements": ()}
            return self.signer.sign(replace(found, **fault))
        if incumbent is None and self.alone_too and self.broken(candidate.kernel):
            return self.signer.sign(replace(found, verdict=Verdict.WRONG, reason=Reason.TOLERANCE, measurements=()))
        return found


def far(kernel: Kernel) -> bool:
    return int(kernel.source.split()[1]) >= 3


def assert_consistent(engine: Any) -> None:
    """The islands are what a replay makes of the journal, and nobody who was withdrawn is on any."""
    assert states(engine) == replayed(engine)
    gone = {body.evaluation.kernel_id for body in of(engine, EventKind.WITHDRAWN)}
    assert not any(kernel_id in island.archive for kernel_id in gone for island in engine.islands)
    with Journal(engine.home, read_only=True) as journal:
        assert not gone & {entry.kernel_id for entry in journal.top(engine.run_id, 1000)}


def test_a_champion_that_fails_as_an_opponent_is_judged_again_and_withdrawn_and_the_next_takes_its_place(
    settings: RunSettings, home: Path
) -> None:
    executor = Breaking(far, when=15, capacity=1)
    engine = begin(replace(settings, budget=Budget(evaluations=28)), home, executor)
    summary = run(engine)
    withdrawn = of(engine, EventKind.WITHDRAWN)
    assert withdrawn
    assert {body.why for body in withdrawn} == {"opponent"}
    assert summary["withdrawn"] == len(withdrawn)
    verdicts = [body.evaluation for body in of(engine, EventKind.EVALUATED)]
    assert not any(found.reason is Reason.OPPONENT for found in verdicts), "no challenger was charged"
    assert summary["evaluated"] == 28
    assert_consistent(engine)
    again = resume(engine, budget=Budget(evaluations=29))
    run(again)
    assert_consistent(again)


def test_a_champion_that_passes_when_it_is_judged_again_stays_until_too_many_accuse_it(settings: RunSettings, home: Path) -> None:
    executor = Breaking(far, when=15, alone_too=False, capacity=1)
    engine = begin(replace(settings, budget=Budget(evaluations=28)), home, executor)
    run(engine)
    withdrawn = of(engine, EventKind.WITHDRAWN)
    assert withdrawn
    assert {body.evaluation.verdict for body in withdrawn} == {Verdict.FLAKY}
    assert all(body.evaluation.judge == executor.signer.public for body in withdrawn)
    assert_consistent(engine)


def test_an_island_whose_only_elite_goes_gets_the_seed_back_and_goes_on(settings: RunSettings, home: Path) -> None:
    executor = Breaking(lambda kernel: kernel.source != source_of(0, 0), when=12, capacity=1)
    engine = begin(replace(settings, budget=Budget(evaluations=30)), home, executor)
    summary = run(engine)
    assert summary["reason"] == "evaluations", "never exhausted"
    assert of(engine, EventKind.WITHDRAWN)
    assert all(len(island.archive) for island in engine.islands)
    assert_consistent(engine)


def test_a_run_of_which_nobody_is_left_ends_in_one_line(settings: RunSettings, home: Path) -> None:
    engine = begin(replace(settings, islands=1), home, Breaking(lambda _: True, when=6, capacity=1))
    with pytest.raises(EvokernError, match="failed when it was judged again"):
        run(engine)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is due in time is due at once."""
    monkeypatch.setattr(upkeep, "REMEASURE_SECONDS", 0.0)
    monkeypatch.setattr(upkeep, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(engine_module, "TICK_SECONDS", 0.02)


class Luck(SimExecutor):
    """The first confirmation of every kernel is far too good."""

    def __init__(self, **more: Any) -> None:
        super().__init__(landscape, latency_s=0.005, **more)

    async def confirm(self, candidate: Candidate, evaluation: Evaluation, to_beat: float | None = None) -> Evaluation:
        found = await super().confirm(candidate, evaluation, to_beat)
        lucky = {
            name: replace(r, estimate=r.estimate * 3, low=r.low * 3, high=r.high * 3) for name, r in found.measurements[0].versus.items()
        }
        return self.signer.sign(replace(found, measurements=(replace(found.measurements[0], versus=lucky),)))

    async def remeasure(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return await super().confirm(candidate, evaluation)


@pytest.mark.usefixtures("hurried")
def test_a_champion_is_measured_again_and_its_score_follows(settings: RunSettings, home: Path) -> None:
    engine = begin(replace(settings, budget=Budget(evaluations=28)), home, Luck())
    run(engine)
    measured = of(engine, EventKind.REMEASURED)
    assert {body.why for body in measured} == {"schedule", "end"}
    again = {body.evaluation.kernel_id: body.evaluation for body in measured}
    champion = engine._champion()
    assert champion is not None
    for island in engine.islands:
        for elite in island.archive:
            expected = again.get(elite.candidate.id)
            assert expected is None or elite.evaluation == expected
    with Journal(home, read_only=True) as journal:
        counts = journal.verdict_counts(engine.run_id)
        shown = {entry.kernel_id: entry.score for entry in journal.top(engine.run_id, 1000)}
    assert sum(counts.values()) == 28, "who is measured again is not counted again"
    assert all(shown[kernel_id].log < 0.03 * 40 + 0.1 for kernel_id in again)
    assert_consistent(engine)


def test_a_short_run_s_champion_whose_numbers_are_fresh_is_not_measured_once_more(settings: RunSettings, home: Path) -> None:
    engine = begin(settings, home)
    run(engine)
    assert of(engine, EventKind.REMEASURED) == []


@pytest.mark.usefixtures("hurried")
def test_the_gate_s_bits_are_counted_and_its_set_is_retired_when_they_are_spent(
    settings: RunSettings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "REMEASURE_SECONDS", 1e9)
    executor = SimExecutor(landscape, latency_s=0.02, gate_bits=12)
    engine = begin(replace(settings, budget=Budget(evaluations=60)), home, executor)
    summary = run(engine)
    rotated = of(engine, EventKind.ROTATED)
    assert [body.epoch for body in rotated] == list(range(1, len(rotated) + 1))
    assert len(rotated) >= 2
    assert all(body.bits >= 12 for body in rotated)
    answers = sum(body.bits for kind in (EventKind.EVALUATED, EventKind.REMEASURED, EventKind.WITHDRAWN) for body in of(engine, kind))
    assert answers == sum(body.bits for body in rotated) + engine._ledger.bits
    assert answers >= 60
    gated = [body for body in of(engine, EventKind.REMEASURED) if body.why == "rotated"]
    assert gated
    assert all(body.evaluation.fingerprint.held_out_epoch >= 1 for body in gated)
    assert summary["gate"]["epoch"] == len(rotated)
    assert_consistent(engine)


class Late(SimExecutor):
    """Its first held-out set has told enough after ten answers, each of which came late."""

    def is_worn(self) -> bool:
        return self._fingerprint.held_out_epoch == 0 and len(self.evaluated) >= 10


@pytest.mark.usefixtures("hurried")
def test_a_judge_that_told_more_than_a_bit_an_answer_has_its_set_retired_sooner(
    settings: RunSettings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "REMEASURE_SECONDS", 1e9)
    engine = begin(replace(settings, budget=Budget(evaluations=28)), home, Late(landscape, latency_s=0.02))
    run(engine)
    assert [body.epoch for body in of(engine, EventKind.ROTATED)] == [1]


class Overfit(SimExecutor):
    """All but the seed fail on every held-out set but the first."""

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        found = await super().evaluate(candidate, incumbent)
        if self._fingerprint.held_out_epoch == 0 or candidate.operator == "seed":
            return found
        failed = {"verdict": Verdict.HELD_OUT_FAILED, "reason": Reason.HELD_OUT, "passed_held_out": False, "measurements": ()}
        return self.signer.sign(replace(found, **failed))


@pytest.mark.usefixtures("hurried")
def test_who_fails_the_new_held_out_set_is_withdrawn(settings: RunSettings, home: Path) -> None:
    executor = Overfit(landscape, latency_s=0.02, gate_bits=15)
    engine = begin(replace(settings, budget=Budget(evaluations=60)), home, executor)
    summary = run(engine)
    assert {body.why for body in of(engine, EventKind.WITHDRAWN)} == {"rotated"}
    assert summary["withdrawn"] >= 1
    assert_consistent(engine)


def test_degenerate_runs_say_so(settings: RunSettings, home: Path) -> None:
    class Degenerate(SimExecutor):
        async def open(self, say: Any) -> Any:
            return self.signer.sign(replace(await super().open(say), degenerate=("zeros pass",)))

    assert run(begin(settings, home, Degenerate(lambda _: Landed(0.1))))["degenerate"] == ["zeros pass"]
