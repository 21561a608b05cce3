"""Contract: a task as whoever writes a kernel for it must know it.

What an operator's model is told, and nothing more: the visible workloads, never a range that secret shapes are drawn from.
"""

from __future__ import annotations

from typing import Any

from evokern import record
from evokern.event import RunSettings
from evokern.kernel import SUFFIXES
from evokern.operators.prompt import contract
from evokern.task import LAWS, Task


def contract_document(task: Task, settings: RunSettings, dialect: str) -> dict[str, Any]:
    """What is asked for, in which form.

    Args:
        task: The task.
        settings: Element type, backend, threads.
        dialect: Of the kernels.

    Returns:
        `arguments` in the order of the call, `workloads` that are seen, `tolerance`, `laws`, `contract` (how a kernel must look, and the
        reference, as text), and `example`: the task's own seed, or None.
    """
    return {
        "task": task.name,
        "description": task.description,
        "backend": settings.backend,
        "dialect": dialect,
        "file_ending": SUFFIXES[dialect],
        "dtype": str(settings.dtype),
        "policy": task.policy,
        "threads": settings.threads,
        "arguments": [
            {"name": a.name, "role": str(a.role), "shape": list(a.shape), "dtype": str(a.dtype_for(settings.dtype)), "value": a.value}
            for a in task.arguments
        ],
        "axes": list(task.axes),
        "constraints": list(task.constraints),
        "workloads": [{"name": w.name, "axes": dict(w.axes), "residency": w.residency} for w in task.search],
        "tolerance": record.to_json(task.tolerance),
        "deterministic": task.deterministic,
        "laws": {law: LAWS[law] for law in task.laws},
        "contract": contract(task, settings.dtype, dialect),
        "example": example(task, settings, dialect),
    }


def example(task: Task, settings: RunSettings, dialect: str) -> str | None:
    """Source of the task's seed in a dialect; one for another element type where there is none for this."""
    dtypes = [settings.dtype, *(dtype for dtype in task.dtypes if dtype != settings.dtype)]
    for dtype in dtypes:
        path = task.folder / "seeds" / f"{dialect}-{dtype}{SUFFIXES[dialect]}"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None
