"""The command line as a user has it: real processes, a real compiler, a real database."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e_cpu.conftest import Shell, read_until
from tests.e2e_cpu.small_task import CORE

SEED = CORE / "softmax" / "seeds" / "cpp-float32.cpp"

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]


def test_a_right_kernel_passes_and_its_document_is_whole(shell: Shell, small_task: Path) -> None:
    code, document, said = shell("eval", str(SEED), "--task", str(small_task), "--backend", "cpu")
    assert (code, document["schema"], document["verdict"], document["reason"]) == (0, "evokern.eval/1", "passed", "none"), said
    assert "starting the oracle and the baselines" in said, "what takes long before a verdict is told"
    assert document["held_out"] == "passed"
    assert document["tier"] in ("isolated", "sandboxed", "unsandboxed")
    assert document["fingerprint"]["backend"] == "cpu"
    assert document["fingerprint"]["baselines"] == ["eager", "compile"]
    for workload in document["workloads"]:
        assert 0 < workload["ratio"]["low"] <= workload["ratio"]["estimate"]


def test_a_wrong_kernel_is_a_verdict_and_code_1(shell: Shell, small_task: Path, tmp_path: Path) -> None:
    """What does not compile is in test_bad_input, every other offender in test_ladder."""
    (tmp_path / "bad.cpp").write_text(SEED.read_text().replace("/ total", "/ (total + 1)"))
    code, document, _ = shell("eval", str(tmp_path / "bad.cpp"), "--task", str(small_task))
    assert (code, document["verdict"], document["reason"]) == (1, "wrong", "tolerance")


def test_a_short_run_finds_a_kernel_that_status_top_show_and_promote_agree_on(shell: Shell, small_task: Path, tmp_path: Path) -> None:
    code, summary, said = shell("run", "--task", str(small_task), "--evals", "4", "--seed", "1")
    assert (code, summary["schema"]) == (0, "evokern.run/1"), said
    assert Path(summary["path"]).is_file()
    assert sum("no model: LLM-free operators alone" in line for line in said.splitlines()) == 1

    _, status, _ = shell("status", summary["run"])
    assert {"evaluated", "best", "budget", "verdicts"} <= set(status)
    assert (status["state"], status["model"]) == ("ended", None)
    assert status["evaluated"] == sum(status["verdicts"].values()) >= 4
    _, top, _ = shell("top", summary["run"])
    assert top["kernels"][0]["kernel"] == status["best"]["kernel"]
    _, shown, _ = shell("show", status["best"]["kernel"][:12])
    assert shown["kernel"] == status["best"]["kernel"]

    code, promoted, _ = shell("promote", summary["run"], "--into", str(tmp_path / "archives"))
    assert promoted["promoted"] == (code == 0)
    assert code == 0 or "sandbox" in promoted["reason"] or "lower bound" in promoted["reason"]


@pytest.fixture
def running(eager_shell: Shell, small_task: Path) -> Iterator[subprocess.Popen[str]]:
    argv = eager_shell.argv("run", "--task", str(small_task), "--minutes", "10", "--seed", "2")
    process = subprocess.Popen(argv, env=eager_shell.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_ctrl_c_ends_cleanly_says_how_to_resume_and_the_resume_goes_on(shell: Shell, running: subprocess.Popen[str]) -> None:
    assert running.stderr is not None
    read_until(running.stderr, "passed")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130
    (line,) = [line for line in said.splitlines() if "evokern resume" in line]
    run = line.rsplit(" ", 1)[1]

    _, before, _ = shell("status", run)
    assert before["state"] == "interrupted"
    code, summary, said = shell("resume", run, "--evals", str(before["evaluated"] + 2))
    assert code in (0, 1), said
    assert summary["run"] == run
    _, after, _ = shell("status", run)
    assert after["evaluated"] >= before["evaluated"] + 2
