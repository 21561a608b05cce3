"""Scores: an evaluation's speed-up as one number with an interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from evokern.evaluation import BASELINE, Evaluation, Ratio, Score

GEOMEAN = "geomean/1"
"""Name and version of the score: geometric mean over timed workloads, to be stored beside its values."""


def combine(ratios: Mapping[str, Ratio] | Iterable[Ratio]) -> Score:
    """Geometric mean of independent ratios.

    Workloads are measured on separate allocations, so their errors are independent: on a log scale half-widths add as
    squares, each side by itself, and shrink with the number of workloads.

    Args:
        ratios: Ratio to the same opponent, by workload or in any order; at least one.

    Returns:
        Estimate and bounds, natural logarithms. A bound that one workload lacks is lacking in the whole.

    Raises:
        ValueError: There is no ratio.
    """
    parts = list(ratios.values()) if isinstance(ratios, Mapping) else list(ratios)
    if not parts:
        raise ValueError("a score needs at least one ratio")
    logs = [math.log(part.estimate) for part in parts]
    below = math.hypot(*(log - math.log(part.low) for log, part in zip(logs, parts, strict=True)))
    above = math.hypot(*(math.log(part.high) - log for log, part in zip(logs, parts, strict=True)))
    mean = sum(logs) / len(parts)
    return Score(log=mean, low=mean - below / len(parts), high=mean + above / len(parts))


def chain(candidate: Score, incumbent: Score) -> Score:
    """Score of a candidate over the baseline, where it was timed against an incumbent only.

    The two measurements are independent, so half-widths add as squares.

    Args:
        candidate: Candidate over incumbent.
        incumbent: Incumbent over baseline.

    Returns:
        Candidate over baseline.
    """
    mean = candidate.log + incumbent.log
    below = math.hypot(candidate.log - candidate.low, incumbent.log - incumbent.low)
    above = math.hypot(candidate.high - candidate.log, incumbent.high - incumbent.log)
    return Score(log=mean, low=mean - below, high=mean + above)


def score_of(evaluation: Evaluation, opponent: str = BASELINE) -> Score | None:
    """Score of an evaluation over one opponent.

    Args:
        evaluation: Any evaluation.
        opponent: Name of the opponent.

    Returns:
        The score, or None where the kernel did not pass or some measured workload lacks this opponent: a mean over fewer
        workloads is another quantity.
    """
    if not evaluation.passed or not evaluation.measurements:
        return None
    ratios = evaluation.versus(opponent)
    if len(ratios) < len(evaluation.measurements):
        return None
    return combine(ratios)
