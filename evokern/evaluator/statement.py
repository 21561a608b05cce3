"""What engine and judge say to each other: one JSON object a line over a socket pair.

The engine sends `{"id": n, "op": name, "body": …}` and gets `{"id": n, "body": …}` or `{"id": n, "error": …}`; the judge may
send `{"say": text}` at any time, `{"worn": epoch}` where the gate has told as much as it may of that epoch's held-out set, and
`{"reached": evaluation}` when a kernel enters the gate or leaves it: what holds should the judge die of it there. Bodies are the
records below and the nouns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from evokern.evaluation import REASONS, Evaluation, Fingerprint, Ratio, Reason, Rung, Tier, Verdict
from evokern.kernel import Kernel
from evokern.task import DType

GATE_BITS = 256
"""Answers of the gate per held-out set where nothing else is known of it: at a bit each they tell less than one key of 32 bytes."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a judge must know to begin; body of "open".

    Attributes:
        task_folder: Where the task is.
        dtype: Element type.
        backend: Name of the backend.
        threads: Threads granted to a kernel.
        home: Folder for build products, caches and keys.
        key_name: Name of the file that keeps the run's key; empty for a key that nothing keeps.
        builds: Compilers at a time.
        baselines: Names of the baselines to measure.
        degenerate: Whether a task that fails admission may be opened.
        epoch: Index of the held-out set: how often one was retired before.
    """

    task_folder: str
    dtype: DType
    backend: str
    threads: int
    home: str
    key_name: str = ""
    builds: int = 2
    baselines: tuple[str, ...] = ("eager", "compile")
    degenerate: bool = False
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadTimes:
    """Times of what is there already, on one visible workload; microseconds, judge's clock less the null.

    Attributes:
        workload: Its name.
        timed: Whether the best baseline takes long enough for the judge's clock.
        times_us: By name: each baseline, and "copy", a plain copy of as many bytes as the task moves.
        best: Name of the fastest baseline.
    """

    workload: str
    timed: bool
    times_us: dict[str, float]
    best: str


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a judge found before the run's clock starts; answer to "open".

    Attributes:
        fingerprint: What its verdicts depend on.
        tier: Of the sandbox.
        workloads: Baselines per visible workload.
        null_us: Time of a call that does nothing.
        resolution_us: Spread of it.
        degenerate: Why the task cannot tell kernels apart; empty for a sound task.
        seconds: Wall time of the preparation.
        gate_bits: Answers after which the held-out set could be known, and is to be retired.
        ceilings: What the device does at best, by name (`evokern.backend.Device.ceilings`); empty on a processor.
        judge: Public key of the judge, hex.
        signature: Its signature over the rest, hex.
    """

    fingerprint: Fingerprint
    tier: Tier
    workloads: tuple[WorkloadTimes, ...]
    null_us: float
    resolution_us: float
    degenerate: tuple[str, ...] = ()
    seconds: float = 0.0
    gate_bits: int = GATE_BITS
    judge: str = ""
    signature: str = ""
    ceilings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One kernel to judge; body of "evaluate", "confirm" and "profile".

    Attributes:
        kernel: Whose verdict is asked for.
        incumbent: The champion to screen it against; None for the baseline.
        previous: The evaluation to confirm; None for "evaluate".
        anew: Whether the earlier numbers of `previous` are forgotten: a champion is measured again.
        to_beat: Logarithm of the score that it must beat to be kept, so that a confirmation is long enough to tell; None for nothing.
    """

    kernel: Kernel
    incumbent: Kernel | None = None
    previous: Evaluation | None = None
    anew: bool = False
    to_beat: float | None = None


@dataclass(frozen=True, slots=True)
class ClosingRow:
    """The champion on one workload, measured once more at the end.

    Attributes:
        workload: Its name.
        held_out: Whether it was secret until now.
        time_us: The champion's median time.
        times_us: As in `WorkloadTimes`, with the seed under "seed".
        best: Name of the fastest baseline.
        versus: Ratio to each opponent.
        share: Copy time over the champion's time.
    """

    workload: str
    held_out: bool
    time_us: float
    times_us: dict[str, float]
    best: str
    versus: dict[str, Ratio]
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """Body of "finish": the held-out set is retired with it."""

    champion: Kernel
    seed: Kernel | None


@dataclass(frozen=True, slots=True)
class Rotation:
    """Body of "rotate": the held-out set of another epoch takes over.

    Attributes:
        epoch: Its index.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class Health:
    """Answer to "probe".

    Attributes:
        ok: Whether the machine can be trusted with a verdict.
        detail: What is wrong, one line; empty where nothing is.
        seconds: Wall time of the probe.
    """

    ok: bool
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Closing:
    """Answer to "finish".

    Attributes:
        rows: Visible and held-out workloads that are long enough to time.
        held_out_checked: Names of all held-out workloads, retired by being shown.
        held_out_passed: Whether the champion is right on all of them.
        speed_kept: Geomean speed-up on held-out workloads over that on visible ones; None where none is timed.
        detail: Why something could not be measured, in words.
        judge: Public key of the judge, hex.
        signature: Its signature over the rest, hex.
    """

    rows: tuple[ClosingRow, ...]
    held_out_checked: tuple[str, ...]
    held_out_passed: bool
    speed_kept: float | None
    detail: str = ""
    judge: str = ""
    signature: str = ""


def charged(evaluation: Evaluation) -> Evaluation:
    """The verdict on a kernel under which a sound machine failed twice alone: it is the kernel's fault."""
    if evaluation.rung is Rung.GATE:  # whatever happens there is told as one bit
        return replace(
            evaluation, verdict=Verdict.HELD_OUT_FAILED, reason=Reason.HELD_OUT, detail=REASONS[Reason.HELD_OUT], log="",
            passed_held_out=False, confirmed=False,
        )  # fmt: skip
    verdict = Verdict.FLAKY if evaluation.reason in (Reason.NOISE, Reason.OPPONENT) else Verdict.CRASHED
    detail = f"twice, alone on a sound machine: {evaluation.detail or REASONS[evaluation.reason]}"
    return replace(evaluation, verdict=verdict, detail=detail, confirmed=False)
