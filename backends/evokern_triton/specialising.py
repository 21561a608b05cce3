"""Triton's launch path with two parts replaced: the driver, and what happens when a specialisation is asked for the first time.

Binding arguments, hints of divisibility, defaults, heuristics and grids stay Triton's own. Runs beside candidate code, in the build
slot and in runners.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Protocol

from evokern_triton.artefact import Specialisation
from evokern_triton.packing import Packer, parameters_of
from evokern_triton.target import Target


class Launchable(Protocol):
    """What Triton's launch path does with a compiled kernel.

    Attributes:
        function: Handed back to `run`.
        packed_metadata: Likewise.
    """

    function: Any
    packed_metadata: Any

    def launch_metadata(self, grid: Any, stream: int, *arguments: Any) -> None:
        """Nothing is noted about launches."""
        ...

    def run(self, x: int, y: int, z: int, stream: int, *rest: Any) -> None:
        """Launch; of `rest`, the first five are Triton's, the others the kernel's arguments."""
        ...


SETTINGS = {"TRITON_DEFAULT_FP_FUSION": "1"}
"""Environment of whoever compiles or looks up; what Triton does by default, in words: 3.9 asks for them."""

OF_TRITON = 5
"""How many arguments Triton puts between the stream and a kernel's own."""


class _Utilities:
    """What kernels' host code asks of `driver.active.utils`."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = properties

    def get_device_properties(self, _device: Any = None) -> dict[str, Any]:
        return dict(self._properties)


class Driver:
    """Triton's active driver: one device, and whichever stream a call is given.

    Args:
        target: The device.

    Attributes:
        stream: Of the call that is running.
        utils: Answers questions about the device.
    """

    def __init__(self, target: Target) -> None:
        from triton.backends.compiler import GPUTarget

        self.stream = 0
        self.utils = _Utilities(target.properties())
        self._target = GPUTarget(target.platform, target.arch, target.warp_size)
        self._capability = target.capability

    def get_current_target(self) -> Any:
        """Triton's `GPUTarget`."""
        return self._target

    def get_current_device(self) -> int:
        """Number of the device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one."""

    def get_current_stream(self, _device: int = 0) -> int:
        """Handle of the stream that launches go to."""
        return self.stream

    def get_device_capability(self, _device: int = 0) -> tuple[int, int]:
        """Such as (9, 0)."""
        return self._capability

    def get_active_torch_device(self) -> Any:
        """The stand-in's device."""
        from evokern_triton.tensor import DEVICE

        return DEVICE

    def get_benchmarker(self) -> NoReturn:
        """Nothing is timed within a kernel.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("a kernel times nothing here: configurations are tunables")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A specialisation that a launch asks for.

    Attributes:
        function: Triton's `JITFunction`.
        signature: Type of each argument, by name.
        constants: What is compiled in, by place among the arguments.
        hints: Of divisibility, by place.
        options: The platform's options.
    """

    function: Any
    signature: Mapping[str, Any]
    constants: Mapping[Any, Any]
    hints: Mapping[Any, Any]
    options: Any

    @property
    def source(self) -> Any:
        """As Triton's `ASTSource`."""
        return self.function.ASTSource(self.function, dict(self.signature), dict(self.constants), dict(self.hints))

    @property
    def key(self) -> str:
        """What it is known by in an artefact, in every process the same."""
        options = {name: value for name, value in sorted(vars(self.options).items()) if name not in _OF_THE_MACHINE}
        constants = sorted((str(place), _text(value)) for place, value in self.constants.items())
        hints = sorted((str(place), str(hint)) for place, hint in self.hints.items() if hint)
        parts = (self.function.fn.__qualname__, self.function.cache_key, list(self.signature.items()), constants, hints, options)
        return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def general(self) -> Wanted:
        """The same without hints, and with whole numbers passed that were compiled in for being 1: right wherever this one is."""
        signature, constants = dict(self.signature), dict(self.constants)
        for place, parameter in enumerate(self.function.params):
            value = constants.get((place,))
            if not parameter.is_constexpr and type(value) is int and signature[parameter.name] == "constexpr":
                signature[parameter.name] = "i32"
                del constants[place,]
        return replace(self, signature=signature, constants=constants, hints={})


_OF_THE_MACHINE = ("extern_libs", "ptx_version")
"""Options that say where a library lies, or what the assembler here takes, and not what is wanted."""


def _text(value: Any) -> str:
    """A constant as text that is the same in every process: a function by what it does."""
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(_text, value))})"
    return str(getattr(value, "cache_key", value))


class Store:
    """The specialisations of an artefact, as launches ask for them.

    Args:
        made: All there are.

    Attributes:
        exact: How many were asked for and are there.
        general: How many were served by their general form.
        missing: How many are not there in any form.
    """

    def __init__(self, made: Iterable[Specialisation]) -> None:
        self._known = {one.key: one for one in made}
        self.exact = self.general = self.missing = 0

    def find(self, wanted: Wanted) -> Specialisation | None:
        """What serves a wish; None where nothing does."""
        if found := self._known.get(wanted.key):
            self.exact += 1
        elif found := self._known.get(wanted.general().key):
            self.general += 1
        else:
            self.missing += 1
        return found


def made_of(wanted: Wanted, noted: Mapping[str, Any], *, image: str, version: int) -> Specialisation:
    """What was made of a wish.

    Args:
        wanted: The wish.
        noted: What the compiler's stages noted, under Triton's names.
        image: sha256 of the binary, hex.
        version: PTX version, times ten.

    Raises:
        ValueError: It cannot be launched here.
    """
    parameters = parameters_of(tuple(wanted.signature.values()))
    Packer(parameters)  # which refuses types that cannot be passed
    return Specialisation(
        key=wanted.key,
        image=image,
        symbol=str(noted["name"]),
        parameters=parameters,
        warps=int(noted["num_warps"]),
        stages=int(noted.get("num_stages") or 0),
        blocks_a_cluster=int(noted.get("num_ctas") or 1),
        shared_bytes=int(noted.get("shared") or 0),
        scratch_bytes=int(noted.get("global_scratch_size") or 0),
        is_cooperative=bool(noted.get("launch_cooperative_grid")),
        is_dependent=bool(noted.get("launch_pdl")),
        version=version,
    )


def install(driver: Driver, make: Callable[[Wanted], Launchable]) -> None:
    """Let Triton launch on `driver` and ask `make` for specialisations, in this process from now on."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.driver import driver as active
    from triton.runtime.jit import JITFunction

    def first_asked(self: Any, key: Any, signature: Any, device: Any, constants: Any, options: Any, hints: Any, warmup: bool) -> Any:
        kernel = self.device_caches[device][0][key] = make(Wanted(self, signature, constants, hints, options))
        return kernel

    os.environ.update(SETTINGS)
    active.set_active(driver)
    JITFunction._do_compile = first_asked
    Autotuner.run = _run_first


def _run_first(self: Any, *arguments: Any, **named: Any) -> Any:
    """In place of timing configurations: the first that the kernel's own pruning leaves, in every process the same."""
    self.nargs = dict(zip(self.arg_names, arguments, strict=False))
    config = self.best_config = next(iter(self.prune_configs(named)))
    if config.pre_hook is not None:
        config.pre_hook({**self.nargs, **named, **config.all_kwargs()})
    result = self.fn.run(*arguments, **named, **config.all_kwargs())
    self.nargs = None
    return result
