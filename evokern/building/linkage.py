"""What a library asks of the system, read from its ELF headers and its disassembly by the tools of the toolchain.

imports       names that the linker must find elsewhere, without their versions
needed        libraries it names
loads         functions that run when it is loaded or unloaded, beyond the compiler's own: constructors, destructors, resolvers
segments      executable_stack, writable_code, text_relocations, thread_local, of those that it has
instructions  syscall, clock, of those that it has: the system and the time reached without a call

Symbols and not text: a name that a macro, an alias or a header hides is a symbol in the library all the same. What it looks up at
run time is not there, but the function that looks it up is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

READ = ("readelf", "--wide", "--dynamic", "--dyn-syms", "--program-headers", "--relocs")
"""Command, less the file, whose output `from_headers` reads. It prints no line that a candidate chose the beginning of."""

FACTS = ("imports", "needed", "loads", "segments", "instructions")

_IMPORT = re.compile(r"^\s+\d+: [0-9a-f]+\s+\S+\s+\w+\s+\w+\s+\w+(?:\s+\[[^\]]*\])?\s+UND (\S+)")
_RESOLVER = re.compile(r"^[0-9a-f]+\s+[0-9a-f]+ R_\w+_IRELATIV|^\s+\d+: [0-9a-f]+\s+\S+\s+IFUNC\s+\w+\s+\w+\s+\d+ ")
_NEEDED = re.compile(r"^ 0x[0-9a-f]+ \(NEEDED\)\s+Shared library: \[(.*)\]")
_ARRAY_BYTES = re.compile(r"^ 0x[0-9a-f]+ \((?:PRE)?(?:INIT|FINI)_ARRAYSZ\)\s+(\d+) \(bytes\)")
_TEXT_RELOCATIONS = re.compile(r"^ 0x[0-9a-f]+ \(TEXTREL\)|^ 0x[0-9a-f]+ \(FLAGS\)\s.*\bTEXTREL\b")
_SEGMENT = re.compile(r"^  ([A-Z_]+)(?:\s+0x[0-9a-f]+){5} (.)(.)(.) ")
_INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\t(?:(?:bnd|notrack|rep\w*|lock)\s+)*(\S+)\s*(\S*)")

_SYSTEM = {"syscall", "sysenter", "svc", "int"}
_CLOCKS = {"rdtsc", "rdtscp", "rdpmc"}
_ARM_CLOCK = re.compile(r"cntv?p?ct_el0", re.IGNORECASE)
_TRAPS = ("$0x3", "$0x29")
"""Breakpoint and fast failure: `int` instructions that ask the system for nothing."""

_POINTER = 8

COMPILERS_OWN = 2
"""Entries of its own that every compiler puts into the two arrays: one to begin with (frame_dummy), one at the end."""


def from_headers(text: str, own: int = COMPILERS_OWN) -> dict[str, str]:
    """Facts of a library.

    Args:
        text: What `READ` printed, before or after its disassembly.
        own: Entries that the compiler itself puts into the two arrays.

    Returns:
        By the names of `FACTS`, items joined by blanks, `loads` a number; empty where the text describes no library.
    """
    lines = text.splitlines()
    if not any(line.startswith("Dynamic section at offset") for line in lines):
        return {}
    imports = sorted({match.group(1).partition("@")[0] for line in lines if (match := _IMPORT.match(line))})
    arrays = sum(int(match.group(1)) for line in lines if (match := _ARRAY_BYTES.match(line))) // _POINTER
    resolvers = sum(bool(_RESOLVER.match(line)) for line in lines)
    return {
        "imports": " ".join(imports),
        "needed": " ".join(match.group(1).replace(" ", "_") for line in lines if (match := _NEEDED.match(line))),
        "loads": str(max(arrays - own, 0) + resolvers),
        "segments": " ".join(sorted(set(_segments(lines)))),
        "instructions": " ".join(sorted(set(_instructions(lines)))),
    }


def _segments(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if _TEXT_RELOCATIONS.match(line):
            yield "text_relocations"
        match = _SEGMENT.match(line)
        if match is None:
            continue
        kind, _, writable, executable = match.groups()
        if kind == "TLS":
            yield "thread_local"
        if executable == "E" and kind == "GNU_STACK":
            yield "executable_stack"
        elif executable == "E" and writable == "W":
            yield "writable_code"


def _instructions(lines: list[str]) -> Iterator[str]:
    for line in lines:
        match = _INSTRUCTION.match(line)
        if match is None:
            continue
        mnemonic, operand = match.groups()
        if mnemonic in _SYSTEM and operand not in _TRAPS:
            yield "syscall"
        elif mnemonic in _CLOCKS or (mnemonic == "mrs" and _ARM_CLOCK.search(line)):
            yield "clock"
