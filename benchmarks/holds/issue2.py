"""Issue 2: a verdict that nothing can forge."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from check import RESULTS, ROOT, Check, Measured, command, result_file

EVOKERN = str(Path(sys.executable).parent / "evokern")
MUTANTS = 200
ISLAND_MINUTES = 60
BETWEEN = 0.05
"""Share of an island's time that passes between attempts."""
FUZZ_SECONDS = 600
MOST_WRONG = 1
JUDGED_BY_HAND = 20
COST_S = 6.0
GOOD = ("blocked", "passed")

CORPUS = "All attack rows that apply to CPU dialects blocked with the right reason; all honest twins and odd kernels pass; 200 mutants"
ISLAND = "The attack island, one hour on the CPU: escapes found, each fixed as a kind, none left"
WEAK = "These ten weak points have tests"
ADMISSION = "Admission on a user's KernelBench checkout, in two columns, and forty tasks judged by hand"
FAULTS = "60 candidates of which 20 segfault, hang, allocate without end, exit, fork, flood"
NOISE = "2,000 A/A promotion decisions with 10 % log-normal noise; the smallest gain on the real CPU"
LEAKS = "A search for held-out sizes over everything that leaves; overfit kernels"
FUZZ = "Coverage-guided fuzzing of everything that parses what a candidate or a user wrote"
COST = "Seconds per honest candidate by rung; at most 6 s of wall for a passing C++ softmax, build included"


def tests(*paths: str, timeout_s: float = 1800) -> Measured:
    """Whether these tests pass; a path that is not there is a miss."""
    return command([sys.executable, "-m", "pytest", "-q", *paths], timeout_s=timeout_s)


def document(argv: list[str], judge: Callable[[dict[str, Any]], Measured], *, timeout_s: float) -> Measured:
    """What the JSON document that a command prints says."""
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    if not ended.stdout.strip():
        return Measured(False, {"exit": ended.returncode}, ended.stderr[-1000:])
    return judge(json.loads(ended.stdout))


def corpus() -> Measured:
    """Every attack, twin and odd kernel of the corpus, and mutants."""
    argv = [EVOKERN, "doctor", "--attacks", "--mutants", str(MUTANTS), "--seed", "holds", "--json"]
    return document(argv, _blocked, timeout_s=5400)


def _blocked(found: dict[str, Any]) -> Measured:
    mutants = sum(outcome["kind"] == "mutant" for outcome in found["outcomes"])
    bad = [outcome["name"] for outcome in found["outcomes"] if outcome["finding"] not in GOOD]
    return Measured(found["good"] and mutants == MUTANTS, {**found["counts"], "mutants": mutants}, ", ".join(bad)[:1000])


def measured(script: str, *argv: str, timeout_s: float = 1800) -> Measured:
    """What a measuring script that says `holds` itself prints."""
    return document([sys.executable, f"benchmarks/{script}", *argv], _told, timeout_s=timeout_s)


def _told(found: dict[str, Any]) -> Measured:
    value = {name: said for name, said in found.items() if name not in ("schema", "holds", "verdicts")}
    return Measured(bool(found.get("holds", True)), value)


def faults() -> Measured:
    """The sixty candidates."""
    with tempfile.TemporaryDirectory(prefix="evokern-faults-") as folder:
        argv = [sys.executable, "benchmarks/faults.py", "--candidates", "60", "--json", f"{folder}/faults.json"]
        return document(argv, _told, timeout_s=3600)


def cost() -> Measured:
    """Seconds by rung of the fast softmax."""
    argv = [sys.executable, "benchmarks/evaluator.py", "--only", "softmax_fast", "--repeat", "5", "--json"]
    return document(argv, _cheap, timeout_s=1800)


def _cheap(found: dict[str, Any]) -> Measured:
    row = found["candidates"]["softmax_fast"]
    value = {name: row[name] for name in ("seconds", "cpu_s", "busy_s", "worst_total", "pressure")}
    return Measured(row["seconds"]["total"] <= COST_S and set(row["verdicts"]) == {"passed"}, value)


