"""The steward: no kernel is blamed for the machine, and a machine that fails is not asked for ever (EVALUATOR sections 4, 5)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from evokern.errors import Unavailable
from evokern.evaluation import Evaluation, Reason, Rung, Verdict
from evokern.executor import Executor
from evokern.executor.floor import Floor
from evokern.kernel import Candidate, Kernel

SHARED = frozenset({Reason.DEADLINE_BUILD, Reason.DEADLINE_RUN, Reason.MEMORY, Reason.DEVICE_ERROR})
"""Reasons that a neighbour on the same machine can bring about."""


@dataclass(frozen=True, slots=True)
class StewardSettings:
    """When a machine that fails is given a rest, and when it is given up.

    Attributes:
        in_a_row: Failures in a row, each of a kernel that was alone, after which the judge is replaced even if a probe finds nothing.
        pause_s: Seconds of the first rest; each further one is twice as long.
        rests: Rests without a verdict between them before the machine is given up.
    """

    in_a_row: int = 4
    pause_s: float = 5.0
    rests: int = 4


class Steward:
    """Asks an executor so that every verdict is the kernel's own.

    What may have been a neighbour's doing is asked for once more with nobody beside it. Where the machine fails a second time
    although a probe finds it sound, the kernel is at fault; where the probe finds it unsound, it rests, gets a new judge, and the
    kernel is asked for again.

    Args:
        executor: Where evaluations run.
        say: Told when the machine is given a rest.
        settings: Constants.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        executor: Executor,
        say: Callable[[str], None],
        settings: StewardSettings | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.executor, self.settings = executor, settings or StewardSettings()
        self._say, self._sleep = say, sleep
        self._floor = Floor()
        self._failures = 0
        self._rests = 0
        self._bits: Counter[str] = Counter()

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        """See `Executor.evaluate`.

        Raises:
            Unavailable: The machine is given up.
        """
        return await self._sure(lambda: self._gated(candidate, incumbent))

    async def confirm(self, candidate: Candidate, evaluation: Evaluation, to_beat: float | None = None) -> Evaluation:
        """See `Executor.confirm`; raises as `evaluate`."""
        return await self._sure(lambda: self.executor.confirm(candidate, evaluation, to_beat))

    async def remeasure(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """See `Executor.remeasure`; raises as `evaluate`."""
        return await self._sure(lambda: self.executor.remeasure(candidate, evaluation))

    def alone(self) -> AbstractAsyncContextManager[None]:
        """A section in which no evaluation runs."""
        return self._floor.alone()

    def take_bits(self, kernel_id: str) -> int:
        """Answers of the gate that were spent on a kernel since this was last asked."""
        return self._bits.pop(kernel_id, 0)

    async def _gated(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        evaluation = await self.executor.evaluate(candidate, incumbent)
        # A judge that died in the gate has told something too.
        self._bits[candidate.id] += evaluation.passed_held_out is not None or evaluation.rung is Rung.GATE
        return evaluation

    async def _sure(self, ask: Callable[[], Awaitable[Evaluation]]) -> Evaluation:
        async with self._floor.shared() as visit:
            evaluation = await ask()
        if not machine_failed(evaluation) and (visit.alone or evaluation.reason not in SHARED):
            self._note_sound()
            return evaluation
        async with self._floor.alone():
            return await self._alone(ask)

    async def _alone(self, ask: Callable[[], Awaitable[Evaluation]]) -> Evaluation:
        while True:
            evaluation = await ask()
            if not machine_failed(evaluation):
                self._note_sound()
                return evaluation
            self._failures += 1
            health = await self.executor.probe()
            if health.ok and self._failures < self.settings.in_a_row:
                return await self.executor.charge(evaluation)
            await self._rest(health.detail or evaluation.detail)

    def _note_sound(self) -> None:
        self._failures = self._rests = 0

    async def _rest(self, cause: str) -> None:
        """Pause, a new judge, and a probe, with longer pauses as long as the machine is unsound.

        Raises:
            Unavailable: It stays so.
        """
        while self._rests < self.settings.rests:
            pause = self.settings.pause_s * 2**self._rests
            self._rests += 1
            self._say(f"the machine fails ({cause}); resting {pause:.0f} s, then a new judge")
            await self._sleep(pause)
            await self.executor.restart()
            health = await self.executor.probe()
            if health.ok:
                self._failures = 0
                return
            cause = health.detail
        raise Unavailable(
            f"the machine failed again and again: {cause}", mend="Once it is well (`evokern doctor`), `evokern resume` goes on from here"
        )


def machine_failed(evaluation: Evaluation) -> bool:
    """Whether a verdict says nothing of the kernel: an opponent's failure is another matter, which the engine looks into."""
    return evaluation.verdict is Verdict.INFRASTRUCTURE and evaluation.reason is not Reason.OPPONENT
