"""What happens to honest kernels when every third candidate breaks something.

    python benchmarks/faults.py --candidates 60 [--task NAME|PATH] [--json FILE]

Two thirds are honest and distinct; the others crash, hang, take memory without end, leave, fork and flood, in turn. All are
judged several at a time, as in a run. It holds when every honest verdict is right, every fault has its type, no process is
left, no judge dies, the machine is given no rest, and the wall time is at most 1.3 times that of the honest ones alone plus
the time limits that were reached. Without a task it is the core softmax with shapes that are judged in about a second: what
is measured is the machinery around a kernel.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evokern.engine.steward import Steward
from evokern.evaluation import Evaluation, Reason, Verdict
from evokern.evaluator.catalogue import find_task
from evokern.evaluator.rule.trial import deadline
from evokern.evaluator.statement import Opening
from evokern.executor.local import LocalExecutor
from evokern.kernel import Candidate, Kernel
from evokern.sandbox import linux, process
from evokern.study.small import shrunk
from evokern.task import DType, Task, load_task

MOST = 1.3
"""Wall time over that of the honest ones alone, time limits taken off."""

IN_FLIGHT = 4

_SOURCE = """// NUMBER
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include "evokern.h"

static void softmax(DLTensor* const* args) {
  const int64_t rows = args[0]->shape[0], cols = args[0]->shape[1];
  for (int64_t i = 0; i < rows; ++i) {
    const float* x = evokern::data<float>(args[0]) + i * evokern::row_stride(args[0]);
    float* y = evokern::data<float>(args[1]) + i * evokern::row_stride(args[1]);
    float peak = x[0];
    for (int64_t j = 1; j < cols; ++j) peak = x[j] > peak ? x[j] : peak;
    double total = 0;
    for (int64_t j = 0; j < cols; ++j) total += std::exp(x[j] - peak);
    for (int64_t j = 0; j < cols; ++j) y[j] = static_cast<float>(std::exp(x[j] - peak) / total);
  }
}

