"""Motifs that move work out of the innermost loops, or tell the compiler what it cannot know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from evokern.operators.rewrites.motif import Motif, Site
from evokern.syntax.cpp import (
    COMPLEX_CALLS,
    Edit,
    Unit,
    ancestors,
    callee,
    declarators,
    declared_name,
    initialiser,
    names,
    operands,
    operator_of,
    subscript,
    text_of,
    tokens,
    unwrapped,
    walk,
)


@dataclass(frozen=True)
class _Region:
    """Code that runs once per element.

    Attributes:
        node: An innermost loop, or a lambda that such a loop calls.
        first_byte: Where a declaration that serves all of it goes.
        moving: Names that change from one run of it to the next.
    """

    node: Node
    first_byte: int
    moving: frozenset[str]


def _regions(unit: Unit) -> Iterator[_Region]:
    for loop in unit.innermost_loops:
        holder = loop.node.parent
        if holder is not None and holder.type == "compound_statement":
            yield _Region(loop.node, loop.first_byte, frozenset({loop.variable}))
    for node in walk(unit.root):
        if node.type == "lambda_expression":
            declaration = next((a for a in ancestors(node) if a.type == "declaration"), None)
            parameters = {declared_name(d) for n in walk(node) if n.type == "parameter_declaration" for d in declarators(n)}
            if declaration is not None:
                yield _Region(node, declaration.start_byte, frozenset(parameters))


def _name_for(expression: Node) -> str:
    """A readable name for the value of an expression: its call, or its first variable."""
    core = unwrapped(expression)
    if core.type == "identifier":
        return text_of(core)
    call = callee(core)
    if call and call != "static_cast":
        return call.rsplit("::", 1)[-1]
    return "value"


def _find_reciprocal(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    for region in _regions(unit):
        groups: dict[tuple[str, ...], list[Node]] = {}
        for node in walk(region.node):
            sides = operands(node) if node.type == "binary_expression" and operator_of(node) == "/" else None
            if sides is None or unwrapped(sides[1]).type == "number_literal":
                continue
            left, right = unit.type_of(sides[0]), unit.type_of(sides[1])
            floating = left in ("float", "double") and right in ("float", "double", "int")
            if floating and unit.is_invariant(sides[1], region.node, region.moving):
                groups.setdefault(tokens(unwrapped(sides[1])), []).append(node)
        for divisions in groups.values():
            sites.append(_reciprocal_site(unit, region, divisions, len(sites)))
    return sites


def _reciprocal_site(unit: Unit, region: _Region, divisions: list[Node], number: int) -> Site:
    sides = operands(divisions[0])
    assert sides is not None
    kind = "float" if all((s := operands(d)) is not None and unit.type_of(s[0]) == "float" for d in divisions) else "double"
    name = unit.fresh(f"inverse_{_name_for(sides[1])}" + (f"_{number + 1}" if number else ""))
    one = "1.0" if unit.type_of(sides[1]) == "double" or kind == "double" else "1.0f"
    indent = unit.indent_of(region.first_byte)
    text = f"const {kind} {name} = static_cast<{kind}>({one} / ({text_of(unwrapped(sides[1]))}));\n{indent}"
    edits = [Edit(region.first_byte, region.first_byte, text)]
    for division in divisions:
        both = operands(division)
        assert both is not None
        edits.append(Edit(both[0].end_byte, division.end_byte, f" * {name}"))
    return Site(unit.line_of(divisions[0]), tuple(edits))


def _is_costly(node: Node) -> bool:
    if node.type == "call_expression":
        return callee(node) in COMPLEX_CALLS or callee(node).startswith("polynomial_")
    return node.type == "binary_expression" and operator_of(node) == "/"


def _find_invariant(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    for region in _regions(unit):
        taken: list[Node] = []
        for node in walk(region.node):
            if any(t.start_byte <= node.start_byte and node.end_byte <= t.end_byte for t in taken):
                continue
            if not _is_costly(node) or not names(node) or not unit.is_invariant(node, region.node, region.moving):
                continue
            taken.append(node)
            name = unit.fresh(f"row_{_name_for(node)}" + (f"_{len(sites) + 1}" if sites else ""))
            text = f"const auto {name} = {text_of(node)};\n{unit.indent_of(region.first_byte)}"
            edits = (Edit(region.first_byte, region.first_byte, text), Edit(node.start_byte, node.end_byte, name))
            sites.append(Site(unit.line_of(node), edits))
    return sites


def _find_row_pointer(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    for loop in unit.innermost_loops:
        groups: dict[tuple[str, ...], list[Node]] = {}
        for node in walk(loop.body):
            access = subscript(node)
            sides = operands(access[1]) if access is not None and access[1].type == "binary_expression" else None
            if access is None or sides is None or operator_of(access[1]) != "+":
                continue
            if _is_local_array(unit, access[0], node):
                continue
            offset, index = sides if text_of(sides[1]) == loop.variable else sides[::-1]
            if text_of(index) == loop.variable and unit.is_invariant(offset, loop.node, {loop.variable}):
                groups.setdefault((access[0], *tokens(offset)), []).append(node)
        for number, nodes in enumerate(groups.values()):
            site = _row_pointer_site(unit, loop.first_byte, loop.variable, nodes, number)
            if site is not None:
                sites.append(site)
    return sites


def _is_local_array(unit: Unit, name: str, at: Node) -> bool:
    found = unit.declaration_of(name, at)
    return found is not None and any(n.type == "array_declarator" for n in walk(found[1]))


def _row_pointer_site(unit: Unit, first_byte: int, variable: str, nodes: list[Node], number: int) -> Site | None:
    access = subscript(nodes[0])
    sides = operands(access[1]) if access is not None else None
    if access is None or sides is None:
        return None
    offset = sides[0] if text_of(sides[1]) == variable else sides[1]
    name = unit.fresh(f"{access[0]}_row" + (f"_{number + 1}" if number else ""))
    text = f"auto* const {name} = {access[0]} + {text_of(offset)};\n{unit.indent_of(first_byte)}"
    edits = [Edit(first_byte, first_byte, text)]
    edits += [Edit(n.start_byte, n.end_byte, f"{name}[{variable}]") for n in nodes]
    return Site(unit.line_of(nodes[0]), tuple(edits))


def _find_restrict(unit: Unit) -> list[Site]:
    """Pointers of one block that start from different names; those that share a name may be one array and stay as they are."""
    by_block: dict[int, list[tuple[Node, frozenset[str]]]] = {}
    for node in walk(unit.root):
        if node.type != "declaration" or node.parent is None or node.parent.type != "compound_statement" or len(declarators(node)) != 1:
            continue
        value = initialiser(declarators(node)[0])
        pointer = declarators(node)[0].child_by_field_name("declarator")
        if value is None or pointer is None or pointer.type != "pointer_declarator" or "__restrict" in text_of(pointer):
            continue
        # One pointer level only, and a value that names the array it points into.
        if text_of(pointer).count("*") != 1 or value.type in ("conditional_expression", "null"):
            continue
        by_block.setdefault(node.parent.id, []).append((pointer, _arrays_of(unit, value)))
    edits = []
    for pointers in by_block.values():
        for pointer, arrays in pointers:
            rivals = [other for p, other in pointers if p is not pointer]
            if arrays and all(not arrays & other for other in rivals):
                star = next(n for n in walk(pointer) if n.type == "*")
                edits.append(Edit(star.end_byte, star.end_byte, " __restrict"))
    return [Site(unit.root.start_point[0] + 1, tuple(edits))] if edits else []


def _arrays_of(unit: Unit, value: Node) -> frozenset[str]:
    """What a pointer's first value points into: names of pointers, or texts of `args[i]`."""
    slots = {"".join(tokens(n)) for n in walk(value) if n.type == "subscript_expression"}
    pointers = {text_of(n) for n in walk(value) if n.type == "identifier" and unit.type_of(n).endswith("*")}
    return frozenset(slots or pointers)


RECIPROCAL = Motif(
    "reciprocal",
    "An innermost loop divides floating-point numbers by a value that does not change in it.",
    "The division is done once before the loop and becomes a multiplication in it; one more rounding per element.",
    _find_reciprocal,
    weight=2.0,
)

HOIST_INVARIANT = Motif(
    "hoist_invariant",
    "An innermost loop computes a division or an elementary function of values that do not change in it.",
    "The value is computed once, before the loop.",
    _find_invariant,
    weight=0.7,
)

ROW_POINTER = Motif(
    "row_pointer",
    "An innermost loop indexes an array with an invariant offset plus the loop's counter.",
    "The offset is added once, before the loop; what is left is a unit-stride access that other motifs recognise.",
    _find_row_pointer,
)

RESTRICT = Motif(
    "restrict",
    "Local pointers of one block start from different arguments; the contract keeps arguments of different roles apart.",
    "The pointers are marked __restrict, so that loads may move across stores and loops need no overlap checks.",
    _find_restrict,
    weight=0.5,
)
