"""Upkeep of those who passed: the champion measured again in time, an opponent that fails judged again."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

from evokern.engine.steward import Steward
from evokern.evaluation import Elite, Evaluation, Reason, Verdict

REMEASURE_SECONDS = 600.0
"""Run time between two measurements of the champion (EVALUATOR section 4)."""

FRESH_SECONDS = 60.0
"""A champion that was measured within so much run time is not measured once more at the end: the closing measurement follows."""

ACCUSERS = 3
"""Different kernels under which the champion may fail, though it passes when it is judged again, before it is withdrawn as flaky."""

CONTENDERS = 3
"""Champions measured again at the end at most: each may fall behind the next."""

Retell = Callable[[Elite, Evaluation, str], Awaitable[None]]
"""Told an elite, what now holds of it, and why it was judged again."""


class Upkeep:
    """Judges elites again.

    Args:
        steward: Where evaluations run.
        champion: The run's best, or None.
        retell: Records what came of it, and tells the islands.
        run_time: Seconds of search so far.
    """

    def __init__(self, steward: Steward, champion: Callable[[], Elite | None], retell: Retell, run_time: Callable[[], float]) -> None:
        self._steward, self._champion, self._retell, self._run_time = steward, champion, retell, run_time
        self._measured: dict[str, float] = {}
        self._due = run_time() + REMEASURE_SECONDS
        self._accusers: dict[str, set[str]] = defaultdict(set)
        self._withdrawn: set[str] = set()
        self._gated: set[tuple[str, int]] = set()
        self._one = asyncio.Lock()

    def note(self, kernel_id: str) -> None:
        """A kernel's numbers are fresh."""
        self._measured[kernel_id] = self._run_time()

    async def when_due(self) -> None:
        """Measure the champion again where its time has come."""
        champion = self._champion()
        if champion is not None and self._run_time() >= self._due:
            self._due = self._run_time() + REMEASURE_SECONDS
            await self._remeasure(champion, "schedule")

    async def at_end(self) -> None:
        """Measure the champion again, and whoever takes its place by that; those with fresh numbers stay as they are."""
        for _ in range(CONTENDERS):
            champion = self._champion()
            if champion is None or self._is_fresh(champion):
                return
            await self._remeasure(champion, "end")

    async def accused(self, champion: Elite, accuser: str) -> None:
        """An opponent failed while a challenger was timed against it: judge it again, and withdraw it if it is at fault.

        Args:
            champion: The opponent.
            accuser: Id of the challenger.
        """
        async with self._one:
            if champion.candidate.id in self._withdrawn:
                return
            accusers = self._accusers[champion.candidate.id]
            accusers.add(accuser)
            evaluation = await self._steward.evaluate(champion.candidate, None)
            if evaluation.reason is Reason.NOISE or (evaluation.passed and len(accusers) < ACCUSERS):
                return
            if evaluation.passed:
                failed = Evaluation(
                    evaluation.kernel_id, evaluation.task_digest, evaluation.dtype, Verdict.INFRASTRUCTURE, Reason.OPPONENT,
                    "fails again and again when others are timed against it", fingerprint=evaluation.fingerprint, key=evaluation.key,
                )  # fmt: skip
                evaluation = await self._steward.executor.charge(failed)
            self._withdrawn.add(champion.candidate.id)
            await self._retell(champion, evaluation, "opponent")

    async def gate_again(self, epoch: int) -> None:
        """Judge the champion on the held-out set of an epoch, if it was not yet; where it fails, it is withdrawn.

        Whoever takes its place is gated in turn: nobody stands at the top who passed a set that is told of alone.

        Args:
            epoch: Index of the set.
        """
        champion = self._champion()
        if champion is None or champion.evaluation.fingerprint is None:
            return
        turn = (champion.candidate.id, epoch)
        if turn in self._gated or champion.evaluation.fingerprint.held_out_epoch >= epoch:
            return
        self._gated.add(turn)
        evaluation = await self._steward.evaluate(champion.candidate, None)
        if evaluation.passed:
            evaluation = await self._steward.confirm(champion.candidate, evaluation)
            self._due = self._run_time() + REMEASURE_SECONDS
            self.note(champion.candidate.id)
        await self._tell_again(champion, evaluation, "rotated")

    async def _remeasure(self, elite: Elite, why: str) -> None:
        evaluation = await self._steward.remeasure(elite.candidate, elite.evaluation)
        self.note(elite.candidate.id)
        await self._tell_again(elite, evaluation, why)

    async def _tell_again(self, elite: Elite, evaluation: Evaluation, why: str) -> None:
        """Known numbers are better than none: a machine that was too busy for new ones withdraws nobody."""
        if evaluation.reason is not Reason.NOISE:
            await self._retell(elite, evaluation, why)

    def _is_fresh(self, elite: Elite) -> bool:
        measured = self._measured.get(elite.candidate.id)
        return measured is not None and self._run_time() - measured < FRESH_SECONDS
