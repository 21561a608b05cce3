"""A source as a module, with nothing of it in a file.

Triton reads a kernel's text through `inspect`, which finds it where Python keeps the lines of sources. Runs beside candidate code and
imports nothing that is not in a bare Python.
"""

from __future__ import annotations

import linecache
import sys
import types
from collections.abc import Callable
from typing import Any

NAME = "kernel"
FILE = f"{NAME}.py"
"""What a kernel's file is called in messages and in binaries, wherever it came from."""


def module_of(source: str) -> types.ModuleType:
    """Run a source as the module `kernel`.

    Raises:
        SyntaxError: It is no Python.
        Exception: Whatever it raises itself.
    """
    # Lines without a time of change are never looked up again.
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    module = types.ModuleType(NAME)
    module.__file__ = FILE
    sys.modules[NAME] = module
    exec(compile(source, FILE, "exec", dont_inherit=True), module.__dict__)
    return module


def entry_of(module: types.ModuleType, entry: str) -> Callable[..., Any]:
    """The function that is called.

    Raises:
        AttributeError: The source has no such function.
    """
    found = getattr(module, entry, None)
    if not callable(found):
        raise AttributeError(f"the source defines no function '{entry}'")
    run: Callable[..., Any] = found
    return run
