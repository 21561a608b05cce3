"""The runner: the only process that holds a candidate's code.

It is forked from a zygote into a slot, holds nothing but its windows, its socket and the artefact, and answers the judge's
records (`evokern.evaluator.call.protocol`). Everything it says is a claim. It imports as little as it can: whatever is in this
process can be read by the candidate.

A kernel's windows lie between pages that nobody may touch and never beside each other, and those of inputs can only be read: what
reads or writes past the memory of a tensor, or writes into an input, ends by a signal, here as it might on any user's machine.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import mmap
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from evokern.evaluator.call import protocol
from evokern.evaluator.call.scatter import scattered

ENTRY = "evokern.evaluator.call.runner:serve"
"""What a slot runs."""

REFUSED_TO_LOAD = 120
"""Exit status of a runner whose artefact has no usable entry."""

DEVICE_ERROR = 121
"""Exit status of a runner whose device failed: what was asked of it after that cannot be told from what came before."""

OUTRAN = 122
"""Status of a sealed call that took longer to enqueue than the device was kept busy for, so that its time tells nothing."""

GUARD_BYTES = 1 << 20
"""Untouchable address space before and after each window: more than a row of any task here, so that no read strides across it."""

_PROT_NONE, _PROT_READ, _PROT_READ_WRITE = 0x0, 0x1, 0x3
_MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED, _MAP_ANONYMOUS, _MAP_NORESERVE, _MAP_POPULATE = 0x1, 0x2, 0x10, 0x20, 0x4000, 0x8000
"""Of asm-generic/mman.h and mman-common.h, the same on x86_64 and aarch64."""


class Loaded(Protocol):
    """A loaded kernel, as a backend's loader returns it."""

    def bind(self, specs: Sequence[protocol.Spec], windows: Sequence[int], workspace: int) -> None:
        """Take the addresses of the windows of all calls that follow; 0 for scalars, and where there is no workspace."""
        ...

    def run(self, go: protocol.Go) -> int:
        """One call; the kernel's own status."""
        ...

    def workspace_size(self, go: protocol.Go) -> int:
        """Bytes of workspace that this call would need."""
        ...

    def sample(self, go: protocol.Go, *, cold: bool) -> tuple[int, int]:
        """One call between two events of a device: status, and nanoseconds between them. Asked of sealed kernels alone."""
        ...

    def capture(self, go: protocol.Go) -> bytes:
        """What one call would launch, in JSON. Asked where there is a device."""
        ...

    def serve(self, descriptor: int) -> None:
        """Answer GO and SIZE records in native code until there is another record; return at once where there is no such code."""
        ...


