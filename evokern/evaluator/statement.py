"""What engine and judge say to each other: one JSON object a line over a socket pair.

The engine sends `{"id": n, "op": name, "body": …}` and gets `{"id": n, "body": …}` or `{"id": n, "error": …}`; the judge may
send `{"say": text}` at any time. Bodies are the records below and the nouns.
"""

from __future__ import annotations

from dataclasses import dataclass

from evokern.evaluation import Evaluation, Fingerprint, Ratio, Tier
from evokern.kernel import Kernel
from evokern.task import DType


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
    """

    fingerprint: Fingerprint
    tier: Tier
    workloads: tuple[WorkloadTimes, ...]
    null_us: float
    resolution_us: float
    degenerate: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """One kernel to judge; body of "evaluate" and "confirm".

    Attributes:
        kernel: Whose verdict is asked for.
        incumbent: The champion to screen it against; None for the baseline.
        previous: The evaluation to confirm; None for "evaluate".
    """

    kernel: Kernel
    incumbent: Kernel | None = None
    previous: Evaluation | None = None


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
class Closing:
    """Answer to "finish".

    Attributes:
        rows: Visible and held-out workloads that are long enough to time.
        held_out_checked: Names of all held-out workloads, retired by being shown.
        held_out_passed: Whether the champion is right on all of them.
        speed_kept: Geomean speed-up on held-out workloads over that on visible ones; None where none is timed.
        detail: Why something could not be measured, in words.
    """

    rows: tuple[ClosingRow, ...]
    held_out_checked: tuple[str, ...]
    held_out_passed: bool
    speed_kept: float | None
    detail: str = ""
