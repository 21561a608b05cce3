"""Standing: whether an evaluation counts, and in words why it does not.

An official evaluation was made in a sandbox, by a judge that this home has enrolled, of a task that can tell kernels apart.
All others are shown, loudly, and are never promoted, learnt from, or part of a headline figure (EVALUATOR sections 5 and 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evokern.evaluation import Evaluation, Tier

if TYPE_CHECKING:
    from evokern.evaluator.signing import Judges

UNSANDBOXED, DEGENERATE, EXTERNAL, UNSIGNED = "unsandboxed", "degenerate", "external", "unsigned"

WORDS = {
    UNSANDBOXED: "judged without a sandbox, so the kernel could have reached its own judge",
    DEGENERATE: "the task cannot tell good kernels from bad ones",
    EXTERNAL: "no judge that is enrolled here signed it as it stands",
    UNSIGNED: "no judge signed it",
}
"""What takes an evaluation's standing away, the worst first."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether an evaluation counts.

    Attributes:
        lacks: Keys of `WORDS`; empty for an official one.
    """

    lacks: tuple[str, ...] = ()

    @property
    def official(self) -> bool:
        """Whether it counts."""
        return not self.lacks

    @property
    def line(self) -> str:
        """In one line, such as `NOT OFFICIAL: judged without a sandbox …`; empty for an official one."""
        return "" if self.official else "NOT OFFICIAL: " + "; ".join(WORDS[name] for name in self.lacks)

    @property
    def mark(self) -> str:
        """For a cell of a table; empty for an official one."""
        return "" if self.official else "NOT OFFICIAL (" + ", ".join(self.lacks) + ")"

    def document(self) -> dict[str, Any]:
        """For `--json`: `official` and `lacks` with their words."""
        return {"official": self.official, "lacks": {name: WORDS[name] for name in self.lacks}}


def standing(evaluation: Evaluation, judges: Judges | None = None) -> Standing:
    """The standing of an evaluation.

    Args:
        evaluation: The evaluation.
        judges: Those that are enrolled here; None where signatures are not asked for.
    """
    lacks = []
    # An evaluation without a fingerprint was made nowhere that can be named, which is no sandbox.
    if evaluation.fingerprint is None or evaluation.fingerprint.tier is Tier.UNSANDBOXED:
        lacks.append(UNSANDBOXED)
    if evaluation.degenerate:
        lacks.append(DEGENERATE)
    if judges is not None and not judges.accept(evaluation):
        lacks.append(EXTERNAL if evaluation.signature else UNSIGNED)
    return Standing(tuple(lacks))


def standing_of(facts: Mapping[str, Any]) -> Standing:
    """The standing of a run, from `tier` and `degenerate` of its documents; both are missing until it is prepared."""
    tier = [UNSANDBOXED] if facts.get("tier") == Tier.UNSANDBOXED else []
    return Standing((*tier, *([DEGENERATE] if facts.get("degenerate") else [])))
