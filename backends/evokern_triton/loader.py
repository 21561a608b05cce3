"""What a runner imports: the descriptor of an artefact -> a callable kernel.

The zygote imports this module, and with it all of Triton that a launch or a compilation needs, so that a fork starts at once. There is
no PyTorch, no compiler process and no file: binaries come from the artefact, and launches go through the driver by ctypes.

A specialisation that the artefact lacks is served, in this order, by its general form, which makes no use of divisibility, and by a
compilation in this process, whose last step the driver takes. Both occur with shapes that are not visible, in a first call that
is not timed.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import struct
import traceback
from collections.abc import Sequence
from typing import Any

import triton
import triton.compiler.code_generator
import triton.language
import triton.language.extra.cuda
import triton.language.extra.cuda.libdevice
import triton.tools.tensor_descriptor  # what a launch imports
from evokern_gpu.driver import Driver, DriverError
from evokern_gpu.kernel import Argument, DeviceKernel, Go
from triton.backends.compiler import GPUTarget

from evokern_triton import module, specialising, stand_in
from evokern_triton.artefact import Artefact, Specialisation, decoded
from evokern_triton.compiling import ASSEMBLY, SUFFIX_DIGITS, compiled
from evokern_triton.packing import Packer
from evokern_triton.specialising import OF_TRITON, Wanted, made_of
from evokern_triton.target import Target, target_for
from evokern_triton.tensor import DLPACK, DTYPES, Tensor

RAISED = 1
"""Status of a call whose host code raised; the traceback stands on stderr."""

TRITON = triton.__version__

_MULTIPROCESSORS, _MAJOR, _MINOR, _REGISTERS, _SHARED, _CLOCK = 16, 75, 76, 82, 97, 13
"""Of CUdevice_attribute: ..., registers of a multiprocessor, shared memory that a block may ask for, kHz."""

_MOST_THREADS, _LOCAL_BYTES, _FUNCTION_REGISTERS, _DYNAMIC_SHARED = 0, 3, 4, 8
"""Of CUfunction_attribute."""

_PREFER_SHARED = 1
_USUAL_SHARED = 48 << 10
_LARGE_CLUSTERS, _USUAL_CLUSTER = 14, 8  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, and what every device takes


class Ready:
    """A specialisation that is loaded and laid out, as Triton's launch path and kernels' host code use it.

    Args:
        driver: The device.
        image: Its binary, or its assembly.
        made: What it is.
        scratch: Gives the address of so many bytes.

    Attributes:
        function: Handle of the function.
        n_regs: Registers a thread.
        n_spills: Bytes of local memory a thread, which is what is spilled.
        metadata: Under Triton's names.
    """

    packed_metadata = None

    def __init__(self, driver: Driver, image: bytes, made: Specialisation, warp_size: int, scratch: Any) -> None:
        self._driver, self._made, self._scratch = driver, made, scratch
        found = driver.function(driver.module(image), made.symbol)
        if found is None:
            raise OSError(f"a binary without its function {made.symbol}")
        self.function = found
        if made.shared_bytes > _USUAL_SHARED:
            driver.call("cuFuncSetCacheConfig", ctypes.c_void_p(found), _PREFER_SHARED)
            driver.set_attribute(found, _DYNAMIC_SHARED, made.shared_bytes)
        if made.blocks_a_cluster > _USUAL_CLUSTER:
            driver.set_attribute(found, _LARGE_CLUSTERS, 1)
        self.n_max_threads, self.n_regs, self.n_spills = (self._attribute(n) for n in (_MOST_THREADS, _FUNCTION_REGISTERS, _LOCAL_BYTES))
        self.metadata = _Metadata(made, warp_size)
        self._packer = Packer(made.parameters)
        cluster = made.blocks_a_cluster
        self._prepared = driver.prepare(
            found,
            (1, 1, 1),
            (made.warps * warp_size, 1, 1),
            bytes(self._packer.size),
            shared=made.shared_bytes,
            cluster=(cluster, 1, 1) if cluster > 1 else None,
            cooperative=made.is_cooperative,
            overlaps=made.is_dependent,
        )
        self._parameters = self._prepared.kept[0]

    def launch_metadata(self, grid: Any, stream: int, *arguments: Any) -> None:
        """Nothing is noted about launches."""

    def run(self, x: int, y: int, z: int, stream: int, *rest: Any) -> None:
        """Launch; see `specialising.Launchable`."""
        self._launch(x, y, z, stream, rest[OF_TRITON:])

    def __getitem__(self, grid: Sequence[int]) -> Any:
        """As Triton's compiled kernel: (grid) -> a function of the arguments."""
        from triton.runtime.driver import driver as active

        x, y, z = (*grid, 1, 1)[:3]
        return lambda *arguments, stream=None: self._launch(
            x, y, z, active.active.get_current_stream() if stream is None else stream, arguments
        )

    def _init_handles(self) -> None:
        """Of Triton's compiled kernel; everything is loaded already."""

    def _launch(self, x: int, y: int, z: int, stream: int, arguments: Sequence[Any]) -> None:
        if x * y * z <= 0:  # as Triton's own launcher: an empty grid is no launch
            return
        made = self._made
        scratch = self._scratch(x * y * z * made.blocks_a_cluster * made.scratch_bytes) if made.scratch_bytes else 0
        self._packer.into(self._parameters, arguments, (scratch,))
        configuration = self._prepared.configuration
        configuration.grid[0], configuration.grid[1], configuration.grid[2] = x * made.blocks_a_cluster, y, z
        configuration.stream = stream
        self._driver.launch(self._prepared)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self._driver.call("cuFuncGetAttribute", ctypes.byref(value), number, ctypes.c_void_p(self.function))
        return value.value


