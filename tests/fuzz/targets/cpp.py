"""C++ trees: every question that motifs ask, of any text."""

from __future__ import annotations

from evokern_cpu.traits import from_source

from evokern.syntax.cpp import Edit, Unit, names, tokens, walk
from tests.fuzz.harness import text_of


def once(data: bytes) -> None:
    source = text_of(data)
    unit = Unit(source)
    for node in walk(unit.root):
        unit.type_of(node)
        unit.is_pure(node)
        unit.line_of(node)
    names(unit.root)
    tokens(unit.root)
    assert unit.fresh("x") not in unit.all_names
    for loop in unit.loops:
        unit.is_invariant(loop.body, loop.node)
        unit.type_of_name(loop.variable, loop.body)
    assert unit.innermost_loops is not None
    assert unit.pure_functions is not None
    assert unit.edited([]) == source
    assert unit.edited([Edit(0, 0, "")]) == source
    assert from_source(source)["passes"]
