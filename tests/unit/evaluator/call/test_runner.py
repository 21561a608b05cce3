"""A runner's windows: between pages that nobody may touch."""

from __future__ import annotations

import ctypes
import faulthandler
import itertools
import mmap
import os
import resource
import signal
from collections.abc import Callable

import pytest

from evokern.evaluator.call.runner import GUARD_BYTES, Guarded
from evokern.evaluator.call.window import Window


def in_a_child(work: Callable[[], object]) -> int:
    """Status of a forked process that does it, as os.waitstatus_to_exitcode gives it."""
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def shared(size: int) -> int:
    descriptor = os.memfd_create("window")
    os.ftruncate(descriptor, size)
    return descriptor


def test_memory_is_shared_and_its_neighbours_are_not_there() -> None:
    size = 3 * mmap.PAGESIZE
    descriptor = shared(size)
    with mmap.mmap(descriptor, size) as ours:
        window = Guarded(descriptor, size)
        ctypes.memset(window.address, 7, size)
        assert ours[0] == ours[size - 1] == 7
        for beside in (-1, -GUARD_BYTES, size, size + GUARD_BYTES - 1):
            assert in_a_child(lambda at=beside: ctypes.string_at(window.address + at, 1)) == -signal.SIGSEGV  # type: ignore[misc]
            assert in_a_child(lambda at=beside: ctypes.memset(window.address + at, 0, 1)) == -signal.SIGSEGV  # type: ignore[misc]
        assert in_a_child(lambda: ctypes.string_at(window.address, size)) == 0
        window.close()
        assert in_a_child(lambda: ctypes.string_at(window.address, 1)) == -signal.SIGSEGV
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_pages_that_exist_are_mapped_and_others_are_not_made() -> None:
    pages = 512
    size = 3 * pages * mmap.PAGESIZE
    descriptor = shared(size)
    with mmap.mmap(descriptor, size) as ours:
        for page in (*range(pages), *range(2 * pages, 3 * pages)):
            ours[page * mmap.PAGESIZE] = 7
        kept = os.dup(descriptor)
        window = Guarded(descriptor, size)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for start in (0, 2 * pages):
            ctypes.memset(window.address + start * mmap.PAGESIZE, 1, pages * mmap.PAGESIZE)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < pages
        assert ours[size - 1] == ours[0] == 1
        assert os.lseek(kept, 0, os.SEEK_HOLE) == pages * mmap.PAGESIZE
        assert os.lseek(kept, pages * mmap.PAGESIZE, os.SEEK_DATA) == 2 * pages * mmap.PAGESIZE
        window.close()
        os.close(kept)


def test_a_window_that_is_sealed_can_be_read_and_never_written() -> None:
    made = Window(size := 256 * mmap.PAGESIZE, 256 * mmap.PAGESIZE, read_only=True)
    window = Guarded(os.dup(made.descriptor), size, read_only=True)
    made.bytes[0] = made.bytes[-1] = 7
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    read = [ctypes.string_at(window.address + at, 1) for at in (*range(0, size, mmap.PAGESIZE), size - 1)]
    assert read[0] == read[-1] == b"\x07"
    # Mapped beforehand, as what is written is: a read in a timed call finds its page.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < size // mmap.PAGESIZE
    for at in (0, size - 1):
        assert in_a_child(lambda at=at: ctypes.memset(window.address + at, 7, 1)) == -signal.SIGSEGV  # type: ignore[misc]
    with pytest.raises(PermissionError):
        Guarded(os.dup(made.descriptor), size)
    # Whoever insists writes into a page of his own: the judge's stays what it was, and what follows there is never seen.
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(window.address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE) == 0
    ctypes.memset(window.address, 9, 1)
    assert made.bytes[0] == 7
    made.bytes[0] = made.bytes[-1] = 5
    assert [ctypes.string_at(window.address + at, 1)[0] for at in (0, size - 1)] == [9, 5]
    window.close()
    made.close()


def test_windows_never_lie_beside_each_other() -> None:
    windows = [Guarded(shared(mmap.PAGESIZE), mmap.PAGESIZE) for _ in range(8)]
    places = sorted(window.address for window in windows)
    assert all(later - earlier >= mmap.PAGESIZE + 2 * GUARD_BYTES for earlier, later in itertools.pairwise(places))
    for window in windows:
        window.close()


def test_a_window_that_cannot_be_mapped_is_an_error() -> None:
    with pytest.raises(OSError, match=r"."):
        Guarded(-1, mmap.PAGESIZE)
