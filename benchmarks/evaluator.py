"""What an honest candidate costs, by rung: wall time, the judge's CPU time, and how busy the machine was meanwhile.

    python benchmarks/evaluator.py [--only softmax_fast] [--repeat 3] [--json]

Sessions are opened before anything is counted, as in a run; the build is counted and never cached. The gate's time is what is left of
`judge` when the other rungs are taken off, because no evaluation says it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
os.environ.update(dict.fromkeys(THREADS, "1"))  # as a judge is started; before numpy is imported

from evokern.evaluation import BASELINE, Evaluation, Rung  # noqa: E402
from evokern.evaluator.session import Session  # noqa: E402
from evokern.evaluator.statement import Opening  # noqa: E402
from evokern.evaluator.timing.contention import cpu_pressure  # noqa: E402
from evokern.kernel import Kernel  # noqa: E402
from evokern.task import DType  # noqa: E402

ROOT = Path(__file__).parents[1]
TASKS = ROOT / "benchmarks" / "tasks" / "core"

LIMIT_S = 6.0
"""Most seconds of wall for a passing fast C++ softmax on two cores, build included (issue 2, Cost)."""

COUNTED = "softmax_fast"
"""The candidate that the limit is about."""

HONEST: dict[str, tuple[str, Path]] = {
    COUNTED: ("softmax", ROOT / "benchmarks" / "kernels" / "softmax_fast.cpp"),
    "softmax_seed": ("softmax", TASKS / "softmax" / "seeds" / "cpp-float32.cpp"),
    "rmsnorm_seed": ("rmsnorm", TASKS / "rmsnorm" / "seeds" / "cpp-float32.cpp"),
    "bias_gelu_seed": ("bias_gelu", TASKS / "bias_gelu" / "seeds" / "cpp-float32.cpp"),
}
"""Candidates that must pass: the task each is for, and where its source is."""


@dataclass(frozen=True)
class Cost:
    """What one candidate cost.

    Attributes:
        name: Key of `HONEST`.
        seconds: Wall time by rung, and "total".
        cpu_s: CPU time of the judge's process.
        busy_s: CPU time of the whole machine meanwhile, others' work included.
        pressure: Share of the last ten seconds in which something had to wait for a processor.
        verdict: How it ended; anything but "passed" is a defect.
        speedup: Over the best baseline, by workload: lower bound, estimate, upper bound.
    """

    name: str
    seconds: Mapping[str, float]
    cpu_s: float
    busy_s: float
    pressure: float
    verdict: str
    speedup: Mapping[str, tuple[float, float, float]]


def judged(session: Session, name: str, kernel: Kernel) -> Cost:
    """One candidate up the whole ladder and confirmed, on an open session."""
    wall, cpu, busy = time.monotonic(), time.process_time(), machine_cpu_s()
    built = session.build(kernel)
    began = time.monotonic()
    evaluation = session.ladder.judge(kernel, built, None)
    climbed = time.monotonic() - began
    if evaluation.passed:
        evaluation = session.ladder.confirm(kernel, built, evaluation)
    total = time.monotonic() - wall
    return Cost(
        name,
        by_rung(evaluation, climbed, total),
        time.process_time() - cpu,
        machine_cpu_s() - busy,
        cpu_pressure(),
        str(evaluation.verdict) + (f": {evaluation.reason}: {evaluation.detail}" if not evaluation.passed else ""),
        {w: (r.low, r.estimate, r.high) for w, r in evaluation.versus(BASELINE).items()},
    )


def by_rung(evaluation: Evaluation, climbed: float, total: float) -> dict[str, float]:
    """Seconds by rung; the gate's are what `judge` took beyond those that it tells."""
    told = {rung: s for rung, s in evaluation.seconds.items() if rung != Rung.GATE}
    gate = climbed - told.get(Rung.CHECK, 0.0) - told.get(Rung.MEASURE, 0.0)
    order = [*(str(r) for r in Rung if r is not Rung.SCREEN)]
    found = {**told, str(Rung.GATE): gate}
    return {**{rung: found[rung] for rung in order if rung in found}, "total": total}


