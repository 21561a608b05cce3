"""What kernels need of an NVIDIA GPU, from ptxas' report, and what its architectures have.

Limits are those of the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

WARP = 32
REGISTERS_OF_A_THREAD = 255

_REGISTER_UNIT = 256
_RESERVED_SHARED = 1024
_SCHEDULERS = 4
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Arch:
    """What one multiprocessor of an architecture has.

    Attributes:
        threads: Resident threads.
        blocks: Resident blocks.
        shared_bytes: Shared memory of all its blocks.
        block_shared_bytes: Shared memory that one block may ask for.
        registers: 32-bit registers.
        block_threads: Threads of one block.
    """

    threads: int
    blocks: int
    shared_bytes: int
    block_shared_bytes: int
    registers: int = 65536
    block_threads: int = 1024


ARCHS: dict[str, Arch] = {
    "sm_75": Arch(1024, 16, 64 * _KIB, 64 * _KIB),
    "sm_80": Arch(2048, 32, 164 * _KIB, 163 * _KIB),
    "sm_86": Arch(1536, 16, 100 * _KIB, 99 * _KIB),
    "sm_87": Arch(1536, 16, 164 * _KIB, 163 * _KIB),
    "sm_89": Arch(1536, 24, 100 * _KIB, 99 * _KIB),
    "sm_90": Arch(2048, 32, 228 * _KIB, 227 * _KIB),
    "sm_100": Arch(2048, 32, 228 * _KIB, 227 * _KIB),
    "sm_103": Arch(2048, 32, 228 * _KIB, 227 * _KIB),
    "sm_110": Arch(1536, 24, 228 * _KIB, 227 * _KIB),
    "sm_120": Arch(1536, 24, 100 * _KIB, 99 * _KIB),
    "sm_121": Arch(1536, 24, 100 * _KIB, 99 * _KIB),
}
"""Known architectures, without the letter of a variant."""


def arch_of(name: str) -> Arch | None:
    """Limits of an architecture such as "sm_90a"; None where they are not known."""
    return ARCHS.get(name.rstrip("af"))


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel needs, as compiled.

    Attributes:
        name: Symbol in the binary.
        registers: Of one thread.
        stack_bytes: Of one thread, in local memory.
        spill_bytes: Stored and loaded because registers did not suffice, per thread.
        shared_bytes: Static shared memory of a block.
        barriers: Named barriers of a block.
        threads: Most threads of a block, from `__launch_bounds__`; 0 where the source does not say.
    """

    name: str
    registers: int
    stack_bytes: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    barriers: int = 0
    threads: int = 0


