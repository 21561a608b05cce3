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
from evokern.evaluator.signing import SEED_BYTES, Seal, Signer
from evokern.evaluator.statement import GATE_BITS, Closing, Health, Preparation, WorkloadTimes, charged
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
        task_digest: Of the task that its evaluations are said to be of.
        gate_bits: Answers after which its held-out set is retired.

    Attributes:
        evaluated: Ids of the kernels that were evaluated, in order.
        signer: Signs every answer, as a judge does; its key is no secret.
    """

    def __init__(
        self,
        landscape: Callable[[Kernel], Landed],
        *,
        noise: float = 0.01,
        seed: int = 0,
        capacity: int = 4,
        latency_s: float = 0.0,
        task_digest: str = "sim",
        gate_bits: int = GATE_BITS,
    ) -> None:
        self.landscape, self.noise, self.seed, self.latency_s = landscape, noise, seed, latency_s
        self.task_digest, self.gate_bits = task_digest, gate_bits
        self.evaluated: list[str] = []
        self.signer = Signer(b"simulated judge, no secret at all"[:SEED_BYTES])
        self._fingerprint = SIM
        self._capacity = capacity

    async def open(self, say: Callable[[str], None]) -> Preparation:
        """See `Executor.open`."""
        say("simulated evaluations: no device is measured")
        times = WorkloadTimes("sim", True, {"baseline": BASELINE_US}, "baseline")
        return self.signer.sign(Preparation(self._fingerprint, Tier.UNSANDBOXED, (times,), 0.0, 0.0, gate_bits=self.gate_bits))

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        """See `Executor.evaluate`."""
        await asyncio.sleep(self.latency_s)
        self.evaluated.append(candidate.id)
        landed = self.landscape(candidate.kernel)
        evaluation = self._blank(candidate, landed)
        if landed.verdict is not Verdict.PASSED:
            return self.signer.sign(evaluation)
        against = self.landscape(incumbent).log_speedup if incumbent else 0.0
        name = INCUMBENT if incumbent else BASELINE
        measured = self._measured(landed, against, name, candidate.id + "/screen")
        return self.signer.sign(replace(evaluation, passed_held_out=True, measurements=(measured,)))

    async def confirm(self, candidate: Candidate, evaluation: Evaluation, to_beat: float | None = None) -> Evaluation:
        """See `Executor.confirm`."""
        await asyncio.sleep(self.latency_s)
        found = self._measured(self.landscape(candidate.kernel), 0.0, BASELINE, candidate.id + "/confirm")
        return self.signer.sign(replace(evaluation, measurements=(found,), confirmed=True, rung=Rung.CONFIRM))

    async def remeasure(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """See `Executor.remeasure`."""
        landed = self.landscape(candidate.kernel)
        if landed.verdict is not Verdict.PASSED:
            return self.signer.sign(replace(evaluation, verdict=landed.verdict, reason=landed.reason, measurements=(), confirmed=False))
        return await self.confirm(candidate, evaluation)

    async def profile(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """See `Executor.profile`: as it is, as nothing ran."""
        return evaluation

    async def charge(self, evaluation: Evaluation) -> Evaluation:
        """See `Executor.charge`."""
        return self.signer.sign(charged(evaluation))

    async def probe(self) -> Health:
        """See `Executor.probe`."""
        return Health(ok=True)

    async def restart(self) -> None:
        """See `Executor.restart`."""

    async def rotate(self, epoch: int) -> Preparation:
        """See `Executor.rotate`."""
        self._fingerprint = replace(SIM, held_out_epoch=epoch)
        return await self.open(lambda _: None)

    def is_worn(self) -> bool:
        """See `Executor.is_worn`: no answer is late."""
        return False

    async def seal(self, head: Seal) -> Seal:
        """See `Executor.seal`."""
        return self.signer.sign(head)

    async def finish(self, champion: Kernel, seed: Kernel | None) -> Closing:
        """See `Executor.finish`."""
        return self.signer.sign(Closing((), (), True, None, "simulated"))

    def capacity(self) -> int:
        """See `Executor.capacity`."""
        return self._capacity

    async def close(self) -> None:
        """Nothing to end."""

    def _blank(self, candidate: Candidate, landed: Landed) -> Evaluation:
        key = evaluation_key(candidate.id, self.task_digest, candidate.dtype, self._fingerprint)
        return Evaluation(
            candidate.id, self.task_digest, str(candidate.dtype), landed.verdict, landed.reason, rung=Rung.MEASURE,
            descriptors=dict(landed.descriptors), fingerprint=self._fingerprint, key=key,
        )  # fmt: skip

    def _measured(self, landed: Landed, against: float, opponent: str, salt: str) -> Measurement:
        log = landed.log_speedup - against + random.Random(f"{self.seed}/{salt}").gauss(0.0, self.noise)
        reach = 2.5 * self.noise
        ratio = Ratio(math.exp(log), math.exp(log - reach), math.exp(log + reach), 16, 8)
        return Measurement("sim", Clock.JUDGED, BASELINE_US / math.exp(landed.log_speedup), 0.0, 0.0, None, {opponent: ratio})
