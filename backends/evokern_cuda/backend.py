"""CudaBackend: builds CUDA C++ as shared libraries with their cubins, in the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evokern_gpu import card, measuring, nvcc, toolkit
from evokern_gpu.building import Compiled, DeviceBuilder, Recipe

from evokern.backend import Built, Facts
from evokern.errors import Unavailable
from evokern.kernel import Kernel
from evokern.syntax.flags import flags_of
from evokern.task import DType

if TYPE_CHECKING:
    from pathlib import Path

    from evokern_gpu.device import Gpu

SOURCE = "kernel.cu"


class CudaBackend(DeviceBuilder):
    """CUDA C++ on an NVIDIA GPU (`evokern.backend.Backend`)."""

    name = "cuda"
    dialects: tuple[str, ...] = ("cuda",)
    preference = 2
    dtypes: tuple[DType, ...] = (DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16)

    def probe(self) -> Facts:
        """What is here; neither a context nor a compilation is begun.

        Raises:
            Unavailable: No nvcc, no driver or no GPU.
        """
        found, gpu = toolkit.find(), card.find()
        return Facts(self.name, gpu.name, gpu.driver, nvcc.compilers(found), nvcc.FIXED, nvcc.target())

    def require(self, dtype: DType) -> None:
        """Refuse an element type that is not built for.

        Raises:
            Unavailable: It is not in `dtypes`.
        """
        if dtype not in self.dtypes:
            raise Unavailable(f"{dtype} is not here yet on the {self.name} backend", mend=f"Use one of {', '.join(self.dtypes)}")

    def loader(self) -> str:
        """`module:function` for the runner."""
        return "evokern_gpu.loader:load"

    def read(self, kernel: Kernel, built: Built) -> dict[str, str]:
        """Traits of a product (`evokern_gpu.resources`, `evokern_gpu.sass`) and what it asks of the system (`evokern.building.linkage`)."""
        return dict(built.traits)

    def instruments(self) -> dict[str, Kernel]:
        """Kernels that measure the machine: "null" and "copy"."""
        return measuring.instruments("cuda")

    def server(self) -> None:
        """None: a runner's calls are answered by `evokern_gpu.kernel`."""

    def device(self, home: Path) -> Gpu:
        """The GPU in the judge's process, opened.

        Raises:
            Unavailable: There is none, or the driver refuses.
        """
        from evokern_gpu.device import Gpu

        return Gpu(home=home)

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
