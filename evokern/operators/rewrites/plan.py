"""What an innermost loop does, read off its tree: which scalars it reduces into, and whether its turns are independent."""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node

from evokern.syntax.cpp import (
    COMPLEX_CALLS,
    Loop,
    Unit,
    arguments,
    assignment,
    callee,
    declarators,
    declared,
    initialiser,
    operands,
    operator_of,
    statements_of,
    subscript,
    text_of,
    tokens,
    unwrapped,
    walk,
)

MAX_CALLS = ("std::max", "max", "fmax", "fmaxf", "std::fmax", "std::fmaxf")


@dataclass(frozen=True)
class Reduction:
    """A statement that folds one value per turn into a scalar.

    Attributes:
        statement: The statement.
        name: The scalar.
        operation: "+" or "max".
        value: What is folded in.
        branchless: Whether it is written so that gcc turns it into vector code: a sum, or a conditional expression.
    """

    statement: Node
    name: str
    operation: str
    value: Node
    branchless: bool


@dataclass(frozen=True)
class Plan:
    """An innermost loop whose turns depend on each other through reductions at most.

    Attributes:
        loop: The loop.
        reductions: One per reduced scalar.
        stores: Arrays that it writes, at the loop's own counter only.
    """

    loop: Loop
    reductions: tuple[Reduction, ...]
    stores: frozenset[str]


def reduction_of(statement: Node) -> Reduction | None:
    """The reduction that a statement is, if it is one."""
    if statement.type == "if_statement":
        return _conditional_max(statement)
    parts = assignment(statement)
    if parts is None or parts[0].type != "identifier":
        return None
    target, operation, value = text_of(parts[0]), parts[1], unwrapped(parts[2])
    if operation == "+=":
        return Reduction(statement, target, "+", parts[2], True)
    if operation != "=":
        return None
    sides = operands(value) if value.type == "binary_expression" and operator_of(value) == "+" else None
    if sides is not None and target in (text_of(sides[0]), text_of(sides[1])):
        return Reduction(statement, target, "+", sides[1] if text_of(sides[0]) == target else sides[0], True)
    if callee(value) in MAX_CALLS and len(arguments(value)) == 2:  # noqa: PLR2004 - a pair
        first, second = arguments(value)
        if target in (text_of(first), text_of(second)):
            return Reduction(statement, target, "max", second if text_of(first) == target else first, False)
    return _ternary_max(statement, target, value)


def _ternary_max(statement: Node, target: str, value: Node) -> Reduction | None:
    if value.type != "conditional_expression":
        return None
    condition, yes, no = (unwrapped(n) for n in value.named_children[:3])
    sides = operands(condition) if condition.type == "binary_expression" else None
    if sides is None or operator_of(condition) not in ("<", ">", "<=", ">="):
        return None
    larger, smaller = sides if operator_of(condition).startswith(">") else sides[::-1]
    if tokens(unwrapped(larger)) != tokens(yes) or tokens(unwrapped(smaller)) != tokens(no):
        return None
    if text_of(no) == target:
        return Reduction(statement, target, "max", yes, True)
    return Reduction(statement, target, "max", no, True) if text_of(yes) == target else None


def _conditional_max(statement: Node) -> Reduction | None:
    condition, yes = statement.child_by_field_name("condition"), statement.child_by_field_name("consequence")
    if condition is None or yes is None or statement.child_by_field_name("alternative") is not None:
        return None
    inside = statements_of(yes)
    parts = assignment(inside[0]) if len(inside) == 1 else None
    test = unwrapped(condition)
    sides = operands(test) if test.type == "binary_expression" else None
    if (
        parts is None
        or sides is None
        or parts[1] != "="
        or parts[0].type != "identifier"
        or operator_of(test) not in ("<", ">", "<=", ">=")
    ):
        return None
    larger, smaller = sides if operator_of(test).startswith(">") else sides[::-1]
    if text_of(smaller) != text_of(parts[0]) or tokens(unwrapped(larger)) != tokens(unwrapped(parts[2])):
        return None
    return Reduction(statement, text_of(parts[0]), "max", parts[2], False)


