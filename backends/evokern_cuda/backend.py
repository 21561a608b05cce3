"""CudaBackend: builds CUDA C++ as shared libraries with their cubins, in the sandbox."""

from __future__ import annotations

from evokern_gpu import card, nvcc, toolkit
from evokern_gpu.building import Compiled, DeviceBuilder, Recipe

from evokern.backend import Facts
from evokern.kernel import Kernel
from evokern.syntax.flags import flags_of

SOURCE = "kernel.cu"


class CudaBackend(DeviceBuilder):
    """CUDA C++ on an NVIDIA GPU (`evokern.backend.Backend`)."""

    name = "cuda"
    dialects: tuple[str, ...] = ("cuda",)
    preference = 2

    def probe(self) -> Facts:
        """What is here; neither a context nor a compilation is begun.

        Raises:
            Unavailable: No nvcc, no driver or no GPU.
        """
        found, gpu = toolkit.find(), card.find()
        return Facts(self.name, gpu.name, gpu.driver, nvcc.compilers(found), nvcc.FIXED, nvcc.target())

    def recipe(self, kernel: Kernel) -> Recipe:
        """How a kernel is built: nvcc with `nvcc.FIXED` and the kernel's own flags, for `nvcc.target()`.

        Raises:
            evokern.errors.SourceError: It asks for a flag outside the white list.
            evokern_gpu.building.Refused: It asks for another generation of devices.
            Unavailable: No nvcc.
        """
        return self.recipe_for(kernel, nvcc.target())

    def recipe_for(self, kernel: Kernel, arch: str) -> Recipe:
        """The same for a given architecture."""
        return nvcc.recipe(SOURCE, kernel.source, flags_of(kernel.source, "cuda"), arch)

    def describe(self, recipe: Recipe, compiled: Compiled, listing: str) -> dict[str, str]:
        """Traits of a product."""
        return nvcc.describe(recipe, compiled, listing)
