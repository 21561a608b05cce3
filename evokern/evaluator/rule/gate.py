"""Gate: whether a kernel is right on shapes and layouts that it has not seen. One bit leaves (EVALUATOR section 4).

A kernel knows the shapes that it is called on, and whatever it does there that anybody can tell apart is a letter to its author: an error,
its text or class, a hang, memory, an exit, the length of the answer, how often the machine had to try again. All of it ends
here. What leaves is passed or not, at one of few times that were fixed before the first call; the earlier of them follows
from the kernel's own visible calls. An answer that misses the first time says a little more, and is counted so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from evokern.errors import Unavailable
from evokern.evaluation import REASONS, HeldOut, Ratio, Reason, Verdict, held_out_outcome
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.contestant import KernelContestant
from evokern.evaluator.reference.held_out import HeldOutWorkload
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.rule.trial import Trial, held_out_points
from evokern.evaluator.secrecy import Secret
from evokern.task import DType, Task

QUANTUM_SECONDS = 0.1
"""Exit times are multiples of it."""

FIRST_SHARE = 1.5
"""First exit time over the time of the kernel's own check, which makes about as many calls: of most kernels a gate takes 0.8 to 1.3 of it.
At 1.3 times it 43 of 185 answers on a small softmax came at the second exit."""

EXITS = (1, 2, 16)
"""Exit times over the first: one for the normal case, one for a machine that was busy, and one at which whoever is not done has
failed."""

ATTEMPTS = 2
"""How often a kernel is tried that the machine may have failed."""

MACHINE = (Reason.DEADLINE_RUN, Reason.MEMORY, Reason.DEVICE_ERROR, Reason.HOST_ERROR)
"""Reasons after which it is tried again, alone, without a word."""

DETAIL = REASONS[Reason.HELD_OUT]


@dataclass(frozen=True, slots=True)
class Answer:
    """What leaves the gate.

    Attributes:
        passed: The bit.
        bits: What the answer may have told, its time of leaving included.
    """

    passed: bool
    bits: int

    def refuse(self) -> None:
        """Raise the fault of a kernel that failed, the same for all.

        Raises:
            Fault: It failed.
        """
        if not self.passed:
            raise Fault(Verdict.HELD_OUT_FAILED, Reason.HELD_OUT, DETAIL)


def gate(
    task: Task,
    dtype: DType,
    contestant: KernelContestant,
    workloads: Sequence[HeldOutWorkload],
    shelf: Shelf,
    secret: Secret,
    check_seconds: float,
) -> Answer:
    """The held-out workloads, shuffled among visible ones; the answer leaves at one of the exit times.

    Args:
        task: What the kernel should do.
        dtype: Element type.
        contestant: The kernel.
        workloads: The secret ones of the epoch.
        shelf: Sets of inputs.
        secret: Chance.
        check_seconds: What the kernel's check took, known to everybody.

    Raises:
        Unavailable: The evaluator itself cannot go on.
    """
    return leaving(exits(check_seconds), lambda end: _passes(task, dtype, contestant, workloads, shelf, secret, end))


def exits(check_seconds: float) -> tuple[float, ...]:
    """Seconds after its beginning at which a gate may answer."""
    first = QUANTUM_SECONDS * math.ceil(FIRST_SHARE * check_seconds / QUANTUM_SECONDS)
    return tuple(first * factor for factor in EXITS)


def leaving(times: Sequence[float], passes: Callable[[float], bool]) -> Answer:
    """Ask, and answer at the first exit time that is not over.

    Args:
        times: Seconds from now, rising.
        passes: Told the monotonic time by which it must be done.
    """
    start = time.monotonic()
    passed = passes(start + times[-1])
    done = time.monotonic() - start
    exit_ = next((i for i, at in enumerate(times) if done <= at), len(times) - 1)
    time.sleep(max(0.0, start + times[exit_] - time.monotonic()))
    return Answer(passed and done <= times[-1], 1 + 2 * exit_)


def _passes(
    task: Task, dtype: DType, contestant: KernelContestant, workloads: Sequence[HeldOutWorkload], shelf: Shelf, secret: Secret, end: float
) -> bool:
    for attempt in range(ATTEMPTS):
        try:
            _call_all(task, dtype, contestant, workloads, shelf, secret.derive(attempt), end)
        except Fault as fault:
            if fault.verdict is not Verdict.INFRASTRUCTURE and fault.reason not in MACHINE:
                return False
        except Unavailable:
            raise
        except Exception:  # its text may name a held-out shape
            continue
        else:
            return True
        if time.monotonic() >= end:
            break
    return False


def _call_all(
    task: Task, dtype: DType, contestant: KernelContestant, workloads: Sequence[HeldOutWorkload], shelf: Shelf, secret: Secret, end: float
) -> None:
    points = held_out_points(task, workloads)
    rng = secret.stream("gate")
    with contestant.started([dict(p.axes) for p in points]) as caller:
        trial = Trial(task, dtype, caller, shelf)
        for i in rng.permutation(len(points)):
            left = end - time.monotonic()
            if left <= 0:
                raise Fault(Verdict.TIMED_OUT, Reason.DEADLINE_RUN)
            trial.call(points[i], rng, seconds=left)


@dataclass
class Outcomes:
    """What the gate said of each kernel of an epoch, kept by the judge until the set is retired.

    Attributes:
        passed: By kernel.
        bits: Told since the set was drawn.
    """

    passed: dict[str, bool] = field(default_factory=dict)
    bits: int = 0

    def add(self, kernel_id: str, answer: Answer) -> None:
        """Keep an answer."""
        self.passed[kernel_id] = answer.passed
        self.bits += answer.bits

    def between(self, parent_id: str, child_id: str) -> HeldOut | None:
        """The four-way outcome of a child beside its parent; None where one of them was not gated."""
        if parent_id not in self.passed or child_id not in self.passed:
            return None
        return held_out_outcome(parent=self.passed[parent_id], child=self.passed[child_id])

    def retire(self) -> None:
        """Forget all of it, with the set that it was about."""
        self.passed.clear()
        self.bits = 0


def slower(ratios: Mapping[str, Ratio]) -> tuple[str, ...]:
    """Workloads on which a kernel is slower than what it was timed against, so that it should not be dispatched there.

    Args:
        ratios: Opponent's time over the kernel's, by held-out workload; told when the set is retired.
    """
    return tuple(name for name, ratio in ratios.items() if ratio.high < 1.0)
