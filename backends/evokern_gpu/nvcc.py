"""How nvcc builds a kernel, for CUDA and for HIP on an NVIDIA GPU: architecture, commands, and what its reports say."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from evokern.building import DATELESS, linkage, product
from evokern.errors import Unavailable, UsageError
from evokern.evaluation import Reason
from evokern_gpu import card, resources, sass, toolkit
from evokern_gpu.building import IMAGE, OBJECT, Compiled, Recipe, Refused

ARCH_SETTING = "EVOKERN_CUDA_ARCH"
"""Environment variable that names the architecture to build for, such as sm_90, whatever GPU is here."""

DEFAULT_ARCH = "sm_90"
"""What is built for where there is no GPU and nothing else is said."""

FIXED = ("-O3", "-std=c++17", *DATELESS)
"""Flags of every build. Nothing here trades precision: division, square root and denormals are IEEE's, products and sums contract."""

PTX = "kernel.ptx"

_ARCH = re.compile(r"sm_(\d{2,3}[af]?)\Z")
_ARCH_FLAG = "-arch="
_OF_ONE_GENERATION = re.compile(r"\b(?:wgmma|setmaxnreg|tcgen05)\b")
_REGISTRATION = 1
"""nvcc's own function, which registers the device binary when the library is loaded."""


def target() -> str:
    """The architecture to build for: what `EVOKERN_CUDA_ARCH` says, else the GPU's that is here, else `DEFAULT_ARCH`.

    Raises:
        UsageError: The variable names no architecture.
    """
    wanted = os.environ.get(ARCH_SETTING, "")
    if wanted:
        return checked(wanted)
    try:
        return card.find().arch
    except Unavailable:
        return DEFAULT_ARCH


def compilers(found: toolkit.Toolkit) -> str:
    """Both compilers in words, and what cannot be read of their products here."""
    return found.name if toolkit.disassembler() else f"{found.name}; no nvdisasm, so wide, wide_share and units are not read"


def checked(arch: str) -> str:
    """The same, where it is the name of an architecture.

    Raises:
        UsageError: It is not.
    """
    if not _ARCH.match(arch):
        raise UsageError("is no CUDA architecture", where=arch[:80], mend="Such as sm_90")
    return arch


def variant(source: str, flags: Sequence[str], arch: str) -> str:
    """The architecture with the letter that opens what only this generation has, where a source asks for that.

    Args:
        source: Its text; wgmma, setmaxnreg and tcgen05 ask.
        flags: Its flags; `-arch=sm_90a` asks.
        arch: What is built for.

    Raises:
        Refused: It asks for another generation.
    """
    for wanted in (flag.removeprefix(_ARCH_FLAG) for flag in flags if flag.startswith(_ARCH_FLAG)):
        if wanted.rstrip("af") != arch.rstrip("af"):
            raise Refused(Reason.UNSUPPORTED, f"it asks for {wanted}, and {arch} is built for")
        return wanted
    return f"{arch}a" if _OF_ONE_GENERATION.search(source) and arch[-1].isdigit() else arch


def recipe(
    source: str, text: str, flags: Sequence[str], arch: str, *, more: Sequence[str] = (), files: Mapping[str, bytes] | None = None
) -> Recipe:
    """How nvcc builds a library and the cubin in it.

    One run of ptxas makes both: the cubin is an intermediate file of the compilation, kept. There is no PTX in the library, so that
    no driver compiles another one. Linking is g++'s work alone: without relocatable device code nvcc's own link step does nothing.

    Args:
        source: Name of the source's file, `kernel` with an ending.
        text: Of the source.
        flags: The kernel's own.
        arch: What is built for.
        more: Further flags, such as a folder of headers.
        files: Headers beside the source, by name.

    Raises:
        Refused: The source asks for another generation of devices.
        Unavailable: No nvcc.
    """
    found = toolkit.find()
    exact = variant(text, flags, arch)
    number = exact.removeprefix("sm_")
    chosen = (*FIXED, *more, *(flag for flag in flags if not flag.startswith(_ARCH_FLAG)))
    code = ("-gencode", f"arch=compute_{number},code=sm_{number}")
    host = str(found.host)
    # Not compressed: the cubin lies in the library byte for byte, and whoever doubts that can look.
    kept = ("-c", "--keep", "--no-compress", "-ccbin", host, "-I.", "-o", OBJECT)
    compile_step = (str(found.nvcc), *code, *chosen, *_quiet(found), *kept, source)
    keep_step = ("sh", "-c", f"cp kernel*.cubin {IMAGE}")
    # Stripped: names that nobody looks up are a third of what every candidate leaves on the disk.
    link_step = (host, "-shared", "-s", "-Wl,--exclude-libs,ALL", "-Wl,--no-undefined", "-o", product.LIBRARY, OBJECT, str(found.runtime))
    disassembler = toolkit.disassembler()
    return Recipe(
        source=source,
        steps=(compile_step, keep_step, (*link_step, "-ldl", "-lrt", "-lpthread")),
        compiler=found.identity,
        flags=chosen,
        arch=exact,
        host=host,
        files=files or {},
        readable=found.readable,
        leaves=(PTX,),
        listing=tuple(sass.command(disassembler)) if disassembler else (),
        own_loads=linkage.COMPILERS_OWN + _REGISTRATION,
    )


def describe(recipe: Recipe, compiled: Compiled, listing: str) -> dict[str, str]:
    """Traits of a library that nvcc built: `evokern_gpu.resources.traits`, `evokern_gpu.sass.from_listing`, and `arch`."""
    needs = resources.from_report(compiled.log, compiled.left.get(PTX, ""))
    return {"arch": recipe.arch, **resources.traits(needs, resources.arch_of(recipe.arch)), **sass.from_listing(listing)}


def _quiet(found: toolkit.Toolkit) -> tuple[str, ...]:
    """Flags that change only what is printed: a source with a thousand errors is told about twenty, and ptxas reports."""
    most = "-ferror-limit=20" if "clang" in found.host_version else "-fmax-errors=20,-fdiagnostics-color=never"
    return ("-w", "-Xptxas=-v", f"-Xcompiler=-fPIC,{most}", "-Xcudafe=--error_limit=20")
