"""Motifs on reductions and on loops whose turns are independent."""

from __future__ import annotations

from tree_sitter import Node

from evokern.operators.rewrites.motif import ChainedMotif, Motif, Site, block, body_lines
from evokern.operators.rewrites.plan import Plan, Reduction, calls_library, is_remainder, plans, pragma_for, reduction_of, scalar_type
from evokern.syntax.cpp import Edit, Unit, arguments, callee, text_of, walk


def _find_branchless_max(unit: Unit) -> list[Site]:
    sites = []
    for loop in unit.innermost_loops:
        for statement in loop.statements:
            reduction = reduction_of(statement)
            if (
                reduction is None
                or reduction.operation != "max"
                or reduction.branchless
                or scalar_type(unit, reduction) not in ("float", "double")
            ):
                continue
            value, name = text_of(reduction.value), reduction.name
            if any(n.type == "call_expression" for n in walk(reduction.value)):
                kind, other = scalar_type(unit, reduction), unit.fresh("other")
                text = (
                    f"const {kind} {other} = {value};\n{unit.indent_of(statement.start_byte)}{name} = {other} > {name} ? {other} : {name};"
                )
                if statement.parent is None or statement.parent.type != "compound_statement":
                    continue
            else:
                operand = value if reduction.value.type in ("identifier", "subscript_expression", "number_literal") else f"({value})"
                text = f"{name} = {operand} > {name} ? {operand} : {name};"
            sites.append(Site(unit.line_of(statement), (Edit(statement.start_byte, statement.end_byte, text),)))
    return sites


def _find_omp_simd(unit: Unit) -> list[Site]:
    sites = []
    for plan in plans(unit):
        loop = plan.loop
        if loop.pragma is not None or not all(r.branchless for r in plan.reductions):
            continue
        if not all(scalar_type(unit, r) in ("float", "double", "int") for r in plan.reductions):
            continue
        text = f"{pragma_for(plan.reductions)}\n{unit.indent_of(loop.node.start_byte)}"
        sites.append(Site(unit.line_of(loop.node), (Edit(loop.node.start_byte, loop.node.start_byte, text),)))
    return sites


def _narrowing(unit: Unit, value: Node) -> list[Edit] | None:
    """Edits that take casts to double off floats, or None where the value stays a double all the same."""
    edits: list[Edit] = []
    inside: set[int] = set()
    for node in walk(value):
        operand = None
        if callee(node) == "static_cast" and "double" in text_of(node.child_by_field_name("function")):
            operand = arguments(node)[0] if len(arguments(node)) == 1 else None
        elif node.type == "cast_expression" and text_of(node.child_by_field_name("type")) == "double":
            operand = node.child_by_field_name("value")
        elif node.type == "identifier" and node.id not in inside and unit.type_of(node) == "double":
            return None
        elif node.type == "number_literal" and unit.type_of(node) == "double":
            edits.append(Edit(node.end_byte, node.end_byte, "f"))
        if operand is not None:
            if unit.type_of(operand) != "float":
                return None
            inside.update(n.id for n in walk(operand))
            text = (
                text_of(operand)
                if operand.type in ("identifier", "subscript_expression", "parenthesized_expression")
                else f"({text_of(operand)})"
            )
            edits.append(Edit(node.start_byte, node.end_byte, text))
    return edits if edits or unit.type_of(value) == "float" else None


def _sum_in(plan: Plan, unit: Unit, kind: str) -> Reduction | None:
    """The only reduction of a plan, if it is a sum of this type."""
    if len(plan.reductions) != 1:
        return None
    reduction = plan.reductions[0]
    return reduction if reduction.operation == "+" and scalar_type(unit, reduction) == kind else None


