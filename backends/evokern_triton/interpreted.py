"""The program of the interpreter's slot: calls `run` on tensors of the host, under Triton's interpreter.

It is started with TRITON_INTERPRET=1, which Triton reads when it is imported, and has PyTorch: the interpreter takes its tensors.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

REQUEST, SOURCE = "request.json", "kernel.py"


def buffer_file(call: int, place: int) -> str:
    """File of an argument's memory, before and after a call."""
    return f"buffer-{call}-{place}"


def main() -> None:
    """Make the calls of `request.json`; the memory of every tensor is left in its file."""
    sys.path.insert(0, ".")
    request = json.loads(Path(REQUEST).read_bytes())
    try:
        _mend()
        for number, values in enumerate(request["calls"]):
            _call(request["entry"], number, values)
    except Exception:
        # The text of the source's own lines is what helps its author.
        sys.stderr.write(traceback.format_exc())
        sys.exit(1)


def _call(entry: str, number: int, values: Any) -> None:
    import importlib

    import torch

    buffers, arguments = {}, []
    for place, value in enumerate(values):
        if not value["shape"]:
            arguments.append(value["number"])
            continue
        content = bytearray(Path(buffer_file(number, place)).read_bytes())
        memory = torch.frombuffer(content, dtype=getattr(torch, value["dtype"])) if content else torch.empty(0)
        buffers[place] = memory
        arguments.append(torch.as_strided(memory, value["shape"], value["strides"]))
    kernel = importlib.import_module("kernel")
    named = {}
    if hasattr(kernel, "workspace_size"):
        size = int(kernel.workspace_size(tuple(tuple(value["shape"]) for value in values)))
        named = {"workspace": torch.zeros(size, dtype=torch.uint8)} if size else {}
    getattr(kernel, entry)(*arguments, **named)
    for place, memory in buffers.items():
        Path(buffer_file(number, place)).write_bytes(memory.view(torch.uint8).numpy().tobytes())


def _mend() -> None:
    """Let loops run to a number that is an argument: Triton 3.6 takes int() of an array with one element, which NumPy 2.4 refuses."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    interpreter._patch_lang_tensor = patched
