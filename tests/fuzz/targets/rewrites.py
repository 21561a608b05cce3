"""Motifs: whatever a source looks like, their variants can be parsed and differ from it."""

from __future__ import annotations

from evokern.operators.rewrites import load_motifs
from evokern.syntax.cpp import Unit
from tests.fuzz.harness import text_of


def once(data: bytes) -> None:
    source = text_of(data)
    for motif in load_motifs():
        for variant in motif.variants(source):
            assert variant.source != source
            assert Unit(variant.source).is_valid