class _Metadata:
    """What kernels' host code reads off a compiled kernel, under Triton's names."""

    def __init__(self, made: Specialisation, warp_size: int) -> None:
        self.name, self.shared, self.num_warps, self.num_stages = made.symbol, made.shared_bytes, made.warps, made.stages
        self.num_ctas, self.warp_size, self.global_scratch_size = made.blocks_a_cluster, warp_size, made.scratch_bytes


class TritonKernel(DeviceKernel):
    """A Triton kernel whose `run` is called with light tensors.

    Args:
        artefact: What the build left.
        entry: Name of the function.
        driver: The device; a new one of this process where None.

    Attributes:
        store: The artefact's specialisations; what is missing there was compiled here.

    Raises:
        OSError: The artefact is for another device, or the source does not run.
        AttributeError: The source has no such function.
    """

    def __init__(self, artefact: Artefact, entry: str, driver: Driver | None = None) -> None:
        super().__init__(driver)
        self._target = _target(self.driver, artefact.arch)
        self._images = artefact.images
        self.store = specialising.Store(artefact.specialisations)
        self._version = max((made.version for made in artefact.specialisations), default=0)
        self._scratch_memory: dict[int, int] = {}
        self._active = specialising.Driver(self._target)
        specialising.install(self._active, self._first_asked)
        stand_in.install(self._target.properties, self._target.capability)
        found = _ran(artefact.source)
        self._run = module.entry_of(found, entry)
        self._workspace_size = getattr(found, "workspace_size", None)

    def invoke(self, arguments: Sequence[Argument], go: Go, stream: int) -> int:
        """Call `run`; see `DeviceKernel.invoke`."""
        self._active.stream = stream
        address = self.workspace_address(go)
        named = {"workspace": Tensor(address, (go.workspace_bytes,), (1,), DTYPES["uint8"])} if address else {}
        try:
            self._run(*map(_argument, arguments), **named)
        except DriverError:
            raise
        except Exception:
            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
            return RAISED
        return 0

    def workspace_size(self, go: Go) -> int:
        """What the source's `workspace_size`, a function of all shapes, answers; 0 where there is none."""
        if self._workspace_size is None:
            return 0
        return int(self._workspace_size(tuple(place.shape for place in go.places)))

    def _first_asked(self, wanted: Wanted) -> Ready:
        made = self.store.find(wanted)
        return self._compiled(wanted) if made is None else self._ready(self._images[made.image], made)

    def _ready(self, image: bytes, made: Specialisation) -> Ready:
        return Ready(self.driver, image, made, self._target.warp_size, self._scratch)

    def _compiled(self, wanted: Wanted) -> Ready:
        """Compile here: Triton's own stages run in this process, and the driver takes assembly as it takes binaries."""
        options = dataclasses.replace(wanted.options, ptx_version=self._version or None)
        target = GPUTarget(self._target.platform, self._target.arch, self._target.warp_size)
        found = compiled(wanted.source, target, options, last=ASSEMBLY, suffix=wanted.key[:SUFFIX_DIGITS])
        made = made_of(wanted, found.metadata, image="", version=self._version)
        return self._ready(found.code, made)

    def _scratch(self, size: int) -> int:
        """Memory beside windows and workspace, which some kernels need for descriptors; kept, so that later calls allocate nothing."""
        fitting = [have for have in self._scratch_memory if have >= size]
        if not fitting:
            self._scratch_memory[size] = self.driver.allocate(size)
            fitting = [size]
        return self._scratch_memory[min(fitting)]


def load(descriptor: int, entry: str, *_: int) -> TritonKernel:
    """Load an artefact.

    Args:
        descriptor: Open file of it; read from its beginning, wherever it stands.
        entry: Name of the function.

    Raises:
        OSError: It cannot be loaded here.
        AttributeError: It has no such function.
    """
    try:
        artefact = decoded(_read(descriptor))
    except ValueError as error:
        raise OSError(str(error)) from error
    return TritonKernel(artefact, entry)


def _read(descriptor: int) -> bytes:
    parts, at = [], 0
    while part := os.pread(descriptor, 1 << 20, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _ran(source: str) -> Any:
    try:
        return module.module_of(source)
    except Exception as error:
        raise OSError(f"the source does not run: {type(error).__name__}: {error}") from error


def _target(driver: Driver, arch: str) -> Target:
    here = f"cuda:{10 * driver.attribute(_MAJOR) + driver.attribute(_MINOR)}"
    if arch != here:
        raise OSError(f"an artefact for {arch}, on {here}")
    return target_for(
        arch,
        multiprocessor_count=driver.attribute(_MULTIPROCESSORS),
        max_num_regs=driver.attribute(_REGISTERS),
        max_shared_mem=driver.attribute(_SHARED),
        sm_clock_rate=driver.attribute(_CLOCK),
    )


def _argument(argument: Argument) -> Any:
    if argument.shape:
        return Tensor(argument.address, argument.shape, argument.strides, DTYPES[DLPACK[argument.code, argument.bits]])
    return number(argument.code, argument.bits, argument.scalar)


def number(code: int, bits: int, scalar: bytes) -> float | int | bool:
    """A scalar's value; see `evokern_gpu.kernel.Argument`."""
    name = DLPACK[code, bits]
    if name == "bfloat16":
        return float(struct.unpack("<f", b"\0\0" + scalar[:2])[0])
    letter = {"float64": "d", "float32": "f", "float16": "e", "bool": "?"}.get(name)
    if letter is not None:
        value: float | bool = struct.unpack_from(f"<{letter}", scalar)[0]
        return value
    return int.from_bytes(scalar[: bits // 8], "little", signed=name.startswith("int"))
