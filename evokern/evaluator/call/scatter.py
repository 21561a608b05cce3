"""Where things lie in a runner: at another place in every process, so that no kernel can tell calls apart by an address.

All runners are forks of a few processes, and a fork lies where its parent lay. A kernel that is right only where one bit of an
address is 0 would then be right in every call of a judge, or in none. So a runner moves its stack and everything that is mapped
later, the kernel's library included; the heap and the stack's higher bits differ between the processes that runners are forked
from, which are started afresh now and then.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable

STACK_BYTES = 2 << 20
"""By less than so much a stack is moved; `evokern.sandbox.zygote` gives it as much more room."""

MAPPED_BYTES = (1 << 41, 1 << 24)
"""By less than so much what is mapped is moved, which is as far as the system itself moves it in a new process (28 bits of pages on
x86_64, arch/x86/mm/mmap.c of Linux); the second where the first is refused, as where address space is limited."""

_HOLES, _MOST_HOLES = (1 << 20, 1 << 16, 1 << 14), 1024
_LEAST_STEP = 64
_PROT_NONE, _MAP_PRIVATE, _MAP_ANONYMOUS, _MAP_NORESERVE = 0x0, 0x2, 0x20, 0x4000
_FAILED = ctypes.c_void_p(-1).value
_LIBC = ctypes.CDLL(None)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def scattered(body: Callable[[], None]) -> None:
    """Run it on a stack that was moved, with a random part of the address space taken.

    Args:
        body: Called once. What it raises is raised here.
    """
    _take_address_space()
    error: list[BaseException] = []
    # By sums of powers of two, so that every place is equally likely.
    chosen = int.from_bytes(os.urandom(8), "little") % STACK_BYTES // _LEAST_STEP
    steps = [step for bit, step in enumerate(_STEPS) if chosen >> bit & 1]

    def deeper() -> None:
        try:
            if steps:
                steps.pop()()
            else:
                body()
        except BaseException as raised:  # nothing may be raised through a frame that is not Python's
            error.append(raised)

    _next[:] = [deeper]
    deeper()
    if error:
        raise error[0]


def _take_address_space() -> None:
    """Take a part of random size, then all holes above it, so that what is mapped next lies below it."""
    floor = next((found for found in map(_taken, (_random(most) for most in MAPPED_BYTES)) if found), 0)
    for size in _HOLES if floor else ():
        for _ in range(_MOST_HOLES):
            if _taken(size) < floor:
                break


def _taken(size: int) -> int:
    """Address of so much memory that nobody may touch; 0 where it is refused."""
    found: int = _LIBC.mmap(None, size, _PROT_NONE, _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE, -1, 0)
    return found if found != _FAILED else 0


def _random(most: int) -> int:
    """A random number of bytes, whole pages, the upper half of what is allowed."""
    return (most + int.from_bytes(os.urandom(8), "little") % most) // 2 // mmap.PAGESIZE * mmap.PAGESIZE


_next: list[Callable[[], None]] = []


def _go_on() -> None:
    _next[0]()


# Made when this is imported: to make one asks for files that a slot does not have.
_CALLED_BACK = ctypes.CFUNCTYPE(None)(_go_on)


def _step(size: int) -> Callable[[], None]:
    """A call that puts so many bytes on the stack, because it passes them by value, and calls back below them."""
    kind = type("Padding", (ctypes.Structure,), {"_fields_": [("room", ctypes.c_char * size)]})
    call = ctypes.CFUNCTYPE(None, kind)(ctypes.cast(_CALLED_BACK, ctypes.c_void_p).value or 0)
    padding = kind()
    return lambda: call(padding)


_STEPS = [_step(_LEAST_STEP << bit) for bit in range((STACK_BYTES // _LEAST_STEP).bit_length() - 1)]

__all__ = ["MAPPED_BYTES", "STACK_BYTES", "scattered"]
