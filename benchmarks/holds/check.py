"""What a line under "Holds when" is: a named check with a threshold, and what came of it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
CODE = ("evokern", "backends", "benchmarks/tasks")
"""What a measurement depends on; a change elsewhere does not make it stale."""

TAIL = 2000
"""Characters of a failed command's output that are kept."""


@dataclass(frozen=True)
class Measured:
    """What a check found.

    Attributes:
        holds: Whether it is within the threshold.
        value: What was measured.
        detail: Why it does not hold, or what to know of it.
    """

    holds: bool
    value: Any
    detail: str = ""


@dataclass(frozen=True)
class Check:
    """One thing that must hold.

    Attributes:
        name: A few words, unique within the issue.
        line: The line of the issue that it answers.
        threshold: What must be true, in words and numbers.
        measure: Finds out.
        seed: Root of its chance; None where there is none.
    """

    name: str
    line: str
    threshold: str
    measure: Callable[[], Measured] = field(repr=False)
    seed: int | None = None


def outcome(check: Check) -> dict[str, Any]:
    """A check's row in the result file; a check that raises does not hold."""
    began = time.monotonic()
    try:
        measured = check.measure()
    except Exception as error:  # whatever goes wrong is a miss, and the next line still runs
        measured = Measured(False, None, f"{type(error).__name__}: {error}")
    return {
        "name": check.name,
        "line": check.line,
        "threshold": check.threshold,
        "seed": check.seed,
        "holds": measured.holds,
        "value": measured.value,
        "detail": measured.detail,
        "seconds": round(time.monotonic() - began, 1),
    }


def command(argv: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None = None, folder: Path = ROOT) -> Measured:
    """Whether a command exits with 0 within its time.

    Args:
        argv: The command.
        timeout_s: After so many seconds it has failed.
        environment: All of its variables; those of this process if None.
        folder: Where it runs.
    """
    try:
        ended = subprocess.run(
            argv, cwd=folder, env=environment, timeout=timeout_s, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return Measured(False, None, f"did not end within {timeout_s:.0f} s: {' '.join(argv)}")
    # Where a clone lay is of no interest, and gone.
    output = ended.stdout.decode(errors="replace").strip().replace(f"{folder}/", "")
    closing = output.splitlines()[-1] if output else ""
    return Measured(
        ended.returncode == 0, {"exit": ended.returncode, "closing_line": closing}, "" if ended.returncode == 0 else output[-TAIL:]
    )


def code_digest() -> str:
    """sha256 over names and bytes of every file that a measurement depends on, hex; what Python leaves behind does not count."""
    digest = hashlib.sha256()
    for folder in CODE:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def result_file(name: str, judge: Callable[[dict[str, Any]], Measured], *, folder: Path = RESULTS) -> Measured:
    """What a measurement made elsewhere, or earlier, says; a miss where it is missing or made from other code.

    Args:
        name: File name in `benchmarks/results`; a JSON object with `code`, as `code_digest` gave it there.
        judge: What its content means.
        folder: Where result files are.
    """
    file = folder / name
    if not file.is_file():
        return Measured(False, None, f"{file.name} is missing")
    content = json.loads(file.read_text())
    if content.get("code") != code_digest():
        return Measured(False, None, f"{file.name} is stale: it was made from other code, at commit {content.get('commit', 'unknown')}")
    return judge(content)
