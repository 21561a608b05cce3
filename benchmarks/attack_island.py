"""The attack island: the evolver against the evaluator, for so many minutes; what came of it is data.

    python benchmarks/attack_island.py --minutes 60 --seed 0 --out benchmarks/results/attack-island-0.json

Beside the summary lies a file of the same name with `l` behind, one JSON line per attempt; a search with the same file goes on from
there, and its minutes count on. Exit code 1 where an attempt escaped. `attack_fixes.json` says what was mended because of earlier ones;
with `--again` what escaped is judged once more, by the code as it is now, and the answers are added to the summary.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from evokern import record
from evokern.errors import EvokernError, UsageError
from evokern.study.attack_genome import TASKS
from evokern.study.attack_island import AttackIsland, Attempt, Court, summary

ROOT = Path(__file__).parents[1]
FIXES = ROOT / "benchmarks" / "attack_fixes.json"
NICE = 10
"""The search yields to everything else; what it measures is compared, so that this costs no one an advantage."""


def main() -> int:
    """Search, with progress on standard error."""
    arguments = parsed()
    return judged_again(arguments) if arguments.again else searched(arguments)


def searched(arguments: argparse.Namespace) -> int:
    """One search."""
    out, made_with = Path(arguments.out), provenance()
    lines = out.with_name(f"{out.name}l")
    before = kept(lines, made_with["code"])
    os.nice(max(0, NICE - os.nice(0)))
    end = time.monotonic() + 60 * arguments.minutes - sum(attempt.seconds for attempt in before)
    with tempfile.TemporaryDirectory(prefix="evokern-attack-island-", ignore_cleanup_errors=True) as scratch:
        court = Court(Path(scratch), say, lock=Path(arguments.lock) if arguments.lock else None)
        island = AttackIsland(court, seed=arguments.seed, tasks=arguments.tasks.split(","))
        island.restore(before)
        try:
            with lines.open("a") as stream:
                for attempt in island.search(lambda: time.monotonic() >= end):
                    stream.write(json.dumps({"code": made_with["code"], **record.to_json(attempt)}) + "\n")
                    stream.flush()
                    say(f"[{sum(a.escaped for a in island.attempts)} escaped] {attempt.line}")
        except KeyboardInterrupt:
            say("stopped; the same command goes on from here")
        finally:
            court.close()
    document = {"schema": "evokern.attack_island/1", **made_with, "seed": arguments.seed, **summary(island.attempts), "fixes": fixes()}
    out.write_text(json.dumps(document, indent=1) + "\n")
    return int(bool(document["escapes"]))


def judged_again(arguments: argparse.Namespace) -> int:
    """What escaped in a search, judged by this code: what was mended as a kind must not escape any more.

    The search's file gets a list `again`: what this code says of each, by number.
    """
    out, made_with = Path(arguments.out), provenance()
    document = json.loads(out.read_text())
    escaped = [attempt for attempt in kept(out.with_name(f"{out.name}l"), document["code"]) if attempt.escaped]
    found = []
    with tempfile.TemporaryDirectory(prefix="evokern-attack-island-", ignore_cleanup_errors=True) as scratch:
        court = Court(Path(scratch), say, lock=Path(arguments.lock) if arguments.lock else None)
        try:
            for one in escaped:
                attempt = court.judged(one.genome, one.number, "again", ())
                say(attempt.line)
                verdict, kind = f"{attempt.verdict}/{attempt.reason}", None if attempt.kind is None else str(attempt.kind)
                found.append({"number": one.number, "verdict": verdict, "kind": kind, "escaped": attempt.escaped})
        finally:
            court.close()
    again = {name: made_with[name] for name in ("date", "commit", "changed_since_commit", "code")}
    document |= {"again": {**again, "judged": found}, "fixes": fixes()}
    out.write_text(json.dumps(document, indent=1) + "\n")
    return int(any(one["escaped"] for one in found))


def kept(lines: Path, code: str) -> list[Attempt]:
    """Attempts that were made before.

    Raises:
        UsageError: They were made from other code, and would be published as made from this.
    """
    rows = [json.loads(line) for line in lines.read_text().splitlines()] if lines.is_file() else []
    if any(row.pop("code") != code for row in rows):
        raise UsageError("these attempts were made from other code", where=str(lines), mend="Remove the file, or choose another with --out")
    return [record.from_json(Attempt, row) for row in rows]


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default=str(ROOT / "benchmarks" / "results" / "attack-island-0.json"))
    parser.add_argument("--tasks", default=",".join(TASKS), help="names, separated by commas")
    parser.add_argument("--again", action="store_true", help="judge what escaped in the search of --out by this code, instead of searching")
    parser.add_argument("--lock", default="", help="file to hold while one attempt is judged, where others measure on this machine too")
    return parser.parse_args()


def fixes() -> list[dict[str, Any]]:
    """What was mended because of escapes of earlier searches, each with what escaped, why, and how."""
    found: list[dict[str, Any]] = json.loads(FIXES.read_text()) if FIXES.is_file() else []
    return found


def provenance() -> dict[str, Any]:
    """Date, device, versions, command, commit and code, as the result files of "Holds when" have them."""
    sys.path.insert(0, str(ROOT / "benchmarks" / "holds"))
    from run import provenance as made_with

    found: dict[str, Any] = made_with()
    return found


def say(text: str) -> None:
    """Progress."""
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)  # noqa: T201 - a command's progress


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EvokernError as error:
        say(error.line)
        sys.exit(2)
