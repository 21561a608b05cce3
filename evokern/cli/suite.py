"""A suite of tasks in another's format, checked whole: `evokern task check --format`."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evokern.evaluator.reference.published import Column, Module
    from evokern.export.suites.kernelbench import Problem
    from evokern.sandbox.slot import Slot
    from evokern.sandbox.spawner import Spawner

FORMATS = ("kernelbench",)

SECONDS = 60.0
"""Wall time of one task."""

MEMORY = 4 << 30
"""Bytes of one task."""

MOST_PUBLISHED = (24 << 20, 300 << 20, 5 * 10**9)
"""Elements, parameters and flops of one call on the module's own inputs: what an output is summed over stays long."""

MOST_EVOKERN = (2 << 20, 8 << 20, 5 * 10**8)
"""The same where values are drawn by evokern and judged relative to what eager achieves: sizes matter less."""

RULES = 2
"""Counted up when a row says something else of the same source; kept rows of another number are made anew."""


def check_suite(path: Path, only: Sequence[str], *, scratch: Path, parallel: int, keep: Path | None) -> Iterator[dict[str, Any]]:
    """Check the problems of a KernelBench checkout, in slots.

    Args:
        path: The checkout.
        only: Levels and problems; empty for all.
        scratch: Folder for the processes' log.
        parallel: Tasks at a time.
        keep: File of rows of an earlier call, one JSON object a line: what is there is not checked again, and what is checked
            is added at once. None to keep nothing.

    Yields:
        A row per problem as it is done; see `row_of`.

    Raises:
        UsageError: There are no problems, or `keep` holds something else.
        Unavailable: No slot can be made, or `keep` cannot be written.
    """
    from evokern.evaluator.reference import published
    from evokern.export.suites.kernelbench import find_problems
    from evokern.sandbox.spawner import Spawner

    problems = find_problems(path, only)
    known = _kept(keep)
    waiting = [p for p in problems if _key(p) not in known]
    yield from (known[_key(p)] for p in problems if _key(p) in known)
    if not waiting:
        return
    with Spawner.start({"torch": list(published.MODULES)}, scratch=scratch) as spawner, ThreadPoolExecutor(parallel) as pool:
        running = [pool.submit(row_of, spawner, problem) for problem in waiting]
        try:
            for done in as_completed(running):
                row = done.result()
                _keep(keep, row)
                yield row
        finally:
            for future in running:
                future.cancel()


def row_of(spawner: Spawner, problem: Problem) -> dict[str, Any]:
    """What is found of one problem.

    Returns:
        `task`, `name`, `key`, `skipped` (why, or empty), `degenerate`, `as_published` and `under_evokern` (each `degenerate`,
        `reasons`, `flaws`, `notes`, `sizes`, or None where it was not answered), `seconds`.
    """
    from evokern.errors import EvokernError
    from evokern.evaluator.reference import published
    from evokern.evaluator.session import python_folders
    from evokern.export.suites import kernelbench
    from evokern.sandbox.limits import Limits
    from evokern.sandbox.policy import Policy

    start = time.monotonic()
    row: dict[str, Any] = {"task": problem.id, "name": problem.name, "key": _key(problem), "skipped": kernelbench.fault(problem.source)}
    row |= {"degenerate": False, "as_published": None, "under_evokern": None, "seconds": 0.0}
    if not row["skipped"] and len(problem.source.encode()) > published.MAX_SOURCE:
        row["skipped"] = f"is longer than {published.MAX_SOURCE} bytes"
    if row["skipped"]:
        return row
    limits = Limits(memory_bytes=MEMORY, processes=64, output_bytes=1 << 24)
    slot = spawner.slot(
        published.ENTRY, zygote="torch", descriptors=[], argument=b"", limits=limits, policy=Policy.TORCH, readable=python_folders()
    )
    try:
        _ask(published.Module(slot.socket, SECONDS), problem.source, row)
    except EvokernError as error:
        row["skipped"] = _why(slot, error)
    finally:
        slot.kill()
    columns = [row[name] for name in ("as_published", "under_evokern") if row[name]]
    row["degenerate"] = any(column["degenerate"] for column in columns)
    row["seconds"] = round(time.monotonic() - start, 2)
    return row


def _ask(module: Module, source: str, row: dict[str, Any]) -> None:
    from evokern.errors import EvokernError, Unavailable
    from evokern.export.suites import kernelbench

    def measure(text: str) -> kernelbench.Size:
        found = module.size(text)
        shapes = tuple(tuple(int(n) for n in shape) for shape in found["shapes"])
        return kernelbench.Size(shapes, int(found["elements"]), int(found["parameters"]), int(found["flops"]))

    large = kernelbench.shrunk(source, measure, kernelbench.Most(*MOST_PUBLISHED))
    known = None
    try:
        small = kernelbench.shrunk(large.source, measure, kernelbench.Most(*MOST_EVOKERN))
        known = module.under_evokern(small.source)
        row["under_evokern"] = _document(known, {**large.sizes, **small.sizes})
    except Unavailable:
        raise
    except EvokernError as error:
        row["under_evokern"] = {"degenerate": None, "reasons": [], "flaws": [], "notes": [f"not judged: {error.what}"], "sizes": {}}
    row["as_published"] = _document(module.as_published(large.source, known), large.sizes)


