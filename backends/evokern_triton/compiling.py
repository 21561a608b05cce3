"""One specialisation of a kernel through Triton's own stages, with none of its caches.

`triton.compile` does the same between a look-up and a store in its file cache, and hashes the compiler for both. Known to work with
Triton 3.6 to 3.9. Runs in the build slot, and in a runner for what no build foresaw.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

BINARIES = {"cuda": "cubin", "hip": "hsaco"}
"""Last stage of each platform."""

ASSEMBLY = "ptx"
"""The stage that a driver can finish by itself."""

_ASSEMBLIES = (ASSEMBLY, "amdgcn")

SUFFIX_DIGITS = 8
"""Hex digits of a specialisation's key in its function's name."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the stages made.

    Attributes:
        code: Of the last stage.
        assembly: As text; empty where there was no such stage.
        metadata: What the stages noted, under Triton's names: "name", "shared", "num_warps" and more.
    """

    code: bytes
    assembly: str
    metadata: dict[str, Any]


def compiled(source: Any, target: Any, options: Any, *, last: str, suffix: str = "") -> Compiled:
    """Compile.

    Args:
        source: Triton's `ASTSource`: function, signature, constants, hints.
        target: Triton's `GPUTarget`.
        options: The platform's options, as its `parse_options` gives them.
        last: Stage to end with, of `BINARIES` or `ASSEMBLY`.
        suffix: Added to the function's name in the assembly: specialisations of one kernel are then told apart by their names.

    Raises:
        Exception: Whatever Triton or the kernel's own code raises; `triton.compiler.errors.CompilationError` shows line and caret.
    """
    from triton._C.libtriton import ir
    from triton.compiler.compiler import make_backend

    backend = make_backend(target)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    metadata: dict[str, Any] = {"target": target, **options.__dict__}
    names, assembly = list(stages), ""
    for name in names[names.index(source.ext) : names.index(last) + 1]:
        module = stages[name](module, metadata)
        if name in _ASSEMBLIES:
            module, metadata["name"] = _named(str(module), metadata["name"], suffix)
        assembly = str(module) if name in _ASSEMBLIES else assembly
    return Compiled(module if isinstance(module, bytes) else str(module).encode(), assembly, metadata)


def _named(assembly: str, name: str, suffix: str) -> tuple[str, str]:
    unique = f"{name}_{suffix}" if suffix else name
    return re.sub(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", unique, assembly), unique
