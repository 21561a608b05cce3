"""The attack corpus for a GPU, judged up the whole ladder: none is accepted, and every honest twin passes."""

from __future__ import annotations

import re

import pytest

from evokern.evaluation import INCUMBENT, Evaluation, Verdict
from evokern.study.attacks import ATTEMPTS, NO_GAIN, Exhibit, Finding, Kind, load_device_corpus, outcome
from tests.gpu.stands import Stand, Stands, said

# What PyTorch warns of is not what is tested here, and here it is in the judge's own process.
pytestmark = [pytest.mark.timeout(240), pytest.mark.filterwarnings("default")]

CORPUS = load_device_corpus()
SURE_GAIN = 1.1
"""Lower bound of the ratio to its twin from which a trick that may pass has paid. The judge's clock tells microseconds apart, not tenths,
so that an estimate alone says little of what cannot be sealed."""

_COMMENTS = re.compile(r"\A(?:(?://|#)[^\n]*\n)+")


def program(exhibit: Exhibit) -> str:
    """The source less its head: many twins are the same program."""
    return _COMMENTS.sub("", exhibit.source)


class Bench:
    """Judges exhibits; what has the same program is judged once, but for a test that is run again."""

    def __init__(self) -> None:
        self._known: dict[str, Evaluation] = {}
        self._told: set[str] = set()

    def judged(self, stand: Stand, exhibit: Exhibit) -> Evaluation:
        """Its verdict; one that passes is confirmed, as any elite is, and one that the machine failed is asked for again."""
        stand.prepare([other.kernel for other in CORPUS.exhibits if other.dialect == stand.dialect])
        key = f"{program(exhibit)}\0{exhibit.rival}"
        if key not in self._known or exhibit.name in self._told:
            for _ in range(ATTEMPTS):
                confirm = exhibit.hostile and exhibit.opponent is None
                self._known[key] = stand.judged(exhibit.kernel, exhibit.opponent, confirm=confirm)
                if self._known[key].verdict is not Verdict.INFRASTRUCTURE:
                    break
        self._told.add(exhibit.name)
        return self._known[key]


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("exhibit", CORPUS.of_kind(Kind.ATTACK), ids=lambda exhibit: f"{exhibit.dialect}-{exhibit.name}")
def test_no_attack_is_accepted(stands: Stands, bench: Bench, exhibit: Exhibit) -> None:
    evaluation = bench.judged(stands.get(exhibit.dialect, exhibit.task), exhibit)
    found = outcome(exhibit, evaluation)

    if evaluation.passed:
        bounds = [ratio.low for ratio in evaluation.versus(INCUMBENT).values()]
        assert NO_GAIN in exhibit.expected, f"ESCAPED {found.line}, timed by {clocks(evaluation)}"
        assert bounds, f"ESCAPED {found.line}: not timed against its twin"
        assert max(bounds) < SURE_GAIN, f"ESCAPED {found.line}, surely {max(bounds):.2f}x its twin, timed by {clocks(evaluation)}"
        return
    assert found.finding is not Finding.UNDECIDED, f"the machine failed: {said(evaluation)}"
    assert found.finding is Finding.BLOCKED, f"refused, but not as '// expect:' says: {found.line}\n{said(evaluation)}"


@pytest.mark.parametrize("exhibit", CORPUS.of_kind(Kind.TWIN, Kind.ODD), ids=lambda exhibit: f"{exhibit.dialect}-{exhibit.name}")
def test_every_honest_twin_passes(stands: Stands, bench: Bench, exhibit: Exhibit) -> None:
    evaluation = bench.judged(stands.get(exhibit.dialect, exhibit.task), exhibit)

    assert outcome(exhibit, evaluation).finding is Finding.PASSED, said(evaluation)


def clocks(evaluation: Evaluation) -> str:
    """Whose clock timed it, and why it was not sealed."""
    whose = ", ".join(sorted({str(m.clock) for m in evaluation.measurements})) or "nobody"
    return f"{whose}{'; unsealed: it ' + evaluation.descriptors['unsealed'] if 'unsealed' in evaluation.descriptors else ''}"
