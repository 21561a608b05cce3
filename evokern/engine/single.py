"""One kernel judged on its own, without a run."""

from __future__ import annotations

from pathlib import Path

from evokern.engine.steward import Steward
from evokern.evaluation import Evaluation
from evokern.evaluator.signing import enroll
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
        preparation = await executor.open(lambda _: None)
        # A judge that this process started is one of the home's.
        enroll(Path(opening.home), preparation.judge)
        steward = Steward(executor, lambda _: None)
        evaluation = await steward.evaluate(candidate, None)
        return await steward.confirm(candidate, evaluation) if evaluation.passed else evaluation
    finally:
        await executor.close()
