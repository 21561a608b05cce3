"""What tests of the whole command line share: a task that is quick to judge, and a home in which its baseline is compiled once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pytest

from evokern.evaluator.session import Session
from evokern.evaluator.statement import Opening
from evokern.task import DType
from tests.e2e_cpu.small_task import small_softmax

ROOT = Path(__file__).parents[2]

MAIN = "from evokern.cli import main; main()"

AGAINST_EAGER = f"""
from dataclasses import replace
from evokern.cli import run
settings_for = run.settings_for
run.settings_for = lambda *given, **named: replace(settings_for(*given, **named), options={{"baselines": "eager"}})
{MAIN}
"""
"""The same command line, whose runs leave out the compiled baseline: it takes longer to make than a short search."""


@dataclass(frozen=True)
class Shell:
    """Calls evokern as a shell does: a process, its exit code, what it printed.

    Attributes:
        environment: All of the process's variables.
        script: What the process runs.
    """

    environment: Mapping[str, str]
    script: str = MAIN

    def argv(self, *argv: str) -> list[str]:
        """The command line of a call."""
        return [sys.executable, "-c", self.script, *argv]

    def __call__(self, *argv: str, timeout: float = 280, **variables: str) -> tuple[int, Any, str]:
        """Exit code, the document of `--json`, and what was said beside it."""
        ended = self.plain(*argv, "--json", timeout=timeout, **variables)
        assert ended.stdout, ended.stderr
        return ended.returncode, json.loads(ended.stdout), ended.stderr

    def plain(self, *argv: str, timeout: float = 280, **variables: str) -> subprocess.CompletedProcess[str]:
        """The same without `--json`, as it comes."""
        environment = {**self.environment, **variables}
        return subprocess.run(self.argv(*argv), env=environment, capture_output=True, text=True, check=False, timeout=timeout)


def read_until(stream: IO[str], text: str) -> list[str]:
    """Lines up to the first that holds the text; the test's own time limit ends the wait."""
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"'{text}' was never said in: {''.join(lines)}")


@pytest.fixture(scope="session")
def small_task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a task that is quick to judge."""
    return small_softmax(tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Calls in one home, where the compiled baseline is kept from the first call on."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("EVOKERN_", "OPENAI_"))}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    return Shell({**inherited, "EVOKERN_HOME": str(tmp_path_factory.mktemp("home")), "PYTHONPATH": paths, "NO_PROXY": "127.0.0.1"})


@pytest.fixture(scope="session")
def eager_shell(shell: Shell) -> Shell:
    """Calls in the same home, whose runs measure against eager alone."""
    return replace(shell, script=AGAINST_EAGER)


@pytest.fixture
def fresh_shell(eager_shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The same in a home of its own, which no other test, and no earlier try of this one, has told anything."""
    return replace(eager_shell, environment={**eager_shell.environment, "EVOKERN_HOME": str(tmp_path_factory.mktemp("home"))})


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, set[int]]]:
    """A judge of the small task in this process, against eager, with held-out shapes of every kind; and where it may run."""
    folder = tmp_path_factory.mktemp("judged")
    opening = Opening(str(small_softmax(folder, held_out=9)), DType.FLOAT32, "cpu", 1, str(folder / "home"), baselines=("eager",))
    before = os.sched_getaffinity(0)
    session = Session(opening, lambda _: None)
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before)
    yield session, own
    session.close()


@pytest.fixture
def session(judge: tuple[Session, set[int]]) -> Iterator[Session]:
    """The same, on the judge's processors for as long as a test lasts: what other tests start must not inherit them."""
    session, own = judge
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, own)
    yield session
    os.sched_setaffinity(0, before)
