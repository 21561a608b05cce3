"""The command line as a user has it: real processes, a real compiler, a real database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

ROOT = Path(__file__).parents[2]
SEED = ROOT / "benchmarks" / "tasks" / "core" / "softmax" / "seeds" / "cpp-float32.cpp"

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One home for all: the compiled baseline is kept there."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    return {**os.environ, "EVOKERN_HOME": str(tmp_path_factory.mktemp("home")), "EVOKERN_MODEL": "", "PYTHONPATH": paths}


def command(*argv: str) -> list[str]:
    return [sys.executable, "-c", "from evokern.cli import main; main()", *argv]


def evokern(environment: dict[str, str], *argv: str) -> tuple[int, Any, str]:
    """Exit code, the JSON document, and what was said beside it."""
    ended = subprocess.run(command(*argv, "--json"), env=environment, capture_output=True, text=True, check=False, timeout=500)
    return ended.returncode, json.loads(ended.stdout), ended.stderr


def test_a_right_kernel_passes_and_its_document_is_whole(environment: dict[str, str]) -> None:
    code, document, _ = evokern(environment, "eval", str(SEED), "--task", "softmax", "--backend", "cpu")
    assert (code, document["schema"], document["verdict"], document["reason"]) == (0, "evokern.eval/1", "passed", "none")
    assert document["held_out"] == "passed"
    assert document["tier"] in ("isolated", "sandboxed", "unsandboxed")
    assert document["fingerprint"]["backend"] == "cpu"
    for workload in document["workloads"]:
        assert 0 < workload["ratio"]["low"] <= workload["ratio"]["estimate"]


@pytest.mark.parametrize(
    ("change", "verdict", "reason"),
    [
        (("/ total", "/ (total + 1)"), "wrong", "tolerance"),
        (("return 0;", "return 0"), "build_failed", "compiler"),
        (("  if (nargs != 2) return 1;", "  return 1;"), "crashed", "refused"),
    ],
)
def test_a_bad_kernel_is_a_verdict_and_code_1(
    environment: dict[str, str], tmp_path: Path, change: tuple[str, str], verdict: str, reason: str
) -> None:
    source = SEED.read_text()
    assert change[0] in source
    (tmp_path / "bad.cpp").write_text(source.replace(*change))
    code, document, _ = evokern(environment, "eval", str(tmp_path / "bad.cpp"), "--task", "softmax")
    assert (code, document["verdict"], document["reason"]) == (1, verdict, reason)


def test_a_short_run_finds_a_kernel_that_status_top_show_and_promote_agree_on(environment: dict[str, str], tmp_path: Path) -> None:
    code, summary, said = evokern(environment, "run", "--task", "softmax", "--evals", "4", "--seed", "1")
    assert (code, summary["schema"]) == (0, "evokern.run/1"), said
    assert Path(summary["path"]).is_file()

    _, status, _ = evokern(environment, "status", summary["run"])
    assert {"evaluated", "best", "budget", "verdicts"} <= set(status)
    assert status["state"] == "ended"
    assert status["evaluated"] == sum(status["verdicts"].values()) >= 4
    _, top, _ = evokern(environment, "top", summary["run"])
    assert top["kernels"][0]["kernel"] == status["best"]["kernel"]
    _, shown, _ = evokern(environment, "show", status["best"]["kernel"][:12])
    assert shown["kernel"] == status["best"]["kernel"]

    code, promoted, _ = evokern(environment, "promote", summary["run"], "--into", str(tmp_path / "archives"))
    assert promoted["promoted"] == (code == 0)
    assert code == 0 or "sandbox" in promoted["reason"] or "lower bound" in promoted["reason"]


@pytest.fixture
def running(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    argv = command("run", "--task", "softmax", "--minutes", "10", "--seed", "2")
    process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def read_until(stream: IO[str], text: str) -> list[str]:
    """Lines up to the first that holds the text; the test's own time limit ends the wait."""
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"'{text}' was never said in: {''.join(lines)}")


def test_ctrl_c_ends_cleanly_says_how_to_resume_and_the_resume_goes_on(environment: dict[str, str], running: subprocess.Popen[str]) -> None:
    assert running.stderr is not None
    read_until(running.stderr, "passed")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130
    (line,) = [line for line in said.splitlines() if "evokern resume" in line]
    run = line.rsplit(" ", 1)[1]

    _, before, _ = evokern(environment, "status", run)
    assert before["state"] in ("interrupted", "ended")
    code, summary, said = evokern(environment, "resume", run, "--evals", str(before["evaluated"] + 2))
    assert code in (0, 1), said
    assert summary["run"] == run
    _, after, _ = evokern(environment, "status", run)
    assert after["evaluated"] >= before["evaluated"] + 2
