"""`python -m evokern_gpu.replayed BUNDLE PLAN`: run calls of a sealed kernel once each, for a profiler to look at.

The bundle is the one that sealed runners run; the plan, written by `evokern_gpu.profiling.plan`, says which calls and where their
arguments lie. Windows are this process's own, with values of its own: floating-point numbers of normal size, zeros for the rest, which
may be indices. No host code of a candidate is here. Device code is, so where a device can reach all memory of a process, which no
slot is around, nothing is run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evokern.errors import Unavailable
from evokern_gpu.bundle import Bundle
from evokern_gpu.driver import Driver
from evokern_gpu.kernel import OUTSIDE, UNKNOWN_CALL
from evokern_gpu.sealed import SealedKernel

PAGEABLE = 88
"""CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS: whether device code reaches any memory of its process, as with Linux's HMM."""

SLACK = 512
"""An argument's offset in its window is kept up to multiples of so many bytes."""

ANYWAY = "--reachable"
"""Third argument: go on where the device reaches this process's memory; for kernels of one's own."""

_FLOATING, _BFLOAT = 2, 4
_BLOCK_ELEMENTS = 1 << 22
_STATUS = {UNKNOWN_CALL: "no launches are known of such a call", OUTSIDE: "an address lies outside its window"}


@dataclass(slots=True)
class Argument:
    """One argument of a planned call; spec and place in one.

    Attributes:
        code: DLPack type code.
        bits: DLPack bits.
        ndim: Number of dimensions; 0 for a scalar.
        offset: Byte offset of its first element in its window.
        shape: Elements per dimension.
        strides: Elements between neighbours, per dimension.
        scalar: Bytes of the value of a scalar, padded to 8.
        zeroed: Whether it must begin as zeros.
    """

    code: int
    bits: int
    ndim: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    scalar: bytes
    zeroed: bool

    @property
    def window_bytes(self) -> int:
        """Bytes of a window that holds it."""
        last = sum((count - 1) * stride for count, stride in zip(self.shape, self.strides, strict=True))
        used = self.offset + max(last + 1, 1) * self.bits // 8
        return -(-used // SLACK) * SLACK


@dataclass(slots=True)
class Call:
    """One planned call, as `SealedKernel.run` takes it."""

    places: tuple[Argument, ...]
    workspace_bytes: int
    workspace_offset: int = 0


def planned(plan: Mapping[str, Any]) -> list[Call]:
    """The calls of a plan."""
    return [Call(tuple(map(_argument, call["arguments"])), int(call["workspace_bytes"])) for call in plan["calls"]]


def _argument(held: Mapping[str, Any]) -> Argument:
    return Argument(
        int(held["code"]), int(held["bits"]), int(held["ndim"]), int(held["offset"]) % SLACK, tuple(held["shape"]), tuple(held["strides"]),
        bytes.fromhex(held["scalar"]), bool(held["zeroed"]),
    )  # fmt: skip


class Replayed(SealedKernel):
    """A sealed kernel with windows of its own."""

    def run_once(self, call: Call) -> int:
        """One call on fresh windows; the status of `SealedKernel.run`."""
        windows = [self._own(one.window_bytes, one) if one.ndim else 0 for one in call.places]
        workspace = self._own(call.workspace_bytes, None) if call.workspace_bytes else 0
        self.bind(call.places, windows, workspace)
        try:
            return self.run(call)
        finally:
            for address in filter(None, (*windows, workspace)):
                del self._sizes[address]
                self.driver.free(address)

    def _own(self, size: int, argument: Argument | None) -> int:
        address = self.driver.allocate(size)
        self._sizes[address] = size
        block = b"" if argument is None or argument.zeroed else values(argument.code, argument.bits)
        if not block:
            self.driver.fill(address, 0, size // 4 * 4)
        for at in range(0, size if block else 0, len(block) or 1):
            self.driver.write(address + at, block[: size - at])
        return address


def values(code: int, bits: int, seed: int = 1) -> bytes:
    """Elements with a normal distribution, some megabytes of them; empty for types that may hold indices, or are too narrow for it."""
    import numpy as np

    if (code, bits) not in ((_FLOATING, 16), (_FLOATING, 32), (_FLOATING, 64), (_BFLOAT, 16)):
        return b""
    drawn = np.random.default_rng(seed).standard_normal(_BLOCK_ELEMENTS, np.float32)
    if code == _BFLOAT:
        return (drawn.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return drawn.astype(f"f{bits // 8}").tobytes()


def main(argv: Sequence[str]) -> int:
    """Run all calls of a plan.

    Args:
        argv: Paths of the bundle and of the plan, and perhaps `ANYWAY`.

    Returns:
        0; 1 with a line on stdout where a call could not be run.
    """
    bundle, plan = (Path(name).read_bytes() for name in argv[:2])
    held = json.loads(plan)
    try:
        driver = Driver(int(held.get("ordinal", 0)), eager=True)
    except Unavailable as error:
        return _refused(error.line)
    if driver.attribute(PAGEABLE) and ANYWAY not in argv[2:]:
        return _refused("the device reaches all memory of a process here, and no slot is around this one")
    calls = planned(held)
    need = max((sum(one.window_bytes for one in call.places if one.ndim) for call in calls), default=0)
    if need > driver.memory()[0]:
        return _refused(f"the device has no {need} bytes left")
    try:
        kernel = Replayed(Bundle.decode(bundle), driver)
    except ValueError as error:
        return _refused(str(error))
    for number, call in enumerate(calls):
        status = kernel.run_once(call)
        if status:
            return _refused(f"call {number}: {_STATUS.get(status, f'status {status}')}")
    return 0


def _refused(why: str) -> int:
    sys.stdout.write(f"cannot be replayed: {why}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