def machine_cpu_s() -> float:
    """CPU seconds that all processes of this machine have had since it started, idle and waiting time left out."""
    with open("/proc/stat", encoding="ascii") as stream:
        fields = [int(n) for n in stream.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def measure(names: Sequence[str], repeat: int) -> list[Cost]:
    """Every candidate in turn; one session a task. Each repeat builds another source, so that no product is found in the cache."""
    costs = []
    with tempfile.TemporaryDirectory(prefix="evokern-cost-") as home:
        for task in dict.fromkeys(HONEST[name][0] for name in names):
            session = Session(Opening(str(TASKS / task), DType.FLOAT32, "cpu", 1, home), _say)
            try:
                for name in (n for n in names if HONEST[n][0] == task):
                    source = HONEST[name][1].read_text()
                    costs += [judged(session, name, Kernel("cpp", f"{source}// {turn}\n")) for turn in range(repeat)]
            finally:
                session.close()
    return costs


def document(costs: Sequence[Cost]) -> dict[str, Any]:
    """What `--json` prints; the median of the repeats of each candidate, rung by rung."""
    rows: dict[str, Any] = {}
    for name in dict.fromkeys(c.name for c in costs):
        mine = [c for c in costs if c.name == name]
        rungs = mine[0].seconds
        rows[name] = {
            "seconds": {rung: round(median(c.seconds.get(rung, 0.0) for c in mine), 3) for rung in rungs},
            "worst_total": round(max(c.seconds["total"] for c in mine), 3),
            "cpu_s": round(median(c.cpu_s for c in mine), 3),
            "busy_s": round(median(c.busy_s for c in mine), 3),
            "pressure": round(max(c.pressure for c in mine), 3),
            "verdicts": [c.verdict for c in mine],
            "speedup": {w: [round(v, 3) for v in bounds] for w, bounds in mine[-1].speedup.items()},
        }
    counted = rows.get(COUNTED)
    holds = None if counted is None else counted["seconds"]["total"] <= LIMIT_S and set(counted["verdicts"]) == {"passed"}
    return {"schema": "evokern.cost/1", "limit_s": LIMIT_S, "holds": holds, "processors": os.cpu_count(), "candidates": rows}


def say(text: str) -> None:
    """One line on stdout."""
    sys.stdout.write(f"{text}\n")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def show(found: Mapping[str, Any]) -> None:
    """The same as a table."""
    columns = ["build", "check", "gate", "measure", "confirm", "total"]
    say(f"{'candidate':<16}" + "".join(f"{c:>9}" for c in columns) + f"{'judge CPU':>11}{'all CPU':>9}{'pressure':>10}  verdict")
    for name, row in found["candidates"].items():
        times = "".join(f"{row['seconds'].get(c, 0.0):9.2f}" for c in columns)
        verdict = row["verdicts"][0] if len(set(row["verdicts"])) == 1 else ", ".join(row["verdicts"])
        say(f"{name:<16}{times}{row['cpu_s']:11.2f}{row['busy_s']:9.2f}{row['pressure']:10.1%}  {verdict}")
        for workload, (low, estimate, high) in row["speedup"].items():
            say(f"    {workload}: {estimate:.3f}x [{low:.3f}, {high:.3f}]")


def main() -> int:
    """Measure and print; 1 where a candidate that must pass does not, or the limit does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=HONEST, action="append", help="this candidate alone; may be given again")
    parser.add_argument("--repeat", type=int, default=3, help="how often each is judged (3)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    found = document(measure(options.only or list(HONEST), options.repeat))
    if options.json:
        say(json.dumps(found))
    else:
        show(found)
    passed = all(set(row["verdicts"]) == {"passed"} for row in found["candidates"].values())
    return 0 if passed and found["holds"] is not False else 1


if __name__ == "__main__":
    sys.exit(main())
