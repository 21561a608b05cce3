"""The ladder: screen, build, check, gate, measure, confirm (EVALUATOR section 4).

Each rung costs more than the one before. `Ladder.judge` never raises for a bad kernel: whatever a rung finds becomes the
evaluation's verdict. Building may run on several threads; everything that holds the lease runs on one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from evokern.backend import Built
from evokern.evaluation import (
    BASELINE,
    INCUMBENT,
    Evaluation,
    Fingerprint,
    Measurement,
    Ratio,
    Reason,
    Rung,
    Verdict,
    evaluation_key,
)
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.contestant import CANDIDATE, Contestant, KernelContestant
from evokern.evaluator.reference.held_out import HeldOutWorkload
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.rule import check
from evokern.evaluator.secrecy import Secret
from evokern.evaluator.statement import WorkloadTimes
from evokern.evaluator.timing.clock import JudgedClock, Series, measurement, merged
from evokern.kernel import Kernel
from evokern.statistics import combine
from evokern.task import DType, Task, Workload

CLUSTERS = 8
"""Allocations behind a ratio that is to stand."""

MOST_CLUSTERS = 12

CONFIRM_BLOCKS = 2
"""Blocks an allocation where the ratio is to be quoted; screening makes do with one."""

WIDE = 0.08
"""Width of an interval, natural logarithms, above which a confirmation takes up to `MOST_CLUSTERS` allocations."""

UNDECIDED = {1: (0.75, 1.5), 3: (0.95, 1.08)}
"""Screening ends after so many allocations where the estimate against the incumbent is outside these bounds. It only decides what
is worth confirming, so it needs no interval."""

LOG_CHARACTERS = 4000


@dataclass
class Ladder:
    """One task on one device, ready to judge.

    Attributes:
        task: The task.
        dtype: Element type.
        fingerprint: What verdicts depend on.
        secret: The run's key.
        shelf: Sets of inputs.
        clock: The judge's clock.
        baselines: Fastest baseline per timed workload, as one contestant by workload.
        times: Baselines and copy per visible workload.
        held_out: The secret workloads of the epoch.
        build: Builds one kernel; called from several threads.
        contestant: Makes a contestant of a built kernel, by name.
        describe: Descriptors of a built kernel.
    """

    task: Task
    dtype: DType
    fingerprint: Fingerprint
    secret: Secret
    shelf: Shelf
    clock: JudgedClock
    baselines: Contestant
    times: Mapping[str, WorkloadTimes]
    held_out: Sequence[HeldOutWorkload]
    build: Callable[[Kernel], Built]
    contestant: Callable[[str, Kernel, Built], KernelContestant]
    describe: Callable[[Kernel, Built], dict[str, str]]
    _judged: int = field(default=0)

    @property
    def timed(self) -> list[Workload]:
        """Visible workloads that are long enough for the clock."""
        return [w for w in self.task.search if self.times[w.name].timed]

    def judge(self, kernel: Kernel, built: Built, incumbent: tuple[Kernel, Built] | None) -> Evaluation:
        """Check, gate and measure a kernel that was built; holds the lease."""
        climb = _Climb(self._blank(kernel), built)
        if not built.ok:
            return climb.fell(_build_fault(built))
        try:
            climb.evaluation = replace(climb.evaluation, descriptors=self.describe(kernel, built))
            self._judged += 1
            secret = self.secret.derive("judge", kernel.id, self._judged)
            with climb.rung(Rung.CHECK):
                error = check.check(self.task, self.dtype, self.contestant(CANDIDATE, kernel, built), self.shelf, secret)
                climb.evaluation = replace(climb.evaluation, error=error)
            with climb.rung(Rung.GATE):
                check.gate(self.task, self.dtype, self.contestant(CANDIDATE, kernel, built), self.held_out, self.shelf, secret)
                climb.evaluation = replace(climb.evaluation, passed_held_out=True)
            with climb.rung(Rung.MEASURE):
                climb.evaluation = replace(climb.evaluation, measurements=self._screened(kernel, built, incumbent, secret))
        except Fault as fault:
            return climb.fell(fault)
        return climb.passed()

    def confirm(self, kernel: Kernel, built: Built, previous: Evaluation) -> Evaluation:
        """A second measurement, against the baseline, with new processes, memory, sets and orders; holds the lease."""
        climb = _Climb(previous, built)
        if not built.ok:
            return climb.fell(_build_fault(built))
        self._judged += 1
        secret = self.secret.derive("confirm", kernel.id, self._judged)
        try:
            with climb.rung(Rung.CONFIRM):
                series = self.clock.compare(
                    self.contestant(CANDIDATE, kernel, built),
                    self.baselines,
                    self.timed,
                    secret,
                    clusters=MOST_CLUSTERS,
                    blocks=CONFIRM_BLOCKS,
                    stop=_settled,
                )
                fresh = [self._measurement(w, series[w.name], BASELINE, BASELINE) for w in self.timed]
                known = {m.workload: m for m in previous.measurements}
                measurements = tuple(merged(known[m.workload], m) if m.workload in known else m for m in fresh)
                climb.evaluation = replace(climb.evaluation, measurements=measurements, confirmed=True)
        except Fault as fault:
            return climb.fell(fault)
        return climb.passed()

    def _screened(self, kernel: Kernel, built: Built, incumbent: tuple[Kernel, Built] | None, secret: Secret) -> tuple[Measurement, ...]:
        opponent = self.baselines if incumbent is None else self.contestant(INCUMBENT, *incumbent)
        name = BASELINE if incumbent is None else INCUMBENT
        series = self.clock.compare(
            self.contestant(CANDIDATE, kernel, built), opponent, self.timed, secret, clusters=MOST_CLUSTERS, stop=_decided
        )
        return tuple(self._measurement(w, series[w.name], opponent.name, name) for w in self.timed)

    def _measurement(self, workload: Workload, series: Series, opponent: str, as_name: str) -> Measurement:
        floor = self.times[workload.name].times_us.get("copy")
        found = measurement(workload, CANDIDATE, series, opponent, as_name, self.clock, floor)
        if found is None:
            raise Fault(Verdict.INFRASTRUCTURE, Reason.NOISE, "the machine was too busy for a time that can be trusted")
        return found

    def _blank(self, kernel: Kernel) -> Evaluation:
        key = evaluation_key(kernel.id, self.task.digest, self.dtype, self.fingerprint)
        return Evaluation(kernel.id, self.task.digest, str(self.dtype), Verdict.PASSED, fingerprint=self.fingerprint, key=key)


class _Climb:
    """An evaluation in the making, and the time each rung took."""

    def __init__(self, evaluation: Evaluation, built: Built) -> None:
        self.evaluation = evaluation
        self.seconds = {str(Rung.BUILD): built.seconds, **evaluation.seconds}
        self.reached: Rung = evaluation.rung if evaluation.rung is not Rung.SCREEN else Rung.BUILD

    @contextmanager
    def rung(self, rung: Rung) -> Iterator[None]:
        self.reached, start = rung, time.monotonic()
        try:
            yield
        finally:
            # Nothing of how long the gate took may be learnt: a kernel could tell held-out sizes by sleeping.
            if rung is not Rung.GATE:
                self.seconds[str(rung)] = time.monotonic() - start

    def fell(self, fault: Fault) -> Evaluation:
        held_out = False if fault.verdict is Verdict.HELD_OUT_FAILED else self.evaluation.passed_held_out
        return replace(
            self.evaluation, verdict=fault.verdict, reason=fault.reason, rung=self.reached, detail=fault.detail[:LOG_CHARACTERS],
            log=fault.log[:LOG_CHARACTERS], seconds=self.seconds, passed_held_out=held_out, confirmed=False,
        )  # fmt: skip

    def passed(self) -> Evaluation:
        return replace(self.evaluation, verdict=Verdict.PASSED, reason=Reason.NONE, rung=self.reached, seconds=self.seconds)


def _build_fault(built: Built) -> Fault:
    reason = Reason(built.reason)
    verdict = {Reason.FLAGS: Verdict.SCREENED, Reason.UNSUPPORTED: Verdict.SCREENED, Reason.DEADLINE_BUILD: Verdict.TIMED_OUT}.get(
        reason, Verdict.BUILD_FAILED
    )
    first = next(
        (line for line in built.log.splitlines() if "error" in line), built.log.strip().splitlines()[0] if built.log.strip() else ""
    )
    return Fault(verdict, reason, first[:300], built.log)


def _decided(ratios: Mapping[str, Ratio], clusters: int) -> bool:
    """Stop screening: far from the incumbent early, anybody else once the ratio stands."""
    low, high = UNDECIDED.get(clusters, (0.0, math.inf))
    return clusters >= CLUSTERS or not low < combine(ratios).ratio.estimate < high


def _settled(ratios: Mapping[str, Ratio], clusters: int) -> bool:
    """Stop confirming once the interval may be quoted, unless it is wide and a few more allocations may help."""
    score = combine(ratios)
    return clusters >= CLUSTERS and score.high - score.low < WIDE
