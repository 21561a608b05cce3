"""Which of HIP's two platforms kernels are built for: an AMD GPU, or an NVIDIA GPU through our shim over CUDA."""

from __future__ import annotations

import os
from enum import StrEnum

from evokern_gpu import toolkit

from evokern.errors import Unavailable, UsageError
from evokern_hip import amd

SETTING = "EVOKERN_HIP_PLATFORM"
"""Environment variable that names the platform."""

SHIM = "hip-nvidia (shim)"
"""What results of the NVIDIA platform are called: never AMD."""


class Platform(StrEnum):
    """Where a HIP kernel is meant to run."""

    AMD = "amd"
    NVIDIA = "nvidia"


def chosen() -> Platform:
    """The platform: what `EVOKERN_HIP_PLATFORM` says, else that of the GPU that is here, else the one that has a compiler.

    Raises:
        UsageError: The variable names no platform.
        Unavailable: There is no compiler for either.
    """
    wanted = os.environ.get(SETTING, "")
    if wanted:
        if wanted not in set(Platform):
            raise UsageError("is no platform of HIP", where=f"{SETTING}={wanted[:80]}", mend=f"Known: {', '.join(Platform)}")
        return Platform(wanted)
    if amd.DEVICE.exists() and amd.clangs():
        return Platform.AMD
    try:
        toolkit.find()
    except Unavailable as error:
        if amd.clangs():
            return Platform.AMD
        raise Unavailable("no compiler for HIP found, neither clang for AMD GPUs nor nvcc", mend=error.mend) from error
    return Platform.NVIDIA
