"""What a judge builds a confirmation on: its own words about this very kernel, and nothing that merely bears its name."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evokern import record
from evokern.backend import Built
from evokern.errors import UsageError
from evokern.evaluation import (
    BASELINE,
    Bottleneck,
    Clock,
    Evaluation,
    Fingerprint,
    Measurement,
    Profile,
    ProfileRung,
    Ratio,
    Reason,
    Rung,
    Tier,
    Verdict,
    evaluation_key,
)
from evokern.evaluator.catalogue import find_task
from evokern.evaluator.judge import Judge
from evokern.evaluator.ladder import Ladder
from evokern.evaluator.signing import SEED_BYTES, Judges, Signer
from evokern.evaluator.statement import Assignment
from evokern.kernel import Kernel
from evokern.task import DType

TASK = find_task("softmax")
NOW = Fingerprint("e", "cpu", "d", "", "g++", "", "", "ieee", 1, Tier.ISOLATED, "", ("eager",), 3)
HONEST, ZEROS = Kernel("cpp", "int honest;"), Kernel("cpp", "int zeros;")
TIMES = (Measurement("w", Clock.JUDGED, 1, 0, 0, None, {BASELINE: Ratio(1.5, 1.25, 2.0, 4, 2)}),)

PROFILE = Profile(ProfileRung.COUNTERS, Bottleneck.MEMORY, ())


def said(kernel: Kernel = HONEST, fingerprint: Fingerprint = NOW, **other: Any) -> Evaluation:
    """What a judge says of a kernel that passed."""
    key = evaluation_key(kernel.id, TASK.digest, DType.FLOAT32, fingerprint)
    found = Evaluation(
        kernel.id, TASK.digest, "float32", Verdict.PASSED, rung=Rung.MEASURE, passed_held_out=True, measurements=TIMES,
        fingerprint=fingerprint, key=key,
    )  # fmt: skip
    return replace(found, **other)


class Bench:
    """A judge whose ladder is not climbed: what is asked of it is noted, and answered with a pass."""

    def __init__(self) -> None:
        nothing = cast(Any, None)
        self.ladder = Ladder(
            task=TASK, dtype=DType.FLOAT32, fingerprint=NOW, secret=nothing, shelf=nothing, clock=nothing, baselines=nothing, times={},
            held_out=(), build=nothing, contestant=nothing, describe=nothing,
        )  # fmt: skip
        self.asked: list[tuple[str, Evaluation | None]] = []
        ladder: Any = self.ladder
        ladder.judge = lambda kernel, built, opponent: self._noted("judge", None, kernel)
        ladder.confirm = lambda kernel, built, previous, to_beat=None: self._noted("confirm", previous, kernel)
        self.signer = Signer(b"s" * SEED_BYTES)
        self.judge = object.__new__(Judge)
        self.judge._signer = self.signer
        self.judge._lease = ThreadPoolExecutor(1)
        self.judge._session = cast(
            Any,
            SimpleNamespace(
                build=lambda _: Built(True, None), ladder=self.ladder, gate_is_worn=False,
                profiled=lambda kernel, evaluation, counted: replace(evaluation, profile=PROFILE if counted else evaluation.profile),
            ),
        )  # fmt: skip

    def _noted(self, rung: str, previous: Evaluation | None, kernel: Kernel) -> Evaluation:
        self.asked.append((rung, previous))
        return replace(said(kernel), confirmed=rung == "confirm")

    def confirm(self, previous: Evaluation, *, anew: bool = False) -> Evaluation:
        return record.from_json(Evaluation, self.judge._judged(Assignment(HONEST, None, previous, anew=anew)))


@pytest.fixture
def bench() -> Bench:
    return Bench()


WRONG: dict[str, Any] = {"verdict": Verdict.WRONG, "reason": Reason.TOLERANCE}
FOREIGN: dict[str, Callable[[], Evaluation]] = {
    "of another kernel": lambda: said(ZEROS),
    "of another kernel, wrong": lambda: said(ZEROS, rung=Rung.CHECK, passed_held_out=None, **WRONG),
    "of another kernel, under this one's key": lambda: said(ZEROS, key=said().key),
    "of this kernel, under another's key": lambda: said(key=said(ZEROS).key),
    "wrong": lambda: said(**WRONG),
    "not gated": lambda: said(passed_held_out=None),
    "failed at the gate": lambda: said(passed_held_out=False),
    "of another task": lambda: said(task_digest="other"),
    "of another dtype": lambda: said(dtype="bfloat16"),
    "degenerate": lambda: said(degenerate=True),
    "without a fingerprint": lambda: replace(said(), fingerprint=None),
    "without a key": lambda: said(key=""),
    "from another machine": lambda: said(fingerprint=replace(NOW, device="other")),
    "from a sandbox that holds less": lambda: said(fingerprint=replace(NOW, tier=Tier.UNSANDBOXED)),
    "from a held-out set that is to come": lambda: said(fingerprint=replace(NOW, held_out_epoch=4)),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_says_something_else_is_not_confirmed(bench: Bench, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be confirmed") as refused:
        bench.confirm(bench.signer.sign(FOREIGN[name]()))

    assert "\n" not in refused.value.line
    assert not bench.asked


def test_what_others_said_is_not_confirmed(bench: Bench) -> None:
    for evaluation in (said(), Signer(b"o" * SEED_BYTES).sign(said()), replace(bench.signer.sign(said()), measurements=())):
        with pytest.raises(UsageError, match="did not sign"):
            bench.confirm(evaluation)
    assert not bench.asked


@pytest.mark.parametrize("epoch", [NOW.held_out_epoch, 0])
def test_own_words_are_built_on_also_after_the_held_out_set_was_retired(bench: Bench, epoch: int) -> None:
    previous = bench.signer.sign(said(fingerprint=replace(NOW, held_out_epoch=epoch)))

    assert bench.confirm(previous).confirmed
    assert bench.asked == [("confirm", previous)]


def test_a_measurement_anew_forgets_the_numbers(bench: Bench) -> None:
    bench.confirm(bench.signer.sign(said(confirmed=True)), anew=True)

    ((rung, previous),) = bench.asked
    assert previous is not None
    assert (rung, previous.measurements, previous.confirmed) == ("confirm", (), False)


def test_on_a_machine_that_became_another_a_champion_climbs_from_the_first_rung(bench: Bench) -> None:
    previous = bench.signer.sign(said(fingerprint=replace(NOW, driver="later"), confirmed=True))

    found = bench.confirm(previous, anew=True)

    assert [rung for rung, _ in bench.asked] == ["judge", "confirm"]
    assert found.confirmed and found.fingerprint == NOW


def test_only_a_judge_s_own_pass_is_profiled(bench: Bench) -> None:
    """The device's counters are asked for; whatever others said, or did not pass, is refused."""
    own = bench.signer.sign(said())
    profiled = record.from_json(Evaluation, bench.judge._profiled(Assignment(HONEST, None, own)))
    assert profiled.profile == PROFILE
    assert Judges([bench.signer.public]).accept(profiled)
    failed = bench.signer.sign(said(verdict=Verdict.WRONG))
    for previous in (None, said(), Signer(b"o" * SEED_BYTES).sign(said()), failed):
        with pytest.raises(UsageError, match="cannot be profiled"):
            bench.judge._profiled(Assignment(HONEST, None, previous))
    assert bench.asked == []
