"""One kernel judged on its own, without a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evokern.engine.steward import Steward
from evokern.evaluation import Evaluation
from evokern.evaluator.signing import enroll
from evokern.evaluator.statement import Opening
from evokern.executor.local import LocalExecutor
from evokern.kernel import Candidate, Kernel


async def judge_once(
    kernel: Kernel, opening: Opening, say: Callable[[str], None] = lambda _: None, *, profiled: bool = False
) -> Evaluation:
    """One kernel up the whole ladder against the baseline, confirmed where it passed.

    Args:
        kernel: The kernel.
        opening: Task, dtype, backend, home.
        say: Told what takes time.
        profiled: Whether where its time goes is to be found out too, by the device's counters where it has them.

    Raises:
        EvokernError: The task or the machine does not allow it.
    """
    executor = LocalExecutor(opening, in_flight=1)
    candidate = Candidate(kernel, Path(opening.task_folder).name, opening.dtype)
    try:
        preparation = await executor.open(say)
        # A judge that this process started is one of the home's.
        enroll(Path(opening.home), preparation.judge)
        steward = Steward(executor, say)
        say(f"ready after {preparation.seconds:.0f} s; judging")
        evaluation = await steward.evaluate(candidate, None)
        if evaluation.passed:
            evaluation = await steward.confirm(candidate, evaluation)
        if profiled and evaluation.passed:
            say("profiling")
            evaluation = await executor.profile(candidate, evaluation)
        return evaluation
    finally:
        await executor.close()
