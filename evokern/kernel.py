"""Kernel and Candidate: a source, and where it came from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from evokern.errors import UsageError
from evokern.task import DType

C_DIALECTS = ("cpp", "cuda", "hip")
SUFFIXES = {"cpp": ".cpp", "cuda": ".cu", "hip": ".hip.cpp", "triton": ".py"}
"""File name endings by dialect; the longest match wins."""

SHORT = 12
"""Hex digits of an id that people are shown."""


@dataclass(frozen=True)
class Kernel:
    """One self-contained source file, for one dtype (DESIGN section 4).

    Attributes:
        dialect: "cpp", "cuda", "hip" or "triton".
        source: Exact text.
        entry: Name of the function that is called.
    """

    dialect: str
    source: str
    entry: str = "run"

    @cached_property
    def id(self) -> str:
        """sha256 over `evokern.kernel/1`, dialect, entry and exact source; 64 hex digits."""
        parts = ("evokern.kernel/1", self.dialect, self.entry, self.source)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def short(self) -> str:
        """The id as people are shown it."""
        return self.id[:SHORT]


def dialect_of(file_name: str) -> str:
    """The dialect a file name stands for.

    Raises:
        UsageError: No dialect has that ending.
    """
    endings = sorted(((suffix, dialect) for dialect, suffix in SUFFIXES.items()), key=lambda pair: -len(pair[0]))
    for suffix, dialect in endings:
        if file_name.endswith(suffix):
            return dialect
    raise UsageError("no dialect has this file ending", where=file_name, mend=f"Known: {', '.join(s for s, _ in endings)}")


@dataclass(frozen=True)
class Candidate:
    """A kernel with its lineage.

    Attributes:
        kernel: The source.
        task: Name of the task it is meant for.
        dtype: Element type the run is for.
        parents: Ids of the kernels it was made from, the main one first; empty for a seed.
        operator: Name of the operator that made it; "seed" for a seed.
        edits: Labels of the edits that lead from the main parent to it, in order.
        lessons: Ids of the lessons shown to the operator.
        island: Index of the island that asked for it.
    """

    kernel: Kernel
    task: str
    dtype: DType
    parents: tuple[str, ...] = ()
    operator: str = "seed"
    edits: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()
    island: int = 0

    @property
    def id(self) -> str:
        """The kernel's id: a candidate is the same one however it was arrived at."""
        return self.kernel.id
