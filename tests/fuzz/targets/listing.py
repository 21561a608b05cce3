"""What readelf and objdump print of a candidate's library, and the evidence that is made of it."""

from __future__ import annotations

from evokern_cpu import reading

from evokern.evaluator.screen import KINDS, evidence, refusal, weight
from evokern.kernel import Kernel
from tests.fuzz.harness import halves


def once(data: bytes) -> None:
    printed, source = halves(data)
    facts = reading.found(printed)
    assert all(isinstance(value, str) for value in facts.values())
    pieces = evidence(Kernel("cpp", source), facts, [Kernel("cpp", printed)])
    assert all(piece.code in KINDS and "\n" not in piece.detail for piece in pieces)
    assert weight(pieces) >= len(pieces)
    assert bool(refusal(pieces)) == any(piece.code == "forbidden" for piece in pieces)
