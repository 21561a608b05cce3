"""How many candidates a minute one GPU judges: half of them good, a quarter wrong, a quarter broken, no two alike.

    python benchmarks/gpu_throughput.py --backend cuda --count 60 [--in-flight 1] [--out FILE]

Candidates are made from the task's seed by its tunables and by edits of its text, and judged as a run has them judged: a judge's process
with builders of its own, each candidate isolated, checked on every visible workload, gated on held-out shapes and timed in pairs against
the seed. The session is opened before the clock starts. Exit code 1 where a verdict is not what the candidate was made for.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from evokern.errors import EvokernError
from evokern.evaluation import Evaluation, Rung, Verdict
from evokern.evaluator.statement import Opening, Preparation
from evokern.executor.local import LocalExecutor
from evokern.kernel import SUFFIXES, Candidate, Kernel
from evokern.study.small import on_device
from evokern.syntax.tunables import tunables_of, with_values
from evokern.task import DType, load_task

ROOT = Path(__file__).parents[1]
CORE = ROOT / "benchmarks" / "tasks" / "core"
RESULTS = ROOT / "benchmarks" / "results"

TASK = "softmax"
SHAPES = ((4096, 4096), (32768, 128), (8192, 2048), (127, 1021), (9, 33))
"""Rows and columns of the visible workloads: three that are timed, and two that are only checked."""

HELD_OUT = 4
GOOD, WRONG, BROKEN = "good", "wrong", "broken"
MIX = (GOOD, WRONG, GOOD, BROKEN)
"""What candidates are, in turn."""

RIGHT = {
    GOOD: {Verdict.PASSED},
    WRONG: {Verdict.WRONG, Verdict.HELD_OUT_FAILED},
    BROKEN: {Verdict.BUILD_FAILED, Verdict.SCREENED, Verdict.CRASHED},
}
"""Verdicts that each kind must get."""

TARGET = {"cuda": 150.0, "triton": 100.0}
"""Candidates a minute that are asked for (issue 3)."""

Edit = tuple[str, str]

_LINE = "const float scale = 1.0f / total;"
_HEAD = "const Element* in = x + blockIdx.x * x_stride;"
_STORE = "tl.store(y + at, tl.exp(value - peak) / total, mask=at < cols)"
EDITS: dict[str, dict[str, list[Edit]]] = {
    "cuda": {
        WRONG: [
            (_HEAD, f"cols = cols / 8 * 8; {_HEAD}"),
            (_LINE, "const float scale = (blockIdx.x % 512 == 511 ? 1.03f : 1.0f) / total;"),
            (_HEAD, f"if (blockIdx.x == gridDim.x - 1) return; {_HEAD}"),
            (_HEAD, f"if (cols > 4096) cols = 4096; {_HEAD}"),
        ],
        BROKEN: [
            (_LINE, "const float scale = 1.0f / totl;"),
            (_HEAD, f"if (threadIdx.x == 0) *reinterpret_cast<volatile float*>(64) = 1.0f; {_HEAD}"),
            ("return cudaGetLastError();", "return 7;"),
            ('extern "C" int run(', 'extern "C" int compute('),
        ],
    },
    "triton": {
        WRONG: [
            (_STORE, _STORE.replace("at < cols", "at < cols // 8 * 8")),
            (_STORE, _STORE.replace("total,", "total * tl.where(row % 512 == 511, 1.03, 1.0),")),
            ("softmax_rows[(rows,)]", "softmax_rows[(max(rows - 1, 1),)]"),
            (_STORE, _STORE.replace("at < cols", "at < min(cols, 4096)")),
        ],
        BROKEN: [
            (_STORE, _STORE.replace("total", "totl")),
            (_STORE, _STORE.replace("y + at", "y + at + (row + 1) * (1 << 44)")),
            ("def run(x, y):", "def run(x, y:"),
            ("def run(x, y):", "def compute(x, y):"),
        ],
    },
}
"""By backend: what makes the seed wrong, or breaks it."""


@dataclass(frozen=True)
class Made:
    """A candidate and what it was made to be.

    Attributes:
        kind: `GOOD`, `WRONG` or `BROKEN`.
        kernel: The candidate.
    """

    kind: str
    kernel: Kernel


@dataclass(frozen=True)
class Judged:
    """What came of it.

    Attributes:
        made: The candidate.
        evaluation: Its verdict.
        waited_s: From asking to the answer.
    """

    made: Made
    evaluation: Evaluation
    waited_s: float

    @property
    def is_right(self) -> bool:
        """Whether the verdict is one that the candidate was made for."""
        return self.evaluation.verdict in RIGHT[self.made.kind]


def seed_of(backend: str) -> str:
    """The task's bfloat16 seed in the dialect of a backend."""
    return (CORE / TASK / "seeds" / f"{backend}-bfloat16{SUFFIXES[backend]}").read_text()