def _find_float_tiles(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    size = unit.fresh("TILE")
    for plan in plans(unit):
        loop, reduction = plan.loop, _sum_in(plan, unit, "double")
        if reduction is None:
            continue
        narrowing = _narrowing(unit, reduction.value)
        if narrowing is None or calls_library(loop.body):
            continue
        tile, stop, part = unit.fresh("tile"), unit.fresh("tile_stop"), unit.fresh("part")
        edits = narrowing + [
            Edit(n.start_byte, n.end_byte, part)
            for n in walk(reduction.statement)
            if n.type == "identifier" and text_of(n) == reduction.name
        ]
        kind, name = loop.type, loop.variable
        text = f"""\
for ({kind} {tile} = {loop.start}; {tile} < {loop.stop}; {tile} += {size}) {{
  const {kind} {stop} = {tile} + {size} < {loop.stop} ? {tile} + {size} : {loop.stop};
  float {part} = 0.0f;
#pragma omp simd reduction(+:{part})
  for ({kind} {name} = {tile}; {name} < {stop}; ++{name}) {{
{body_lines(unit, loop, edits, depth="    ")}
  }}
  {reduction.name} += {part};
}}"""
        replaced = Edit(loop.first_byte, loop.node.end_byte, block(unit.indent_of(loop.first_byte), text))
        sites.append(Site(unit.line_of(loop.node), (replaced,), tunables=((size, "256", "128 256 512 1024 2048"),)))
    return sites


def _find_lanes(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    count = unit.fresh("LANES")
    for plan in plans(unit):
        loop = plan.loop
        if len(plan.reductions) != 1 or scalar_type(unit, plan.reductions[0]) != "float" or not plan.reductions[0].branchless:
            continue
        if is_remainder(unit, loop):
            continue
        reduction = plan.reductions[0]
        lanes, lane, base, half = unit.fresh("lanes"), unit.fresh("lane"), unit.fresh("base"), unit.fresh("half")
        acc, kind, name = reduction.name, loop.type, loop.variable
        is_sum = reduction.operation == "+"
        own = f"{lanes}[{lane}]"
        edits = [Edit(n.start_byte, n.end_byte, own) for n in walk(reduction.statement) if n.type == "identifier" and text_of(n) == acc]
        other = f"{lanes}[{lane} + {half}]"
        fold = f"{own} += {other};" if is_sum else f"{own} = {other} > {own} ? {other} : {own};"
        last = f"{acc} += {lanes}[0];" if is_sum else f"{acc} = {lanes}[0] > {acc} ? {lanes}[0] : {acc};"
        text = f"""\
{{
  float {lanes}[{count}];
#pragma omp simd
  for (int {lane} = 0; {lane} < {count}; ++{lane}) {own} = {"0.0f" if is_sum else acc};
  {kind} {base} = {loop.start};
  for (; {base} + {count} <= {loop.stop}; {base} += {count}) {{
#pragma omp simd
    for (int {lane} = 0; {lane} < {count}; ++{lane}) {{
      const {kind} {name} = {base} + {lane};
{body_lines(unit, loop, edits, depth="      ")}
    }}
  }}
#pragma omp simd {f"reduction({reduction.operation}:{acc})"}
  for ({kind} {name} = {base}; {name} < {loop.stop}; ++{name}) {{
{body_lines(unit, loop, depth="    ")}
  }}
#pragma GCC unroll 8
  for (int {half} = {count} / 2; {half} > 0; {half} /= 2) {{
    for (int {lane} = 0; {lane} < {half}; ++{lane}) {fold}
  }}
  {last}
}}"""
        replaced = Edit(loop.first_byte, loop.node.end_byte, block(unit.indent_of(loop.first_byte), text))
        sites.append(Site(unit.line_of(loop.node), (replaced,), tunables=((count, "32", "8 16 32 64 128"),)))
    return sites


BRANCHLESS_MAX = Motif(
    "branchless_max",
    "An innermost loop keeps a running maximum by a call of max or by an if.",
    "It becomes a conditional expression, which gcc turns into vector compares and blends; a NaN is passed over as before.",
    _find_branchless_max,
    weight=0.5,
)

OMP_SIMD = Motif(
    "omp_simd",
    "The turns of an innermost loop depend on each other through sums and branch-free maxima at most.",
    "OpenMP's simd pragma with the reductions named lets the compiler use vector lanes, each with its own partial result.",
    _find_omp_simd,
    weight=1.5,
)

SIMD_MAX = ChainedMotif(
    "simd_max",
    "An innermost loop keeps a running maximum by a call of max or by an if.",
    "It becomes a conditional expression under OpenMP's simd pragma: one maximum per vector lane instead of one chain of compares.",
    _find_branchless_max,
    weight=2.0,
    then=OMP_SIMD,
)

FLOAT_TILES = Motif(
    "float_tiles",
    "An innermost loop adds floats into one double and calls no library function, which would keep it from being vectorised.",
    "Tiles are summed in float lanes and each tile's sum goes into the double: twice the lanes, and the rounding errors of one tile.",
    _find_float_tiles,
    weight=3.0,
)

ACCUMULATOR_LANES = Motif(
    "accumulator_lanes",
    "An innermost loop reduces into one float by a sum or a branch-free maximum.",
    "A tunable number of independent accumulators hides the latency of the operation; they are folded in pairs, which also rounds less.",
    _find_lanes,
    weight=1.5,
)
