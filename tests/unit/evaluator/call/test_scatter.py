"""Where things lie in a runner, over forks of one process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from evokern.evaluator.call.scatter import scattered

FORKS = 12
PROGRAM = f"""
import ctypes, mmap, os
from evokern.evaluator.call.scatter import scattered

def show():
    room = mmap.mmap(-1, 1 << 14)
    print(ctypes.addressof(ctypes.c_char.from_buffer(room)), flush=True)

for _ in range({FORKS}):
    if os.fork() == 0:
        scattered(show)
        os._exit(0)
    os.wait()
"""


def test_forks_of_one_process_map_at_places_of_their_own() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60).stdout.split()

    assert len(said) == FORKS
    assert len({int(address) >> 20 for address in said}) > 1
    # As far as the system moves a new process: bit 39 is the highest.
    assert len({int(address) >> 36 for address in said}) > 1


def test_the_body_runs_once_and_what_it_raises_is_raised() -> None:
    calls: list[int] = []

    def body() -> None:
        calls.append(1)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        scattered(body)
    assert calls == [1]