_FUNCTION = re.compile(r"^ptxas info\s*: Compiling entry function '([^']+)'")
_OTHER_FUNCTION = re.compile(r"^ptxas info\s*: Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"^ptxas info\s*: Used (\d+) registers(.*)$")
_ENTRY = re.compile(r"\.entry\s+(\w+)")
_MOST_THREADS = re.compile(r"^\s*\.(?:maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", re.MULTILINE)


def from_report(report: str, ptx: str = "") -> tuple[Resources, ...]:
    """Kernels of a compilation.

    Args:
        report: What `ptxas -v` printed, among anything else; other lines are passed over.
        ptx: The code that was compiled, for the launch bounds; may be cut anywhere.

    Returns:
        One a kernel, in the report's order; those whose part of the report is not whole are left out.
    """
    bounds = dict(_bounds(ptx))
    return tuple(replace(found, threads=bounds.get(found.name, 0)) for found in _reported(report.splitlines()))


def _reported(lines: Iterable[str]) -> Iterator[Resources]:
    entry, of_entry, stack, spilled = "", False, 0, 0
    for line in lines:
        if match := _FUNCTION.match(line):
            entry, of_entry, stack, spilled = match.group(1), True, 0, 0
        elif match := _OTHER_FUNCTION.match(line):
            of_entry = match.group(1) == entry
        elif of_entry and (match := _STACK.search(line)):
            stack, spilled = _number(match.group(1)), _number(match.group(2)) + _number(match.group(3))
        elif entry and (match := _USED.match(line)):
            more = match.group(2)
            yield Resources(entry, _number(match.group(1)), stack, spilled, _of(more, "bytes smem"), _of(more, "barriers"))
            entry = ""


def _of(text: str, what: str) -> int:
    match = re.search(rf"(\d+) {what}", text) or re.search(rf"used (\d+) {what}", text)
    return _number(match.group(1)) if match else 0


def _number(digits: str) -> int:
    return int(digits[:18])


def _bounds(ptx: str) -> Iterator[tuple[str, int]]:
    """Entry functions with their launch bounds, of those that have them."""
    entries = list(_ENTRY.finditer(ptx))
    ends = [entry.start() for entry in entries[1:]] + [len(ptx)]
    for here, end in zip(entries, ends, strict=False):
        head = ptx[here.start() : end].partition("{")[0]
        if match := _MOST_THREADS.search(head):
            x, y, z = (_number(part) if part else 1 for part in match.groups())
            yield here.group(1), x * y * z


def occupancy(need: Resources, arch: Arch, threads: int, dynamic_bytes: int = 0) -> float:
    """Share of a multiprocessor's resident threads that a kernel can keep, from 0 (it does not fit) to 1.

    Args:
        need: The kernel.
        arch: Where.
        threads: Of one block.
        dynamic_bytes: Shared memory asked for at launch, beside the static.

    Source: the occupancy calculator of the CUDA toolkit: registers are given out to warps in units of 256, over four schedulers, and
        the system keeps 1 KiB of shared memory for each block.
    """
    warps = -(-max(threads, 1) // WARP)
    of_a_warp = -(-max(need.registers, 1) * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    by_registers = arch.registers // _SCHEDULERS // of_a_warp * _SCHEDULERS // warps
    by_shared = arch.shared_bytes // (need.shared_bytes + dynamic_bytes + _RESERVED_SHARED)
    by_threads = arch.threads // (warps * WARP)
    return min(by_registers, by_shared, by_threads, arch.blocks) * warps * WARP / arch.threads


def complaint(need: Resources, arch: Arch, threads: int = 0, dynamic_bytes: int = 0) -> str:
    """Why a kernel cannot be launched, in one line; empty where it can.

    Args:
        need: The kernel.
        arch: Where.
        threads: Of one block; its launch bounds where 0, one warp where it has none.
        dynamic_bytes: Shared memory asked for at launch, beside the static.
    """
    threads = threads or need.threads or WARP
    if threads > arch.block_threads:
        return f"{need.name}: a block of {threads} threads; the device takes {arch.block_threads}"
    shared = need.shared_bytes + dynamic_bytes
    if shared > arch.block_shared_bytes:
        return f"{need.name}: {shared} bytes of shared memory; a block may have {arch.block_shared_bytes}"
    if need.registers > REGISTERS_OF_A_THREAD:
        return f"{need.name}: {need.registers} registers a thread; there are {REGISTERS_OF_A_THREAD}"
    if occupancy(need, arch, threads, dynamic_bytes) <= 0:
        return f"{need.name}: {need.registers} registers in each of {threads} threads; a multiprocessor has {arch.registers}"
    return ""


USUAL_THREADS = 256
"""Threads of a block where a kernel's launch bounds do not say; what its occupancy is then told for."""

_LEVELS = ((0.35, "low"), (0.7, "middle"), (2.0, "high"))


def traits(kernels: Iterable[Resources], arch: Arch | None) -> dict[str, str]:
    """Descriptors of a binary: sums and extremes over its kernels, as text.

    Returns:
        `kernels`, `registers` (most), `spill_bytes` (sum), `shared_bytes` (most), `barriers` (most), `resident` (least occupancy, a
        share) and its class `occupancy` (low, middle, high); the last two only for known architectures; empty where there is no kernel.
    """
    needs = tuple(kernels)
    if not needs:
        return {}
    found = {
        "kernels": str(len(needs)),
        "registers": str(max(need.registers for need in needs)),
        "spill_bytes": str(sum(need.spill_bytes for need in needs)),
        "shared_bytes": str(max(need.shared_bytes for need in needs)),
        "barriers": str(max(need.barriers for need in needs)),
    }
    if arch is None:
        return found
    share = min(occupancy(need, arch, need.threads or USUAL_THREADS) for need in needs)
    return found | {"resident": f"{share:.2f}", "occupancy": level(share)}


def level(share: float) -> str:
    """Class of an occupancy: low, middle or high."""
    return next(name for below, name in _LEVELS if share < below)
