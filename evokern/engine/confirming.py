"""What a confirmation is worth: it costs more than the screening before it, so it is spent on what may enter an archive."""

from __future__ import annotations

from evokern.archive import GridArchive
from evokern.evaluation import BASELINE, INCUMBENT, Elite, Evaluation, Score
from evokern.kernel import Candidate
from evokern.statistics import chain, score_of

WORTH_CONFIRMING = 0.7
"""Share of the champion's speed below which no kernel is confirmed, however empty its cell: that costs more than its screening."""

MARGIN = 1.02
"""By how much an estimate must beat what it would replace before a confirmation is spent on it."""


def worth_confirming(candidate: Candidate, evaluation: Evaluation, champion: Elite | None, archive: GridArchive) -> bool:
    """Whether its island would keep a kernel if its estimate were true.

    Args:
        candidate: Which kernel.
        evaluation: Its screening, passed.
        champion: What it was screened against; None for the baseline.
        archive: Its island's.
    """
    score = screened_score(evaluation, champion)
    if score is None or champion is None or candidate.operator == "seed":
        return True
    estimate = score.ratio.estimate
    if estimate < WORTH_CONFIRMING * champion.score.ratio.estimate:
        return False
    owner = archive.cells.get(archive.cell_of(evaluation))
    return owner is None or estimate > MARGIN * owner.score.ratio.estimate or _may_take_a_title(evaluation, champion, archive)


def to_beat(evaluation: Evaluation, archive: GridArchive) -> float | None:
    """Logarithm of the score of the kernel whose cell a screened one would take; None where that is empty."""
    owner = archive.cells.get(archive.cell_of(evaluation))
    return None if owner is None else owner.score.log


def screened_score(evaluation: Evaluation, champion: Elite | None) -> Score | None:
    """Speed-up over the baseline: measured where it was, else through the champion that it was screened against."""
    direct = score_of(evaluation)
    if direct is not None or champion is None:
        return direct
    versus = score_of(evaluation, INCUMBENT)
    return None if versus is None else chain(versus, champion.score)


def _may_take_a_title(evaluation: Evaluation, champion: Elite, archive: GridArchive) -> bool:
    ratios, known = evaluation.versus(INCUMBENT), champion.evaluation.versus(BASELINE)
    return any(
        ratios[workload].estimate * known[workload].estimate > MARGIN * holder.evaluation.versus(BASELINE)[workload].estimate
        for workload, holder in archive.titles.items()
        if workload in ratios and workload in known
    )
