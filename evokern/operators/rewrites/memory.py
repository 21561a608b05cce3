"""Motifs on the way to memory: stores past the caches, loads before they are needed."""

from __future__ import annotations

from tree_sitter import Node

from evokern.operators.rewrites.motif import Motif, Site, block, body_lines
from evokern.operators.rewrites.plan import is_remainder, plans
from evokern.syntax.cpp import Edit, Loop, Unit, ancestors, assignment, operands, operator_of, subscript, text_of, tokens, walk

LINE_FLOATS = 16
"""Floats of one 64-byte cache line."""


def _find_streaming_stores(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    count = unit.fresh("STREAM")
    for plan in plans(unit):
        loop, holder = plan.loop, plan.loop.node.parent
        last = loop.statements[-1] if loop.statements else None
        store = assignment(last) if last is not None else None
        access = subscript(store[0]) if store is not None else None
        if plan.reductions or len(plan.stores) != 1 or store is None or access is None or store[1] != "=" or holder is None:
            continue
        target = access[0]
        if unit.type_of_name(target, loop.node) != "float*" or unit.type_of(store[2]) not in ("float", "double"):
            continue
        if _is_used_elsewhere(unit, target, plan.loop):
            continue
        sites.append(_streaming_site(unit, loop, target, store[2], count))
    return sites


def _is_used_elsewhere(unit: Unit, target: str, loop: Loop) -> bool:
    """Whether an array is read in its loop, used after it, or is no row of its own within the loops around it."""
    found = unit.declaration_of(target, loop.node)
    if found is None:
        return True
    if found[0].type == "parameter_declaration":
        within = [n for n in walk(loop.node) if n.type == "identifier" and text_of(n) == target]
        function = next((a for a in ancestors(loop.node) if a.type == "function_definition"), None)
        every = [n for n in walk(function) if n.type == "identifier" and text_of(n) == target] if function is not None else []
        nested = any(a.type in ("for_statement", "while_statement", "do_statement") for a in ancestors(loop.node))
        return nested or len(within) != 1 or any(n.start_byte >= loop.node.end_byte for n in every)
    is_initialised_array = any(n.type == "array_declarator" for n in walk(found[0]))
    around = [a.id for a in ancestors(loop.node) if a.type in ("for_statement", "while_statement", "do_statement")]
    outside = any(a.type in ("for_statement", "while_statement", "do_statement") for a in ancestors(found[0]))
    scope = found[0].parent
    if is_initialised_array or scope is None or (around and not outside):
        return True
    inner = [i for i in around if i not in [a.id for a in ancestors(found[0])]]
    uses = [n for n in walk(scope) if n.type == "identifier" and text_of(n) == target]
    within = [n for n in uses if loop.node.start_byte <= n.start_byte < loop.node.end_byte]
    after = [n for n in uses if n.start_byte >= loop.node.end_byte]
    return bool(inner) or bool(after) or len(within) != 1


def _streaming_site(unit: Unit, loop: Loop, target: str, value: Node, count: str) -> Site:
    value_at, base, lane, staged = (unit.fresh(n) for n in ("value_at", "base", "lane", "staged"))
    last = loop.statements[-1]
    returned = [Edit(last.start_byte, value.start_byte, "return ")]
    kind, name = loop.type, loop.variable
    text = f"""\
{{
  const auto {value_at} = [&](const {kind} {name}) __attribute__((always_inline)) -> float {{
{body_lines(unit, loop, returned, depth="    ")}
  }};
  {kind} {base} = {loop.start};
  for (; {base} < {loop.stop} && reinterpret_cast<__UINTPTR_TYPE__>({target} + {base}) % 64 != 0; ++{base}) {{
    {target}[{base}] = {value_at}({base});
  }}
  for (; {base} + {count} <= {loop.stop}; {base} += {count}) {{
    alignas(64) float {staged}[{count}];
#pragma omp simd
    for (int {lane} = 0; {lane} < {count}; ++{lane}) {staged}[{lane}] = {value_at}({base} + {lane});
    for (int {lane} = 0; {lane} < {count}; {lane} += {LINE_FLOATS}) stream_line({target} + {base} + {lane}, {staged} + {lane});
  }}
  for (; {base} < {loop.stop}; ++{base}) {target}[{base}] = {value_at}({base});
  stream_fence();
}}"""
    replaced = Edit(loop.first_byte, loop.node.end_byte, block(unit.indent_of(loop.first_byte), text))
    tunables = ((count, "64", "16 32 64 128 256"),)
    return Site(unit.line_of(loop.node), (replaced,), helpers=("stream_line", "stream_fence"), tunables=tunables)


def _row_arrays(unit: Unit, loop_node: Node, counter: str) -> list[str]:
    """Arrays that a loop reads at its counter and that are another row each time around: pointers to const declared within a loop."""
    found: dict[str, None] = {}
    for node in walk(loop_node):
        access = subscript(node)
        if access is None or text_of(access[1]) != counter:
            continue
        declaration = unit.declaration_of(access[0], node)
        if declaration is None or "const" not in tokens(declaration[0])[:1] or not unit.type_of_name(access[0], node).endswith("*"):
            continue
        is_parameter = declaration[0].type == "parameter_declaration"
        if is_parameter or any(a.type == "for_statement" for a in ancestors(declaration[0])):
            found[access[0]] = None
    return list(found)


def _find_prefetch(unit: Unit) -> list[Site]:
    sites: list[Site] = []
    distance, strip_size = unit.fresh("PREFETCH"), unit.fresh("STRIP")
    tunables = ((distance, "4096", "512 1024 2048 4096 8192 16384"), (strip_size, "256", "64 128 256 512"))
    for plan in plans(unit):
        loop = plan.loop
        arrays = _row_arrays(unit, loop.body, loop.variable)
        if not arrays or _prefetches(loop.node) or is_remainder(unit, loop):
            continue
        strip, stop, ahead = unit.fresh("strip"), unit.fresh("strip_stop"), unit.fresh("ahead")
        step = f"{ahead} += {LINE_FLOATS}"
        hints = "\n".join(
            f"  for (int {ahead} = 0; {ahead} < {strip_size}; {step}) __builtin_prefetch({a} + {strip} + {ahead} + {distance});"
            for a in arrays
        )
        pragma = f"{text_of(loop.pragma).strip()}\n" if loop.pragma is not None else ""
        kind, name = loop.type, loop.variable
        text = f"""\
for ({kind} {strip} = {loop.start}; {strip} < {loop.stop}; {strip} += {strip_size}) {{
  const {kind} {stop} = {strip} + {strip_size} < {loop.stop} ? {strip} + {strip_size} : {loop.stop};
{hints}
{pragma}  for ({kind} {name} = {strip}; {name} < {stop}; ++{name}) {{
{body_lines(unit, loop, depth="    ")}
  }}
}}"""
        replaced = Edit(loop.first_byte, loop.node.end_byte, block(unit.indent_of(loop.first_byte), text))
        sites.append(Site(unit.line_of(loop.node), (replaced,), tunables=tunables))
    return [*sites, *_prefetch_strides(unit, distance)]


def _prefetch_strides(unit: Unit, distance: str) -> list[Site]:
    """Sites in loops that already go by strides: `for (; base + COUNT <= stop; base += COUNT)` around `const T i = base + lane`."""
    sites: list[Site] = []
    for node in walk(unit.root):
        body, update = node.child_by_field_name("body"), node.child_by_field_name("update")
        if node.type != "for_statement" or body is None or body.type != "compound_statement" or update is None:
            continue
        sides = operands(update)
        if sides is None or operator_of(update) != "+=" or _prefetches(node):
            continue
        base, count = text_of(sides[0]), text_of(sides[1])
        counters = [
            n for n in walk(body) if n.type == "init_declarator" and text_of(n.child_by_field_name("value")).startswith(f"{base} + ")
        ]
        arrays = [a for n in counters for a in _row_arrays(unit, body, text_of(n.child_by_field_name("declarator")))]
        first = next((n for n in body.children if n.type != "{"), None)
        if not arrays or first is None:
            continue
        ahead, indent = unit.fresh("ahead"), unit.indent_of(node.start_byte) + "  "
        step = f"{ahead} += {LINE_FLOATS}"
        hints = "".join(
            f"\n{indent}for (int {ahead} = 0; {ahead} < {count}; {step}) __builtin_prefetch({a} + {base} + {ahead} + {distance});"
            for a in dict.fromkeys(arrays)
        )
        place = body.start_byte + 1
        tunables = ((distance, "4096", "512 1024 2048 4096 8192 16384"),)
        sites.append(Site(unit.line_of(node), (Edit(place, place, hints),), tunables=tunables, note="strided"))
    return sites


def _prefetches(node: Node) -> bool:
    around = [a for a in ancestors(node) if a.type == "for_statement"]
    near = [node, *around[:1]] if around and "+=" in tokens(around[0].child_by_field_name("update") or around[0]) else [node]
    return any(n.type == "identifier" and text_of(n) == "__builtin_prefetch" for one in near for n in walk(one))


STREAMING_STORES = Motif(
    "streaming_stores",
    "An innermost loop does nothing but store floats to a row that is neither read there nor used afterwards.",
    "Whole cache lines go to memory past the caches, which saves reading them first; the ends are stored as before.",
    _find_streaming_stores,
    weight=1.5,
)

PREFETCH = Motif(
    "prefetch",
    "A loop reads, at its own counter, a row that is another one each time the loop is entered.",
    "Lines a tunable distance ahead are asked for early; past the end of the row that is the next row, which then arrives in time.",
    _find_prefetch,
    weight=1.5,
)
