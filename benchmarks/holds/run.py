"""Run every line under "Holds when" of an issue: `python benchmarks/holds/run.py N [--only TEXT]`.

`issue<N>.py` beside this file lists the checks as `CHECKS`. Writes `benchmarks/results/holds-<N>.json` and exits 1 on a miss.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from check import RESULTS, ROOT, Check, code_digest, outcome

PACKAGES = ("evokern", "torch", "numpy", "litellm", "sqlmodel", "networkx")


def main() -> int:
    """Run the checks of one issue and write what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("issue", type=int)
    parser.add_argument("--only", default="", help="run the checks whose name holds this text; nothing is written")
    arguments = parser.parse_args()
    checks = registered(arguments.issue)
    rows = []
    for check in checks:
        if arguments.only not in check.name:
            continue
        sys.stdout.write(f"       {check.name} ...\n")
        sys.stdout.flush()
        row = outcome(check)
        rows.append(row)
        said = "holds" if row["holds"] else "MISS"
        sys.stdout.write(f"{said:<6} {check.name}: {row['value']} ({check.threshold}, {row['seconds']} s) {row['detail']}\n")
        sys.stdout.flush()
    if not arguments.only:
        write(arguments.issue, rows)
    missed = [row["name"] for row in rows if not row["holds"]]
    sys.stdout.write(f"{len(rows) - len(missed)} of {len(rows)} hold\n")
    return 1 if missed or not rows else 0


def registered(issue: int) -> list[Check]:
    """The checks of an issue; names must differ, so that a row can be found again."""
    if not (Path(__file__).parent / f"issue{issue}.py").is_file():
        sys.exit(f"benchmarks/holds/issue{issue}.py is not there: no checks are registered for this issue")
    checks: list[Check] = importlib.import_module(f"issue{issue}").CHECKS
    if len({check.name for check in checks}) != len(checks):
        sys.exit(f"issue{issue}.py names two checks alike")
    return checks


def write(issue: int, rows: list[dict[str, Any]]) -> None:
    """Write the result file."""
    document = {"schema": "evokern.holds/1", "issue": issue, **provenance(), "checks": rows, "holds": all(row["holds"] for row in rows)}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"holds-{issue}.json").write_text(json.dumps(document, indent=1) + "\n")


def provenance() -> dict[str, Any]:
    """Date, device, versions, command, commit and code that a result was made with."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": {"cpu": cpu_model(), "cores": os.cpu_count(), "machine": platform.machine(), "kernel": platform.release()},
        "versions": {"python": platform.python_version(), "compiler": compiler(), **{name: version(name) for name in PACKAGES}},
        "command": " ".join(["python", *(os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:])]),
        "commit": git("rev-parse", "HEAD") or "none",
        "changed_since_commit": bool(git("status", "--porcelain")),
        "code": code_digest(),
    }


def cpu_model() -> str:
    """Model name of the first processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def compiler() -> str:
    """First line of what the compiler says of itself."""
    try:
        return subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError):
        return "none"


def version(package: str) -> str:
    """Installed version of a package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def git(*argv: str) -> str:
    """Output of a git command; empty where it fails."""
    return subprocess.run(["git", *argv], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
