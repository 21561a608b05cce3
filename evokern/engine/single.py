"""One kernel judged on its own, without a run."""

from __future__ import annotations

from pathlib import Path

from evokern.evaluation import Evaluation
from evokern.evaluator.statement import Opening
from evokern.executor.local import LocalExecutor
from evokern.kernel import Candidate, Kernel


async def judge_once(kernel: Kernel, opening: Opening) -> Evaluation:
    """One kernel up the whole ladder against the baseline, confirmed where it passed.

    Args:
        kernel: The kernel.
        opening: Task, dtype, backend, home.

    Raises:
        EvokernError: The task or the machine does not allow it.
    """
    executor = LocalExecutor(opening, in_flight=1)
    candidate = Candidate(kernel, Path(opening.task_folder).name, opening.dtype)
    try:
        await executor.open(lambda _: None)
        evaluation = await executor.evaluate(candidate, None)
        return await executor.confirm(candidate, evaluation) if evaluation.passed else evaluation
    finally:
        await executor.close()
