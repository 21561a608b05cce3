"""Compile gates: a HIP source compiled for several AMD GPUs, and what it needs held against what they have. No GPU is needed."""

from __future__ import annotations

from collections.abc import Sequence

from evokern_gpu.building import Gated, with_deadline

from evokern.backend import Limits, Sandbox
from evokern.errors import SourceError
from evokern.evaluation import Reason
from evokern.kernel import Kernel
from evokern_hip import amd
from evokern_hip.backend import HipBackend

ARCHS = ("gfx90a", "gfx942")
"""What is gated for where nothing else is said."""


def gate(source: str, archs: Sequence[str] = ARCHS, *, sandbox: Sandbox, limits: Limits | None = None) -> list[Gated[amd.Needs]]:
    """Compile a HIP source for each architecture and say whether it can be launched there.

    Args:
        source: Its text.
        archs: Architectures, such as "gfx942".
        sandbox: Where the compiler runs.
        limits: Of one compilation.

    Raises:
        evokern.errors.Unavailable: No compiler for one of them.
    """
    kernel, bounds = Kernel("hip", source), with_deadline(limits or Limits())
    return [_gated(kernel, amd.checked(arch), sandbox, bounds) for arch in archs]


def _gated(kernel: Kernel, arch: str, sandbox: Sandbox, limits: Limits) -> Gated[amd.Needs]:
    backend = HipBackend()
    try:
        recipe = backend.recipe_for(kernel, arch, is_gate=True)
    except SourceError as error:
        return Gated(arch, False, Reason.FLAGS, error.line)
    compiled = backend.compiled(kernel, recipe, sandbox, limits)
    if compiled.image is None:
        return Gated(arch, False, compiled.reason, compiled.log, seconds=compiled.seconds)
    needs = amd.from_remarks(compiled.log)
    told = [line for need in needs if (line := amd.complaint(need, arch))]
    return Gated(arch, not told, Reason.RESOURCES if told else Reason.NONE, "\n".join(told), needs, compiled.seconds)
