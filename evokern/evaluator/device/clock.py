"""The clock of a device: events of processes that hold no candidate's host code, else the judge's own (EVALUATOR section 3).

Where both sides of a comparison are sealed, a call takes the time between two events of the device. Elsewhere both take the judge's
time: from GO until its own copy of the outputs has retired, less that of a kernel that launches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from evokern.backend import Device
from evokern.evaluation import Clock
from evokern.evaluator.call.caller import Call
from evokern.evaluator.call.contestant import Contestant
from evokern.evaluator.call.protocol import Kind
from evokern.evaluator.secrecy import Secret
from evokern.evaluator.timing.clock import JudgedClock
from evokern.evaluator.timing.series import Series
from evokern.task import Workload

EVENT_STEP_NS = 500.0
"""Resolution of a device's events as the CUDA runtime's documentation of cudaEventElapsedTime states it, nanoseconds."""

STOCKED = {0: 1, 1: 2, 3: 5, 8: 4, 12: 4, 16: 8, 24: 8}
"""How many processes are started ahead before the allocation of a number: screening may end after 1, 3 and 8 of them."""


class DeviceEvictor:
    """Empties a device's caches before a call that the judge times; sealed processes do it themselves, within their stream.

    Args:
        device: The judge's.
        bytes_per_ns: What it reads at best.

    Attributes:
        bytes_per_ns: See above.
        is_needed: Whether the judge is to do it.
    """

    def __init__(self, device: Device, bytes_per_ns: float) -> None:
        self._device, self.bytes_per_ns, self.is_needed = device, bytes_per_ns, True

    def evict(self) -> None:
        """Read clean memory, and wait."""
        if self.is_needed:
            self._device.evict()

    def settle(self) -> None:
        """Nothing is to be found out: a device says how large its caches are."""


@dataclass
class DeviceClock(JudgedClock):
    """Times contestants against each other on a device.

    Attributes:
        by_events: Whether the comparison under way takes the device's events.
    """

    by_events: bool = False
    _judged: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def by_cpu_time(self) -> bool:
        """Never."""
        return False

    @property
    def name(self) -> Clock:
        """Whose clock the comparison under way takes."""
        return Clock.STREAM if self.by_events else Clock.JUDGED

    def time_ns(self, call: Call) -> float:
        """What a call took, the null not yet taken off."""
        return call.stream_ns if self.by_events else call.judged_ns

    def void(self, call: Call) -> str:
        """Why a call's time does not count; empty where it does."""
        return "outran" if call.outran else ""

    def heard(self, call: Call) -> None:
        """Nothing is learnt from queues: the device's time does not depend on them."""

    def kind(self, workload: Workload, *, evict: bool) -> Kind:
        """How a call is asked for."""
        if not self.by_events:
            return Kind.GO
        return Kind.SAMPLE if evict and workload.residency == "cold" else Kind.WARM

    def calibrate(self, null: Contestant, workload: Workload, secret: Secret, count: int = 32) -> None:
        """Time a kernel that does nothing by the judge's clock; events need no null, and tell half a microsecond apart."""
        with self.taking(null):
            super().calibrate(null, workload, secret, count)
            self._judged = self.null_ns, self.null_gap_ns, self.resolution_ns

    def calibrate_gap(self, worker: Contestant, workloads: Sequence[Workload], secret: Secret, count: int = 12) -> None:
        """Nothing is to be found out: no time of a processor is held against a device's."""

    def null_of(self, contestant: Contestant) -> float:
        """Nothing is taken off a time between two events."""
        return 0.0 if self.by_events else super().null_of(contestant)

    def stock(self, contestant: Contestant, workloads: Sequence[Workload], cluster: int) -> None:
        """Start sealed processes for the allocations until the next look that may end a measurement.

        A device takes as long to be opened as a measurement; side by side sixteen take as long as two (DESIGN section 10). Every
        allocation has a process of its own all the same: what a kernel leaves in its stack on the device outlives everything else.
        """
        if contestant.sealed and cluster in STOCKED:
            contestant.stock(workloads, STOCKED[cluster])

    def glance(self, contestant: Contestant, workload: Workload, secret: Secret, count: int = 5) -> float:
        """See `JudgedClock.glance`."""
        with self.taking(contestant):
            return super().glance(contestant, workload, secret, count)

    def compare(
        self, who: Contestant, opponent: Contestant, workloads: Sequence[Workload], secret: Secret, **how: Any
    ) -> dict[str, Series]:
        """See `JudgedClock.compare`; whose clock it took is `name` until the next comparison."""
        self._take(who.sealed and opponent.sealed)
        return super().compare(who, opponent, workloads, secret, **how)

    @contextmanager
    def taking(self, *contestants: Contestant) -> Iterator[None]:
        """See `JudgedClock.taking`: events where all are sealed."""
        before = self.by_events
        self._take(all(one.sealed for one in contestants))
        try:
            yield
        finally:
            self._take(before)

    def _take(self, by_events: bool) -> None:
        self.by_events = by_events
        assert isinstance(self.evictor, DeviceEvictor)
        self.evictor.is_needed = not by_events
        self.null_ns, self.null_gap_ns, self.resolution_ns = (0.0, 0.0, EVENT_STEP_NS) if by_events else self._judged
