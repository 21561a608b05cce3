"""Whether slots work with a GPU: one shares memory of the device by a descriptor, another one writes to it.

No process outside a slot touches the driver, so this can be asked anywhere, whatever the driver does.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from evokern.sandbox.canaries import Canary
from evokern.sandbox.gpu import LIBRARY

if TYPE_CHECKING:
    from evokern.sandbox.slot import Slot

GPU = "gpu"

_FIX = (
    "see that nvidia-smi works, that /dev/nvidiactl, /dev/nvidia-uvm and the GPU's own node may be read and written by every user, and"
    f" that {LIBRARY} lies where the linker looks, or its folder is in LD_LIBRARY_PATH"
)
_SECONDS = 60.0
_WORDS = 256
_SHARED, _WRITTEN = 0x5EA1ED, 0xCAFE

# Structures and numbers of cuda.h.
_PINNED, _POSIX_DESCRIPTOR, _ON_DEVICE, _READ_WRITE = 1, 1, 1, 3


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Allocation(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


def try_gpu(make: Callable[[str], Slot]) -> Canary:
    """Start two slots with the GPU and let one write what the other one reads.

    Args:
        make: Makes a slot with the GPU that runs this entry; the caller's spawner has this module in the slot's zygote.
    """
    sharer = make(f"{__name__}:share")
    try:
        sharer.socket.settimeout(_SECONDS)
        said, descriptors, _, _ = socket.recv_fds(sharer.socket, 1 << 12, 1)
        if not descriptors:
            return _broken(sharer, said)
        user = make(f"{__name__}:use")
        try:
            user.socket.settimeout(_SECONDS)
            socket.send_fds(user.socket, [said], descriptors)
            answer = user.socket.recv(1 << 12)
            if answer != b"written":
                return _broken(user, answer)
        finally:
            user.kill()
            os.close(descriptors[0])
        sharer.socket.send(b"read")
        seen = sharer.socket.recv(1 << 12)
        if seen != _WRITTEN.to_bytes(4, "little"):
            return Canary(GPU, False, f"memory of the device shows {seen[:16]!r} after another slot wrote to it", _FIX)
        return Canary(GPU, True, "memory of the device is shared by a descriptor, written and read in slots")
    except TimeoutError:
        return Canary(GPU, False, f"no answer within {_SECONDS:.0f} s", _FIX)
    finally:
        sharer.kill()


def share(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """In a slot: allocate memory of the device, fill it, send its size and descriptor, and read it when told to.

    Args:
        sock: To the judge.
        descriptors: None.
        argument: Nothing.
    """
    try:
        device = _Device()
        size, exported, address = device.exported()
        device.fill(address, _SHARED)
    except OSError as error:
        sock.send(str(error).encode())
        return
    socket.send_fds(sock, [size.to_bytes(8, "little")], [exported])
    if sock.recv(64):
        sock.send(device.first_word(address))


def use(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """In another slot: map what `share` sent, check and overwrite it.

    Args:
        sock: To the judge.
        descriptors: None; the descriptor comes by the socket.
        argument: Nothing.
    """
    size, received, _, _ = socket.recv_fds(sock, 64, 1)
    try:
        device = _Device()
        address = device.mapped(received[0], int.from_bytes(size, "little"))
        if device.first_word(address) != _SHARED.to_bytes(4, "little"):
            raise OSError("what was shared is not what is seen")
        device.fill(address, _WRITTEN)
    except OSError as error:
        sock.send(str(error).encode())
    else:
        sock.send(b"written")


class _Device:
    """The primary context of the one GPU that a slot sees. Every method raises OSError where the driver refuses."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        self._call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._place = _Location(_ON_DEVICE, device.value)

    def exported(self) -> tuple[int, int, int]:
        """New memory: bytes, descriptor, address."""
        wish = _Allocation(type=_PINNED, handle_types=_POSIX_DESCRIPTOR, location=self._place)
        size, handle, descriptor = ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_int()
        self._call("cuMemGetAllocationGranularity", ctypes.byref(size), ctypes.byref(wish), 0)
        self._call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(wish), ctypes.c_uint64(0))
        self._call("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, _POSIX_DESCRIPTOR, ctypes.c_uint64(0))
        return size.value, descriptor.value, self._address(handle, size.value)

    def mapped(self, descriptor: int, size: int) -> int:
        """Address of the memory behind a descriptor."""
        handle = ctypes.c_uint64()
        self._call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), _POSIX_DESCRIPTOR)
        return self._address(handle, size)

    def fill(self, address: int, word: int) -> None:
        """Set the first words."""
        self._call("cuMemsetD32_v2", ctypes.c_uint64(address), ctypes.c_uint(word), ctypes.c_size_t(_WORDS))
        self._call("cuCtxSynchronize")

    def first_word(self, address: int) -> bytes:
        """The first word, little-endian."""
        word = ctypes.create_string_buffer(4)
        self._call("cuMemcpyDtoH_v2", word, ctypes.c_uint64(address), ctypes.c_size_t(4))
        return word.raw

    def _address(self, handle: ctypes.c_uint64, size: int) -> int:
        address, length, nothing = ctypes.c_uint64(), ctypes.c_size_t(size), ctypes.c_uint64(0)
        self._call("cuMemAddressReserve", ctypes.byref(address), length, ctypes.c_size_t(0), nothing, nothing)
        self._call("cuMemMap", address, length, ctypes.c_size_t(0), handle, nothing)
        access = _Access(self._place, _READ_WRITE)
        self._call("cuMemSetAccess", address, length, ctypes.byref(access), ctypes.c_size_t(1))
        return address.value

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            told = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(told))
            raise OSError(f"{name}: {(told.value or b'?').decode()} ({code})")


def _broken(slot: Slot, said: bytes) -> Canary:
    # Nothing said means that it ended; how, and what it printed, is all there is.
    death = slot.kill()
    what = said.decode(errors="replace") or f"a slot with a GPU ended with status {death.status}: {death.output.strip()[-300:]}"
    return Canary(GPU, False, what, _FIX)
