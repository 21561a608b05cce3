"""Compiler flags: the fixed ones, and those that a kernel chose from the white list."""

from __future__ import annotations

from evokern.building import DATELESS
from evokern.kernel import Kernel
from evokern.syntax.flags import flags_of

FIXED = ("-O3", "-std=c++17", "-march=native", "-fopenmp", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", *DATELESS)
"""Flags of every build; part of the fingerprint. -fno-math-errno lets sqrt and the like become one instruction, -fno-trapping-math
lets selects be vectorised; PyTorch is built with both."""


def flags_for(kernel: Kernel) -> tuple[str, ...]:
    """All flags that change what is built, the kernel's own after the fixed ones, so that they win.

    Raises:
        evokern.errors.SourceError: The kernel asks for a flag outside the white list.
    """
    return (*FIXED, *flags_of(kernel.source))


def quiet_flags(*, is_clang: bool) -> tuple[str, ...]:
    """Flags that change only what is printed: a source with a thousand errors is told about twenty."""
    return ("-w", "-ferror-limit=20") if is_clang else ("-w", "-fmax-errors=20", "-fdiagnostics-color=never")
