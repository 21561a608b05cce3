"""SimExecutor: evaluations computed from a landscape instead of a device; for tests of search, labelled in its fingerprint."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from evokern.evaluation import (
    BASELINE,
    INCUMBENT,
    Clock,
    Evaluation,
    Fingerprint,
    Measurement,
    Ratio,
    Reason,
    Rung,
    Tier,
    Verdict,
    evaluation_key,
)
from evokern.evaluator.statement import Closing, Preparation, WorkloadTimes
from evokern.kernel import Candidate, Kernel

SIM = Fingerprint("sim/1", "sim", "simulated", "none", "none", "", "", "ieee", 1, Tier.UNSANDBOXED, "", ("baseline",), 0)
"""Fingerprint of every simulated evaluation: it can never be mistaken for a measured one."""

BASELINE_US = 1000.0


@dataclass(frozen=True, slots=True)
class Landed:
    """What a landscape says of a source.

    Attributes:
        log_speedup: True log speed-up over the baseline; ignored where the verdict is not `passed`.
        verdict: How its evaluation ends.
        reason: Why.
        descriptors: What the archive's cells are made of.
    """

    log_speedup: float
    verdict: Verdict = Verdict.PASSED
    reason: Reason = Reason.NONE
    descriptors: Mapping[str, str] = field(default_factory=dict)


class SimExecutor:
    """An executor over a landscape.

    Args:
        landscape: From a kernel to what is true of it.
        noise: Standard deviation of a measured log ratio with all its pairs.
        seed: Of the noise; the noise of a kernel depends on it and the kernel alone.
        capacity: Evaluations in flight.
        latency_s: Seconds an evaluation takes.
    """

    def __init__(
        self, landscape: Callable[[Kernel], Landed], *, noise: float = 0.01, seed: int = 0, capacity: int = 4, latency_s: float = 0.0
    ) -> None:
        self.landscape, self.noise, self.seed, self.latency_s = landscape, noise, seed, latency_s
        self.evaluated: list[str] = []
        self._capacity = capacity

    async def open(self, say: Callable[[str], None]) -> Preparation:
        """See `Executor.open`."""
        say("simulated evaluations: no device is measured")
        times = WorkloadTimes("sim", True, {"baseline": BASELINE_US}, "baseline")
        return Preparation(SIM, Tier.UNSANDBOXED, (times,), 0.0, 0.0)

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        """See `Executor.evaluate`."""
        await asyncio.sleep(self.latency_s)
        self.evaluated.append(candidate.id)
        landed = self.landscape(candidate.kernel)
        evaluation = self._blank(candidate, landed)
        if landed.verdict is not Verdict.PASSED:
            return evaluation
        against = self.landscape(incumbent).log_speedup if incumbent else 0.0
        name = INCUMBENT if incumbent else BASELINE
        return replace(evaluation, passed_held_out=True, measurements=(self._measured(landed, against, name, candidate.id + "/screen"),))

    async def confirm(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """See `Executor.confirm`."""
        await asyncio.sleep(self.latency_s)
        found = self._measured(self.landscape(candidate.kernel), 0.0, BASELINE, candidate.id + "/confirm")
        return replace(evaluation, measurements=(found,), confirmed=True, rung=Rung.CONFIRM)

    async def finish(self, champion: Kernel, seed: Kernel | None) -> Closing:
        """See `Executor.finish`."""
        return Closing((), (), True, None, "simulated")

    def capacity(self) -> int:
        """See `Executor.capacity`."""
        return self._capacity

    async def close(self) -> None:
        """Nothing to end."""

    def _blank(self, candidate: Candidate, landed: Landed) -> Evaluation:
        key = evaluation_key(candidate.id, "sim", candidate.dtype, SIM)
        return Evaluation(
            candidate.id, "sim", str(candidate.dtype), landed.verdict, landed.reason, rung=Rung.MEASURE,
            descriptors=dict(landed.descriptors), fingerprint=SIM, key=key,
        )  # fmt: skip

    def _measured(self, landed: Landed, against: float, opponent: str, salt: str) -> Measurement:
        log = landed.log_speedup - against + random.Random(f"{self.seed}/{salt}").gauss(0.0, self.noise)
        reach = 2.5 * self.noise
        ratio = Ratio(math.exp(log), math.exp(log - reach), math.exp(log + reach), 16, 8)
        return Measurement("sim", Clock.JUDGED, BASELINE_US / math.exp(landed.log_speedup), 0.0, 0.0, None, {opponent: ratio})
