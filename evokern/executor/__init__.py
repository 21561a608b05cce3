"""Executors: where evaluations run.

`LocalExecutor` keeps one judge process on this machine and replaces it when it dies. Contract: `evaluate` and `confirm` are
idempotent by kernel, so that work which was in flight when something died is simply asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from evokern.evaluation import Evaluation
from evokern.evaluator.signing import Seal
from evokern.evaluator.statement import Closing, Health, Preparation
from evokern.kernel import Candidate, Kernel


class Executor(Protocol):
    """Where evaluations run."""

    async def open(self, say: Callable[[str], None]) -> Preparation:
        """Make ready: builders, oracle, baselines; `say` is told what takes time.

        Raises:
            EvokernError: The task or the machine does not allow it; the message says why.
        """
        ...

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        """One kernel up the ladder, screened against the incumbent, or the baseline where there is none."""
        ...

    async def confirm(self, candidate: Candidate, evaluation: Evaluation, to_beat: float | None = None) -> Evaluation:
        """A second, independent measurement against the baseline; the evaluation with `confirmed` and its numbers.

        Args:
            candidate: Which kernel.
            evaluation: What was said of it so far.
            to_beat: Logarithm of the score that it must beat to be kept: the measurement is long enough to tell. None for nothing.
        """
        ...

    async def remeasure(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """As `confirm`, for a kernel that was confirmed before: its earlier numbers are forgotten."""
        ...

    async def profile(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """A passed kernel's evaluation with where its time goes, by the device's counters where it has them; takes seconds."""
        ...

    async def charge(self, evaluation: Evaluation) -> Evaluation:
        """The judge's verdict on a kernel under which a sound machine failed twice alone: it is the kernel's fault."""
        ...

    async def probe(self) -> Health:
        """Whether the machine still does a known piece of work."""
        ...

    async def restart(self) -> None:
        """Replace the judge, whatever state it is in.

        Raises:
            EvokernError: It cannot be opened any more.
        """
        ...

    async def rotate(self, epoch: int) -> Preparation:
        """Retire the held-out set for that of another epoch."""
        ...

    def is_worn(self) -> bool:
        """Whether the judge asks for another held-out set before the engine's own count of answers does: late ones tell more."""
        ...

    async def seal(self, head: Seal) -> Seal:
        """The judge's signature over the head of a run's chain."""
        ...

    async def finish(self, champion: Kernel, seed: Kernel | None) -> Closing:
        """The champion measured once more, and the held-out set retired."""
        ...

    def capacity(self) -> int:
        """How many evaluations may be in flight."""
        ...

    async def close(self) -> None:
        """End every process."""
        ...


__all__ = ["Executor"]
