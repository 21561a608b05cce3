"""A softmax task whose held-out sizes nobody meets elsewhere, and kernels for it that do something else on them.

All kernels are one source that is told by a number what to do: what they are made of says nothing about them.
"""

from __future__ import annotations

import re
from pathlib import Path

from evokern.kernel import Kernel
from evokern.study.small import shrunk
from evokern.task import load_task

CORE = Path(__file__).parents[2] / "benchmarks" / "tasks" / "core"

COLUMNS = (15991, 15993)
"""The only lengths of held-out rows: one is prime, neither is met by chance."""

VISIBLE = (2048, 1003, 1021, 33)
"""Lengths of visible rows."""

_HELD_OUT = """[held_out]
axes = { rows = [5, 8], cols = [15990, 15994] }
count = 4
max_elements = 130000
"""

_SOURCE = """#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "evokern.h"

static volatile int how = HOW;

static void softmax(DLTensor* const* args) {
  const int64_t rows = args[0]->shape[0], cols = args[0]->shape[1];
  for (int64_t i = 0; i < rows; ++i) {
    const float* x = evokern::data<float>(args[0]) + i * evokern::row_stride(args[0]);
    float* y = evokern::data<float>(args[1]) + i * evokern::row_stride(args[1]);
    float peak = x[0];
    for (int64_t j = 1; j < cols; ++j) peak = x[j] > peak ? x[j] : peak;
    double total = 0;
    for (int64_t j = 0; j < cols; ++j) total += y[j] = expf(x[j] - peak);
    const float scale = static_cast<float>(1 / total);
    for (int64_t j = 0; j < cols; ++j) y[j] *= scale;
  }
}

BEFORE
extern "C" int run(DLTensor* const* args, int, void*, size_t, void*) {
  const int64_t rows = args[0]->shape[0], cols = args[0]->shape[1];
  const bool visible = cols == 2048 || cols == 1003 || cols == 1021 || cols == 33;
  const bool padded = evokern::row_stride(args[0]) != cols || evokern::row_stride(args[1]) != cols;
  float* y = evokern::data<float>(args[1]);
  (void)visible, (void)padded, (void)rows;
  BODY
  return 0;
}
"""


def kernel(body: str, how: int = 0, before: str = "") -> Kernel:
    """A softmax kernel whose `run` has this body; `softmax(args)` does the honest work."""
    return Kernel("cpp", _SOURCE.replace("BODY", body).replace("HOW", str(how)).replace("BEFORE", before))


HONEST = kernel("softmax(args);")


def odd_sizes(folder: Path) -> Path:
    """The task's folder below `folder`, which becomes its suite."""
    task = shrunk(load_task(CORE / "softmax"), folder)
    text = (task / "task.toml").read_text()
    text = re.sub(r"^\[held_out\]\n(?:^[^\[\n].*\n|^\n)*", "", text, flags=re.MULTILINE)
    text = text.replace("axes = [", 'constraints = ["cols // 8000 * (cols - 1) % 2 == 0"]\naxes = [', 1)
    (task / "task.toml").write_text(text + "\n" + _HELD_OUT)
    return task
