"""Executors: where evaluations run.

`LocalExecutor` keeps one judge process on this machine and replaces it when it dies. Contract: `evaluate` and `confirm` are
idempotent by kernel, so that work which was in flight when something died is simply asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from evokern.evaluation import Evaluation
from evokern.evaluator.statement import Closing, Preparation
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

    async def confirm(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """A second, independent measurement against the baseline; the evaluation with `confirmed` and its numbers."""
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
