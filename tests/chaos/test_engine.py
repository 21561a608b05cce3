"""A run whose processes are killed: nothing committed is lost or made again, nothing is left behind.

EVOKERN_CHAOS: how often the engine is killed; 2 if not set.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evokern.evaluation import Verdict
from evokern.event import Event, EventKind
from evokern.report.status import status_of
from evokern.sandbox import linux, process
from evokern.store import Journal
from evokern.store.lease import is_worked
from tests.e2e_cpu.small_task import small_softmax

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("EVOKERN_CHAOS", "2"))
BOUND_SECONDS = 20.0

pytestmark = [pytest.mark.torch, pytest.mark.timeout(1500)]

LEG = """
import asyncio, json, sys
from dataclasses import replace
from pathlib import Path
from evokern.archive import GridArchive
from evokern.cli.run import settings_for
from evokern.config import load_config
from evokern.engine import Engine
from evokern.island import Island, replay
from evokern.report.display import PlainDisplay
from evokern.store import Journal, home

asked = json.loads(sys.argv[1])
place, display = home(), PlainDisplay(sys.stderr)
if "resume" in asked:
    engine = Engine.resume(asked["resume"], home=place, changes={}, display=display)
else:
    settings = settings_for(load_config(None, asked))
    # The compiled baseline takes longer to make than all the rest of this test.
    engine = Engine(replace(settings, options={"baselines": "eager"}), home=place, display=display)
print(engine.run_id, flush=True)
summary = asyncio.run(engine.run())
fresh = [Island(i, GridArchive(), engine._operators.values(), seed=engine.settings.seed) for i in range(engine.settings.islands)]
with Journal(place, read_only=True) as journal:
    replay(fresh, journal.replay(engine.run_id))
print(json.dumps({"summary": summary, "same": [i.state() for i in fresh] == [i.state() for i in engine.islands]}, default=str))
"""


@dataclass
class Scene:
    """A home, a small task, and the processes started over them."""

    home: Path
    task: Path

    def start(self, *argv: str) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "EVOKERN_HOME": str(self.home),
            "EVOKERN_MODEL": "",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "backends")]),
        }
        return subprocess.Popen([sys.executable, *argv], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def leg(self, **asked: Any) -> subprocess.Popen[str]:
        """A run begun, or taken up again, by a script that compares its islands with a replay at its end."""
        return self.start("-c", LEG, json.dumps(asked))

    def resume(self, run: str) -> subprocess.Popen[str]:
        return self.start("-c", "from evokern.cli import main; main()", "resume", run, "--json")

    def events(self, run: str) -> list[Event]:
        with Journal(self.home, read_only=True) as journal:
            return list(journal.replay(run))

    def seconds(self, run: str) -> float:
        """Search time spent, as `evokern status` has it."""
        with Journal(self.home, read_only=True) as journal:
            found = status_of(journal, journal.run(run), worked=False)
        return float(found["budget"]["spent"]["seconds"])


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """This process takes in every orphan, so that whatever a killed engine leaves behind is found below it."""
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    yield Scene(tmp_path / "home", small_softmax(tmp_path))
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 0)
    process.kill_all(process.descendants(os.getpid()))
    reap()


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def until(what: Callable[[], bool], *, seconds: float = BOUND_SECONDS) -> bool:
    """Whether it came true within the bound."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def verdicts_of(history: list[Event]) -> list[Event]:
    return [event for event in history if event.kind is EventKind.EVALUATED]


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""


def judges(engine: int) -> list[int]:
    return [pid for pid in process.children(engine) if "evokern.evaluator.judge" in command_line(pid)]


def runners() -> list[int]:
    """Processes in which a kernel may run: leaves below the zygote of kernels."""
    below = [pid for pid in process.descendants(os.getpid()) if "evokern.evaluator.call.runner" in command_line(pid)]
    return [pid for pid in below if "evokern.evaluator.call.runner" in command_line(process.parent(pid)) and not process.children(pid)]


def groups(judge: int) -> list[Path]:
    return [folder for pattern in ("*", "*/*") for folder in Path("/sys/fs/cgroup").glob(f"{pattern}/evokern-{judge}-*")]