def hunted(found: dict[str, Any]) -> Measured:
    """What the attack island found in its hour, and what became of it once it was mended."""
    value = {name: found[name] for name in ("seconds", "attempts", "passed", "commit")}
    numbers = {escape["number"] for escape in found["escapes"]}
    again = found.get("again", {"judged": []})
    mended = {one["number"] for one in again["judged"] if not one["escaped"]}
    value |= {"escapes": len(numbers), "left": len(numbers - mended), "kinds": len(found["fixes"]), "mended_at": again.get("commit", "")}
    # What an attempt takes is counted; between them, and to open the judges, the hour goes on.
    return Measured(numbers <= mended and found["seconds"] >= (1 - BETWEEN) * 60 * ISLAND_MINUTES, value)


def admitted() -> Measured:
    """What admission said of a KernelBench checkout, beside what was judged by hand."""
    file = RESULTS / "admission-kernelbench.json"
    if not file.is_file():
        return Measured(False, None, f"{file.name} is missing")
    found = json.loads(file.read_text())
    hand = found["by_hand"]
    enough = min(hand["flagged"], hand["unflagged"]) >= JUDGED_BY_HAND
    value = {name: found[name] for name in ("suite_commit", "checked", "as_published", "under_evokern")}
    value |= {name: hand[name] for name in ("flagged", "flagged_wrongly", "unflagged", "missed")}
    return Measured(enough and max(hand["flagged_wrongly"], hand["missed"]) <= MOST_WRONG, value)


def fuzzed() -> Measured:
    """What ten minutes on each target found."""
    file = RESULTS / "fuzz.json"
    if not file.is_file():
        return Measured(False, None, f"{file.name} is missing")
    targets = json.loads(file.read_text())["targets"]
    short = [t["target"] for t in targets if t["seconds"] < FUZZ_SECONDS or t["crash"]]
    return Measured(
        bool(targets) and not short, {"targets": len(targets), "executions": sum(t["executions"] for t in targets)}, ", ".join(short)
    )


WEAK_POINTS = (
    "tests/attacks/test_gate.py",
    "tests/attacks/test_twins.py",
    "tests/attacks/test_inheritance.py",
    "tests/attacks/test_mailboxes.py",
    "tests/e2e_cpu/test_clock_cheats.py",
    "tests/e2e_cpu/test_cpu_backend.py",
)

CHECKS = [
    Check("cost", COST, f"at most {COST_S:.0f} s", cost),
    Check("noise: simulated", NOISE, "false at most 5 %, at most 1.6x, 8 % admitted in 80 %", partial(measured, "noise.py", "--json"), 0),
    Check("noise: this CPU", NOISE, "printed", partial(measured, "noise.py", "--device", "--json")),
    Check("sixty candidates", FAULTS, "40 of 40 right, every fault typed, none left, wall within its limit", faults),
    Check("corpus and mutants", CORPUS, f"all blocked, none falsely refused, {MUTANTS} mutants", corpus),
    Check("ten weak points", WEAK, "tests pass", partial(tests, *WEAK_POINTS)),
    Check("leaks and overfit", LEAKS, "tests pass", partial(tests, "tests/attacks/test_leaks.py", "tests/attacks/test_overfit.py")),
    Check("admission", ADMISSION, f"at most {MOST_WRONG} of {JUDGED_BY_HAND} wrong on each side", admitted),
    Check("fuzzing: ten minutes each", FUZZ, "no crash", fuzzed),
    Check("fuzzing: seconds each", FUZZ, "tests pass", partial(tests, "tests/fuzz")),
    Check(
        "attack island",
        ISLAND,
        f"{ISLAND_MINUTES} minutes, no escape that this code lets through",
        partial(result_file, "attack-island-0.json", hunted),
        0,
    ),
]
