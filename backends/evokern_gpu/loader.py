"""What a runner imports for C dialects on a GPU: the descriptor of a built library -> a callable kernel.

Runs in the sandbox, beside candidate code. Imports ctypes and nothing else that is not in a bare Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import cycle

from evokern_gpu.driver import Driver
from evokern_gpu.kernel import Argument, DeviceKernel, Go, Spec, ended_by_device_errors
from evokern_gpu.tensors import RECORDS, Record


class LibraryKernel(DeviceKernel):
    """The function of a shared library, called as evokern.h says, with tensors on the device and a stream.

    Args:
        library: The loaded library.
        entry: Name of its function.
        driver: The device; a new one of this process where None.

    Raises:
        AttributeError: The library has no such function.
        Unavailable: No device.
    """

    def __init__(self, library: ctypes.CDLL, entry: str, driver: Driver | None = None) -> None:
        self._run = getattr(library, entry)
        self._run.restype = ctypes.c_int
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        self._size = getattr(library, "workspace_size", None)
        if self._size is not None:
            self._size.restype = ctypes.c_size_t
            self._size.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self._records: Iterator[Record] = cycle([Record(())])
        super().__init__(driver)

    def bind(self, specs: Sequence[Spec], windows: Sequence[int], workspace: int) -> None:
        """Take the addresses of the windows of all calls that follow; 0 for scalars, and where there is no workspace."""
        super().bind(specs, windows, workspace)
        self._records = cycle([Record([spec.ndim for spec in specs]) for _ in range(RECORDS)])

    def invoke(self, arguments: Sequence[Argument], go: Go, stream: int) -> int:
        """Call the function."""
        record = next(self._records)
        record.place(arguments)
        status: int = self._run(record.address, record.count, self.workspace_address(go) or None, go.workspace_bytes, stream)
        record.poison()
        return status

    def workspace_size(self, go: Go) -> int:
        """Bytes of workspace that this call would need; 0 where the library does not say."""
        if self._size is None:
            return 0
        record = next(self._records)
        record.place(self.arguments(go))
        size = int(self._size(record.address, record.count))
        record.poison()
        return size


def load(descriptor: int, entry: str, *rest: int) -> LibraryKernel:
    """Load a library.

    The device is opened first: a library that brings a runtime of its own then finds the context that its windows are mapped in.

    Args:
        descriptor: Open file of the library. It stays open: the linker knows libraries by name, and would take another file
            that came to this number for the one it has loaded.
        entry: Name of its function.
        rest: Other descriptors, which this loader has no use for.

    Raises:
        OSError: It cannot be loaded, with the linker's message.
        AttributeError: It has no such function.
        Unavailable: No device.
    """
    with ended_by_device_errors():
        driver = Driver(eager=True)
    return LibraryKernel(ctypes.CDLL(f"/dev/fd/{descriptor}"), entry, driver)
