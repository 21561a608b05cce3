"""Endurance: a secret number of short calls, for kernels that count their calls or remember where things lay.

A call is only as good as the ones before it in the same process. Some follow one another at the same addresses with other
values, so that a kernel which knows an answer by its pointer, or by their number, has something to trip over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from evokern.evaluator.rule.trial import LARGE, Point, Trial, elements
from evokern.evaluator.secrecy import Secret


@dataclass(frozen=True, slots=True)
class Endurance:
    """How much of it there is.

    Attributes:
        calls: Fewest and most.
        pause_s: Shortest and longest time for which nothing happens, once, in the first half: a user's process is left alone now and
            then, and a kernel must be right after that.
    """

    calls: tuple[int, int]
    pause_s: tuple[float, float]


CHECK = Endurance((48, 80), (0.05, 0.4))
"""Of a check."""

CONFIRMATION = Endurance((64, 192), (0.2, 2.4))
"""Of a confirmation, which few kernels reach; its long stays are the timed workloads' (`evokern.evaluator.timing.side`)."""

SAME_PLACE = (2, 7)
"""Fewest and most calls in a row at the same addresses."""


def endure(trial: Trial, points: Sequence[Point], secret: Secret, amount: Endurance) -> float:
    """Call again and again.

    Args:
        trial: The runner.
        points: Calls to choose from; those of the smallest workload are taken.
        secret: Chance of number, order, places, and of the pause.
        amount: How much of it.

    Returns:
        The worst error as a share of what is allowed.

    Raises:
        Fault: One of the calls failed.
    """
    rng = secret.stream("endurance")
    least = min(elements(trial.task, p.axes) for p in points)
    short = [p for p in points if elements(trial.task, p.axes) == least]
    # Where even the smallest workload is a long one, all calls are like those of the check itself.
    left = int(rng.integers(*amount.calls, endpoint=True)) if least < LARGE else SAME_PLACE[1]
    pause_at = int(rng.integers(left // 2, left))
    worst, place = 0.0, 0
    while left > 0:
        place += 1
        point = short[int(rng.integers(len(short)))]
        for _ in range(min(left, int(rng.integers(*SAME_PLACE, endpoint=True)))):
            if left == pause_at:
                shortest, longest = map(math.log, amount.pause_s)
                time.sleep(math.exp(rng.uniform(shortest, longest)))
            chosen = Point(point.axes, point.layout, *_other(short, point, int(rng.integers(len(short)))))
            worst = max(worst, trial.call(chosen, rng, places=secret.stream("place", place))[1])
            left -= 1
    return worst


def _other(points: Sequence[Point], point: Point, number: int) -> tuple[str, int]:
    """Values of another point of the same shapes."""
    alike = [p for p in points if p.axes == point.axes]
    chosen = alike[number % len(alike)]
    return chosen.distribution, chosen.index
