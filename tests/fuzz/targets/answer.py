"""A model's answer: one whole file, or the typed reason why there is none."""

from __future__ import annotations

from evokern.model.protocol import Finish
from evokern.operators.answer import ASK_AGAIN, Answer, blocks_of, parse_answer
from tests.fuzz.harness import halves


def once(data: bytes) -> None:
    text, parent = halves(data)
    blocks_of(text)
    for finish in (Finish.STOP, Finish.LENGTH, Finish.FILTERED):
        found = parse_answer(text, finish, parents=(parent,))
        if isinstance(found, Answer):
            assert found.source.endswith("\n")
            assert not found.source.endswith("\n\n")
            assert found.source.strip()
            assert "\r" not in found.source
        else:
            assert found.line == ASK_AGAIN[found.fault]
