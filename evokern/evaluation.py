"""Evaluation: what the evaluator says of one kernel. A bad kernel is a value, never an exception.

The verdict comes first, with a reason from a closed list; then measurements per workload, resources and descriptors, and
the fingerprint of everything that the verdict depends on. There is no fitness inside: fitness is a pure function of an
evaluation (`evokern.statistics`).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from enum import StrEnum

from evokern import record
from evokern.kernel import Candidate
from evokern.task import canonical_json


class Verdict(StrEnum):
    """How an evaluation ended."""

    PASSED = "passed"
    SCREENED = "screened"
    BUILD_FAILED = "build_failed"
    WRONG = "wrong"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    HELD_OUT_FAILED = "held_out_failed"
    FLAKY = "flaky"
    HACKED = "hacked"
    QUARANTINED = "quarantined"
    INFRASTRUCTURE = "infrastructure"


class Reason(StrEnum):
    """Why; the closed list that the docs and `evokern doctor` print. Each value's sentence is in `REASONS`."""

    NONE = "none"
    DUPLICATE = "duplicate"
    RESOURCES = "resources"
    FLAGS = "flags"
    UNSUPPORTED = "unsupported"
    SYNTAX = "syntax"
    COMPILER = "compiler"
    ENTRY = "entry"
    FORBIDDEN_FILE = "forbidden_file"
    SHAPE = "shape"
    DTYPE = "dtype"
    TOLERANCE = "tolerance"
    BIAS = "bias"
    NON_FINITE = "non_finite"
    LAW = "law"
    SENTINEL_LEFT = "sentinel_left"
    CANARY = "canary"
    INPUT_CHANGED = "input_changed"
    WORKSPACE_DIRTY = "workspace_dirty"
    NOT_REPEATABLE = "not_repeatable"
    EXIT = "exit"
    SIGNAL = "signal"
    MEMORY = "memory"
    PROCESSES = "processes"
    OUTPUT_FLOOD = "output_flood"
    REFUSED = "refused"
    DEADLINE_BUILD = "deadline_build"
    DEADLINE_RUN = "deadline_run"
    HELD_OUT = "held_out"
    RESIDUAL_WORK = "residual_work"
    EARLY_COMPLETION = "early_completion"
    PROTOCOL = "protocol"
    CLOCK_MISMATCH = "clock_mismatch"
    IMPOSSIBLE = "impossible"
    WEAR = "wear"
    FORBIDDEN_SYMBOL = "forbidden_symbol"
    NOISE = "noise"
    OPPONENT = "opponent"
    DEVICE_ERROR = "device_error"
    HOST_ERROR = "host_error"


REASONS: dict[Reason, str] = {
    Reason.NONE: "nothing to object to",
    Reason.DUPLICATE: "the same program was judged before",
    Reason.RESOURCES: "needs more of a resource than the device has",
    Reason.FLAGS: "asks for a compiler flag outside the white list",
    Reason.UNSUPPORTED: "no backend here takes this dialect or dtype yet",
    Reason.SYNTAX: "the source cannot be parsed",
    Reason.COMPILER: "the compiler refused it",
    Reason.ENTRY: "the built library has no such entry function",
    Reason.FORBIDDEN_FILE: "the source reads a file it may not",
    Reason.SHAPE: "an output has the wrong shape",
    Reason.DTYPE: "an output has the wrong element type",
    Reason.TOLERANCE: "an output is further from the float64 oracle than rounding explains",
    Reason.BIAS: "the outputs are shifted to one side",
    Reason.NON_FINITE: "infinities or NaNs differ from the oracle's",
    Reason.LAW: "a law that the task states does not hold",
    Reason.SENTINEL_LEFT: "some output element was never written",
    Reason.CANARY: "memory beside an output was written",
    Reason.INPUT_CHANGED: "an input was changed",
    Reason.WORKSPACE_DIRTY: "a workspace that must be zero again is not",
    Reason.NOT_REPEATABLE: "two calls on the same values differ too much",
    Reason.EXIT: "the process ended by itself",
    Reason.SIGNAL: "the process was ended by a signal",
    Reason.MEMORY: "more memory than allowed",
    Reason.PROCESSES: "more processes than allowed",
    Reason.OUTPUT_FLOOD: "printed more than allowed",
    Reason.REFUSED: "the kernel returned a non-zero status",
    Reason.DEADLINE_BUILD: "the build took too long",
    Reason.DEADLINE_RUN: "a call took too long",
    Reason.HELD_OUT: "wrong on a shape or layout it had not seen",
    Reason.RESIDUAL_WORK: "work went on after the kernel said it was done",
    Reason.EARLY_COMPLETION: "said it was done before the outputs were written",
    Reason.PROTOCOL: "sent something other than the one record that was due",
    Reason.CLOCK_MISMATCH: "two clocks disagree about its time",
    Reason.IMPOSSIBLE: "faster than the hardware can move the bytes",
    Reason.WEAR: "its calls take more time or memory the longer its process lives",
    Reason.FORBIDDEN_SYMBOL: "the built library asks the system for something that no kernel needs",
    Reason.OPPONENT: "the kernel it was timed against failed",
    Reason.NOISE: "the machine was too noisy for a number that can be trusted",
    Reason.DEVICE_ERROR: "the device failed",
    Reason.HOST_ERROR: "the machine failed, not the kernel",
}


