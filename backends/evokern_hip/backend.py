"""HipBackend: builds HIP C++ as shared libraries with their device binaries, in the sandbox, for an AMD or an NVIDIA GPU."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from evokern_gpu import card, nvcc, toolkit
from evokern_gpu.building import Compiled, DeviceBuilder, Recipe

from evokern.backend import Facts
from evokern.errors import Unavailable
from evokern.kernel import Kernel
from evokern.syntax.flags import flags_of
from evokern_hip import amd, platforms
from evokern_hip.platforms import SHIM, Platform

SOURCE = "kernel.hip"

SHIM_FLAGS = ("-D__HIP_PLATFORM_NVIDIA__=1", "-Ishim", "-x", "cu")
"""What nvcc needs beside `nvcc.FIXED` to take a HIP source."""

IN_NVCC: dict[str, str] = {"-ffp-contract=off": "-fmad=false", "-fgpu-flush-denormals-to-zero": "-ftz=true"}
"""Flags of the white list that nvcc has another word for; the others mean nothing to it and are left out."""


class HipBackend(DeviceBuilder):
    """HIP C++ (`evokern.backend.Backend`); what ran through the shim is called `platforms.SHIM` and never AMD."""

    name = "hip"
    dialects: tuple[str, ...] = ("hip",)
    preference = 1

    def probe(self) -> Facts:
        """What is here; neither a context nor a compilation is begun.

        Raises:
            Unavailable: No compiler for the platform, no driver or no GPU.
            evokern.errors.UsageError: A setting names no platform.
        """
        if platforms.chosen() is Platform.AMD:
            return self._amd_facts()
        found, gpu = toolkit.find(), card.find()
        return Facts(self.name, f"{gpu.name}, {SHIM}", gpu.driver, nvcc.compilers(found), (SHIM, *nvcc.FIXED), nvcc.target())

    def _amd_facts(self) -> Facts:
        clang = amd.find(amd.target())
        if not amd.DEVICE.exists():
            raise Unavailable(
                f"no AMD GPU is here ({clang.version} builds for one)",
                where=str(amd.DEVICE),
                mend=f"Compile gates work without; on an NVIDIA GPU set {platforms.SETTING}=nvidia",
            )
        raise Unavailable("kernels are built for AMD GPUs and not run on them yet", where=str(amd.DEVICE), mend="Compile gates work")

    def recipe(self, kernel: Kernel) -> Recipe:
        """How a kernel is built on the platform that `platforms.chosen` says.

        Raises:
            evokern.errors.SourceError: It asks for a flag outside the white list.
            Unavailable: No compiler.
        """
        if platforms.chosen() is Platform.AMD:
            return self.recipe_for(kernel, amd.target())
        return self.recipe_for(kernel, nvcc.target())

    def recipe_for(self, kernel: Kernel, arch: str, *, is_gate: bool = False) -> Recipe:
        """How a kernel is built for an architecture: clang for gfx…, nvcc and the shim for sm_…; for a gate AMD's code object alone."""
        flags = flags_of(kernel.source, "hip")
        if not arch.startswith("sm_"):
            return amd.recipe(SOURCE, flags, arch, is_gate=is_gate)
        translated = [IN_NVCC[flag] for flag in flags if flag in IN_NVCC]
        return nvcc.recipe(SOURCE, kernel.source, translated, arch, more=SHIM_FLAGS, files=shim())

    def describe(self, recipe: Recipe, compiled: Compiled, listing: str) -> dict[str, str]:
        """Traits of a product, with the platform's name."""
        if recipe.arch.startswith("sm_"):
            return {"platform": SHIM, **nvcc.describe(recipe, compiled, listing)}
        return {"platform": str(Platform.AMD), **amd.describe(recipe, compiled, listing)}


@lru_cache
def shim() -> dict[str, bytes]:
    """HIP's headers over CUDA, by the names under which a build sees them."""
    folder = Path(__file__).parent
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted((folder / "shim" / "hip").glob("*.h"))}
