"""A task that is quick to judge: softmax with one workload that is just long enough to time."""

from __future__ import annotations

from pathlib import Path

from evokern.study.small import shrunk
from evokern.task import load_task

CORE = Path(__file__).parents[2] / "benchmarks" / "tasks" / "core"


def small_softmax(folder: Path, *, held_out: int = 3) -> Path:
    """A copy of the core task in `folder` with smaller shapes.

    Args:
        folder: Becomes the suite.
        held_out: How many held-out shapes; nine have one of every kind.
    """
    return shrunk(load_task(CORE / "softmax"), folder, held_out=held_out)