class HeldOut(StrEnum):
    """A child's held-out result beside its parent's."""

    BOTH_PASS = "both_pass"
    REGRESSION = "regression"
    BOTH_FAIL = "both_fail"
    IMPROVEMENT = "improvement"


def held_out_outcome(*, parent: bool, child: bool) -> HeldOut:
    """The four-way outcome of two passes or failures."""
    if parent:
        return HeldOut.BOTH_PASS if child else HeldOut.REGRESSION
    return HeldOut.IMPROVEMENT if child else HeldOut.BOTH_FAIL


class Clock(StrEnum):
    """Whose clock a time was read on; never mixed (DESIGN section 6)."""

    JUDGED = "judged"
    STREAM = "stream"
    GRAPH = "graph"
    CALL = "call"


class Tier(StrEnum):
    """What start-up canaries found of the sandbox (EVALUATOR section 6)."""

    ISOLATED = "isolated"
    SANDBOXED = "sandboxed"
    UNSANDBOXED = "unsandboxed"


class Rung(StrEnum):
    """Steps of the ladder, cheapest first."""

    SCREEN = "screen"
    BUILD = "build"
    CHECK = "check"
    GATE = "gate"
    MEASURE = "measure"
    CONFIRM = "confirm"


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster the candidate is than an opponent, with a 95 % interval.

    Attributes:
        estimate: Opponent's time over the candidate's; above 1 the candidate is faster.
        low: Lower bound, > 0.
        high: Upper bound; `inf` where too few allocations were seen for one.
        pairs: Valid pairs behind it.
        clusters: Separate allocations behind it.
    """

    estimate: float
    low: float
    high: float
    pairs: int
    clusters: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed call as the judge saw it; nanoseconds.

    Attributes:
        who: "candidate" or the opponent's name.
        cluster: Index of the allocation.
        pair: Index of the pair within it.
        cpu_ns: CPU time of the slot over the threads granted, null not yet taken off.
        wall_ns: From GO to DONE on the judge's clock.
        void: Why it does not count; empty where it does.
        claimed_ns: What the runner said that the call took; shown, never scored.
        position: Which call of its process it was, from 0.
    """

    who: str
    cluster: int
    pair: int
    cpu_ns: int
    wall_ns: int
    void: str = ""
    claimed_ns: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class Measurement:
    """Times on one workload.

    Attributes:
        workload: The workload's name.
        clock: Whose clock `time_us` was read on.
        time_us: Median time of the candidate less the null, microseconds.
        null_us: Time of a call that does nothing.
        resolution_us: R, the spread of the null: what the clock can tell apart per call.
        share: Floor of the device over the time, see DESIGN section 6; None where the device has no fitted floor.
        versus: Ratio to each opponent, by its name.
        samples: Every call behind the numbers.
    """

    workload: str
    clock: Clock
    time_us: float
    null_us: float
    resolution_us: float
    share: float | None
    versus: dict[str, Ratio]
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Something about a kernel that an auditor should look at; never a verdict by itself.

    Attributes:
        code: Which kind, such as "symbol", "authored_share", "copied".
        detail: One line in words.
        line: Line of the source, from 1; 0 where it is about the whole.
    """

    code: str
    detail: str
    line: int = 0


class ProfileRung(StrEnum):
    """What a profile is made of, the most telling first; a figure of a lower rung never passes for one of a higher."""

    COUNTERS = "counters"
    RESOURCES = "resources"
    TIMING = "timing"


class Bottleneck(StrEnum):
    """What takes a kernel's time; each value's sentence is in `BOTTLENECKS`."""

    MEMORY = "memory"
    COMPUTE = "compute"
    LATENCY = "latency"
    LAUNCH = "launch"
    OCCUPANCY = "occupancy"
    SPILLS = "spills"
    UNKNOWN = "unknown"


BOTTLENECKS: dict[Bottleneck, str] = {
    Bottleneck.MEMORY: "it moves bytes about as fast as the device can, so moving fewer of them is what helps",
    Bottleneck.COMPUTE: "arithmetic or calls to functions take the time: fewer, cheaper or wider operations help",
    Bottleneck.LATENCY: "it waits: neither its bytes nor its operations explain its time; more independent work in flight helps",
    Bottleneck.LAUNCH: "most of its time is what any launch takes: fewer kernels, or more work in each, help",
    Bottleneck.OCCUPANCY: "too few threads are resident to hide waiting: fewer registers, less shared memory or smaller blocks help",
    Bottleneck.SPILLS: "values that found no register go through memory: smaller tiles, or fewer values alive at once, help",
    Bottleneck.UNKNOWN: "nothing is known of the device that its time could be held against",
}


@dataclass(frozen=True, slots=True)
class WorkloadProfile:
    """Where a kernel's time goes on one workload.

    Attributes:
        workload: Its name.
        time_us: Median time.
        bytes_read: What the task must read, at least.
        bytes_written: What it must write, at least.
        flops: Operations that the task counts.
        launch_us: Of the floor below: what a launch takes.
        memory_us: Of the floor: what reading and writing those bytes takes.
        compute_us: What the operations take at the device's best rate; None where that is not known.
        share: Floor over time, see DESIGN section 6; None where the device has no fitted floor.
        sol: SOL score, from 0 to 1: how much of the way from the baseline to the device's bound is gone; 1/2 is the baseline's own
            time. None where either is not known.
        bottleneck: What takes its time.
        why: The same in words, with the numbers that say so.
        counters: What the device counted, by the names of `evokern.statistics.roofline.COUNTERS`; empty on lower rungs.
    """

    workload: str
    time_us: float
    bytes_read: int
    bytes_written: int
    flops: int
    launch_us: float | None
    memory_us: float | None
    compute_us: float | None
    share: float | None
    sol: float | None
    bottleneck: Bottleneck
    why: str
    counters: dict[str, float] = field(default_factory=dict)

    @property
    def bytes_per_s(self) -> float:
        """Bytes that the task must move over the time."""
        return (self.bytes_read + self.bytes_written) / self.time_us * 1e6

    @property
    def flop_per_s(self) -> float:
        """Operations over the time."""
        return self.flops / self.time_us * 1e6


@dataclass(frozen=True, slots=True)
class Profile:
    """Where a kernel's time goes; for elites, and for whoever asks.

    Attributes:
        rung: What it is made of.
        bottleneck: That of the workload with the most room.
        workloads: One each, those that were timed.
        missing: Why each better rung was not to be had, in words, by its name.
    """

    rung: ProfileRung
    bottleneck: Bottleneck
    workloads: tuple[WorkloadProfile, ...]
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Everything a verdict depends on besides source and task; equal fingerprints may be compared.

    Attributes:
        evaluator: Name and version of the evaluator.
        backend: Name of the backend.
        device: Model of the processor or GPU.
        driver: Kernel release or driver version.
        compiler: Compiler and version.
        flags: Fixed flags, joined by blanks.
        libraries: Names and versions that baselines and oracle depend on.
        policy: Precision policy.
        threads: Threads granted.
        tier: Sandbox tier.
        limits: Limits of a slot as text.
        baselines: Names of the baselines measured.
        held_out_epoch: Index of the held-out set.
    """

    evaluator: str
    backend: str
    device: str
    driver: str
    compiler: str
    flags: str
    libraries: str
    policy: str
    threads: int
    tier: Tier
    limits: str
    baselines: tuple[str, ...]
    held_out_epoch: int

    @property
    def digest(self) -> str:
        """sha256 of all fields, hex."""
        return hashlib.sha256(canonical_json(record.to_json(self))).hexdigest()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the evaluator says of one kernel under one fingerprint.

    Attributes:
        kernel_id: Whose evaluation it is.
        task_digest: `Task.digest`.
        dtype: Element type.
        verdict: How it ended.
        reason: Why.
        detail: One line for the author, from visible phases only.
        rung: The last rung that was entered.
        confirmed: Whether a second, independent measurement agreed.
        passed_held_out: The gate's one bit; None where it was not reached.
        measurements: Per visible workload that is long enough to time.
        error: Worst error on visible workloads as a share of what the rule allows; None where nothing was checked.
        descriptors: What the kernel does, by name; cells are made of these.
        log: The compiler's or the process's text, capped; visible phases only.
        seconds: Wall time by rung.
        fingerprint: What the verdict depends on.
        key: `evaluation_key`; the evaluation of one key is made once.
        evidence: What the audit queue is told of.
        degenerate: Whether the task cannot tell kernels apart, so that the evaluation counts nowhere.
        judge: Public key of the judge that signed, hex; empty where it is not signed.
        signature: Its signature over everything else, hex; see `evokern.evaluator.signing`.
        profile: Where its time goes; None where nobody asked.
    """

    kernel_id: str
    task_digest: str
    dtype: str
    verdict: Verdict
    reason: Reason = Reason.NONE
    detail: str = ""
    rung: Rung = Rung.SCREEN
    confirmed: bool = False
    passed_held_out: bool | None = None
    measurements: tuple[Measurement, ...] = ()
    error: float | None = None
    descriptors: dict[str, str] = field(default_factory=dict)
    log: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    fingerprint: Fingerprint | None = None
    key: str = ""
    evidence: tuple[Evidence, ...] = ()
    degenerate: bool = False
    judge: str = ""
    signature: str = ""
    profile: Profile | None = None

    @property
    def passed(self) -> bool:
        """Whether the kernel may enter an archive once it is confirmed."""
        return self.verdict is Verdict.PASSED

    def versus(self, opponent: str) -> dict[str, Ratio]:
        """Ratio to one opponent by workload, where it was measured."""
        return {m.workload: m.versus[opponent] for m in self.measurements if opponent in m.versus}


BASELINE = "baseline"
"""Name of the opponent that every elite is measured against: the faster of the baselines on each workload."""

INCUMBENT = "incumbent"
"""Name of the opponent that candidates are screened against: the champion when the measurement began."""


def evaluation_key(kernel_id: str, task_digest: str, dtype: str, fingerprint: Fingerprint) -> str:
    """What an evaluation is keyed by: exact source, task bytes, dtype and fingerprint (EVALUATOR section 5)."""
    parts = ("evokern.evaluation/1", kernel_id, task_digest, dtype, fingerprint.digest)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Score:
    """A candidate's speed-up over the baseline, geometric mean over the timed workloads; natural logarithms.

    Attributes:
        log: Logarithm of the estimate.
        low: Logarithm of the lower bound.
        high: Logarithm of the upper bound.
    """

    log: float
    low: float
    high: float

    @property
    def ratio(self) -> Ratio:
        """The same as ratios; pairs and clusters are not known here."""
        return Ratio(math.exp(self.log), math.exp(self.low), math.exp(self.high), 0, 0)


@dataclass(frozen=True, slots=True)
class Elite:
    """A candidate that passed and was confirmed: what archives keep.

    Attributes:
        candidate: The kernel and its lineage.
        evaluation: Its confirmed evaluation.
        score: Speed-up over the baseline.
    """

    candidate: Candidate
    evaluation: Evaluation
    score: Score
