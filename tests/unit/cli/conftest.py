"""A home with one finished run in a real journal, and the command line called as a shell would call it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from evokern.cli.app import answer
from evokern.evaluation import BASELINE, Clock, Evaluation, Fingerprint, Measurement, Ratio, Reason, Rung, Tier, Verdict
from evokern.evaluator.signing import Signer, enroll
from evokern.event import Budget, RunSettings, Spent
from evokern.kernel import Candidate, Kernel
from evokern.store import Journal, payload
from evokern.task import DType

RUN = "softmax-20261129T1015-3f2a"

FINGERPRINT = Fingerprint(
    "evokern 0.1.0",
    "cpu",
    "AMD EPYC (Zen 3)",
    "6.1",
    "g++ 12.2",
    "-O3",
    "torch 2.13.0",
    "ieee",
    1,
    Tier.ISOLATED,
    "4 GiB",
    ("eager", "compile"),
    0,
)


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Shell = Callable[..., Answer]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVOKERN_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EVOKERN_MODEL", raising=False)
    monkeypatch.delenv("EVOKERN_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def shell(home: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    def call(*argv: str) -> Answer:
        capsys.readouterr()
        code = answer(argv)
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return call


def kernel(number: int) -> Kernel:
    return Kernel("cpp", f'extern "C" int run() {{ return {number}; }}\n')


def judged(of: Kernel, ratio: float, *, confirmed: bool, tier: Tier = Tier.ISOLATED) -> Evaluation:
    versus = {BASELINE: Ratio(ratio, ratio * 0.97, ratio * 1.03, 40, 8)}
    measurement = Measurement("cols=4096,rows=2048", Clock.JUDGED, 5000.0 / ratio, 3.0, 0.5, None, versus)
    return Evaluation(
        of.id, "d" * 64, "float32", Verdict.PASSED, rung=Rung.CONFIRM, confirmed=confirmed, passed_held_out=True,
        measurements=(measurement,), fingerprint=replace(FINGERPRINT, tier=tier), key=f"{of.id}:{confirmed}",
    )  # fmt: skip


def candidate(of: Kernel, *parents: Kernel, operator: str = "seed", edits: tuple[str, ...] = (), island: int = 0) -> Candidate:
    return Candidate(of, "softmax", DType.FLOAT32, tuple(p.id for p in parents), operator, edits, island=island)


@pytest.fixture
def run_in(home: Path) -> Path:
    """A run with a seed, a confirmed child, a faster unconfirmed one, an unsandboxed one, a wrong one, a slower confirmed one; signed."""
    settings = RunSettings("softmax", "d" * 64, DType.FLOAT32, "cpu", 1, Budget(seconds=120.0, evaluations=50), 7, islands=2)
    seed, child, hasty, bare, wrong, slower = map(kernel, range(6))
    refuted = Evaluation(
        wrong.id, "d" * 64, "float32", Verdict.WRONG, Reason.TOLERANCE, "row 3", Rung.CHECK, key="w", fingerprint=FINGERPRINT
    )
    home.mkdir()
    signer = Signer.of_home(home)
    enroll(home, signer.public)
    events = [
        payload.run_started(RUN, settings),
        payload.proposed(RUN, -1, candidate(seed)),
        payload.evaluated(RUN, signer.sign(judged(seed, 0.5, confirmed=True)), 0),
        payload.proposed(RUN, 1, candidate(child, seed, operator="rewrite", edits=("fuse passes",), island=1)),
        payload.evaluated(RUN, signer.sign(judged(child, 1.35, confirmed=True)), 1),
        payload.proposed(RUN, 2, candidate(hasty, child, operator="retune")),
        payload.evaluated(RUN, signer.sign(judged(hasty, 1.9, confirmed=False)), 0),
        payload.proposed(RUN, 3, candidate(bare, child, operator="retune")),
        payload.evaluated(RUN, signer.sign(judged(bare, 1.1, confirmed=True, tier=Tier.UNSANDBOXED)), 0),
        payload.proposed(RUN, 5, candidate(slower, seed, operator="retune", island=1)),
        payload.evaluated(RUN, signer.sign(judged(slower, 1.2, confirmed=True)), 1),
        payload.proposed(RUN, 4, candidate(wrong, child, operator="rewrite")),
        payload.evaluated(RUN, signer.sign(refuted), 0),
        payload.run_ended(RUN, 0, "seconds", Spent(seconds=120.0, evaluations=6)),
    ]

    async def write() -> None:
        with Journal(home) as journal:
            await journal.append(events)

    asyncio.run(write())
    return home
