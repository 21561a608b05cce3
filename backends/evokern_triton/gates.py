"""Compile gates: whether a kernel compiles for each target and fits there, with no GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evokern_gpu.building import with_deadline

from evokern.backend import Limits, Sandbox
from evokern.evaluation import Reason
from evokern.kernel import Kernel
from evokern_triton import calls
from evokern_triton.backend import TritonBackend
from evokern_triton.target import TARGETS


@dataclass(frozen=True, slots=True)
class Need:
    """What one kernel needs on one target.

    Attributes:
        symbol: Its function.
        registers: Of a thread; 0 where they cannot be read here.
        local_bytes: Of a thread, spilled.
        shared_bytes: Of a block.
        warps: Of a block.
    """

    symbol: str
    registers: int
    local_bytes: int
    shared_bytes: int
    warps: int


@dataclass(frozen=True, slots=True)
class Gated:
    """What one target says.

    Attributes:
        target: Its name, such as "hip:gfx942".
        reason: "none" where the kernel compiles and fits; else a `Reason`: "compiler", "resources", "deadline_build" and others of a build.
        log: What the compiler says, or what does not fit.
        needs: Of each kernel that is launched.
        seconds: Wall time.
    """

    target: str
    reason: str
    log: str
    needs: tuple[Need, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether it compiles and fits."""
        return self.reason == Reason.NONE


def gate(
    source: str,
    shapes: Sequence[calls.Call],
    targets: Iterable[str] = tuple(TARGETS),
    *,
    sandbox: Sandbox,
    limits: Limits | None = None,
    entry: str = "run",
) -> list[Gated]:
    """Compile a kernel for every target.

    Args:
        source: Its text.
        shapes: The calls that it is for, as `calls.calls_for` makes them; the visible ones count.
        targets: Names, of `TARGETS`.
        sandbox: Where the compiler runs.
        limits: Of one target; a time of `evokern_gpu.building.BUILD_SECONDS` where they have none.
        entry: Name of the function that is called.

    Raises:
        Unavailable: No Triton.
        ValueError: No such target.
    """
    bounded = with_deadline(limits or Limits())
    visible = tuple(call for call in shapes if call.visible)
    return [_gated(Kernel("triton", source, entry), visible, name, sandbox, bounded) for name in targets]


def _gated(kernel: Kernel, visible: tuple[calls.Call, ...], name: str, sandbox: Sandbox, limits: Limits) -> Gated:
    tried = TritonBackend(name, bound=visible).tried(kernel, sandbox, limits)
    needs = tuple(
        Need(made.symbol, tried.used.get(made.symbol, (0, 0))[0], tried.used.get(made.symbol, (0, 0))[1], made.shared_bytes, made.warps)
        for made in tried.launched
    )
    return Gated(name, str(tried.reason), tried.log, needs, tried.seconds)
