"""The CUDA driver, by ctypes: what judges and runners need of it, in a process that imports neither torch nor a binding.

Handles and device addresses are plain integers, sizes are bytes. Every call that fails raises a `DriverError` that names it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evokern.errors import Unavailable
from evokern_gpu import structures as cuda

LIBRARY = "libcuda.so.1"

GUARD_BYTES = 32 << 20
"""Address space before and after a mapped window that belongs to nothing: what reads or writes there ends the kernel."""

NO_DEVICE = frozenset({3, 34, 46, 100, 101, 102, 803, 804})
"""Errors of a machine without a usable GPU: not initialised, stub library, unavailable, none, and drivers that do not fit."""

FATAL = frozenset({214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999})
"""Errors after which a context answers nothing but errors."""

_NOT_FOUND, _NOT_READY = 500, 600
_INVALID, _UNSUPPORTED = 1, 801
_MEMORY = 2
_PARAMETERS = 4096


class DriverError(RuntimeError):
    """A call of the driver that did not succeed.

    Args:
        call: Its name.
        error: The error's name.
        code: Its number.
    """

    def __init__(self, call: str, error: str, code: int) -> None:
        super().__init__(f"{call}: {error} ({code})")
        self.call, self.error, self.code = call, error, code

    @property
    def is_fatal(self) -> bool:
        """Whether the context is lost."""
        return self.code in FATAL


@dataclass(frozen=True, slots=True)
class _Mapping:
    """Address space that is reserved for one window."""

    start: int
    reserved: int
    address: int
    size: int


@dataclass(slots=True)
class Prepared:
    """A launch with all that the driver reads, so that launching it is one call.

    Attributes:
        function: The kernel.
        configuration: Grid, block and the rest.
        extra: Where the parameters are, as the driver is told.
        kept: Memory that these point to.
    """

    function: ctypes.c_void_p
    configuration: cuda.LaunchConfiguration
    extra: Any
    kept: list[Any] = field(default_factory=list)

    @property
    def parameters(self) -> Any:
        """The buffer of parameters; may be written between launches, which read it when they are asked for."""
        return self.kept[0]


class Driver:
    """The primary context of one device, current in the thread that made this.

    Args:
        ordinal: Which device.
        eager: Whether modules are loaded whole when they are first touched, and nothing is kept on disk: for runners, so that no load
            lands in a timed call. Not for a process with torch, which would load every kernel it has.

    Raises:
        Unavailable: No driver, or no device that it can use.
        DriverError: Anything else that keeps CUDA from starting.
    """

    def __init__(self, ordinal: int = 0, *, eager: bool = False) -> None:
        if eager:
            os.environ["CUDA_MODULE_LOADING"] = "EAGER"
            os.environ["CUDA_CACHE_DISABLE"] = "1"
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise Unavailable(f"no CUDA driver ({error})", mend="Install NVIDIA's driver, or use a backend that needs no GPU") from error
        self._start(ordinal)
        self._mappings: dict[int, _Mapping] = {}
        self._images: list[Any] = []
        self._elapsed = "cuEventElapsedTime_v2" if hasattr(self._library, "cuEventElapsedTime_v2") else "cuEventElapsedTime"

    def _start(self, ordinal: int) -> None:
        device, context = ctypes.c_int(), ctypes.c_void_p()
        try:
            self.call("cuInit", 0)
            self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        except DriverError as error:
            if error.code not in NO_DEVICE:
                raise
            raise Unavailable(f"no GPU that CUDA can use ({error})", mend="See what nvidia-smi says") from error
        self.device = device.value
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self._context = context
        self.enter()

    def enter(self) -> None:
        """Make the context current in this thread."""
        self.call("cuCtxSetCurrent", self._context)

    def call(self, name: str, *arguments: object) -> None:
        """Call the driver.

        Raises:
            DriverError: It answered with an error.
        """
        code = getattr(self._library, name)(*arguments)
        if code:
            raise DriverError(name, self._name_of(code), code)

    def _name_of(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(text))
        return (text.value or b"?").decode()

    # What the device is.

    def attribute(self, number: int) -> int:
        """A CUdevice_attribute."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def facts(self) -> dict[str, Any]:
        """name, uuid, arch ("sm_90"), cuda (12080), memory_bytes, l2_bytes, multiprocessors, shared_bytes (of a block)."""
        name, version, memory = ctypes.create_string_buffer(256), ctypes.c_int(), ctypes.c_size_t()
        raw = ctypes.create_string_buffer(16)
        self.call("cuDeviceGetName", name, len(name), self.device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.call("cuDeviceTotalMem_v2", ctypes.byref(memory), self.device)
        self.call("cuDeviceGetUuid_v2", raw, self.device)
        return {
            "name": name.value.decode("utf-8", "replace"),
            "uuid": _uuid(raw.raw),
            "arch": f"sm_{self.attribute(cuda.MAJOR)}{self.attribute(cuda.MINOR)}",
            "cuda": version.value,
            "memory_bytes": memory.value,
            "l2_bytes": self.attribute(cuda.L2_BYTES),
            "multiprocessors": self.attribute(cuda.MULTIPROCESSORS),
            "shared_bytes": self.attribute(cuda.SHARED_BYTES),
        }

    def memory(self) -> tuple[int, int]:
        """Bytes that are free, and all there are."""
        free, whole = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(whole))
        return free.value, whole.value

    # Memory.

    def allocate(self, size: int) -> int:
        """An ordinary allocation; its address."""
        address = cuda.Address()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        """Give an allocation back."""
        self.call("cuMemFree_v2", cuda.Address(address))

    def granularity(self) -> int:
        """Bytes of which a window has a multiple."""
        step = ctypes.c_size_t()
        self.call("cuMemGetAllocationGranularity", ctypes.byref(step), ctypes.byref(self._exported()), 0)
        return step.value

    def export(self, size: int) -> tuple[int, int]:
        """An allocation of its own by the virtual-memory API: (its address, a descriptor of it).

        Args:
            size: A multiple of `granularity`.
        """
        handle, descriptor = ctypes.c_uint64(), ctypes.c_int(-1)
        self.call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(self._exported()), ctypes.c_uint64(0))
        try:
            self.call("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, cuda.POSIX_FD, ctypes.c_uint64(0))
            return self._map(handle, size, guard=0, access=cuda.READ_WRITE), descriptor.value
        except DriverError:
            if descriptor.value >= 0:
                os.close(descriptor.value)
            raise
        finally:
            # What is mapped stays; the handle is not needed for that.
            self.call("cuMemRelease", handle)

    def import_(self, descriptor: int, size: int, *, read_only: bool = False) -> int:
        """Map what another process exported, between `GUARD_BYTES` of nothing; its address here. The descriptor stays open.

        Where the driver cannot keep a device from writing, memory that is for reading only can be written too.
        """
        handle = ctypes.c_uint64()
        self.call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), cuda.POSIX_FD)
        try:
            return self._map(handle, size, guard=GUARD_BYTES, access=cuda.READ if read_only else cuda.READ_WRITE)
        finally:
            self.call("cuMemRelease", handle)

    def unmap(self, address: int) -> None:
        """Undo `export` or `import_`; unknown addresses are let be."""
        mapping = self._mappings.pop(address, None)
        if mapping is not None:
            self.call("cuMemUnmap", cuda.Address(mapping.address), ctypes.c_size_t(mapping.size))
            self.call("cuMemAddressFree", cuda.Address(mapping.start), ctypes.c_size_t(mapping.reserved))

    def writable(self, address: int) -> bool:
        """Whether the device may write what is mapped there."""
        flags, place = ctypes.c_ulonglong(), cuda.Location(cuda.ON_DEVICE, self.device)
        self.call("cuMemGetAccess", ctypes.byref(flags), ctypes.byref(place), cuda.Address(address))
        return flags.value == cuda.READ_WRITE

    def _exported(self) -> cuda.Allocation:
        return cuda.Allocation(type=cuda.PINNED, handle_types=cuda.POSIX_FD, location=cuda.Location(cuda.ON_DEVICE, self.device))

    def _map(self, handle: ctypes.c_uint64, size: int, *, guard: int, access: int) -> int:
        start, reserved, zero = cuda.Address(), size + 2 * guard, ctypes.c_size_t(0)
        self.call("cuMemAddressReserve", ctypes.byref(start), ctypes.c_size_t(reserved), zero, cuda.Address(0), ctypes.c_uint64(0))
        mapping = _Mapping(start.value, reserved, start.value + guard, size)
        try:
            self.call("cuMemMap", cuda.Address(mapping.address), ctypes.c_size_t(size), zero, handle, ctypes.c_uint64(0))
        except DriverError:
            self.call("cuMemAddressFree", start, ctypes.c_size_t(reserved))
            raise
        self._mappings[mapping.address] = mapping
        try:
            self._allow(mapping, access)
        except DriverError:
            self.unmap(mapping.address)
            raise
        return mapping.address

    def _allow(self, mapping: _Mapping, access: int) -> None:
        held = cuda.Access(cuda.Location(cuda.ON_DEVICE, self.device), access)
        arguments = cuda.Address(mapping.address), ctypes.c_size_t(mapping.size), ctypes.byref(held), ctypes.c_size_t(1)
        try:
            self.call("cuMemSetAccess", *arguments)
        except DriverError as error:
            if access == cuda.READ_WRITE or error.code not in (_INVALID, _UNSUPPORTED):
                raise
            held.flags = cuda.READ_WRITE
            self.call("cuMemSetAccess", *arguments)

    def fill(self, address: int, word: int, size: int) -> None:
        """Fill memory with a word of four bytes.

        Args:
            address: A multiple of 4.
            word: Below 2 ** 32.
            size: Bytes; a multiple of 4.
        """
        self.call("cuMemsetD32_v2", cuda.Address(address), ctypes.c_uint(word), ctypes.c_size_t(size // 4))

    def read(self, address: int, size: int) -> bytes:
        """Bytes of device memory, synchronously."""
        buffer = ctypes.create_string_buffer(max(size, 1))
        self.call("cuMemcpyDtoH_v2", buffer, cuda.Address(address), ctypes.c_size_t(size))
        return buffer.raw[:size]

    def write(self, address: int, data: bytes) -> None:
        """Write device memory, synchronously."""
        self.call("cuMemcpyHtoD_v2", cuda.Address(address), data, ctypes.c_size_t(len(data)))

    def is_memory(self, address: int) -> bool:
        """Whether a number is the address of any memory that CUDA knows in this process, host memory included."""
        kind = ctypes.c_uint()
        return not self._library.cuPointerGetAttribute(ctypes.byref(kind), cuda.MEMORY_TYPE, cuda.Address(address))

    # Work.

    def module(self, image: bytes) -> int:
        """Load a binary; it stays loaded."""
        kept, module = ctypes.create_string_buffer(image, len(image) + 1), ctypes.c_void_p()  # PTX ends with a zero
        self._images.append(kept)
        self.call("cuModuleLoadData", ctypes.byref(module), kept)
        return module.value or 0

    def function(self, module: int, name: str) -> int | None:
        """A kernel of a loaded binary; None where it has none of that name."""
        function = ctypes.c_void_p()
        try:
            self.call("cuModuleGetFunction", ctypes.byref(function), ctypes.c_void_p(module), name.encode())
        except DriverError as error:
            if error.code == _NOT_FOUND:
                return None
            raise
        return function.value

    def set_attribute(self, function: int, number: int, value: int) -> None:
        """Set a CUfunction_attribute."""
        self.call("cuFuncSetAttribute", ctypes.c_void_p(function), number, value)

    def parameters_of(self, function: int) -> list[tuple[int, int]]:
        """(offset, bytes) of each parameter of a kernel."""
        found: list[tuple[int, int]] = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        while len(found) < _PARAMETERS and not self._library.cuFuncGetParamInfo(
            ctypes.c_void_p(function), ctypes.c_size_t(len(found)), ctypes.byref(offset), ctypes.byref(size)
        ):
            found.append((offset.value, size.value))
        return found

    def prepare(
        self,
        function: int,
        grid: Sequence[int],
        block: Sequence[int],
        packed: bytes,
        *,
        shared: int = 0,
        stream: int = 0,
        cluster: Sequence[int] | None = None,
        cooperative: bool = False,
        overlaps: bool = False,
    ) -> Prepared:
        """Lay a launch out.

        Args:
            function: The kernel.
            grid: Blocks by axis, three or fewer.
            block: Threads by axis, three or fewer.
            packed: Parameters as the kernel lays them out.
            shared: Bytes of dynamic shared memory.
            stream: Where it goes.
            cluster: Blocks of a cluster by axis, where the launch says so.
            cooperative: Whether all blocks must run at once.
            overlaps: Whether it may begin before the one before it has ended.
        """
        buffer, size = ctypes.create_string_buffer(packed, max(len(packed), 1)), ctypes.c_size_t(len(packed))
        extra = (ctypes.c_void_p * 5)(
            cuda.BUFFER_POINTER, ctypes.addressof(buffer), cuda.BUFFER_SIZE, ctypes.addressof(size), cuda.BUFFER_END
        )
        attributes = _attributes(cluster, cooperative=cooperative, overlaps=overlaps)
        held = cuda.LaunchConfiguration(shared=shared, stream=stream, count=len(attributes))
        held.grid[:] = _three(grid)
        held.block[:] = _three(block)
        held.attributes = ctypes.cast(attributes, ctypes.POINTER(cuda.Attribute)) if len(attributes) else None
        return Prepared(ctypes.c_void_p(function), held, extra, [buffer, size, attributes])

    def launch(self, prepared: Prepared) -> None:
        """Launch."""
        self.call("cuLaunchKernelEx", ctypes.byref(prepared.configuration), prepared.function, None, prepared.extra)

    def synchronise(self) -> None:
        """Wait for all work of this context."""
        self.call("cuCtxSynchronize")

    def stream(self, *, is_blocking: bool) -> int:
        """A stream.

        Args:
            is_blocking: Whether it and the default stream wait for each other.
        """
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), cuda.BLOCKING_STREAM if is_blocking else cuda.FREE_STREAM)
        return stream.value or 0

    def event(self) -> int:
        """A timing event."""
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        return event.value or 0

    def record(self, event: int, stream: int) -> None:
        """Record an event."""
        self.call("cuEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(stream))

    def elapsed_ns(self, start: int, end: int) -> int:
        """Time between two recorded events that have passed."""
        milliseconds = ctypes.c_float()
        self.call(self._elapsed, ctypes.byref(milliseconds), ctypes.c_void_p(start), ctypes.c_void_p(end))
        return max(round(milliseconds.value * 1e6), 0)

    def wait_for(self, event: int) -> None:
        """Wait until an event has passed."""
        self.call("cuEventSynchronize", ctypes.c_void_p(event))


def _uuid(raw: bytes) -> str:
    """As NVML spells it: GPU-01234567-89ab-cdef-0123-456789abcdef."""
    digits = raw.hex()
    return "-".join(["GPU", digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])


def _three(axes: Sequence[int]) -> list[int]:
    return [*axes, *(1,) * (3 - len(axes))]


def _attributes(cluster: Sequence[int] | None, *, cooperative: bool, overlaps: bool) -> Any:
    found = []
    if cluster is not None:
        one = cuda.Attribute(id=cuda.CLUSTER)
        one.value.axes[:] = _three(cluster)
        found.append(one)
    for number, wanted in ((cuda.COOPERATIVE, cooperative), (cuda.OVERLAP, overlaps)):
        if wanted:
            one = cuda.Attribute(id=number)
            one.value.number = 1
            found.append(one)
    return (cuda.Attribute * len(found))(*found)
