"""A batch of builds, side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

Job = TypeVar("Job")
Done = TypeVar("Done")


def finished(planned: Sequence[Job | Done], job: type[Job], make: Callable[[Job], Done], cpus: Collection[int]) -> list[Done]:
    """What is to be done is done, as many at a time as there are processors; what was done already stays in its place.

    Args:
        planned: Jobs, and results that there are already.
        job: The class of jobs, which tells the two apart.
        make: Does one job; called from several threads at once.
        cpus: Processors; those of this process where empty.
    """
    jobs = [one for one in planned if isinstance(one, job)]
    with ThreadPoolExecutor(max(1, min(len(jobs), len(cpus) or len(os.sched_getaffinity(0)))), "build") as workers:
        made = iter(list(workers.map(make, jobs)))
    return [next(made) if isinstance(one, job) else cast(Done, one) for one in planned]
