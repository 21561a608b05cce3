"""A file of a KernelBench checkout: what is wrong with it, its constants, and the same with smaller ones."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from evokern.errors import EvokernError
from evokern.export.suites.kernelbench import Most, Size, constants, fault, find_problems, shrunk, with_constants
from tests.fuzz.harness import text_of


def once(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        file = Path(name) / "1_Problem.py"
        file.write_bytes(data)
        try:
            find_problems(Path(name))
        except EvokernError as error:
            assert "\n" not in error.line
    source = text_of(data)
    if fault(source):
        return
    held = constants(source)
    assert fault(with_constants(source, {key: 3 for key in held})) == ""
    try:
        smaller = shrunk(source, _measure, Most(10_000, 10_000, 10_000))
    except EvokernError:
        return
    assert smaller.size is not None
    assert smaller.size.elements <= 10_000


def _measure(source: str) -> Size:
    sizes = [min(abs(value), 1 << 30) + 1 for value in constants(source).values()][:8]
    return Size((tuple(sizes),), math.prod(sizes), 0, 0)