def candidates(backend: str, count: int) -> list[Made]:
    """So many candidates, no two of the same text; the same ones every time."""
    seed, mark = seed_of(backend), "#" if backend == "triton" else "//"
    tunables = tunables_of(seed, backend)
    settings = [dict(zip([t.name for t in tunables], values, strict=True)) for values in itertools.product(*(t.allowed for t in tunables))]
    random.Random(0).shuffle(settings)
    turns = {kind: itertools.count() for kind in (WRONG, BROKEN)}
    found = []
    for number in range(count):
        kind = MIX[number % len(MIX)]
        source = seed
        if kind != GOOD:
            edits = EDITS[backend][kind]
            old, new = edits[next(turns[kind]) % len(edits)]
            assert source.count(old) == 1, f"the seed does not hold it once: {old}"
            source = source.replace(old, new)
        source = with_values(source, backend, settings[number % len(settings)])
        # Where settings come round again, the text still differs, and with it all that is kept by its digest.
        found.append(Made(kind, Kernel(backend, f"{source}{mark} {number}\n")))
    return found


async def judged_all(made: Sequence[Made], executor: LocalExecutor, incumbent: Kernel, in_flight: int) -> tuple[list[Judged], float]:
    """All verdicts, and the seconds that they took together."""
    places = asyncio.Semaphore(in_flight)

    async def one(each: Made) -> Judged:
        async with places:
            began = time.monotonic()
            evaluation = await executor.evaluate(Candidate(each.kernel, TASK, DType.BFLOAT16), incumbent)
            say(f"{each.kind:<7} {evaluation.verdict}/{evaluation.reason} {evaluation.detail[:100]}")
            return Judged(each, evaluation, time.monotonic() - began)

    began = time.monotonic()
    found = await asyncio.gather(*(one(each) for each in made))
    return list(found), time.monotonic() - began


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Open a judge, have everything judged, and say what it took."""
    task = on_device(load_task(CORE / TASK), folder / "suite", SHAPES, held_out=HELD_OUT)
    home = Path(options.home) if options.home else folder / "home"
    opening = Opening(str(task), DType.BFLOAT16, options.backend, 1, str(home), builds=options.builds, baselines=("eager",))
    executor = LocalExecutor(opening, in_flight=options.in_flight)
    try:
        prepared = await executor.open(say)
        incumbent = Kernel(options.backend, seed_of(options.backend))
        # What a session pays once: the seed's own build, and its sealed form.
        first = await executor.evaluate(Candidate(incumbent, TASK, DType.BFLOAT16), None)
        say(f"the seed: {first.verdict}/{first.reason} {first.detail}")
        found, seconds = await judged_all(candidates(options.backend, options.count), executor, incumbent, options.in_flight)
    finally:
        await executor.close()
    return summary(options, prepared, first, found, seconds)


def summary(
    options: argparse.Namespace, prepared: Preparation, seed: Evaluation, found: Sequence[Judged], seconds: float
) -> dict[str, Any]:
    """The result as data."""
    rate = 60 * len(found) / seconds
    kinds = {}
    for kind in (GOOD, WRONG, BROKEN):
        mine = [one for one in found if one.made.kind == kind]
        kinds[kind] = {
            "count": len(mine),
            "right": sum(one.is_right for one in mine),
            "verdicts": counted(f"{one.evaluation.verdict}/{one.evaluation.reason}" for one in mine),
            "seconds": {rung: round(fmean(took), 3) for rung in (*map(str, Rung),) if (took := seconds_of(rung, mine))},
            "median_wait_s": round(median(one.waited_s for one in mine), 2) if mine else None,
        }
    timed = [w.workload for w in prepared.workloads if w.timed]
    passed = [one.evaluation for one in found if one.evaluation.passed]
    building = sum(one.evaluation.seconds.get(str(Rung.BUILD), 0.0) for one in found)
    told = sum(sum(seconds_of(str(rung), found)) for rung in (Rung.CHECK, Rung.MEASURE))
    return {
        "backend": options.backend,
        "fingerprint": {"device": prepared.fingerprint.device, "driver": prepared.fingerprint.driver, "tier": str(prepared.tier)},
        "task": TASK,
        "dtype": str(DType.BFLOAT16),
        "shapes": [list(shape) for shape in SHAPES],
        "timed": timed,
        "held_out": HELD_OUT,
        "builds": options.builds,
        "in_flight": options.in_flight,
        "opening_s": round(prepared.seconds, 1),
        "count": len(found),
        "seconds": round(seconds, 2),
        "per_minute": round(rate, 1),
        "target_per_minute": TARGET[options.backend],
        "builders_at_work": round(building / seconds, 2),
        "checked_and_measured_s": round(told, 2),
        "gated_and_idle_s": round(seconds - told, 2),
        "sealed": sum("unsealed" not in one.descriptors for one in passed),
        "unsealed": counted(one.descriptors["unsealed"] for one in passed if "unsealed" in one.descriptors),
        "clocks": counted(str(m.clock) for one in passed for m in one.measurements),
        "seed": {"verdict": f"{seed.verdict}/{seed.reason}", "seconds": {rung: round(s, 3) for rung, s in seed.seconds.items()}},
        "kinds": kinds,
        "misjudged": [
            {"kind": one.made.kind, "verdict": f"{one.evaluation.verdict}/{one.evaluation.reason}", "detail": one.evaluation.detail[:300]}
            for one in found
            if not one.is_right
        ],
    }


def seconds_of(rung: str, found: Sequence[Judged]) -> list[float]:
    """Wall times of a rung; none of the gate's, which no evaluation tells."""
    return [one.evaluation.seconds[rung] for one in found if rung in one.evaluation.seconds]


