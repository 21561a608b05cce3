"""What a Triton kernel does and needs, in terms that predict time: from its artefact, and from the disassembly of its binaries.

kernels        that the largest visible workload launches, counted by name; all else is of these
registers      of a thread, the most of them; spill_bytes, local memory of a thread, where Triton's kernels have what is spilled
shared_bytes   of a block, the most
warps, stages  of the first
resident       share of a multiprocessor's threads that stay resident, the least; occupancy is its class
wide, wide_share, units, ...   as `evokern_gpu.sass` tells them
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evokern_gpu import resources, sass

from evokern_triton.artefact import Specialisation
from evokern_triton.target import Target

_USAGE = re.compile(r"^\s*Function (\S+):\s*\n\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", re.MULTILINE)


def usage(printed: str) -> dict[str, tuple[int, int]]:
    """(registers, local bytes) of each function, from what `cuobjdump -res-usage` printed; may be cut anywhere."""
    return {match.group(1): (int(match.group(2)), max(int(match.group(3)), int(match.group(5)))) for match in _USAGE.finditer(printed)}


def complaint(made: Specialisation, target: Target, registers: int = 0) -> str:
    """Why a kernel cannot be launched, in one line; empty where it can.

    Args:
        made: The kernel.
        target: Where.
        registers: Of one thread; 0 where they are not known.
    """
    threads = made.warps * target.warp_size
    if threads > target.threads:
        return f"{made.symbol}: {made.warps} warps are {threads} threads a block; the device takes {target.threads}"
    if made.shared_bytes > target.shared_bytes:
        return f"{made.symbol}: {made.shared_bytes} bytes of shared memory a block; there are {target.shared_bytes}"
    if registers * threads > target.registers:
        return f"{made.symbol}: {registers} registers in each of {threads} threads; a block may have {target.registers}"
    return ""


def traits(made: Sequence[Specialisation], target: Target, used: Mapping[str, tuple[int, int]], listing: str) -> dict[str, str]:
    """Descriptors of an artefact.

    Args:
        made: What the largest visible workload launches, in order.
        target: What for.
        used: As `usage` gives it; functions that it lacks are taken as they are.
        listing: Their binaries, disassembled, one after the other; empty where they could not be.
    """
    if not made:
        return {}
    found = {
        "kernels": str(len({one.symbol.rpartition("_")[0] for one in made})),
        "shared_bytes": str(max(one.shared_bytes for one in made)),
        "warps": str(made[0].warps),
        "stages": str(made[0].stages),
        **sass.from_listing(listing),
    }
    known = [used[one.symbol] for one in made if one.symbol in used]
    if known:
        found |= {"registers": str(max(known)[0]), "spill_bytes": str(max(local for _, local in known))}
    resident = [_resident(one, target, used[one.symbol][0]) for one in made if one.symbol in used]
    shares = [share for share in resident if share is not None]
    if shares:
        found |= {"resident": f"{min(shares):.2f}", "occupancy": resources.level(min(shares))}
    return found


def _resident(made: Specialisation, target: Target, registers: int) -> float | None:
    arch = resources.arch_of(f"sm_{target.arch}") if target.platform == "cuda" else None
    if arch is None:
        return None
    need = resources.Resources(made.symbol, registers, 0, 0, made.shared_bytes, 0)
    return resources.occupancy(need, arch, made.warps * target.warp_size)
