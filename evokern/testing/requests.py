"""Requests to try operators on: a small row task, and kernels with evaluations as a run would hand them over."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from evokern.evaluation import BASELINE, Clock, Elite, Evaluation, Fingerprint, Measurement, Ratio, Reason, Rung, Score, Tier, Verdict
from evokern.event import Parent, Request
from evokern.kernel import Candidate, Kernel
from evokern.lesson import Lesson
from evokern.task import DType, Task, load_task

TASK_TOML = """
name = "row_sum"
description = "Sum of every row."
dtypes = ["float32"]
axes = ["rows", "cols"]
reduction = "cols"
constraints = ["cols >= 2"]
distributions = ["normal"]
[inputs.x]
shape = ["rows", "cols"]
dtype = "dtype"
[outputs.y]
shape = ["rows"]
dtype = "dtype"
[[search]]
axes = {rows = 64, cols = 4096}
[[search]]
axes = {rows = 4096, cols = 64}
residency = "warm"
[held_out]
axes = {rows = [3, 70001], cols = [5, 90007]}
max_elements = 1234567
[cost]
bytes_read = "rows * cols * itemsize"
bytes_written = "rows * itemsize"
flops = "rows * cols"
"""

REFERENCE = "import torch\n\n\ndef run(x):\n    return x.sum(-1)\n"

SOURCE = """#include "evokern.h"

#define LANES 4  // tune: 1 4 8

extern "C" int run(DLTensor* const* args, int, void*, size_t, void*) {
  const float* x = evokern::data<float>(args[0]);
  float* y = evokern::data<float>(args[1]);
  for (int64_t r = 0; r < args[0]->shape[0]; ++r) {
    float sum = 0.0f;
    for (int64_t c = 0; c < args[0]->shape[1]; ++c) sum += x[r * evokern::row_stride(args[0]) + c];
    y[r] = sum;
  }
  return 0;
}
"""


def row_task(folder: Path) -> Task:
    """The task, written into a folder that must exist."""
    (folder / "task.toml").write_text(TASK_TOML)
    (folder / "reference.py").write_text(REFERENCE)
    return load_task(folder)


def evaluated(
    source: str,
    task: Task,
    *,
    verdict: Verdict = Verdict.PASSED,
    reason: Reason = Reason.NONE,
    detail: str = "",
    log: str = "",
    ratio: float = 1.25,
) -> Parent:
    """A kernel with its evaluation.

    Args:
        source: Its text.
        task: What it is for.
        verdict: How its evaluation ended; times are there only if it passed.
        reason: Why.
        detail: One line with it.
        log: Text with it.
        ratio: Speed-up over the baseline on every visible workload.
    """
    candidate = Candidate(Kernel("cpp", source), task.name, DType.FLOAT32)
    versus = {BASELINE: Ratio(ratio, ratio * 0.98, ratio * 1.02, 120, 4)}
    measurements = tuple(Measurement(w.name, Clock.JUDGED, 812.34, 0.4, 0.2, 0.61, versus) for w in task.search)
    passed = verdict is Verdict.PASSED
    fingerprint = Fingerprint(
        "evokern/1", "cpu", "Example CPU", "6.1", "g++ 12.2", "-O3 -march=native", "", "ieee", 1, Tier.SANDBOXED, "", ("eager",), 7
    )
    evaluation = Evaluation(
        candidate.id,
        task.digest,
        DType.FLOAT32,
        verdict,
        reason,
        detail,
        Rung.CONFIRM if passed else Rung.CHECK,
        passed,
        passed or None,
        measurements if passed else (),
        log=log,
        fingerprint=fingerprint,
    )
    return Parent(candidate, evaluation)


def request_for(
    task: Task,
    *parents: Parent,
    champion: Parent | None = None,
    lessons: tuple[Lesson, ...] = (),
    tried: Iterable[str] = (),
    seed: int = 0,
) -> Request:
    """A request as an island makes it."""
    elite = None if champion is None else Elite(champion.candidate, champion.evaluation, Score(0.2, 0.19, 0.21))
    return Request(task, DType.FLOAT32, parents, elite, lessons, random.Random(seed), frozenset(tried))