def counted(words: Any) -> dict[str, int]:
    """How often each word occurs."""
    found: dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return found


def show(found: dict[str, Any]) -> None:
    """The result as a few lines."""
    lines = [
        f"{found['fingerprint']['device']}, {found['backend']}, {found['in_flight']} in flight, {found['builds']} builders, "
        f"{len(found['timed'])} of {len(found['shapes'])} workloads timed, opened in {found['opening_s']} s",
        f"{found['per_minute']} candidates a minute ({found['count']} in {found['seconds']} s; asked for: {found['target_per_minute']}); "
        f"{found['builders_at_work']} builders at work on average; {found['sealed']} of those that passed are sealed",
        f"the device checked and measured for {found['checked_and_measured_s']} s, gated or was idle for {found['gated_and_idle_s']} s",
    ]
    for kind, row in found["kinds"].items():
        rungs = ", ".join(f"{rung} {took}" for rung, took in row["seconds"].items())
        lines.append(f"  {kind:<7}{row['right']} of {row['count']} as they should be: {row['verdicts']}; mean seconds by rung: {rungs}")
    lines += [f"  MISJUDGED {one['kind']}: {one['verdict']} {one['detail']}" for one in found["misjudged"]]
    sys.stdout.write("\n".join(lines) + "\n")


def provenance() -> dict[str, Any]:
    """Date, device, versions, command, commit and code, as the result files of "Holds when" have them; less without git."""
    sys.path.insert(0, str(ROOT / "benchmarks" / "holds"))
    import run

    try:
        found: dict[str, Any] = run.provenance()
    except OSError as error:  # no git on this machine
        found = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "command": " ".join(sys.argv), "commit": f"unknown: {error}"}
    return found


def say(text: str) -> None:
    """Progress."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def parsed() -> argparse.Namespace:
    """The command line."""
    builders = max(2, (os.cpu_count() or 2) - 3)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=sorted(TARGET), default="cuda")
    parser.add_argument("--count", type=int, default=60, help="candidates (60)")
    parser.add_argument("--builds", type=int, default=builders, help=f"compilers at a time ({builders})")
    parser.add_argument(
        "--in-flight", type=int, default=builders + 4, help=f"candidates asked for at a time ({builders + 4}); 1 is one at a time"
    )
    parser.add_argument(
        "--home", default="", help="EVOKERN_HOME of the judge; a fresh one where this is empty, so that nothing was built before"
    )
    parser.add_argument("--out", default="", help="where the result goes (benchmarks/results/gpu-throughput-BACKEND.json)")
    return parser.parse_args()


def main() -> int:
    """Measure, print, and write the result; 1 where a candidate was misjudged, 3 where the machine lacks something."""
    options, made_with = parsed(), provenance()
    try:
        with tempfile.TemporaryDirectory(prefix="evokern-throughput-", ignore_cleanup_errors=True) as folder:
            found = asyncio.run(measure(options, Path(folder)))
    except EvokernError as error:
        say(error.line)
        return error.exit_code
    show(found)
    out = Path(options.out) if options.out else RESULTS / f"gpu-throughput-{options.backend}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"schema": "evokern.gpu_throughput/1", **made_with, **found}, indent=1) + "\n")
    return int(bool(found["misjudged"]))


if __name__ == "__main__":
    sys.exit(main())