def read_verdicts(engine: subprocess.Popen[str], count: int) -> list[str]:
    """What is said up to so many verdicts."""
    assert engine.stderr is not None
    said = []
    for line in engine.stderr:
        said.append(line)
        count -= ", island " in line
        if count <= 0:
            return said
    raise AssertionError("".join(said))


def assert_nothing_is_left(judge_ids: list[int], others: set[int]) -> None:
    """No process but those of other tests, and no cgroup of these judges."""

    def left() -> dict[int, str]:
        reap()
        return {pid: command_line(pid)[-120:] for pid in process.descendants(os.getpid()) - others}

    assert until(lambda: not left() and not any(groups(judge) for judge in judge_ids)), (left(), [groups(judge) for judge in judge_ids])


def ended(engine: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    """What the script said at its end."""
    out, said = engine.communicate(timeout=600)
    assert engine.returncode == 0, said
    document: dict[str, Any] = json.loads(out.splitlines()[-1])
    return document, said


def assert_whole(scene: Scene, run: str, evaluations: int) -> None:
    """Everything proposed was judged, each once, as many as were asked for."""
    history = scene.events(run)
    judged = Counter(event.payload["evaluation"]["kernel_id"] for event in verdicts_of(history))
    assert set(judged.values()) == {1}
    assert len(judged) == evaluations
    assert set(judged) == {event.key for event in history if event.kind is EventKind.PROPOSED}
    keys = Counter((event.kind, event.key) for event in history)
    assert set(keys.values()) == {1}


def test_an_engine_that_is_killed_again_and_again_loses_nothing_and_leaves_nothing(scene: Scene) -> None:
    others = process.descendants(os.getpid())
    chance = random.Random(20)
    evaluations = 1 + 2 * KILLS
    engine = scene.leg(task=str(scene.task), evals=evaluations, seed=chance.randrange(100))
    assert engine.stdout is not None
    run = engine.stdout.readline().strip()
    before: list[Event] = []
    spent = 0.0
    settings = None
    for kill in range(KILLS):
        # One kill in four hits the preparation; the others a moment after a verdict, in which the next kernels are judged.
        if kill % 4 == 1:
            until(lambda engine=engine: bool(judges(engine.pid)))  # type: ignore[misc]
        else:
            read_verdicts(engine, 1)
        time.sleep(chance.uniform(0.0, 2.0))
        judge_ids = judges(engine.pid)
        engine.kill()
        engine.communicate()
        assert_nothing_is_left(judge_ids, others)
        assert not is_worked(scene.home, run)

        history = scene.events(run)
        assert history[: len(before)] == before, "what was committed stays as it was"
        assert scene.seconds(run) >= spent, "the clock goes on where it stood"
        before, spent = history, scene.seconds(run)
        with Journal(scene.home, read_only=True) as journal:
            settings = settings or journal.run(run).settings
            assert journal.run(run).settings == settings
        engine = scene.leg(resume=run) if kill == KILLS - 1 else scene.resume(run)

    document, said = ended(engine)
    assert document["same"], "islands are what a replay makes of the journal"
    assert (document["summary"]["reason"], document["summary"]["evaluated"]) == ("evaluations", evaluations), said
    assert document["summary"]["spent"]["seconds"] > spent
    assert scene.events(run)[: len(before)] == before
    assert_whole(scene, run, evaluations)
    assert_nothing_is_left([], others)


def test_a_judge_or_a_runner_that_is_killed_is_replaced_and_the_run_goes_on(scene: Scene) -> None:
    others = process.descendants(os.getpid())
    evaluations = 4
    engine = scene.leg(task=str(scene.task), evals=evaluations, seed=3)
    assert engine.stdout is not None
    run = engine.stdout.readline().strip()
    said = read_verdicts(engine, 1)
    (judge,) = judges(engine.pid)
    os.kill(judge, signal.SIGKILL)
    said += read_verdicts(engine, 1)
    assert until(lambda: bool(runners()))
    os.kill(runners()[0], signal.SIGKILL)

    document, rest = ended(engine)
    assert document["same"]
    assert "".join([*said, rest]).count("the judge died; starting another") == 1
    assert document["summary"]["evaluated"] == evaluations
    assert set(document["summary"]["verdicts"]) <= set(Verdict)
    assert_whole(scene, run, evaluations)
    assert_nothing_is_left([judge], others)
