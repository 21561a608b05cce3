"""The runner: the only process that holds a candidate's code.

It is forked from a zygote into a slot, holds nothing but its windows, its socket and the artefact, and answers the judge's
records (`evokern.evaluator.call.protocol`). Everything it says is a claim. It imports as little as it can: whatever is in this
process can be read by the candidate.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import socket
import time
from collections.abc import Sequence
from typing import Any, Protocol

from evokern.evaluator.call import protocol

ENTRY = "evokern.evaluator.call.runner:serve"
"""What a slot runs."""

REFUSED_TO_LOAD = 120
"""Exit status of a runner whose artefact has no usable entry."""


class Loaded(Protocol):
    """A loaded kernel, as a backend's loader returns it."""

    def bind(self, specs: Sequence[protocol.Spec], windows: Sequence[mmap.mmap | None], workspace: mmap.mmap | None) -> None:
        """Take the windows of all calls that follow; None for scalars."""
        ...

    def run(self, go: protocol.Go) -> int:
        """One call; the kernel's own status."""
        ...

    def workspace_size(self, go: protocol.Go) -> int:
        """Bytes of workspace that this call would need."""
        ...


def serve(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Answer the judge until it hangs up.

    Args:
        sock: Sequenced socket to the judge.
        descriptors: The artefact's, open for reading.
        argument: As `argument` makes it.
    """
    settings = json.loads(argument)
    module, function = settings["loader"].split(":")
    loaded = _load(getattr(importlib.import_module(module), function), descriptors[0], settings["entry"])
    while True:
        data, received, _, _ = socket.recv_fds(sock, protocol.MAX_RECORD, 64)
        if not data:
            return
        request = protocol.decode_request(data)
        if isinstance(request, protocol.Bind):
            _bind(loaded, request, received)
            sock.send(protocol.encode_done(protocol.Done(request.seq, 0, 0)))
        elif request.kind is protocol.Kind.SIZE:
            sock.send(protocol.encode_bytes(request.seq, loaded.workspace_size(request)))
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


def _load(load: Any, descriptor: int, entry: str) -> Loaded:
    try:
        loaded: Loaded = load(descriptor, entry)
    except (OSError, AttributeError) as error:
        os.write(2, f"cannot load the kernel: {error}\n".encode())
        os._exit(REFUSED_TO_LOAD)
    return loaded


def _bind(loaded: Loaded, bind: protocol.Bind, descriptors: Sequence[int]) -> None:
    windows = map_windows(bind, descriptors)
    loaded.bind(bind.specs, windows[:-1], windows[-1])


def map_windows(bind: protocol.Bind, descriptors: Sequence[int]) -> list[mmap.mmap | None]:
    """The windows of a BIND, mapped and touched; the last entry is the workspace. Closes the descriptors."""
    waiting = list(descriptors)
    sizes = [*(spec.window_bytes for spec in bind.specs), bind.workspace_bytes]
    windows = [_mapped(waiting.pop(0), size) if size else None for size in sizes]
    for left in waiting:
        os.close(left)
    return windows


def _mapped(descriptor: int, size: int) -> mmap.mmap:
    # MAP_POPULATE maps every page before the first call, so that no page fault lands in a timed one.
    window = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    os.close(descriptor)
    return window
