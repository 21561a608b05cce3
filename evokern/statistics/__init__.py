"""Statistics: intervals that stay true however often they are looked at, and the scores made of them.

Pure functions over numpy arrays. Every method carries a name and version (`PAIRED_RATIO`, `GEOMEAN`), stored beside the values
that it gave, so that figures made by two versions are never mixed.

Members:
    paired_ratio: Ratio of two kernels' times from paired samples clustered by allocation, with an always-valid interval.
    confidence_multiplier: The t-statistic beyond which a mean is excluded, at any number of looks.
    unexplained_bias: What a kernel differs from itself by, beyond scatter.
    widened, shifted: A ratio with a wider interval; one that is moved as a whole.
    combine: Geometric mean of independent ratios, as a `Score`.
    chain: Score of a candidate over the baseline by way of an incumbent.
    score_of: Score of an evaluation.

`evokern.statistics.roofline` holds what a time is held against: floors, the SOL score, and what takes a kernel's time.
"""

from __future__ import annotations

from evokern.statistics.paired import (
    CLUSTERS_FOR_A_GAIN,
    CONFIDENCE,
    MARGIN_FLOOR,
    PAIRED_RATIO,
    confidence_multiplier,
    paired_ratio,
    shifted,
    unexplained_bias,
    widened,
)
from evokern.statistics.score import GEOMEAN, chain, combine, score_of

__all__ = [
    "CLUSTERS_FOR_A_GAIN",
    "CONFIDENCE",
    "GEOMEAN",
    "MARGIN_FLOOR",
    "PAIRED_RATIO",
    "chain",
    "combine",
    "confidence_multiplier",
    "paired_ratio",
    "score_of",
    "shifted",
    "unexplained_bias",
    "widened",
]
