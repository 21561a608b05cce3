"""A bench over a task that nothing evaluates for real: what a kernel is worth stands in its source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evokern.evaluation import Evaluation, Reason, Verdict
from evokern.event import Budget, RunSettings
from evokern.kernel import Candidate, Kernel
from evokern.serve.bench import Bench, Origin, in_session
from evokern.serve.turn import Turn
from evokern.store import Journal
from evokern.task import DType
from evokern.testing.requests import row_task
from evokern.testing.sim_executor import Landed, SimExecutor

ORIGIN = Origin("agent")

SECONDS = 2.0
"""What every evaluation says that it took."""


def kernel(worth: str, number: int = 0) -> Kernel:
    """A kernel whose source says what is true of it: `1.5` is its log speed-up, `wrong` its verdict."""
    return Kernel("cpp", f'// {worth} {number}\nextern "C" int run() {{ return 0; }}\n')


def landscape(found: Kernel) -> Landed:
    worth = found.source.split()[1]
    if worth == "wrong":
        return Landed(0.0, Verdict.WRONG, Reason.TOLERANCE)
    return Landed(float(worth), descriptors={"simd": "wide", "imports": "expf"})


class Judge(SimExecutor):
    """A simulated judge that waits until it may answer.

    Attributes:
        door: Closed while answers are to wait.
        asked: How many kernels it was asked for so far.
        closed: Whether it was ended.
    """

    def __init__(self, digest: str, **settings: int) -> None:
        super().__init__(landscape, task_digest=digest, **settings)
        self.door = asyncio.Event()
        self.door.set()
        self.asked = 0
        self.closed = False

    async def until_asked(self, times: int = 1) -> None:
        """Wait until so many kernels are under way, or were."""
        async with asyncio.timeout(20):
            while self.asked < times:  # noqa: ASYNC110 - a test
                await asyncio.sleep(0.005)

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        self.asked += 1
        await self.door.wait()
        evaluation = await super().evaluate(candidate, incumbent)
        return self.signer.sign(replace(evaluation, seconds={"check": SECONDS}))

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("EVOKERN_HOME", str(home))
    return home


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    folder = tmp_path / "row_sum"
    folder.mkdir()
    task = row_task(folder)
    return RunSettings(str(folder), task.digest, DType.FLOAT32, "cpu", 1, Budget(), 0)


@pytest.fixture
def journal(home: Path) -> Iterator[Journal]:
    with Journal(home) as journal:
        yield journal


NewBench = Callable[..., tuple[Bench, Judge]]


@pytest.fixture
def new_bench(settings: RunSettings, journal: Journal, home: Path) -> NewBench:
    """Makes a bench with a judge of its own, as every process of a session has."""

    def made(*, session: str = "mcp", budget: Budget | None = None, **judge: int) -> tuple[Bench, Judge]:
        executor = Judge(settings.task_digest, **judge)
        chosen = in_session(settings, session, budget or Budget())
        return Bench(chosen, journal=journal, turn=Turn(home), executor=executor), executor

    return made