def _document(column: Column, sizes: Mapping[str, int]) -> dict[str, Any]:
    return {
        "degenerate": bool(column.flaws) if column.sets else None,
        "reasons": [flaw.text for flaw in column.flaws],
        "flaws": [{"kind": flaw.kind, "tolerance": flaw.tolerance} for flaw in column.flaws],
        "notes": list(column.notes),
        "sizes": dict(sizes),
    }


def _why(slot: Slot, error: Any) -> str:
    """Why a task was skipped; a slot that ended is asked how."""
    from evokern.errors import Unavailable

    if isinstance(error, Unavailable) and "ended" in error.what:
        death = slot.kill()
        return f"needs more than {MEMORY >> 30} GiB" if death.out_of_memory else f"its process ended with status {death.status}"
    return str(error.what)


def _key(problem: Problem) -> str:
    """What a row depends on."""
    import evokern

    text = f"{RULES}\0{evokern.__version__}\0{problem.id}\0{problem.source}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kept(keep: Path | None) -> dict[str, dict[str, Any]]:
    from evokern.errors import UsageError

    if keep is None or not keep.exists():
        return {}
    try:
        # A line that was cut off by a crash is made again.
        lines = [line for line in keep.read_text().split("\n")[:-1] if line]
        return {row["key"]: row for row in map(json.loads, lines)}
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UsageError(f"holds no rows of an earlier check: {error}", where=str(keep), mend="Give another file") from error


def _keep(keep: Path | None, row: Mapping[str, Any]) -> None:
    from evokern.errors import Unavailable

    if keep is None:
        return
    try:
        with keep.open("a+") as stream:
            stream.seek(0)
            text = stream.read()
            if text and not text.endswith("\n"):
                stream.truncate(text.rfind("\n") + 1)
            stream.write(json.dumps(row) + "\n")
    except OSError as error:
        raise Unavailable(f"cannot be written: {error.strerror}", where=str(keep)) from error


def default_parallel() -> int:
    """One task per processor, as far as memory goes."""
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)), pages // MEMORY))


def progress(row: Mapping[str, Any], done: int, of: int) -> str:
    """One line about one row."""
    if row["skipped"]:
        return f"{done}/{of} {row['task']} {row['name']}: skipped, {row['skipped']}"
    words = ", ".join(f"{title} {_word(row[name])}" for name, title in COLUMNS)
    return f"{done}/{of} {row['task']} {row['name']}: {words}"


COLUMNS = (("as_published", "as published"), ("under_evokern", "under evokern"))


def _word(column: Mapping[str, Any] | None) -> str:
    if column is None or column["degenerate"] is None:
        return "not judged"
    return "degenerate" if column["degenerate"] else "sound"


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts over rows: `checked`, `skipped`, and per column how many are degenerate, sound, or not judged, and of which kind."""
    checked = [row for row in rows if not row["skipped"]]
    counts: dict[str, Any] = {"checked": len(checked), "skipped": len(rows) - len(checked)}
    for name, _ in COLUMNS:
        words = [_word(row[name]) for row in checked]
        kinds = [{flaw["kind"] for flaw in row[name]["flaws"]} for row in checked if row[name]]
        counts[name] = {word.replace(" ", "_"): words.count(word) for word in ("degenerate", "sound", "not judged")}
        counts[name]["kinds"] = {k: sum(k in found for found in kinds) for k in ("null", "operator", "input", "parameter", "reference")}
    return counts


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows for people: the two columns, then the reasons of those that are degenerate, then the skipped ones."""
    from evokern.report.tables import aligned

    checked = [row for row in rows if not row["skipped"]]
    cells = [[f"{row['task']} {row['name']}", *(_word(row[name]) for name, _ in COLUMNS)] for row in checked]
    parts = [aligned(["task", *(title for _, title in COLUMNS)], cells)] if cells else []
    for row in checked:
        for name, title in COLUMNS:
            reasons = row[name]["reasons"] if row[name] else []
            parts += [f"{row['task']} {title}: {reason}" for reason in reasons]
    parts += [f"{row['task']} {row['name']} skipped: {row['skipped']}" for row in rows if row["skipped"]]
    counts = summary(rows)
    found = ", ".join(f"{counts[name]['degenerate']} degenerate {title}" for name, title in COLUMNS)
    return "\n".join([*parts, f"{counts['checked']} checked: {found}; {counts['skipped']} skipped"])
