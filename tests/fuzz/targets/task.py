"""A task's folder that a user wrote."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evokern.errors import EvokernError
from evokern.task import DType, constraints_hold, load_task, task_to_json
from tests.fuzz.harness import halves

_REFERENCE = "def run(x):\n    return x\n"


def once(data: bytes) -> None:
    table, reference = halves(data)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        (folder / "task.toml").write_bytes(table.encode("utf-8", "surrogateescape"))
        (folder / "reference.py").write_bytes((reference or _REFERENCE).encode("utf-8", "surrogateescape"))
        try:
            task = load_task(folder)
        except EvokernError as error:
            assert "\n" not in error.line
            return
    task_to_json(task)
    for workload in task.search:
        axes = dict(workload.axes)
        assert constraints_hold(task.constraints, axes)
        try:
            task.bytes_moved(axes, DType.FLOAT32)
            [argument.shape_for(axes) for argument in task.arguments]
        except EvokernError:
            continue
