"""Compiler flags that a kernel of a C dialect may choose for itself, in a `// flags:` line.

None of them changes floating-point state for the whole process: -ffast-math, -Ofast and -funsafe-math-optimizations are not
here because gcc then links crtfastmath.o, which sets flush-to-zero in every thread of whatever loads the library
(gcc manual, "-mdaz-ftz"). On a GPU the same wishes change the code of one kernel and nothing around it, so they are allowed there.
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
"""The white list for C++ on a processor."""

CUDA_FLAGS: frozenset[str] = frozenset(
    {
        "--use_fast_math",
        "--extra-device-vectorization",
        "-fmad=false",
        "-ftz=true",
        "-prec-div=false",
        "-prec-sqrt=false",
        "-restrict",
        "-arch=sm_90a",
        "-arch=sm_100a",
        "-arch=sm_103a",
        "-Xptxas=-O1",
        "-Xptxas=-O2",
        "-Xptxas=-dlcm=ca",
        "-Xptxas=-dlcm=cg",
        *(f"-maxrregcount={count}" for count in (32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 160, 168, 192, 224, 255)),
    }
)
"""The white list for CUDA, as nvcc spells it. `-arch=sm_90a` asks for what only that very generation of devices has."""

HIP_FLAGS: frozenset[str] = frozenset(
    {
        "-O2",
        "-ffp-contract=off",
        "-fgpu-flush-denormals-to-zero",
        "-fno-signed-zeros",
        "-fno-unroll-loops",
        "-munsafe-fp-atomics",
    }
)
"""The white list for HIP, as clang spells it; on an NVIDIA GPU those that nvcc has another word for are translated."""

FLAGS_BY_DIALECT = {"cpp": ALLOWED_FLAGS, "cuda": CUDA_FLAGS, "hip": HIP_FLAGS}
"""White lists by dialect."""

FLAGS_LINE = re.compile(r"^[ \t]*//[ \t]*flags:(.*)$", re.MULTILINE)
_WHOLE_LINE = re.compile(FLAGS_LINE.pattern + r"\n?", re.MULTILINE)


def flags_of(source: str, dialect: str = "cpp") -> tuple[str, ...]:
    """Flags that a source asks for, in the order of its `// flags:` lines, each once.

    Args:
        source: Text of a C dialect.
        dialect: Whose white list holds.

    Returns:
        Flags from the white list; empty where there is no such line.

    Raises:
        SourceError: A flag is not on the white list.
    """
    allowed = FLAGS_BY_DIALECT[dialect]
    chosen: dict[str, None] = {}
    for match in FLAGS_LINE.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        for flag in match.group(1).replace(",", " ").split():
            if flag not in allowed:
                raise SourceError(
                    f"compiler flag '{flag[:80]}' is not allowed", where=f"line {line}", mend=f"Allowed: {' '.join(sorted(allowed))}"
                )
            chosen[flag] = None
    return tuple(chosen)


def with_flags(source: str, flags: tuple[str, ...]) -> str:
    """The source with exactly these flags, in one `// flags:` line at its top (none where `flags` is empty)."""
    # A line ends where `flags_of` and a compiler see its end; `splitlines` knows more ends, within comments and strings too.
    bare = _WHOLE_LINE.sub("", source)
    return f"// flags: {' '.join(flags)}\n{bare}" if flags else bare
