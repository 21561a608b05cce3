"""KernelBench under admission: what `evokern task check --format kernelbench` finds, recorded, and held against judgement by hand.

    evokern task check --format kernelbench CHECKOUT --json --keep rows.jsonl > document.json
    python benchmarks/admission/kernelbench.py sample document.json --seed 3 > sample.json
    ... judge every task of the sample by reading it, before document.json is read: fill in `degenerate` and `why` ...
    python benchmarks/admission/kernelbench.py record document.json sample.json --commit C --command "..."

The sample is twenty tasks that are flagged as published and twenty that are not, shuffled, without saying which is which. A
task is degenerate by hand where some kernel that computes nothing, leaves out an operator, an input or a parameter that other
values would need, or knows a statistic beforehand, stays within 1e-2 + 1e-2 |y| of the reference on the module's own inputs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import random
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

EACH = 20
RESULTS = Path(__file__).parents[1] / "results" / "admission-kernelbench.json"
COLUMN = "as_published"


def judged_tasks(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Rows by task that have an answer in the first column."""
    return {row["task"]: row for row in document["tasks"] if row[COLUMN] and row[COLUMN]["degenerate"] is not None}


def sample(document: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Tasks to judge, in random order; what was found of them is left out."""
    rng = random.Random(seed)
    rows = judged_tasks(document)
    chosen = []
    for flagged in (True, False):
        group = sorted(task for task, row in rows.items() if row[COLUMN]["degenerate"] is flagged)
        chosen += rng.sample(group, min(EACH, len(group)))
    rng.shuffle(chosen)
    return [{"task": task, "name": rows[task]["name"], "degenerate": None, "why": ""} for task in chosen]


def compare(document: dict[str, Any], judgements: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of agreement, and the tasks where hand and mechanism differ."""
    rows = judged_tasks(document)
    counts = {"flagged": 0, "flagged_wrongly": 0, "unflagged": 0, "missed": 0}
    differ = []
    for judgement in judgements:
        flagged, by_hand = rows[judgement["task"]][COLUMN]["degenerate"], judgement["degenerate"]
        if not isinstance(by_hand, bool):
            raise SystemExit(f"{judgement['task']} was not judged")
        counts["flagged" if flagged else "unflagged"] += 1
        if flagged != by_hand:
            counts["flagged_wrongly" if flagged else "missed"] += 1
            differ.append(judgement["task"])
    return {**counts, "differ": differ}


def record(document: dict[str, Any], judgements: list[dict[str, Any]], commit: str, command: str, note: str) -> dict[str, Any]:
    """The result: names, flags and reasons, and nothing of the tasks' texts."""
    return {
        "schema": "evokern.admission/1",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": _device(),
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in ("evokern", "torch", "numpy")}},
        "command": command,
        "suite": "KernelBench",
        "suite_commit": commit,
        "note": note,
        **{name: document[name] for name in ("checked", "skipped", "as_published", "under_evokern")},
        "by_hand": {**compare(document, judgements), "judgements": judgements},
        "tasks": [{name: value for name, value in row.items() if name != "key"} for row in document["tasks"]],
    }


def _device() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    """Draw a sample, or record the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    for name in ("sample", "record"):
        command = commands.add_parser(name)
        command.add_argument("document", type=Path)
        if name == "sample":
            command.add_argument("--seed", type=int, default=3)
        else:
            command.add_argument("judgements", type=Path)
            command.add_argument("--commit", required=True, help="Commit of the checkout.")
            command.add_argument("--command", required=True, help="The command whose answer the document is.")
            command.add_argument("--note", default="", help="How the sample was drawn, and what changed since.")
            command.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    document = json.loads(arguments.document.read_text())
    if arguments.what == "sample":
        json.dump(sample(document, arguments.seed), sys.stdout, indent=1)
        return
    judgements = json.loads(arguments.judgements.read_text())
    result = record(document, judgements, arguments.commit, arguments.command, arguments.note)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    json.dump({name: value for name, value in result["by_hand"].items() if name != "judgements"}, sys.stdout)


if __name__ == "__main__":
    main()
