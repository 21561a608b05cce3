"""The archive: what one island keeps.

A grid whose axes say what a kernel does, never how fast it is or how long its text: score as an axis collapses within one
task, and what predicts time is what makes kernels worth keeping beside a faster one. Cells are made as they are needed, so
an axis may take any values.

Members:
    GridArchive: The archive.
    ArchiveSettings: Its axes and its admission margin.
    Exemplars: The champion and the elite farthest from it.
"""

from __future__ import annotations

from evokern.archive.grid import UNKNOWN, ArchiveSettings, Exemplars, GridArchive

__all__ = ["UNKNOWN", "ArchiveSettings", "Exemplars", "GridArchive"]
