"""The ladder: screen, build, check, gate, measure, confirm (EVALUATOR section 4).

Each rung costs more than the one before. `Ladder.judge` never raises for a bad kernel: whatever a rung finds becomes the
evaluation's verdict. Building may run on several threads; everything that holds the lease runs on one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from evokern import printable
from evokern.backend import Built
from evokern.evaluation import (
    BASELINE,
    INCUMBENT,
    REASONS,
    Evaluation,
    Fingerprint,
    Measurement,
    Reason,
    Rung,
    Verdict,
    evaluation_key,
)
from evokern.evaluator import screen
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.contestant import CANDIDATE, Contestant, KernelContestant
from evokern.evaluator.reference.held_out import HeldOutWorkload
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.rule import check, gate
from evokern.evaluator.secrecy import Secret
from evokern.evaluator.statement import WorkloadTimes
from evokern.evaluator.timing.ceiling import least_ns, refuse_impossible
from evokern.evaluator.timing.clock import JudgedClock
from evokern.evaluator.timing.series import LEAST_TIME_NS, Series, merged
from evokern.evaluator.timing.stopping import MOST_CLUSTERS, MOST_UNDECIDED, decided, settled
from evokern.kernel import Kernel
from evokern.task import DType, Task, Workload

CONFIRM_BLOCKS = 1
"""Blocks an allocation of a measurement that is to be quoted; beyond `CLUSTERS` allocations the clock takes two."""

LONG_STAYS = 1
"""Allocations of it in which kernels make many calls on the timed workloads; any of them may be that one."""

DEARER, DEARER_US = 3.0, 2000.0
"""How many times what a timed call takes, and how many microseconds more, even the shortest of a check's calls on that workload must
take to be charged. Honest kernels have 0.8 to 1.3 times."""

LOG_CHARACTERS = 4000

UNTOLD = (Rung.GATE, Rung.MEASURE, Rung.CONFIRM)
"""Rungs of which nothing is told but the reason."""


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
        seeds: Kernels that the task comes with; what stands in them is nobody's invention.
        degenerate: Whether the task cannot tell kernels apart: every evaluation is then marked, and counts nowhere.
        timed_form: A contestant as it is to be timed, and why that is not without its host code, see `Machine.timed`.
        kept_bytes: What may be left in caches of a call's inputs when it begins.
        floors: Fitted floor of the time on each visible workload, microseconds (`evokern.statistics.roofline.floor_us`); where there is
            none, a plain copy is what `share` is of.
        outcomes: What the gate said of whom; nothing of it leaves before the held-out set is retired.
        reached: Told what is known of a kernel when it enters the gate, and when it has passed it: should nothing more be heard.
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
    seeds: Sequence[Kernel] = ()
    degenerate: bool = False
    timed_form: Callable[[KernelContestant, Kernel, Built], tuple[KernelContestant, str]] = lambda contestant, kernel, built: (
        contestant,
        "",
    )
    kept_bytes: int = 0
    floors: Mapping[str, float] = field(default_factory=dict)
    outcomes: gate.Outcomes = field(default_factory=gate.Outcomes)
    reached: Callable[[Evaluation], None] = lambda _: None
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
            read = self.describe(kernel, built)
            climb.evaluation = replace(climb.evaluation, descriptors=read, evidence=screen.evidence(kernel, read, self.seeds))
            if refusal := screen.refusal(climb.evaluation.evidence):
                return climb.fell(Fault(Verdict.SCREENED, Reason.FORBIDDEN_SYMBOL, refusal))
            self._judged += 1
            secret = self.secret.derive("judge", kernel.id, self._judged)
            with climb.rung(Rung.CHECK):
                checked = check.check(self.task, self.dtype, self.contestant(CANDIDATE, kernel, built), self.shelf, secret)
                climb.evaluation = replace(climb.evaluation, error=checked.error)
            with climb.rung(Rung.GATE):
                self.reached(climb.so_far())
                candidate, took = self.contestant(CANDIDATE, kernel, built), climb.seconds[str(Rung.CHECK)]
                answer = gate.gate(self.task, self.dtype, candidate, self.held_out, self.shelf, secret, took)
                self.outcomes.add(kernel.id, answer)
                answer.refuse()
                climb.evaluation = replace(climb.evaluation, passed_held_out=True)
            with climb.rung(Rung.MEASURE):
                self.reached(climb.so_far())
                _, unsealed = self._timed_contestant(CANDIDATE, kernel, built)
                if unsealed:
                    climb.evaluation = replace(climb.evaluation, descriptors={**climb.evaluation.descriptors, "unsealed": unsealed})
                climb.evaluation = replace(climb.evaluation, measurements=self._screened(kernel, built, incumbent, secret))
                self._refuse_dearer_untimed(climb.evaluation.measurements, checked.least_cpu_ns)
        except Fault as fault:
            return climb.fell(fault)
        return climb.passed()

    def confirm(self, kernel: Kernel, built: Built, previous: Evaluation, *, to_beat: float | None = None) -> Evaluation:
        """A second measurement, against the baseline, with new processes, memory, sets and orders; holds the lease.

        Args:
            kernel: Whose.
            built: Its product.
            previous: What was said of it so far; `objection` has none to it.
            to_beat: Logarithm of the score that it must beat to be kept: the measurement goes on until it is known whether it does.
                None where nothing hangs on it.
        """
        climb = _Climb(previous, built)
        if not built.ok:
            return climb.fell(_build_fault(built))
        self._judged += 1
        secret = self.secret.derive("confirm", kernel.id, self._judged)
        try:
            with climb.rung(Rung.CONFIRM):
                check.endured(self.task, self.dtype, self.contestant(CANDIDATE, kernel, built), self.shelf, secret)
                series = self.clock.compare(
                    self._timed_contestant(CANDIDATE, kernel, built)[0],
                    self.baselines,
                    self.timed,
                    secret,
                    clusters=MOST_CLUSTERS if to_beat is None else MOST_UNDECIDED,
                    blocks=CONFIRM_BLOCKS,
                    stop=settled(to_beat),
                    long_stays=LONG_STAYS,
                    only=self._sets(kernel, second=True),
                )
                fresh = [self._measurement(w, series[w.name], BASELINE, BASELINE) for w in self.timed]
                known = {m.workload: m for m in previous.measurements}
                measurements = tuple(merged(known[m.workload], m) if m.workload in known else m for m in fresh)
                climb.evaluation = replace(climb.evaluation, measurements=measurements, confirmed=True)
        except Fault as fault:
            return climb.fell(fault)
        return climb.passed()

    def objection(self, kernel: Kernel, previous: Evaluation) -> str:
        """What keeps an evaluation from being the first half of a kernel's confirmation; empty where nothing does."""
        about = (kernel.id, self.task.digest, str(self.dtype), self.degenerate)
        if (previous.kernel_id, previous.task_digest, previous.dtype, previous.degenerate) != about:
            return "is about another kernel, task or dtype"
        if not previous.passed or previous.passed_held_out is not True:
            return "did not pass"
        made_under = previous.fingerprint
        if made_under is None or previous.key != evaluation_key(kernel.id, self.task.digest, self.dtype, made_under):
            return "does not say what it depends on"
        return ""

    def holds_here(self, previous: Evaluation) -> bool:
        """Whether an evaluation was made under what holds now, or under the same with a held-out set that was retired since."""
        then, now = previous.fingerprint, self.fingerprint
        return then is not None and then.held_out_epoch <= now.held_out_epoch and replace(then, held_out_epoch=now.held_out_epoch) == now

    def _screened(self, kernel: Kernel, built: Built, incumbent: tuple[Kernel, Built] | None, secret: Secret) -> tuple[Measurement, ...]:
        opponent = self.baselines if incumbent is None else self._timed_contestant(INCUMBENT, *incumbent)[0]
        name = BASELINE if incumbent is None else INCUMBENT
        candidate, _ = self._timed_contestant(CANDIDATE, kernel, built)
        only = self._sets(kernel, second=False)
        series = self.clock.compare(candidate, opponent, self.timed, secret, clusters=MOST_CLUSTERS, stop=decided, only=only)
        return tuple(self._measurement(w, series[w.name], opponent.name, name) for w in self.timed)

    def _timed_contestant(self, name: str, kernel: Kernel, built: Built) -> tuple[KernelContestant, str]:
        return self.timed_form(self.contestant(name, kernel, built), kernel, built)

    def _sets(self, kernel: Kernel, *, second: bool) -> Callable[[Workload], Sequence[int]]:
        """The base sets that its screening, or its confirmation, takes; which they are is drawn for each kernel."""
        secret = self.secret.derive("sets", kernel.id)
        return lambda workload: self.shelf.half(workload, secret, second=second)

    def _refuse_dearer_untimed(self, measurements: Sequence[Measurement], untimed_ns: Mapping[str, int]) -> None:
        """Quarantine a kernel whose calls take far longer in its check than where they are timed: it tells the two apart."""
        if not self.clock.by_cpu_time:
            return  # timed by another clock
        for found in measurements:
            untimed_us = (untimed_ns.get(found.workload, 0) - self.clock.null_ns) / 1000
            if untimed_us > max(DEARER * found.time_us, found.time_us + DEARER_US):
                raise Fault(
                    Verdict.QUARANTINED,
                    Reason.CLOCK_MISMATCH,
                    f"{found.workload}: takes longer where it is not timed, {untimed_us:.0f} us instead of {found.time_us:.0f}",
                )

    def _measurement(self, workload: Workload, series: Series, opponent: str, as_name: str) -> Measurement:
        floor = self.floors.get(workload.name) or self.times[workload.name].times_us.get("copy")
        found = self.clock.measurement(workload, CANDIDATE, series, opponent, as_name, floor)
        if found is None:
            raise Fault(Verdict.INFRASTRUCTURE, Reason.NOISE, "the machine was too busy for a time that can be trusted")
        rate = self.clock.evictor.bytes_per_ns
        bound = least_ns(self.task, workload, self.dtype, bytes_per_ns=rate, kept_bytes=self.kept_bytes)
        # Wall time on a loaded machine scatters by more than a kernel takes; what is not above the null at all is `LEAST_TIME_NS`.
        launch = self.clock.resolution_ns if self.clock.by_cpu_time else LEAST_TIME_NS
        refuse_impossible(workload, found.time_us * 1000, bound, launch)
        return found

    def _blank(self, kernel: Kernel) -> Evaluation:
        key = evaluation_key(kernel.id, self.task.digest, self.dtype, self.fingerprint)
        return Evaluation(
            kernel.id, self.task.digest, str(self.dtype), Verdict.PASSED, fingerprint=self.fingerprint, key=key, degenerate=self.degenerate
        )


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

    def so_far(self) -> Evaluation:
        return replace(self.evaluation, rung=self.reached, seconds=dict(self.seconds))

    def fell(self, fault: Fault) -> Evaluation:
        held_out = False if fault.verdict is Verdict.HELD_OUT_FAILED else self.evaluation.passed_held_out
        detail, log = self._told(fault)
        return replace(
            self.evaluation, verdict=fault.verdict, reason=fault.reason, rung=self.reached, detail=detail, log=log, seconds=self.seconds,
            passed_held_out=held_out, confirmed=False,
        )  # fmt: skip

    def _told(self, fault: Fault) -> tuple[str, str]:
        """Detail and log. Beyond the check, what a kernel prints or returns could be the values of a call that others meet too."""
        if self.reached not in UNTOLD:
            return printable.line(fault.detail), printable.block(fault.log, LOG_CHARACTERS)
        # Of an opponent its own verdict and reason are told; those are words of closed lists.
        return (fault.detail if fault.reason is Reason.OPPONENT else REASONS[fault.reason]), ""

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
