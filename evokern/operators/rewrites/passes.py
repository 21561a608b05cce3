"""Motifs on passes over a row: fewer of them, each over data that is near."""

from __future__ import annotations

from tree_sitter import Node

from evokern.operators.rewrites.memory import STREAMING_STORES
from evokern.operators.rewrites.motif import ChainedMotif, Motif, Site, block, body_lines
from evokern.operators.rewrites.plan import Plan, calls_library, plans, pragma_for, reduction_of, scalar_type
from evokern.syntax.cpp import (
    COMPLEX_CALLS,
    Edit,
    Loop,
    Unit,
    ancestors,
    assignment,
    callee,
    declared,
    names,
    operands,
    operator_of,
    statements_of,
    subscript,
    text_of,
    tokens,
    unwrapped,
    walk,
    written,
)


def _pairs(unit: Unit) -> list[tuple[Plan, Plan, list[Node]]]:
    """Plans of two loops of one block over the same range, the later one after the earlier, with the statements between them."""
    found = []
    every = plans(unit)
    for number, first in enumerate(every):
        for second in every[number + 1 :]:
            block_node = first.loop.node.parent
            if block_node is None or second.loop.node.parent is None or second.loop.node.parent.id != block_node.id:
                continue
            if (first.loop.start, first.loop.stop) != (second.loop.start, second.loop.stop):
                continue
            between = [
                s for s in statements_of(block_node) if s.start_byte > first.loop.node.end_byte and s.end_byte <= second.loop.first_byte
            ]
            found.append((first, second, between))
    return found


def _canonical_tokens(node: Node, variable: str) -> tuple[str, ...]:
    return tuple("\0counter" if token == variable else token for token in tokens(node))


def _costly(unit: Unit, loop: Loop) -> list[Node]:
    """The largest pure calls of elementary functions in a loop that depend on nothing which the loop computes."""
    changing = {text_of(t) for t in written(loop.body)} | declared(loop.body)
    found: list[Node] = []
    for node in walk(loop.body):
        if callee(node) in COMPLEX_CALLS or callee(node).startswith("polynomial_"):
            inside = any(f.start_byte <= node.start_byte and node.end_byte <= f.end_byte for f in found)
            if not inside and loop.variable in names(node) and not names(node) & changing and unit.is_pure(node):
                found.append(node)
    return found