def serve(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Answer the judge until it hangs up.

    Args:
        sock: Sequenced socket to the judge.
        descriptors: The artefact's, open for reading, and that of the backend's server where it has one.
        argument: As `argument` makes it.
    """
    scattered(lambda: _serve(sock, descriptors, argument))


def _serve(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    settings = json.loads(argument)
    module, function = settings["loader"].split(":")
    loaded = _load(getattr(importlib.import_module(module), function), descriptors, settings["entry"])
    windows: list[Mapped] = []
    while True:
        loaded.serve(sock.fileno())
        data, received, _, _ = socket.recv_fds(sock, protocol.MAX_RECORD, 64)
        if not data:
            return
        request = protocol.decode_request(data)
        if isinstance(request, protocol.Bind):
            for window in windows:
                window.close()
            windows = _bind(loaded, request, received)
            sock.send(protocol.encode_done(protocol.Done(request.seq, 0, 0)))
        elif request.kind is protocol.Kind.SIZE:
            sock.send(protocol.encode_bytes(request.seq, loaded.workspace_size(request)))
        elif request.kind is protocol.Kind.CAPTURE:
            sock.send(loaded.capture(request))
        elif request.kind in (protocol.Kind.SAMPLE, protocol.Kind.WARM):
            status, taken_ns = loaded.sample(request, cold=request.kind is protocol.Kind.SAMPLE)
            sock.send(protocol.encode_done(protocol.Done(request.seq, status, taken_ns)))
        else:
            start = time.perf_counter_ns()
            status = loaded.run(request)
            sock.send(protocol.encode_done(protocol.Done(request.seq, status, time.perf_counter_ns() - start)))


def argument(loader: str, entry: str) -> bytes:
    """The argument that `serve` is started with.

    Args:
        loader: `module:function` of the backend's loader.
        entry: Name of the kernel's function.
    """
    return json.dumps({"loader": loader, "entry": entry}).encode()


def _load(load: Any, descriptors: Sequence[int], entry: str) -> Loaded:
    artefact, *server = descriptors
    try:
        loaded: Loaded = load(artefact, entry, *server)
    except (OSError, AttributeError) as error:
        os.write(2, f"cannot load the kernel: {error}\n".encode())
        os._exit(REFUSED_TO_LOAD)
    return loaded


class Mapped(Protocol):
    """A window as a runner holds it.

    Attributes:
        address: Of its first byte.
    """

    address: int

    def close(self) -> None:
        """Unmap it."""
        ...


class Guarded:
    """A window with `GUARD_BYTES` before and after it that nobody may touch.

    Args:
        descriptor: Of the shared memory; closed here.
        size: Its bytes, a multiple of the page size.
        read_only: Whether it is mapped for reading alone, as what is sealed against writes must be.

    Attributes:
        address: Of its first byte.

    Raises:
        OSError: There is no room for it.
    """

    def __init__(self, descriptor: int, size: int, *, read_only: bool = False) -> None:
        self._length = size + 2 * GUARD_BYTES
        reserved = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE
        self._start = _map(None, self._length, _PROT_NONE, reserved, -1)
        protection, sharing = _ways(read_only)
        self.address = _map(self._start + GUARD_BYTES, size, protection, sharing | _MAP_FIXED, descriptor)
        populate(self.address, size, descriptor, read_only=read_only)
        os.close(descriptor)

    def close(self) -> None:
        """Unmap it, guards included."""
        _LIBC.munmap(self._start, self._length)


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value


def _ways(read_only: bool) -> tuple[int, int]:
    """Protection and sharing of a window.

    What can only be read is mapped privately: a slot may share nothing that it cannot write (`evokern.sandbox.calls`). It sees what the
    judge writes, as long as it writes nothing itself: a page that it makes writable and changes is its own from then on, and
    holds the inputs of that call in all later ones.
    """
    return (_PROT_READ, _MAP_PRIVATE) if read_only else (_PROT_READ_WRITE, _MAP_SHARED)


def populate(address: int, size: int, descriptor: int, *, read_only: bool = False) -> None:
    """Map the pages of a shared file that exist, so that no page fault on them lands in a timed call.

    Args:
        address: Where the file is mapped.
        size: Its bytes, a multiple of the page size.
        descriptor: The file.
        read_only: See `Guarded`.
    """
    (protection, sharing), end = _ways(read_only), 0
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:  # nothing follows
            return
        end = min(os.lseek(descriptor, start, os.SEEK_HOLE), size)
        _map(address + start, end - start, protection, sharing | _MAP_FIXED | _MAP_POPULATE, descriptor, start)


def _map(address: int | None, size: int, protection: int, flags: int, descriptor: int, offset: int = 0) -> int:
    # Python's own mmap maps wherever the system likes, which may be right beside another window.
    found: int | None = _LIBC.mmap(address, size, protection, flags, descriptor, offset)
    if found is None or found == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found


def _bind(loaded: Loaded, bind: protocol.Bind, descriptors: Sequence[int]) -> list[Mapped]:
    waiting = list(descriptors)
    sizes = [*((spec.window_bytes, spec.read_only) for spec in bind.specs), (bind.workspace_bytes, False)]
    # A device's windows are mapped by whoever knows the device.
    mapped: Callable[..., Mapped] = getattr(loaded, "window", Guarded)
    windows = [mapped(waiting.pop(0), size, read_only=read_only) if size else None for size, read_only in sizes]
    for left in waiting:
        os.close(left)
    *addresses, workspace = (window.address if window else 0 for window in windows)
    loaded.bind(bind.specs, addresses, workspace)
    return [window for window in windows if window]


def map_windows(bind: protocol.Bind, descriptors: Sequence[int]) -> list[mmap.mmap | None]:
    """The windows of a BIND, for a process that is trusted; the last entry is the workspace. Closes the descriptors."""
    waiting = list(descriptors)
    sizes = [*(spec.window_bytes for spec in bind.specs), bind.workspace_bytes]
    windows = [_mapped(waiting.pop(0), size) if size else None for size in sizes]
    for left in waiting:
        os.close(left)
    return windows


def _mapped(descriptor: int, size: int) -> mmap.mmap:
    window = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED)
    populate(ctypes.addressof(ctypes.c_char.from_buffer(window)), size, descriptor)
    os.close(descriptor)
    return window
