"""`evokern doctor --attacks`: the attack corpus against the evaluator of this machine."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evokern.cli.answer import DID_NOT_HOLD, DONE, print_answer, say

if TYPE_CHECKING:
    from evokern.study.attacks import Exhibit, Outcome, Tally


def judge_attacks(*, sample: int, seed: str, only: str, mutants: int, as_json: bool) -> int:
    """Judge the corpus with progress on standard error, then print what was blocked, escaped and falsely refused.

    Args:
        sample: At most so many kernels, drawn by `seed`; 0 for all.
        seed: Of sample and mutants.
        only: Kernels whose names hold any of these texts, separated by commas; empty for all.
        mutants: How many mutants of attacks to judge beside them.
        as_json: Whether the document is asked for.

    Returns:
        The exit code: 1 where an attack passed or was refused for another reason than it should be, or an honest kernel was refused.

    Raises:
        EvokernError: The corpus, a task or what the evaluator needs is not here.
    """
    from evokern.errors import UsageError
    from evokern.study.attacks import load_corpus
    from evokern.study.mutation import mutants_of

    corpus = load_corpus().only(only)
    if not corpus.exhibits:
        raise UsageError(f"no kernel of the corpus is called '{only}'", where="--only", mend=f"They are in {corpus.folder}")
    chosen = corpus.sample(sample, seed) if sample else corpus
    exhibits = [*chosen.exhibits, *mutants_of(corpus, mutants, seed)]
    tally = asyncio.run(_judged(exhibits, corpus.folder))
    document = {"corpus": str(corpus.folder), "seed": seed, **tally.to_json()}
    bad = [outcome.line for outcome in tally.outcomes if not outcome.good]
    print_answer("evokern.attacks/1", document, "\n".join([*bad, tally.summary]), as_json=as_json)
    return DONE if tally.good else DID_NOT_HOLD


async def _judged(exhibits: Sequence[Exhibit], folder: Path) -> Tally:
    """Outcomes of all, each told on standard error as it comes."""
    from evokern.study.attacks import Tally, judge_all, jury

    tally = Tally()

    def heard(outcome: Outcome) -> None:
        tally.outcomes.append(outcome)
        say(f"[{len(tally.outcomes)}/{len(exhibits)}] {outcome.line}")

    with tempfile.TemporaryDirectory(prefix="evokern-attacks-", ignore_cleanup_errors=True) as scratch:
        async with jury(Path(scratch), say, folder) as sworn:
            await judge_all(exhibits, sworn, heard)
    return tally
