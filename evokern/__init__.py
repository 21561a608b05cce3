"""evokern: an evolutionary search engine for compute kernels.

A user gives a task (a PyTorch reference, shapes, tolerances) and a budget; evokern returns a kernel that is correct on
shapes it never saw and faster than the baselines, with an interval that says how sure that is.

Promised for every verdict: whether the kernel is right, and a lower bound of its speed-up. The evaluator's package
docstring (`evokern.evaluator`) says what is not promised.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evokern.evaluation import Evaluation
    from evokern.kernel import Kernel
    from evokern.task import DType

__version__ = "0.1.0"


def evaluate(
    kernel: Kernel,
    *,
    task: str,
    backend: str = "cpu",
    dtype: DType | None = None,
    threads: int = 1,
    home: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    profiled: bool = False,
) -> Evaluation:
    """Judge one kernel: build, check, held-out gate, measurement against the baselines, confirmation.

    Args:
        kernel: What to judge.
        task: Name of a task, or path of its folder.
        backend: Name of a backend.
        dtype: Element type; None for the task's default there.
        threads: Threads granted.
        home: Folder for build products and caches; None for the usual one.
        say: Told what takes time: the first verdict on a task waits for its baselines.
        profiled: Whether the evaluation of a kernel that passed is to hold a profile made with all that the device counts.

    Raises:
        EvokernError: The task or the machine does not allow it. A bad kernel raises nothing: its evaluation says so.
    """
    import asyncio

    from evokern.engine import judge_once
    from evokern.evaluator.catalogue import find_task
    from evokern.evaluator.statement import Opening
    from evokern.store import home as find_home
    from evokern.task import default_dtype

    found = find_task(task)
    folder = (home or find_home()).resolve()
    chosen = dtype or default_dtype(found, gpu=backend != "cpu")
    return asyncio.run(judge_once(kernel, Opening(str(found.folder), chosen, backend, threads, str(folder)), say, profiled=profiled))
