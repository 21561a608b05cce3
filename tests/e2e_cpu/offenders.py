"""Softmax kernels that do something else than softmax, each with the verdicts that it may get.

Every one is the honest kernel with one bad habit, so that what is refused is the habit.
"""

from __future__ import annotations

from dataclasses import dataclass

from evokern.evaluation import Reason, Verdict
from evokern.kernel import Kernel

_HONEST = """#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/types.h>
#include <thread>
#include <unistd.h>
#include <vector>

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

BEFORE
extern "C" int run(DLTensor* const* args, int, void*, size_t, void*) {
  BODY
  return 0;
}
"""


def kernel(body: str, before: str = "") -> Kernel:
    """A softmax kernel whose `run` has this body; `softmax(args)` does the honest work."""
    return Kernel("cpp", _HONEST.replace("BODY", body).replace("BEFORE", before))


HONEST = kernel("softmax(args);")


@dataclass(frozen=True)
class Offender:
    """A kernel and the verdict and reason that it must get."""

    kernel: Kernel
    verdict: Verdict
    reason: Reason


OFFENDERS = {
    "loops for ever": Offender(kernel("for (volatile int i = 0;; ++i) {}"), Verdict.TIMED_OUT, Reason.DEADLINE_RUN),
    "sleeps for ever": Offender(kernel("for (;;) sleep(1000);"), Verdict.TIMED_OUT, Reason.DEADLINE_RUN),
    "segfaults": Offender(kernel("*reinterpret_cast<volatile int*>(8) = 1;"), Verdict.CRASHED, Reason.SIGNAL),
    "aborts": Offender(kernel("std::abort();"), Verdict.CRASHED, Reason.SIGNAL),
    "throws": Offender(kernel("throw 1;"), Verdict.CRASHED, Reason.SIGNAL),
    "exits": Offender(kernel("_exit(0);"), Verdict.CRASHED, Reason.EXIT),
    "exits after the work": Offender(kernel("softmax(args); exit(3);"), Verdict.CRASHED, Reason.EXIT),
    "takes 40 GB": Offender(
        kernel(
            "for (int i = 0; i < 640; ++i) { char* p = static_cast<char*>(std::malloc(64 << 20)); std::memset(p, 1, 64 << 20); }"
            " softmax(args);"
        ),
        Verdict.CRASHED,
        Reason.MEMORY,
    ),
    "leaves a child": Offender(
        kernel("softmax(args); static int n = 0; if (n++ == 0 && fork() == 0) for (;;) sleep(1000);"), Verdict.HACKED, Reason.RESIDUAL_WORK
    ),
    "leaves a grandchild": Offender(
        kernel(
            "softmax(args); static int n = 0; if (n++ == 0 && fork() == 0) { setsid(); if (fork() == 0) for (;;) sleep(1000); _exit(0); }"
        ),
        Verdict.HACKED,
        Reason.RESIDUAL_WORK,
    ),
    "prints 10 MB": Offender(
        kernel("softmax(args); for (int i = 0; i < 10240; ++i) { for (int j = 0; j < 1024; ++j) putchar(65); } fflush(stdout);"),
        Verdict.CRASHED,
        Reason.OUTPUT_FLOOD,
    ),
    "returns NaN": Offender(kernel("softmax(args); evokern::data<float>(args[1])[0] = NAN;"), Verdict.WRONG, Reason.NON_FINITE),
    "refuses": Offender(kernel("return 7;"), Verdict.CRASHED, Reason.REFUSED),
    "writes nothing": Offender(kernel(""), Verdict.WRONG, Reason.SENTINEL_LEFT),
    "writes zeros": Offender(
        kernel(
            "for (int64_t i = 0; i < args[1]->shape[0]; ++i)"
            " std::memset(evokern::data<float>(args[1]) + i * evokern::row_stride(args[1]), 0, 4 * args[1]->shape[1]);"
        ),
        Verdict.WRONG,
        Reason.TOLERANCE,
    ),
    "writes beside its output": Offender(kernel("softmax(args); evokern::data<float>(args[1])[-1] = 0;"), Verdict.WRONG, Reason.CANARY),
    "changes its input": Offender(kernel("softmax(args); evokern::data<float>(args[0])[0] += 1;"), Verdict.WRONG, Reason.INPUT_CHANGED),
    "finishes later": Offender(
        kernel("static std::vector<DLTensor> kept; std::thread([=] { usleep(3000); softmax(args); }).detach();"),
        Verdict.HACKED,
        Reason.EARLY_COMPLETION,
    ),
    "knows visible shapes only": Offender(
        kernel(
            "softmax(args); int64_t cols = args[0]->shape[1];"
            " if (cols != 2048 && cols != 1003 && cols != 1021 && cols != 33) evokern::data<float>(args[1])[0] *= 2;"
        ),
        Verdict.HELD_OUT_FAILED,
        Reason.HELD_OUT,
    ),
    "does not compile": Offender(Kernel("cpp", "int run( {"), Verdict.BUILD_FAILED, Reason.COMPILER),
    "has no entry": Offender(Kernel("cpp", "int other() { return 0; }"), Verdict.BUILD_FAILED, Reason.ENTRY),
    "reads a file while it is built": Offender(Kernel("cpp", '#include "/etc/passwd"\n'), Verdict.BUILD_FAILED, Reason.FORBIDDEN_FILE),
}
