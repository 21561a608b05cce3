"""A task that is quick to judge: softmax with one workload that is just long enough to time."""

from __future__ import annotations

import shutil
from pathlib import Path

CORE = Path(__file__).parents[2] / "benchmarks" / "tasks" / "core"


def small_softmax(folder: Path, *, held_out: int = 3) -> Path:
    """A copy of the core task in `folder` with smaller shapes.

    Args:
        folder: Becomes the suite.
        held_out: How many held-out shapes; nine have one of every kind.
    """
    task = folder / "softmax_small"
    shutil.copytree(CORE / "softmax", task)
    text = (task / "task.toml").read_text()
    for before, after in (
        ('name = "softmax"', 'name = "softmax_small"'),
        ("rows = 1024, cols = 4096", "rows = 512, cols = 2048"),
        ("rows = 2048, cols = 1003", "rows = 67, cols = 1003"),
        ("max_elements = 4194304", "max_elements = 1500000"),
        ("count = 9", f"count = {held_out}"),
    ):
        assert before in text
        text = text.replace(before, after)
    (task / "task.toml").write_text(text)
    return task