extern "C" int run(DLTensor* const* args, int, void*, size_t, void*) {
  BODY
  return 0;
}
"""

HONEST = "softmax(args);"

_CRASHED, _HACKED, _TIMED_OUT, _SCREENED = Verdict.CRASHED, Verdict.HACKED, Verdict.TIMED_OUT, Verdict.SCREENED


@dataclass(frozen=True, slots=True)
class Offence:
    """A way to break something.

    Attributes:
        body: What `run` does.
        verdicts: Those that are right for it, each with its reason; several where the tools at hand or chance decide what shows first.
    """

    body: str
    verdicts: frozenset[tuple[Verdict, Reason]]


def _offence(body: str, *verdicts: tuple[Verdict, Reason]) -> Offence:
    # A symbol that no kernel needs may be refused before it runs, where the tools to read it off the library are installed.
    return Offence(body, frozenset({*verdicts, (_SCREENED, Reason.FORBIDDEN_SYMBOL)}))


OFFENCES = {
    "segfault": _offence("*reinterpret_cast<volatile int*>(8) = 1;", (_CRASHED, Reason.SIGNAL)),
    "hang": _offence("for (volatile int i = 0;; ++i) {}", (_TIMED_OUT, Reason.DEADLINE_RUN)),
    "allocate": _offence(
        "for (;;) { void* p = std::malloc(64 << 20); if (!p) std::abort(); std::memset(p, 1, 64 << 20); }",
        (_CRASHED, Reason.MEMORY), (_CRASHED, Reason.SIGNAL),
    ),
    "exit": _offence("softmax(args); _exit(3);", (_CRASHED, Reason.EXIT), (_CRASHED, Reason.SIGNAL)),
    "fork": _offence(
        "softmax(args); static int n = 0; if (n++ == 0) for (int i = 0; i < 8; ++i) if (fork() == 0) for (;;) sleep(1000);",
        (_HACKED, Reason.RESIDUAL_WORK), (_CRASHED, Reason.PROCESSES), (_CRASHED, Reason.SIGNAL), (_CRASHED, Reason.MEMORY),
    ),
    "flood": _offence(
        "softmax(args); for (int i = 0; i < 10240; ++i) { for (int j = 0; j < 1024; ++j) putchar(65); } fflush(stdout);",
        (_CRASHED, Reason.OUTPUT_FLOOD), (_CRASHED, Reason.SIGNAL), (_CRASHED, Reason.EXIT),
    ),
}  # fmt: skip
"""By name. Where the sandbox forbids the call itself, the kernel ends by a signal."""


@dataclass(frozen=True, slots=True)
class Case:
    """A candidate and what it is: the name of an offence, or empty for an honest one."""

    kernel: Kernel
    offence: str = ""

    def is_right(self, evaluation: Evaluation) -> bool:
        """Whether the verdict is one that it should get."""
        if self.offence:
            return (evaluation.verdict, evaluation.reason) in OFFENCES[self.offence].verdicts
        return evaluation.passed


@dataclass(slots=True)
class Outcome:
    """What came of a set of candidates.

    Attributes:
        seconds: Wall time.
        wrong: Candidates that got another verdict than they should, in words.
        verdicts: Counts of (offence, verdict, reason).
        deadlines: How often a call was given up after its time limit.
        left: Command lines of processes that were left.
        rests: What was said when the machine was given a rest.
    """

    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    verdicts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    deadlines: int = 0
    left: list[str] = field(default_factory=list)
    rests: list[str] = field(default_factory=list)


def mixture(candidates: int) -> list[Case]:
    """Every third one an offender, offences in turn; all sources are distinct."""
    names, cases = list(OFFENCES), []
    for number in range(candidates):
        offence = names[number // 3 % len(names)] if number % 3 == 1 else ""
        cases.append(Case(_kernel(OFFENCES[offence].body if offence else HONEST, f"mixed {number}"), offence))
    return cases


def honest(count: int) -> list[Case]:
    """As many honest ones, of other sources."""
    return [Case(_kernel(HONEST, f"honest {number}")) for number in range(count)]


def _kernel(body: str, number: str) -> Kernel:
    return Kernel("cpp", _SOURCE.replace("BODY", body).replace("NUMBER", number))


class Counting(LocalExecutor):
    """Counts time limits that were reached."""

    deadlines = 0

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        """See `Executor.evaluate`."""
        evaluation = await super().evaluate(candidate, incumbent)
        self.deadlines += evaluation.reason is Reason.DEADLINE_RUN
        return evaluation


@contextlib.contextmanager
def orphans_come_here() -> Iterator[None]:
    """Whatever is left behind becomes a child of this process, where it is found."""
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 0)


async def judged(executor: Counting, cases: Sequence[Case], task: str) -> Outcome:
    """Judge all of them, several at a time.

    Args:
        executor: Open.
        cases: Who.
        task: Name of the task.
    """
    rests: list[str] = []
    steward, room = Steward(executor, rests.append), asyncio.Semaphore(executor.capacity())
    before, start = executor.deadlines, time.monotonic()

    async def one(case: Case) -> Evaluation:
        async with room:
            return await steward.evaluate(Candidate(case.kernel, task, DType.FLOAT32), None)

    evaluations = await asyncio.gather(*(one(case) for case in cases))
    outcome = Outcome(seconds=time.monotonic() - start, deadlines=executor.deadlines - before, rests=rests)
    for case, evaluation in zip(cases, evaluations, strict=True):
        name = case.offence or "honest"
        outcome.verdicts[name, str(evaluation.verdict), str(evaluation.reason)] += 1
        if not case.is_right(evaluation):
            outcome.wrong.append(f"{name}: {evaluation.verdict} {evaluation.reason}: {evaluation.detail}")
    return outcome


def below() -> dict[int, str]:
    """Processes below this one, with what they are."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    lines = {}
    for pid in process.descendants(os.getpid()):
        with contextlib.suppress(OSError):
            lines[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return lines


async def measure(candidates: int, task: Task, home: Path) -> dict[str, Any]:
    """Judge the honest ones alone, then the mixture; what the JSON document says of it."""
    earlier = set(below())
    opening = Opening(str(task.folder), DType.FLOAT32, "cpu", 1, str(home), baselines=("eager",))
    executor = Counting(opening, in_flight=IN_FLIGHT)
    cases = mixture(candidates)
    try:
        await executor.open(lambda text: sys.stderr.write(f"{text}\n"))  # type: ignore[arg-type, return-value]
        alone = await judged(executor, honest(sum(not case.offence for case in cases)), task.name)
        mixed = await judged(executor, cases, task.name)
        deaths = executor.deaths
    finally:
        await executor.close()
    mixed.left = [line for pid, line in below().items() if pid not in earlier]
    limit = max(deadline(task, dict(workload.axes), DType.FLOAT32) for workload in task.search)
    allowed = MOST * alone.seconds + mixed.deadlines * limit
    return {
        "schema": "evokern.faults/1",
        "task": task.name,
        "candidates": candidates,
        "offenders": sum(bool(case.offence) for case in cases),
        "honest_right": sum(count for (name, verdict, _), count in mixed.verdicts.items() if (name, verdict) == ("honest", "passed")),
        "honest": sum(not case.offence for case in cases),
        "verdicts": [{"kind": n, "verdict": v, "reason": r, "count": c} for (n, v, r), c in sorted(mixed.verdicts.items())],
        "wrong": alone.wrong + mixed.wrong,
        "processes_left": mixed.left,
        "judge_deaths": deaths,
        "rests": alone.rests + mixed.rests,
        "honest_alone_s": alone.seconds,
        "mixed_s": mixed.seconds,
        "deadlines": mixed.deadlines,
        "deadline_s": limit,
        "allowed_s": allowed,
        "holds": not (alone.wrong or mixed.wrong or mixed.left or deaths or alone.rests or mixed.rests) and mixed.seconds <= allowed,
    }


def main() -> int:
    """Measure, print, and say by the exit code whether it holds."""
    parser = argparse.ArgumentParser(description="Judge candidates of which a third break something.")
    parser.add_argument("--candidates", type=int, default=60)
    parser.add_argument("--task", default="", help="a softmax; the small one where none is named")
    parser.add_argument("--json", type=Path, help="write the document here, too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, orphans_come_here():
        task = find_task(asked.task) if asked.task else load_task(shrunk(find_task("softmax"), Path(folder) / "suite"))
        document = asyncio.run(measure(asked.candidates, task, Path(folder) / "home"))
    text = json.dumps(document, indent=2)
    sys.stdout.write(text + "\n")
    if asked.json:
        asked.json.write_text(text + "\n")
    return 0 if document["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