def plan_of(unit: Unit, loop: Loop) -> Plan | None:
    """The loop's plan, or None where its turns may depend on each other or it does something unknown."""
    own = declared(loop.body)
    reductions: list[Reduction] = []
    stores: set[str] = set()
    for statement in loop.statements:
        if statement.type == "declaration":
            values = [initialiser(d) for d in declarators(statement)]
            if any(v is None or not unit.is_pure(v) for v in values) or any(d.type == "static" for d in walk(statement)):
                return None
            continue
        reduction = reduction_of(statement)
        if reduction is not None and reduction.name not in own:
            reductions.append(reduction)
            if not unit.is_pure(reduction.value):
                return None
            continue
        parts = assignment(statement)
        if parts is None or not unit.is_pure(parts[2]):
            return None
        access = subscript(parts[0])
        if access is not None and text_of(access[1]) == loop.variable:
            stores.add(access[0])
        elif not (parts[0].type == "identifier" and text_of(parts[0]) in own):
            return None
    if stores & own or not _independent(unit, loop, stores) or not _private(loop, reductions):
        return None
    return Plan(loop, tuple(reductions), frozenset(stores))


def _independent(unit: Unit, loop: Loop, stores: set[str]) -> bool:
    """Whether no turn reads what another one writes."""
    if not stores:
        return not any(n.type == "pointer_expression" for n in walk(loop.body))
    for node in walk(loop.body):
        if node.type in ("pointer_expression", "field_expression"):
            return False
        if node.type != "subscript_expression":
            continue
        access = subscript(node)
        if access is None:
            return False
        if text_of(access[1]) != loop.variable and (access[0] in stores or not _points_to_const(unit, access[0], node)):
            return False
    return True


def _points_to_const(unit: Unit, name: str, at: Node) -> bool:
    found = unit.declaration_of(name, at)
    return found is not None and "const" in tokens(found[0])[:1]


def _private(loop: Loop, reductions: list[Reduction]) -> bool:
    """Whether each reduced scalar is touched by its own reduction only, and not by the loop's header."""
    for reduction in reductions:
        if reduction.name in (loop.start, loop.stop):
            return False
        if any(text_of(n) == reduction.name for n in walk(reduction.value) if n.type == "identifier"):
            return False
        for statement in loop.statements:
            if statement.id != reduction.statement.id and any(
                text_of(n) == reduction.name for n in walk(statement) if n.type == "identifier"
            ):
                return False
    return len({r.name for r in reductions}) == len(reductions)


def calls_library(node: Node) -> bool:
    """Whether an elementary function of the C library is called, which gcc does not vectorise at IEEE semantics."""
    return any(callee(n) in COMPLEX_CALLS and not callee(n).endswith(("sqrt", "sqrtf")) for n in walk(node))


def plans(unit: Unit) -> list[Plan]:
    """Plans of the innermost loops that have one and stand in a block."""
    found = []
    for loop in unit.innermost_loops:
        inside_block = loop.node.parent is not None and loop.node.parent.type == "compound_statement"
        plan = plan_of(unit, loop) if inside_block else None
        if plan is not None:
            found.append(plan)
    return found


def is_remainder(unit: Unit, loop: Loop) -> bool:
    """Whether a loop goes on where one before it stopped: it starts at a variable that no loop header declares."""
    found = unit.declaration_of(loop.start, loop.node)
    return found is not None and found[0].parent is not None and found[0].parent.type != "for_statement" and "const" not in tokens(found[0])


def scalar_type(unit: Unit, reduction: Reduction) -> str:
    """Type of the scalar that a reduction folds into."""
    for node in walk(reduction.statement):
        if node.type == "identifier" and text_of(node) == reduction.name:
            return unit.type_of(node)
    return ""


def pragma_for(reductions: tuple[Reduction, ...]) -> str:
    """The OpenMP pragma that lets the compiler run the loop's turns in vector lanes."""
    return "#pragma omp simd" + "".join(f" reduction({r.operation}:{r.name})" for r in reductions)
