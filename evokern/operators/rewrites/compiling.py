"""Motifs that steer the compiler or the run time: threads, unrolling, flags."""

from __future__ import annotations

from evokern.errors import SourceError
from evokern.operators.rewrites.motif import HELPERS, Motif, Site
from evokern.operators.rewrites.plan import is_remainder
from evokern.syntax.cpp import PURE_CALLS, Edit, Loop, Unit, ancestors, callee, declared, subscript, text_of, walk, written
from evokern.syntax.flags import FLAGS_LINE, flags_of

OFFERED_FLAGS = (
    "-fno-trapping-math",
    "-funroll-loops",
    "-fno-signed-zeros",
    "-mprefer-vector-width=256",
    "-mprefer-vector-width=512",
    "-fvect-cost-model=unlimited",
    "-fno-tree-loop-distribute-patterns",
    "-O2",
)
"""Flags that the motif adds, one at a time: those that leave IEEE arithmetic on finite numbers and NaN as it is."""

RIVALS = (("-O2", "-O3"), ("-ftrapping-math", "-fno-trapping-math"))


def _find_flags(unit: Unit) -> list[Site]:
    try:
        chosen = flags_of(unit.source)
    except SourceError:
        return []
    sites = []
    line = FLAGS_LINE.search(unit.source)
    for flag in OFFERED_FLAGS:
        rivals = {r for pair in RIVALS if flag in pair for r in pair}
        family = flag.split("=")[0] + "="
        if flag in chosen or rivals & set(chosen) or any("=" in flag and c.startswith(family) for c in chosen):
            continue
        if line is None:
            edit = Edit(0, 0, f"// flags: {flag}\n")
        else:
            end = len(unit.source[: line.end()].rstrip().encode("utf-8", "surrogateescape"))
            edit = Edit(end, end, f" {flag}")
        sites.append(Site(1, (edit,), note=flag.lstrip("-")))
    return sites


def _outermost(unit: Unit, loop: Loop) -> bool:
    kinds = ("for_statement", "while_statement", "do_statement", "lambda_expression")
    return not any(a.type in kinds for a in ancestors(loop.node)) and any(a.type == "function_definition" for a in ancestors(loop.node))


def _is_thread_safe(unit: Unit, loop: Loop) -> bool:
    own = declared(loop.body)
    known = set(HELPERS) | {"__builtin_prefetch", "reinterpret_cast"} | own
    for node in walk(loop.body):
        if node.type in ("return_statement", "goto_statement", "throw_statement"):
            return False
        if node.type == "call_expression" and callee(node) not in known and callee(node) not in PURE_CALLS | unit.pure_functions:
            return False
        if node.type == "declaration" and any(text_of(c) == "static" for c in node.children):
            return False
    for target in written(loop.body):
        access = subscript(target)
        name = access[0] if access is not None else text_of(target)
        if name not in own and not (access is not None and text_of(access[1]) == loop.variable):
            return False
    return True


def _find_parallel_rows(unit: Unit) -> list[Site]:
    sites = []
    for loop in unit.loops:
        if loop.pragma is not None or not _outermost(unit, loop) or not _is_thread_safe(unit, loop):
            continue
        if not any(n.type == "for_statement" for n in walk(loop.body)):
            continue
        text = f"#pragma omp parallel for schedule(static)\n{unit.indent_of(loop.node.start_byte)}"
        sites.append(Site(unit.line_of(loop.node), (Edit(loop.node.start_byte, loop.node.start_byte, text),)))
    return sites


def _find_unroll(unit: Unit) -> list[Site]:
    sites = []
    count = unit.fresh("UNROLL")
    for loop in unit.innermost_loops:
        inside_block = loop.node.parent is not None and loop.node.parent.type == "compound_statement"
        if loop.pragma is None and inside_block and not is_remainder(unit, loop):
            text = f"#pragma GCC unroll {count}\n{unit.indent_of(loop.node.start_byte)}"
            edit = Edit(loop.node.start_byte, loop.node.start_byte, text)
            sites.append(Site(unit.line_of(loop.node), (edit,), tunables=((count, "4", "1 2 4 8"),)))
    return sites


FLAGS = Motif(
    "flags",
    "The source may ask for one more compiler flag from the white list.",
    "The `// flags:` line gets it; what that does is for the measurement to say.",
    _find_flags,
    weight=0.7,
)

PARALLEL_ROWS = Motif(
    "parallel_rows",
    "The turns of an outermost loop write nothing but their own variables and rows.",
    "OpenMP shares the turns among the threads that the run grants.",
    _find_parallel_rows,
    threads=2,
)

UNROLL = Motif(
    "unroll",
    "An innermost loop has no pragma yet.",
    "gcc is asked to unroll it a tunable number of times.",
    _find_unroll,
    weight=0.5,
)
