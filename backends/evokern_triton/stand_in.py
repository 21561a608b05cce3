"""A stand-in for the module `torch`: the names that files with Triton kernels take from it, and a plain refusal of all others.

A runner that held PyTorch would need seconds and gigabytes to start, and a candidate could compute with it. Runs beside candidate code and
imports nothing that is not in a bare Python.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from evokern_triton.tensor import DEVICE, DTYPES, Device, Tensor, dtype

REFUSAL = "a kernel has no PyTorch here"
"""How every message about a name that is not there begins."""

_ALIASES = {"float": "float32", "half": "float16", "double": "float64", "int": "int32", "long": "int64", "short": "int16"}


class _Limits:
    """What `torch.finfo` and `torch.iinfo` say of an element type."""

    def __init__(self, kind: dtype) -> None:
        if kind.limits is None:
            raise TypeError(f"{kind} has no limits")
        self.min, self.max, self.eps = kind.limits
        self.bits, self.dtype = 8 * kind.itemsize, kind


class _Nothing(contextlib.ContextDecorator):
    """A context that changes nothing, such as `torch.no_grad()` where nothing has a gradient."""

    def __init__(self, *_: Any) -> None:
        return

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        return


class _StandIn(types.ModuleType):
    """A module that says what it is where a name is missing."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        mend = "; memory beside the arguments comes as `workspace`" if name.startswith(("empty", "zeros", "ones", "full")) else ""
        raise AttributeError(f"{REFUSAL}: '{self.__name__}.{name}' is missing{mend}")


def stand_in(device: Callable[[], Mapping[str, Any]], capability: tuple[int, int]) -> dict[str, types.ModuleType]:
    """The modules that stand for PyTorch, by name.

    Args:
        device: Asked for the device's properties, under Triton's names, when a kernel wants them.
        capability: Of the device: (9, 0) for sm_90.
    """
    torch, cuda, version = _StandIn("torch"), _StandIn("torch.cuda"), _StandIn("torch.version")
    torch.__dict__.update(DTYPES)
    torch.__dict__.update({alias: DTYPES[name] for alias, name in _ALIASES.items()})
    torch.__dict__.update(
        Tensor=Tensor, dtype=dtype, device=Device, finfo=_Limits, iinfo=_Limits, no_grad=_Nothing, inference_mode=_Nothing,
        strided="strided", cuda=cuda, version=version, __version__="0", __path__=[],
    )  # fmt: skip
    cuda.__dict__.update(
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: DEVICE.index,
        device=_Nothing,
        get_device_capability=lambda *_: capability,
        get_device_properties=lambda *_: _properties(device(), capability),
    )
    version.__dict__.update(cuda="13.0", hip=None)
    return {module.__name__: module for module in (torch, cuda, version)}


def _properties(found: Mapping[str, Any], capability: tuple[int, int]) -> types.SimpleNamespace:
    """A device's properties under PyTorch's names."""
    return types.SimpleNamespace(
        multi_processor_count=found["multiprocessor_count"],
        shared_memory_per_block_optin=found["max_shared_mem"],
        regs_per_multiprocessor=found["max_num_regs"],
        warp_size=found["warpSize"],
        major=capability[0],
        minor=capability[1],
    )


def install(device: Callable[[], Mapping[str, Any]], capability: tuple[int, int]) -> None:
    """Put the stand-in where `import torch` finds it; see `stand_in`."""
    sys.modules.update(stand_in(device, capability))
