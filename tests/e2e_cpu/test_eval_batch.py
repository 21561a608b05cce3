"""`evokern eval --batch` with a real judge: prepared once, answered in order, gone on with where it was broken off."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e_cpu.conftest import Shell
from tests.e2e_cpu.small_task import CORE

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

SEED = (CORE / "softmax" / "seeds" / "cpp-float32.cpp").read_text()

WRONG = SEED.replace("/ total", "/ (total + 1)")


def test_a_batch_is_prepared_once_and_another_goes_on_from_it(fresh_shell: Shell, small_task: Path, tmp_path: Path) -> None:
    (tmp_path / "seed.cpp").write_text(SEED)
    lines = [
        {"path": "seed.cpp", "id": "seed"},
        {"source": "int broken(", "dialect": "cpp"},
        {"source": WRONG},
        {"source": SEED, "task": "no-such-task"},
    ]
    (tmp_path / "batch.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\nno json\n")
    ended = fresh_shell.plain("eval", "--batch", str(tmp_path / "batch.jsonl"), "--task", str(small_task), "--json")
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 1, ended.stderr
    assert [a.get("verdict", a.get("error")) for a in answers[:-1]] == ["passed", "build_failed", "wrong", "UsageError", "UsageError"]
    assert (answers[0]["id"], answers[0]["confirmed"]) == ("seed", True)
    assert ended.stderr.count("starting the oracle and the baselines") == 1, "what takes long is said, once"

    process = subprocess.Popen(
        fresh_shell.argv("eval", "--batch", "-", "--task", str(small_task), "--json"), env=fresh_shell.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    known, fresh = _asked(process, SEED), _asked(process, WRONG + "// another\n")
    assert (known["reused"], known["run"], known["workloads"]) == (True, answers[0]["run"], answers[0]["workloads"])
    assert (fresh["reused"], fresh["verdict"]) == (False, "wrong"), "a line is answered as soon as it has come"
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130, "though its input is open"
    _, said = process.communicate()
    assert "the same batch again goes on from there" in said
    assert "Traceback" not in said
    code, _, _ = fresh_shell("verify")
    assert code == 0


def _asked(process: subprocess.Popen[str], source: str) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"source": source}) + "\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer
