"""Kernels that speak, read or write out of turn: those of the corpus that no sample may leave out, each judged by a real runner."""

from __future__ import annotations

import pytest

from evokern.evaluator.session import Session
from evokern.kernel import Kernel
from evokern.study.attacks import Exhibit, Finding, load_corpus, outcome

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

OUT_OF_TURN = (
    "U01_done_at_load",
    "U01_done_before_the_work",
    "U01_done_twice",
    "U01_long_record",
    "U02_flips_after_done",
    "U02_reads_ahead_of_go",
)
CORPUS = {exhibit.name: exhibit for exhibit in load_corpus().exhibits}


@pytest.mark.parametrize("name", OUT_OF_TURN)
def test_who_is_out_of_turn_gains_nothing(primes: Session, name: str) -> None:
    exhibit: Exhibit = CORPUS[name]
    twin = Kernel("cpp", exhibit.rival) if exhibit.rival else None
    incumbent = (twin, primes.build(twin)) if twin else None

    found = outcome(exhibit, primes.ladder.judge(exhibit.kernel, primes.build(exhibit.kernel), incumbent))

    assert found.finding is Finding.BLOCKED, (found.verdict, found.reason, found.detail, found.gain)
