"""Motifs on elementary functions: forms that the compiler can vectorise."""

from __future__ import annotations

from collections.abc import Callable

from tree_sitter import Node

from evokern.operators.rewrites.motif import Motif, Site
from evokern.syntax.cpp import Edit, Unit, arguments, callee, operands, operator_of, text_of, unwrapped, walk


def _replace_calls(called: tuple[str, ...], single: tuple[str, ...], helper: str) -> Callable[[Unit], list[Site]]:
    """Finds calls of a function on a float; `single` are the spellings that convert to float whatever they get."""

    def find(unit: Unit) -> list[Site]:
        sites = []
        for node in walk(unit.root):
            name = callee(node)
            if name not in called or len(arguments(node)) != 1:
                continue
            kind = unit.type_of(arguments(node)[0])
            if kind == "float" or (name in single and kind == "double"):
                function = node.child_by_field_name("function")
                assert function is not None
                sites.append(Site(unit.line_of(node), (Edit(function.start_byte, function.end_byte, helper),), helpers=(helper,)))
        return sites

    return find


def _factors(node: Node) -> list[Node]:
    """Factors of a product chain, parentheses around a whole factor kept off."""
    sides = operands(node) if node.type == "binary_expression" and operator_of(node) == "*" else None
    return [unwrapped(node)] if sides is None else [*_factors(sides[0]), unwrapped(sides[1])]


def _one_plus_tanh(node: Node) -> Node | None:
    """The argument t of `1 + tanh(t)`, in either order."""
    sides = operands(node) if node.type == "binary_expression" and operator_of(node) == "+" else None
    if sides is None:
        return None
    for one, other in (sides, sides[::-1]):
        call = unwrapped(other)
        if text_of(unwrapped(one)) in ("1", "1.0f", "1.f", "1.0", "1.") and callee(call) in (
            "tanh",
            "tanhf",
            "std::tanh",
            "std::tanhf",
            "polynomial_tanh",
        ):
            return arguments(call)[0] if len(arguments(call)) == 1 else None
    return None


def _find_logistic(unit: Unit) -> list[Site]:
    sites = []
    for node in walk(unit.root):
        parent = node.parent
        inside = parent is not None and parent.type == "binary_expression" and operator_of(parent) == "*"
        if node.type != "binary_expression" or operator_of(node) != "*" or inside:
            continue
        factors = _factors(node)
        halves = [f for f in factors if text_of(f) in ("0.5f", ".5f", "0.5")]
        sums = [f for f in factors if _one_plus_tanh(f) is not None]
        if len(halves) != 1 or len(sums) != 1:
            continue
        argument = _one_plus_tanh(sums[0])
        if argument is None or unit.type_of(argument) != "float":
            continue
        rest = [_as_factor(f) for f in factors if f not in (halves[0], sums[0])] or ["1.0f"]
        inline = "polynomial_tanh" in {callee(n) for n in walk(sums[0])}
        function = "polynomial_exp" if inline else "std::exp"
        text = f"{' * '.join(rest)} / (1.0f + {function}(-2.0f * ({text_of(argument)})))"
        if parent is not None and parent.type == "binary_expression" and operator_of(parent) in ("/", "%"):
            text = f"({text})"
        edit = Edit(node.start_byte, node.end_byte, text)
        sites.append(
            Site(unit.line_of(node), (edit,), helpers=("polynomial_exp",) if inline else (), headers=() if inline else ("<cmath>",))
        )
    return sites


def _as_factor(node: Node) -> str:
    simple = ("identifier", "number_literal", "call_expression", "subscript_expression", "parenthesized_expression")
    return text_of(node) if node.type in simple else f"({text_of(node)})"


POLYNOMIAL_EXP = Motif(
    "polynomial_exp",
    "exp is called on a float.",
    "The call becomes an inline polynomial without branches (at most 0.65 ulp), so that the loop around it can be vectorised.",
    _replace_calls(("exp", "expf", "std::exp", "std::expf", "__builtin_expf"), ("expf", "std::expf", "__builtin_expf"), "polynomial_exp"),
    weight=3.0,
)

POLYNOMIAL_TANH = Motif(
    "polynomial_tanh",
    "tanh is called on a float.",
    "The call becomes an inline polynomial near 0 and an exponential elsewhere, without branches, so that the loop can be vectorised.",
    _replace_calls(("tanh", "tanhf", "std::tanh", "std::tanhf"), ("tanhf", "std::tanhf"), "polynomial_tanh"),
    weight=3.0,
)

TANH_TO_LOGISTIC = Motif(
    "tanh_to_logistic",
    "A product holds the factors 0.5 and 1 + tanh(t), with t a float.",
    "0.5 (1 + tanh(t)) becomes 1 / (1 + exp(-2 t)), which is the same number, loses no digits for negative t, and needs one exponential.",
    _find_logistic,
    weight=2.0,
)
