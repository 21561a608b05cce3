"""Rewrites: motifs on the syntax tree of a C++ kernel, each with its precondition and effect in words.

`MOTIFS` lists them as entry points do; those installed by others are found under the entry-point group `evokern.rewrites`. The
order is that in which they tend to help: first what makes loops vectorisable, then fewer passes, then the way to memory.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points

from evokern.errors import Unavailable
from evokern.operators.rewrites.motif import Motif, Variant

_HERE = "evokern.operators.rewrites"
MOTIFS: tuple[str, ...] = (
    f"{_HERE}.elementary:TANH_TO_LOGISTIC",
    f"{_HERE}.elementary:POLYNOMIAL_EXP",
    f"{_HERE}.elementary:POLYNOMIAL_TANH",
    f"{_HERE}.passes:FUSE_LOOPS",
    f"{_HERE}.passes:KEEP_VALUES",
    f"{_HERE}.passes:EXP_DOWN",
    f"{_HERE}.invariants:RECIPROCAL",
    f"{_HERE}.invariants:HOIST_INVARIANT",
    f"{_HERE}.invariants:ROW_POINTER",
    f"{_HERE}.reductions:SIMD_MAX",
    f"{_HERE}.reductions:BRANCHLESS_MAX",
    f"{_HERE}.reductions:OMP_SIMD",
    f"{_HERE}.reductions:FLOAT_TILES",
    f"{_HERE}.reductions:ACCUMULATOR_LANES",
    f"{_HERE}.passes:ONLINE_TILES",
    f"{_HERE}.passes:SCRATCH_AND_STREAM",
    f"{_HERE}.passes:SCRATCH_ROW",
    f"{_HERE}.memory:STREAMING_STORES",
    f"{_HERE}.memory:PREFETCH",
    f"{_HERE}.invariants:RESTRICT",
    f"{_HERE}.compiling:PARALLEL_ROWS",
    f"{_HERE}.compiling:UNROLL",
    f"{_HERE}.compiling:FLAGS",
)
"""First-party motifs as `module:object`."""

__all__ = ["MOTIFS", "Motif", "Variant", "load_motifs"]


@lru_cache(maxsize=1)
def load_motifs() -> tuple[Motif, ...]:
    """Every motif: the first-party ones in their order, then installed ones by name.

    Raises:
        Unavailable: An installed motif cannot be loaded or is none.
    """
    found = [_loaded(path) for path in MOTIFS]
    known = {motif.name for motif in found}
    for entry in sorted(entry_points(group="evokern.rewrites"), key=lambda e: e.name):
        motif = _loaded(entry.value)
        if motif.name not in known:
            found.append(motif)
            known.add(motif.name)
    return tuple(found)


def _loaded(path: str) -> Motif:
    module, _, name = path.partition(":")
    try:
        motif = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Unavailable(
            f"the rewrite cannot be loaded: {error}", where=path, mend="Repair or remove the package that offers it"
        ) from error
    if not isinstance(motif, Motif):
        raise Unavailable(f"is a {type(motif).__name__}, not a Motif", where=path, mend="Mend or remove what offers it")
    return motif
