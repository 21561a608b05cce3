"""What a kernel does, in terms that predict time: read from the disassembly of its library and from its source.

passes     sweeps over a row in the source: 1, 2, 3 or more (3+)
simd       wide (256 bits or more), narrow (128 bits), none: what most of the arithmetic is done with
libm       no, scalar, vector: calls to the mathematical library; one scalar call an element outweighs everything else
nt_stores  yes, no: stores that bypass the caches, which saves reading what is only written
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

DISASSEMBLE = ("objdump", "--disassemble", "--no-show-raw-insn")
"""Command, less the file, whose output `from_disassembly` reads, all sections that can run; x86 in AT&T syntax, its default."""

_MOST_PASSES = 3
_LONGEST_UNROLLED = 64
_ENOUGH = 0.2

_INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\t(?:(?:bnd|notrack|rep\w*|lock)\s+)*(\S+)\s*(.*)$")
_CALLED = re.compile(r"<(\w+)@(?:plt|got)")
# Arithmetic only: moves, shuffles and logic also serve integers and address computation.
_X86_ARITHMETIC = re.compile(r"^v?(?:add|sub|mul|div|max|min|sqrt|rcp|rsqrt|fn?m(?:add|sub)(?:132|213|231)|round|cvt\w*2)(ps|pd|ss|sd)$")
_ARM_ARITHMETIC = re.compile(r"^f(?:n?m(?:add|sub|ul|la|ls)|add|sub|div|max|min|maxnm|minnm|sqrt)$")
_VECTOR_MATH = re.compile(r"^_ZGV[a-z]\w+_(\w+)$")
_MATH = re.compile(
    r"^(?:exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sin|cos|tan|sincos|asin|acos|atan|atan2|sinh|cosh|tanh|erf|erfc|cbrt|hypot|lgamma|tgamma|fmod)f?l?$"
)
_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")


def from_disassembly(text: str) -> dict[str, str]:
    """`simd`, `libm` and `nt_stores` of a library.

    Args:
        text: What `DISASSEMBLE` printed.

    Returns:
        The three traits; empty where the text holds no instruction.
    """
    instructions = [match.groups() for line in text.splitlines() if (match := _INSTRUCTION.match(line))]
    if not instructions:
        return {}
    widths = [width for mnemonic, operands in instructions if (width := _width(mnemonic, operands))]
    called = {match.group(1) for _, operands in instructions if (match := _CALLED.search(operands))}
    stores = any(mnemonic.startswith(("movnt", "vmovnt", "stnp")) and "dqa" not in mnemonic for mnemonic, _ in instructions)
    return {"simd": _simd(widths), "libm": _libm(called), "nt_stores": "yes" if stores else "no"}


def from_source(source: str) -> dict[str, str]:
    """`passes` of a C++ source: innermost loops, short ones of constant length and the tails of others left out."""
    from evokern.syntax.cpp import Unit

    passes = _passes(Unit(source).root)
    return {"passes": str(passes) if passes < _MOST_PASSES else f"{_MOST_PASSES}+"}


def _width(mnemonic: str, operands: str) -> str:
    """Width of one instruction: wide, narrow, scalar, or empty where it is no arithmetic on floating-point numbers."""
    match = _X86_ARITHMETIC.match(mnemonic)
    if match:
        if match.group(1) in ("ss", "sd"):
            return "scalar"
        return "wide" if "%ymm" in operands or "%zmm" in operands else "narrow"
    if _ARM_ARITHMETIC.match(mnemonic):
        return "wide" if re.search(r"\bz\d+\.", operands) else "narrow" if re.search(r"\bv\d+\.\d", operands) else "scalar"
    return ""


def _simd(widths: list[str]) -> str:
    # A vectorised loop keeps a scalar tail, often longer than its body, so a good share is enough.
    wide, narrow = widths.count("wide"), widths.count("narrow")
    if wide > 0 and wide >= _ENOUGH * len(widths):
        return "wide"
    return "narrow" if narrow > 0 and wide + narrow >= _ENOUGH * len(widths) else "none"


def _libm(called: set[str]) -> str:
    if any(_MATH.match(name) for name in called):
        return "scalar"
    return "vector" if any(_VECTOR_MATH.match(name) for name in called) else "no"


def _passes(node: Node) -> int:
    """Sweeps below a node: loops that hold no other sweep."""
    inner = sum(_passes(child) for child in node.children)
    if inner or node.type not in _LOOPS or _is_tail(node) or _is_short(node):
        return inner
    return 1


def _is_tail(loop: Node) -> bool:
    # `for (; col < cols; ++col)` goes on where the loop before it stopped.
    return loop.type == "for_statement" and loop.child_by_field_name("initializer") is None


def _is_short(loop: Node) -> bool:
    condition = loop.child_by_field_name("condition")
    right = condition.child_by_field_name("right") if condition is not None else None
    if right is None or right.type != "number_literal" or right.text is None:
        return False
    digits = right.text.decode().rstrip("uUlL")
    return re.fullmatch("[0-9]{1,9}", digits) is not None and int(digits) <= _LONGEST_UNROLLED
