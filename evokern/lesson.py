"""Lesson: one claim about what makes kernels faster, with its scope and evidence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lesson:
    """One claim with scope and evidence.

    Attributes:
        id: Stable name, `[a-z0-9-]+`.
        title: A few words.
        claim: One or two sentences.
        dialects: Where it applies; empty for everywhere.
        effect: Expected speed-up, 1.0 for none.
        code: A short example of the motif.
        evidence: Ids of kernels that showed it.
    """

    id: str
    title: str
    claim: str
    dialects: tuple[str, ...] = ()
    effect: float = 1.0
    code: str = ""
    evidence: tuple[str, ...] = ()
