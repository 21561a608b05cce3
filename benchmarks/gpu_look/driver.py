"""The part of the CUDA driver API that the look needs, by ctypes, so that a runner imports neither torch nor a binding.

Structures and numbers are those of cuda.h of CUDA 12 and 13. Handles and device addresses are plain integers; sizes are bytes.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass

_PINNED, _POSIX_FD, _ON_DEVICE, _READ_WRITE = 1, 1, 1, 3
_RELAXED = 2
_L2_BYTES, _MULTIPROCESSORS = 38, 16  # CUdevice_attribute
_BUFFER_POINTER, _BUFFER_SIZE, _BUFFER_END = 1, 2, 0

_Pointer = ctypes.c_uint64


class DriverError(RuntimeError):
    """A call of the driver that did not succeed; the text names call and error."""


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Allocation(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class _IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


class _KernelNode(ctypes.Structure):
    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("parameters", ctypes.POINTER(ctypes.c_void_p)),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch as captured.

    Attributes:
        name: Symbol in its binary.
        grid: Blocks by axis.
        block: Threads by axis.
        shared: Dynamic shared memory, bytes.
        parameters: (offset, bytes) of each parameter.
    """

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    parameters: tuple[tuple[int, bytes], ...]


class Driver:
    """The primary context of device 0, current in the thread that made this."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.device = device.value
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.context = context
        self.call("cuCtxSetCurrent", context)
        self._modules: list[bytes] = []

    def call(self, name: str, *arguments: object) -> None:
        """Call the driver.

        Raises:
            DriverError: It answered with an error.
        """
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'?').decode()} ({code})")

    # What the device is.

    def facts(self) -> dict[str, object]:
        """Name, multiprocessors, bytes of L2, driver's CUDA version."""
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, self.device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return {
            "name": name.value.decode(),
            "multiprocessors": self._attribute(_MULTIPROCESSORS),
            "l2_bytes": self._attribute(_L2_BYTES),
            "cuda": version.value,
        }

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    # Memory.

    def allocate(self, size: int) -> int:
        """An ordinary allocation; its address."""
        address = _Pointer()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def allocate_exported(self, size: int) -> tuple[int, int, int]:
        """An allocation of its own by the virtual-memory API: (address, descriptor, bytes by granularity)."""
        properties = _Allocation(type=_PINNED, handle_types=_POSIX_FD, location=_Location(_ON_DEVICE, self.device))
        step = ctypes.c_size_t()
        self.call("cuMemGetAllocationGranularity", ctypes.byref(step), ctypes.byref(properties), 0)
        size = -(-size // step.value) * step.value
        handle = ctypes.c_uint64()
        self.call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), ctypes.c_uint64(0))
        descriptor = ctypes.c_int()
        self.call("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, _POSIX_FD, ctypes.c_uint64(0))
        return self._map(handle, size), descriptor.value, size

    def map_exported(self, descriptor: int, size: int) -> int:
        """Map what another process exported; its address here."""
        handle = ctypes.c_uint64()
        self.call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), _POSIX_FD)
        return self._map(handle, size)

    def _map(self, handle: ctypes.c_uint64, size: int) -> int:
        address = _Pointer()
        self.call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_size_t(0), _Pointer(0), ctypes.c_uint64(0))
        self.call("cuMemMap", address, ctypes.c_size_t(size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        access = _Access(_Location(_ON_DEVICE, self.device), _READ_WRITE)
        self.call("cuMemSetAccess", address, ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1))
        return address.value

    def ipc_handle(self, address: int) -> bytes:
        """The legacy handle of the block that holds `address`."""
        handle = _IpcHandle()
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), _Pointer(address))
        return bytes(handle)

    def open_ipc(self, handle: bytes) -> int:
        """Where another process's block lies here."""
        address = _Pointer()
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), _IpcHandle.from_buffer_copy(handle), 1)
        return address.value

    def read(self, address: int, size: int) -> bytes:
        """Bytes of device memory, synchronously."""
        buffer = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", buffer, _Pointer(address), ctypes.c_size_t(size))
        return buffer.raw

    def write(self, address: int, data: bytes) -> None:
        """Write device memory, synchronously."""
        self.call("cuMemcpyHtoD_v2", _Pointer(address), data, ctypes.c_size_t(len(data)))

    # Work.

    def function(self, image: bytes, name: str) -> int:
        """A kernel of a binary; the binary stays loaded."""
        self._modules.append(image)
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        return self.function_of(module.value or 0, name)

    def module(self, image: bytes) -> int:
        """Load a binary."""
        self._modules.append(image)
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        return module.value or 0

    def function_of(self, module: int, name: str) -> int:
        """A kernel of a loaded binary."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), ctypes.c_void_p(module), name.encode())
        return function.value or 0

    def launch(self, function: int, grid: Sequence[int], block: Sequence[int], packed: bytes, *, shared: int = 0, stream: int = 0) -> None:
        """Launch with parameters packed as the kernel lays them out."""
        size = ctypes.c_size_t(len(packed))
        buffer = ctypes.create_string_buffer(packed, len(packed))
        extra = (ctypes.c_void_p * 5)(_BUFFER_POINTER, ctypes.addressof(buffer), _BUFFER_SIZE, ctypes.addressof(size), _BUFFER_END)
        axes = [*grid, *(1,) * (3 - len(grid)), *block, *(1,) * (3 - len(block))]
        self.call("cuLaunchKernel", ctypes.c_void_p(function), *axes, shared, ctypes.c_void_p(stream), None, extra)

    def synchronise(self) -> None:
        """Wait for all work of this context."""
        self.call("cuCtxSynchronize")

    def stream(self) -> int:
        """A stream that does not wait for the default one."""
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value or 0

    def event(self) -> int:
        """A timing event."""
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        return event.value or 0

    def record(self, event: int, stream: int = 0) -> None:
        """Record an event."""
        self.call("cuEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(stream))

    def reached(self, event: int) -> bool:
        """Whether an event has been passed."""
        return self._library.cuEventQuery(ctypes.c_void_p(event)) == 0

    def elapsed_us(self, start: int, end: int) -> float:
        """Time between two recorded events that have passed."""
        value = ctypes.c_float()
        self.call("cuEventElapsedTime_v2", ctypes.byref(value), ctypes.c_void_p(start), ctypes.c_void_p(end))
        return value.value * 1e3

    # Launch lists.

    def begin_capture(self, stream: int) -> None:
        """From now on launches into `stream` are noted, not run."""
        self.call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), _RELAXED)

    def end_capture(self, stream: int) -> list[Launch]:
        """What was launched since `begin_capture`, in order.

        Raises:
            DriverError: Something was captured that is no kernel launch.
        """
        graph = ctypes.c_void_p()
        self.call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        count = ctypes.c_size_t()
        self.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
        nodes = (ctypes.c_void_p * count.value)()
        self.call("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
        return [self._launch_of(node) for node in nodes]

    def _launch_of(self, node: int) -> Launch:
        kind = ctypes.c_int()
        self.call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        if kind.value != 0:
            raise DriverError(f"a captured node of type {kind.value} is no kernel launch")
        held = _KernelNode()
        self.call("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(held))
        function = ctypes.c_void_p(held.function)
        if not held.function:
            self.call("cuKernelGetFunction", ctypes.byref(function), ctypes.c_void_p(held.kernel))
        name = ctypes.c_char_p()
        self.call("cuFuncGetName", ctypes.byref(name), function)
        parameters = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        while not self._library.cuFuncGetParamInfo(function, ctypes.c_size_t(len(parameters)), ctypes.byref(offset), ctypes.byref(size)):
            parameters.append((offset.value, ctypes.string_at(held.parameters[len(parameters)], size.value)))
        return Launch((name.value or b"").decode(), tuple(held.grid), tuple(held.block), held.shared, tuple(parameters))


def packed(layout: str, *values: int) -> bytes:
    """Parameters of a kernel with native alignment, as `struct` spells them: "QQI" and the like."""
    return struct.pack("@" + layout, *values)
