"""What device code does, in terms that predict time, from nvdisasm's listing of a cubin.

wide_share   share of its accesses to global memory that move 128 bits or more, from 0.00 to 1.00
wide         class of that: none, some, most
units        what it uses beside plain arithmetic, of those in `UNITS`, joined by blanks; "plain" where nothing

Counts are of instructions as written and not as run: a loop counts once.
"""

from __future__ import annotations

import re
from pathlib import Path

READ = ("--print-code", "--no-dataflow")
"""Options, less program and file, with which nvdisasm prints what `from_listing` reads; the analysis of data flow would double its time."""

UNITS: dict[str, str] = {
    "tensor": r"[HIDBQO]?MMA\b|\w+GMMA|UTC\w*MMA",
    "bulk": r"UBLKCP|UTMA\w*|UBLKPF|UBLKRED",
    "async": r"LDGSTS",
    "special": r"MUFU",
    "shuffle": r"SHFL|REDUX|CREDUX",
    "shared": r"LDS|STS|LDSM|STSM|ATOMS",
    "atomic": r"ATOMG?\b|ATOM\b|REDG?\b|REDAS",
    "double": r"D(?:ADD|MUL|FMA|SETP)",
    "local": r"LDL|STL",
    "cluster": r"UCGABAR\w*|MAPA",
}
"""Instruction classes by name: regular expressions that match the beginning of a mnemonic."""

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P(?:T|\d+)\s+)?([A-Z][A-Z0-9_]*(?:\.\w+)*)", re.MULTILINE)
_GLOBAL = ("LDG", "STG", "LDGSTS", "LD", "ST")
_WIDE = re.compile(r"\.(?:128|256)\b")
_MOST = 0.5


def from_listing(text: str) -> dict[str, str]:
    """Traits of a cubin.

    Args:
        text: What nvdisasm printed; may be cut anywhere.

    Returns:
        The three traits, `wide_share` and `wide` only where there are accesses to global memory; empty where there is no instruction.
    """
    mnemonics = _INSTRUCTION.findall(text)
    if not mnemonics:
        return {}
    patterns = {name: re.compile(pattern) for name, pattern in UNITS.items()}
    kinds = set(mnemonics)
    used = [name for name, pattern in patterns.items() if any(pattern.match(kind) for kind in kinds)]
    found = {"units": " ".join(used) or "plain"}
    touching = [kind for kind in mnemonics if kind.partition(".")[0] in _GLOBAL]
    if touching:
        share = sum(bool(_WIDE.search(kind)) for kind in touching) / len(touching)
        found |= {"wide_share": f"{share:.2f}", "wide": "most" if share >= _MOST else "some" if share > 0 else "none"}
    return found


def command(disassembler: Path) -> list[str]:
    """Command, less the file, that prints what `from_listing` reads."""
    return [str(disassembler), *READ]
