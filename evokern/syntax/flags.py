"""Compiler flags that a C++ kernel may choose for itself, in a `// flags:` line.

None of them changes floating-point state for the whole process: -ffast-math, -Ofast and -funsafe-math-optimizations are not
here because gcc then links crtfastmath.o, which sets flush-to-zero in every thread of whatever loads the library
(gcc manual, "-mdaz-ftz").
"""

from __future__ import annotations

import re

from evokern.errors import SourceError

ALLOWED_FLAGS: frozenset[str] = frozenset(
    {
        "-O2",
        "-O3",
        "-fno-trapping-math",
        "-ftrapping-math",
        "-fno-signed-zeros",
        "-fassociative-math",
        "-freciprocal-math",
        "-ffinite-math-only",
        "-ffp-contract=off",
        "-fno-tree-vectorize",
        "-fno-tree-slp-vectorize",
        "-funroll-loops",
        "-fpeel-loops",
        "-fprefetch-loop-arrays",
        "-fno-prefetch-loop-arrays",
        "-ftree-loop-distribution",
        "-fno-tree-loop-distribution",
        "-fno-tree-loop-distribute-patterns",
        "-mprefer-vector-width=128",
        "-mprefer-vector-width=256",
        "-mprefer-vector-width=512",
        "-fvect-cost-model=unlimited",
        "-fvect-cost-model=dynamic",
        "-fvect-cost-model=very-cheap",
    }
)
"""The white list."""

FLAGS_LINE = re.compile(r"^[ \t]*//[ \t]*flags:(.*)$", re.MULTILINE)
_WHOLE_LINE = re.compile(FLAGS_LINE.pattern + r"\n?", re.MULTILINE)


def flags_of(source: str) -> tuple[str, ...]:
    """Flags that a C++ source asks for, in the order of its `// flags:` lines, each once.

    Args:
        source: Text of a C dialect.

    Returns:
        Flags from `ALLOWED_FLAGS`; empty where there is no such line.

    Raises:
        SourceError: A flag is not on the white list.
    """
    chosen: dict[str, None] = {}
    for match in FLAGS_LINE.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        for flag in match.group(1).replace(",", " ").split():
            if flag not in ALLOWED_FLAGS:
                raise SourceError(
                    f"compiler flag '{flag[:80]}' is not allowed", where=f"line {line}", mend=f"Allowed: {' '.join(sorted(ALLOWED_FLAGS))}"
                )
            chosen[flag] = None
    return tuple(chosen)


def with_flags(source: str, flags: tuple[str, ...]) -> str:
    """The source with exactly these flags, in one `// flags:` line at its top (none where `flags` is empty)."""
    # A line ends where `flags_of` and a compiler see its end; `splitlines` knows more ends, within comments and strings too.
    bare = _WHOLE_LINE.sub("", source)
    return f"// flags: {' '.join(flags)}\n{bare}" if flags else bare
