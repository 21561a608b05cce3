"""Compile gates: a source compiled for several architectures, and what it needs held against what they have. No GPU is needed."""

from __future__ import annotations

from collections.abc import Sequence

from evokern_gpu import nvcc, resources
from evokern_gpu.building import Gated, Refused, with_deadline

from evokern.backend import Limits, Sandbox
from evokern.errors import SourceError
from evokern.evaluation import Reason
from evokern.kernel import Kernel
from evokern_cuda.backend import CudaBackend

ARCHS = ("sm_80", "sm_90", "sm_100")
"""What is gated for where nothing else is said."""


def gate(source: str, archs: Sequence[str] = ARCHS, *, sandbox: Sandbox, limits: Limits | None = None) -> list[Gated[resources.Resources]]:
    """Compile a CUDA source for each architecture and say whether it can be launched there.

    Shared memory that is asked for at launch is not known here: `evokern_gpu.resources.complaint` holds a launch against the limits.

    Args:
        source: Its text.
        archs: Architectures, such as "sm_90".
        sandbox: Where the compiler runs.
        limits: Of one compilation.

    Raises:
        evokern.errors.Unavailable: No nvcc.
        evokern.errors.UsageError: A name is no architecture.
    """
    kernel, bounds = Kernel("cuda", source), with_deadline(limits or Limits())
    return [_gated(kernel, nvcc.checked(arch), sandbox, bounds) for arch in archs]


def _gated(kernel: Kernel, arch: str, sandbox: Sandbox, limits: Limits) -> Gated[resources.Resources]:
    backend = CudaBackend()
    try:
        recipe = backend.recipe_for(kernel, arch)
    except SourceError as error:
        return Gated(arch, False, Reason.FLAGS, error.line)
    except Refused as refused:
        return Gated(arch, False, refused.reason, refused.line)
    compiled = backend.compiled(kernel, recipe, sandbox, limits)
    if compiled.library is None:
        return Gated(recipe.arch, False, compiled.reason, compiled.log, seconds=compiled.seconds)
    needs = resources.from_report(compiled.log, compiled.left.get(nvcc.PTX, ""))
    has = resources.arch_of(recipe.arch)
    told = [line for need in needs if has and (line := resources.complaint(need, has))]
    reason = Reason.RESOURCES if told else Reason.NONE
    return Gated(recipe.arch, not told, reason, "\n".join(told), needs, compiled.seconds)