def _find_keep_values(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    for first, second, between in _pairs(unit):
        target = _only_store(unit, second)
        if target is None or first.stores or unit.type_of_name(target, second.loop.node) != "float*":
            continue
        middle = {text_of(t) for s in between for t in written(s)} | {n for s in between for n in declared(s)}
        uses_between = any(target in names(s) for s in between)
        if uses_between or target in names(first.loop.node) or _reads(second.loop, target):
            continue
        for value in _costly(unit, first.loop):
            spelt = _canonical_tokens(value, first.loop.variable)
            again = [n for n in _costly(unit, second.loop) if _canonical_tokens(n, second.loop.variable) == spelt]
            if not again or names(value) & middle or unit.type_of(value) != "float" or first_writes(first, value):
                continue
            statement = next(s for s in first.loop.statements if s.start_byte <= value.start_byte and value.end_byte <= s.end_byte)
            kept = unit.fresh("kept")
            inside = [Edit(value.start_byte, value.end_byte, kept)]
            indent = unit.indent_of(statement.start_byte)
            declaration = f"const float {kept} = {text_of(value)};\n{indent}{target}[{first.loop.variable}] = {kept};\n{indent}"
            if first.loop.body.type != "compound_statement":
                declaration = ""
            if not declaration:
                continue
            edits = [Edit(statement.start_byte, statement.start_byte, declaration), *inside]
            edits += [Edit(n.start_byte, n.end_byte, f"{target}[{second.loop.variable}]") for n in again]
            sites.append(Site(unit.line_of(value), tuple(edits)))
    return sites


def first_writes(plan: Plan, value: Node) -> bool:
    """Whether a plan reduces into something that the value reads."""
    return bool({r.name for r in plan.reductions} & names(value))


def _only_store(unit: Unit, plan: Plan) -> str | None:
    """The array that a loop stores to, if it is one, plainly assigned and not reduced on the way."""
    if len(plan.stores) != 1 or plan.reductions:
        return None
    stores = [p for s in plan.loop.statements if (p := assignment(s)) is not None and p[0].type == "subscript_expression"]
    return next(iter(plan.stores)) if len(stores) == 1 and stores[0][1] == "=" else None


def _reads(loop: Loop, name: str) -> bool:
    """Whether a loop reads an array, its stores aside."""
    targets = {t.id for t in written(loop.body)}
    for node in walk(loop.body):
        access = subscript(node)
        if access is not None and access[0] == name and node.id not in targets:
            return True
    return False


def _find_fuse_loops(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    for first, second, between in _pairs(unit):
        if any(s.type != "preproc_call" for s in between):
            continue
        reduced = {r.name for r in first.reductions}
        if reduced & names(second.loop.node) or {r.name for r in second.reductions} & names(first.loop.node):
            continue
        if not _same_places(first, second) or declared(first.loop.body) & names(second.loop.body):
            continue
        loop = first.loop
        forwarded, reading = _forwarded(unit, first, second)
        replaced_reads = [(e.start, e.stop) for e in reading]
        edits = [
            Edit(n.start_byte, n.end_byte, first.loop.variable)
            for n in walk(second.loop.body)
            if n.type == "identifier"
            and text_of(n) == second.loop.variable
            and not any(start <= n.start_byte < stop for start, stop in replaced_reads)
        ]
        had = loop.pragma is not None or second.loop.pragma is not None
        pragma = pragma_for((*first.reductions, *second.reductions)) + "\n" if had else ""
        text = f"""\
{pragma}for ({loop.type} {loop.variable} = {loop.start}; {loop.variable} < {loop.stop}; ++{loop.variable}) {{
{body_lines(unit, loop, forwarded)}
{body_lines(unit, second.loop, [*edits, *reading])}
}}"""
        replaced = Edit(loop.first_byte, second.loop.node.end_byte, block(unit.indent_of(loop.first_byte), text))
        sites.append(Site(unit.line_of(loop.node), (replaced,)))
    return sites


def _forwarded(unit: Unit, first: Plan, second: Plan) -> tuple[list[Edit], list[Edit]]:
    """Edits that keep in a local what the first loop stores and the second one overwrites; none where it does not."""
    target = _only_store(unit, second)
    last = assignment(second.loop.statements[-1]) if second.loop.statements else None
    if target is None or target not in first.stores or last is None or subscript(last[0]) is None:
        return [], []
    stores = [
        s for s in first.loop.statements if (p := assignment(s)) is not None and (a := subscript(p[0])) is not None and a[0] == target
    ]
    parts = assignment(stores[0]) if len(stores) == 1 else None
    if parts is None or parts[1] != "=" or _reads(first.loop, target) or unit.type_of_name(target, first.loop.node) != "float*":
        return [], []
    kept = unit.fresh("kept")
    targets = {t.id for t in written(second.loop.body)}
    reads = [n for n in walk(second.loop.body) if (a := subscript(n)) is not None and a[0] == target and n.id not in targets]
    return [Edit(parts[0].start_byte, parts[0].end_byte, f"const float {kept}")], [Edit(n.start_byte, n.end_byte, kept) for n in reads]


def _same_places(first: Plan, second: Plan) -> bool:
    """Whether each loop touches what the other one stores at its own counter only."""
    for stores, loop in ((first.stores, second.loop), (second.stores, first.loop)):
        for node in walk(loop.body):
            access = subscript(node)
            if access is not None and access[0] in stores and text_of(access[1]) != loop.variable:
                return False
    return True


def _find_online_tiles(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    size = unit.fresh("TILE")
    for first, second, between in _pairs(unit):
        if first.stores or second.stores or len(first.reductions) != 1 or len(second.reductions) != 1:
            continue
        peak, total = first.reductions[0], second.reductions[0]
        if peak.operation != "max" or total.operation != "+" or not peak.branchless:
            continue
        call = unwrapped(total.value)
        argument = call.child_by_field_name("arguments")
        inside = (
            argument.named_children[0]
            if callee(call) in ("exp", "expf", "std::exp", "polynomial_exp", "polynomial_exp_down") and argument is not None
            else None
        )
        sides = operands(inside) if inside is not None and inside.type == "binary_expression" and operator_of(inside) == "-" else None
        if sides is None or text_of(sides[1]) != peak.name or scalar_type(unit, peak) != "float":
            continue
        if _canonical_tokens(sides[0], second.loop.variable) != _canonical_tokens(unwrapped(peak.value), first.loop.variable):
            continue
        kind = scalar_type(unit, total)
        if kind not in ("float", "double") or not _starts_at_zero(between, total.name) or len(second.loop.statements) != 1:
            continue
        text = _online_text(unit, first, second, call, kind, size)
        indent = unit.indent_of(first.loop.first_byte)
        edits = (
            Edit(first.loop.first_byte, first.loop.node.end_byte, block(indent, f"{kind} {total.name} = 0;\n{text}")),
            Edit(between[0].start_byte, second.loop.node.end_byte, ""),
        )
        helpers = ("polynomial_exp_down",) if callee(call) == "polynomial_exp" else ()
        sites.append(Site(unit.line_of(first.loop.node), edits, helpers=helpers, tunables=((size, "512", "128 256 512 1024 2048 4096"),)))
    return sites


def _starts_at_zero(between: list[Node], name: str) -> bool:
    """Whether all that stands between two loops is `type name = 0`."""
    if len(between) != 1 or between[0].type != "declaration" or declared(between[0]) != {name}:
        return False
    value = next((n for n in walk(between[0]) if n.type == "number_literal"), None)
    return value is not None and float(text_of(value).rstrip("fF")) == 0.0 and len(between[0].children_by_field_name("declarator")) == 1


def _online_text(unit: Unit, first: Plan, second: Plan, call: Node, kind: str, size: str) -> str:
    """One pass by tiles: the tile's maximum, the old sum brought to it, then the tile's exponentials.

    Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", arXiv 1805.02867, by tiles.
    """
    loop, peak, total = first.loop, first.reductions[0], second.reductions[0]
    tile, stop, own, part = unit.fresh("tile"), unit.fresh("tile_stop"), unit.fresh("tile_peak"), unit.fresh("part")
    function = text_of(call.child_by_field_name("function"))
    function = "polynomial_exp_down" if function == "polynomial_exp" else function
    swap = [Edit(n.start_byte, n.end_byte, own) for n in walk(peak.statement) if n.type == "identifier" and text_of(n) == peak.name]
    add = [Edit(n.start_byte, n.end_byte, part) for n in walk(total.statement) if n.type == "identifier" and text_of(n) == total.name]
    add += [Edit(n.start_byte, n.end_byte, function) for n in walk(call) if text_of(n) == "polynomial_exp" and n.type == "identifier"]
    of_type = "float" if unit.type_of(total.value) == "float" and not calls_library(second.loop.body) else kind
    inner, outer = loop.variable, loop.type
    return f"""\
for ({outer} {tile} = {loop.start}; {tile} < {loop.stop}; {tile} += {size}) {{
  const {outer} {stop} = {tile} + {size} < {loop.stop} ? {tile} + {size} : {loop.stop};
  float {own} = {peak.name};
#pragma omp simd reduction(max:{own})
  for ({outer} {inner} = {tile}; {inner} < {stop}; ++{inner}) {{
{body_lines(unit, loop, swap, depth="    ")}
  }}
  if ({own} > {peak.name}) {{
    {total.name} *= {function}({peak.name} - {own});
    {peak.name} = {own};
  }}
  {of_type} {part} = 0;
#pragma omp simd reduction(+:{part})
  for ({outer} {second.loop.variable} = {tile}; {second.loop.variable} < {stop}; ++{second.loop.variable}) {{
{body_lines(unit, second.loop, add, depth="    ")}
  }}
  {total.name} += {part};
}}"""


def _find_scratch_row(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    size = unit.fresh("SCRATCH")
    for plan in plans(unit):
        target, holder = _only_store(unit, plan), plan.loop.node.parent
        if target is None or holder is None or plan.loop.start != "0" or not _reads(plan.loop, target):
            continue
        found = unit.declaration_of(target, plan.loop.node)
        if (
            found is None
            or found[0].parent is None
            or found[0].parent.id != holder.id
            or unit.type_of_name(target, plan.loop.node) != "float*"
        ):
            continue
        uses = [n for n in walk(holder) if n.type == "identifier" and text_of(n) == target and n.start_byte > found[0].end_byte]
        earlier = [n for n in uses if n.end_byte <= plan.loop.first_byte]
        later = [n for n in uses if n.start_byte > plan.loop.node.end_byte]
        bounded = all(_stays_below(unit, n, plan.loop.stop) for n in earlier)
        if later or not earlier or not bounded or not _starts_with_store(earlier):
            continue
        targets = {t.id for t in written(plan.loop.body)}
        reads = [n for n in uses if n not in earlier and n.parent is not None and n.parent.id not in targets]
        scratch, near = unit.fresh("scratch"), unit.fresh("near")
        place = found[0].end_byte
        indent = unit.indent_of(found[0].start_byte)
        text = f"\n{indent}alignas(64) float {scratch}[{size}];"
        text += f"\n{indent}float* const {near} = {plan.loop.stop} <= {size} ? {scratch} : {target};"
        edits = [Edit(place, place, text), *(Edit(n.start_byte, n.end_byte, near) for n in (*earlier, *reads))]
        tunables = ((size, "8192", "2048 4096 8192 16384 32768"),)
        sites.append(Site(unit.line_of(plan.loop.node), tuple(edits), tunables=tunables))
    return sites


def _stays_below(unit: Unit, use: Node, stop: str) -> bool:
    """Whether a use is `name[i]` with an i that runs below `stop`."""
    access = subscript(use.parent) if use.parent is not None else None
    return access is not None and access[1].type == "identifier" and _runs_below(unit, access[1], stop)


def _runs_below(unit: Unit, counter: Node, stop: str) -> bool:
    name = text_of(counter)
    for scope in ancestors(counter):
        loop = next((one for one in unit.loops if one.node.id == scope.id), None)
        if loop is not None and loop.variable == name:
            return loop.stop == stop or _is_minimum(unit, loop.stop, loop.node, stop)
    found = unit.declaration_of(name, counter)
    value = found[1].child_by_field_name("value") if found is not None else None
    sides = operands(value) if value is not None and value.type == "binary_expression" and operator_of(value) == "+" else None
    if sides is None:
        return False
    base, lane = (text_of(s) for s in sides)
    limits = {
        "".join(tokens(c))
        for a in ancestors(counter)
        if a.type == "for_statement" and (c := a.child_by_field_name("condition")) is not None
    }
    counts = {limit.split("<", 1)[1] for limit in limits if limit.startswith(f"{lane}<")}
    ends = [limit.rsplit("<=", 1)[1] for limit in limits for count in counts if limit.startswith(f"{base}+{count}<=")]
    return any(end == stop or _is_minimum(unit, end, counter, stop) for end in ends)


def _is_minimum(unit: Unit, name: str, at: Node, stop: str) -> bool:
    """Whether a name was declared as `a < stop ? a : stop`, or so with another such name for `stop`."""
    found = unit.declaration_of(name, at)
    value = found[1].child_by_field_name("value") if found is not None else None
    if found is None or value is None or value.type != "conditional_expression":
        return False
    condition, yes, no = ("".join(tokens(unwrapped(n))) for n in value.named_children[:3])
    return condition == f"{yes}<{no}" and (no == stop or _is_minimum(unit, no, found[0], stop))


def _starts_with_store(earlier: list[Node]) -> bool:
    """Whether the first use is a plain store, so that what is read later was written by this code and not by the caller."""
    access = earlier[0].parent
    holder = access.parent if access is not None else None
    if access is None or holder is None or holder.type != "assignment_expression" or operator_of(holder) != "=":
        return False
    return holder.child_by_field_name("left") == access


def _find_exp_down(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    for node in walk(unit.root):
        argument = node.child_by_field_name("arguments") if callee(node) == "polynomial_exp" else None
        inside = argument.named_children[0] if argument is not None and argument.named_child_count == 1 else None
        sides = operands(inside) if inside is not None and inside.type == "binary_expression" and operator_of(inside) == "-" else None
        function = node.child_by_field_name("function")
        if (
            sides is not None
            and function is not None
            and sides[1].type == "identifier"
            and _is_maximum(unit, sides[0], text_of(sides[1]), node)
        ):
            edit = Edit(function.start_byte, function.end_byte, "polynomial_exp_down")
            sites.append(Site(unit.line_of(node), (edit,), helpers=("polynomial_exp_down",)))
    return sites


def _is_maximum(unit: Unit, value: Node, peak: str, at: Node) -> bool:
    """Whether `peak` was made the maximum of `value` over the whole range of the loop around `at`, and both stayed as they were."""
    here = _whole_loop(unit, at)
    own = next((loop for a in ancestors(at) for loop in unit.innermost_loops if loop.node.id == a.id), None)
    block_node = here[0].parent if here is not None else None
    if here is None or own is None or block_node is None:
        return False
    for loop in unit.innermost_loops:
        there = _whole_loop(unit, loop.body)
        same_block = there is not None and there[0].parent is not None and there[0].parent.id == block_node.id
        if there is None or not same_block or there[1:] != here[1:] or there[0].end_byte > here[0].start_byte:
            continue
        found = [r for s in loop.statements if (r := reduction_of(s)) is not None and r.operation == "max" and r.name == peak]
        spelt = _canonical_tokens(value, own.variable)
        if found and _canonical_tokens(unwrapped(found[0].value), loop.variable) == spelt:
            touched = [t for t in written(block_node) if not there[0].start_byte <= t.start_byte < there[0].end_byte]
            changed = {a[0] if (a := subscript(t)) is not None else text_of(t) for t in touched}
            writes = sum(text_of(t) == peak for t in written(there[0]))
            return not changed & ({peak} | (names(value) - {own.variable})) and writes == 1
    return False


def _whole_loop(unit: Unit, at: Node) -> tuple[Node, str, str] | None:
    """The outermost loop around a node that starts anew for each turn of the loop around it: the for statement, start and stop.

    That is the innermost loop, or the loop over strips or tiles that it is cut into.
    """
    loops = [a for a in ancestors(at) if a.type == "for_statement"]
    if not loops:
        return None
    node, inner = loops[0], next((one for one in unit.loops if one.node.id == loops[0].id), None)
    if inner is None:
        return None
    start, stop = inner.start, inner.stop
    for outer in loops[1:]:
        begin, condition = outer.child_by_field_name("initializer"), outer.child_by_field_name("condition")
        update = outer.child_by_field_name("update")
        sides = operands(condition) if condition is not None else None
        if begin is None or sides is None or update is None or operator_of(update) != "+=" or text_of(sides[0]) != start:
            break
        if operator_of(condition) != "<" or not _is_minimum(unit, stop, node, text_of(sides[1])):  # type: ignore[arg-type]
            return None
        declarator = begin.child_by_field_name("declarator")
        start, stop = text_of(declarator.child_by_field_name("value")) if declarator is not None else "", text_of(sides[1])
        node = outer
    return node, start, stop


KEEP_VALUES = Motif(
    "keep_values",
    "Two loops over the same range compute the same elementary function, and the later one stores to an array that nothing reads before.",
    "The earlier loop stores the value there and the later one reads it back, instead of computing it twice.",
    _find_keep_values,
    weight=3.0,
)

FUSE_LOOPS = Motif(
    "fuse_loops",
    "Two neighbouring loops run over the same range, and neither needs a sum of the other or an element that the other stores elsewhere.",
    "They become one loop: one pass over memory, and values stay in registers.",
    _find_fuse_loops,
    weight=2.0,
)

ONLINE_TILES = Motif(
    "online_tiles",
    "A loop finds a maximum and the next one sums exponentials of the same values less that maximum.",
    "Both run tile by tile in one pass, the sum so far being rescaled when the maximum grows: the row is read from memory once.",
    _find_online_tiles,
    weight=1.0,
)

SCRATCH_ROW = Motif(
    "scratch_row",
    "A block stores a row of floats, reads it back in its last loop over that row, and overwrites it there.",
    "The row in between lives in a small local array, so that it stays in cache; rows that are longer stay in place.",
    _find_scratch_row,
    weight=0.3,
)

SCRATCH_AND_STREAM = ChainedMotif(
    "scratch_and_stream",
    "A block stores a row of floats, reads it back in its last loop over that row, and overwrites it there.",
    "The row in between lives in a small local array and the last loop writes past the caches; neither pays without the other.",
    _find_scratch_row,
    then=STREAMING_STORES,
)

EXP_DOWN = Motif(
    "exp_down",
    "The inline exponential is taken of a value less the maximum of such values, found by an earlier loop over the same range.",
    "The argument is never above 0, so the test for overflow goes.",
    _find_exp_down,
    weight=1.5,
)
