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

// What the output holds now: its last element, and the sum of its last row.
static float last(DLTensor* const* args) {
  const DLTensor* y = args[1];
  return evokern::data<float>(y)[(y->shape[0] - 1) * evokern::row_stride(y) + y->shape[1] - 1];
}

static float row_sum(DLTensor* const* args) {
  const DLTensor* y = args[1];
  float total = 0;
  for (int64_t j = 0; j < y->shape[1]; ++j) total += evokern::data<float>(y)[(y->shape[0] - 1) * evokern::row_stride(y) + j];
  return total;
}

static void spoil(DLTensor* const* args) {
  const DLTensor* y = args[1];
  for (int64_t j = 0; j < y->shape[1]; ++j) evokern::data<float>(y)[(y->shape[0] - 1) * evokern::row_stride(y) + j] *= 1.5f;
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
    """A kernel, and the verdict and reason that it must get; or another pair, where chance decides what shows first."""

    kernel: Kernel
    verdict: Verdict
    reason: Reason
    otherwise: tuple[Verdict, Reason] | None = None

    @property
    def outcomes(self) -> set[tuple[Verdict, Reason]]:
        """Every pair that is right."""
        return {(self.verdict, self.reason), *([self.otherwise] if self.otherwise else [])}


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
        kernel("softmax(args); static int n = 0; if (n++ == 0 && fork() == 0) for (;;) sleep(1000);"), Verdict.CRASHED, Reason.PROCESSES
    ),
    "leaves a grandchild": Offender(
        kernel(
            "softmax(args); static int n = 0; if (n++ == 0 && fork() == 0) { setsid(); if (fork() == 0) for (;;) sleep(1000); _exit(0); }"
        ),
        Verdict.CRASHED,
        Reason.PROCESSES,
    ),
    "prints 10 MB": Offender(
        kernel("softmax(args); for (int i = 0; i < 10240; ++i) { for (int j = 0; j < 1024; ++j) putchar(65); } fflush(stdout);"),
        Verdict.CRASHED,
        Reason.OUTPUT_FLOOD,
    ),
    "returns NaN": Offender(kernel("softmax(args); evokern::data<float>(args[1])[0] = NAN;"), Verdict.WRONG, Reason.NON_FINITE),
    "refuses": Offender(kernel("return 7;"), Verdict.CRASHED, Reason.REFUSED),
    "writes nothing": Offender(kernel(""), Verdict.WRONG, Reason.SENTINEL_LEFT, (Verdict.WRONG, Reason.TOLERANCE)),
    "writes zeros": Offender(
        kernel(
            "for (int64_t i = 0; i < args[1]->shape[0]; ++i)"
            " std::memset(evokern::data<float>(args[1]) + i * evokern::row_stride(args[1]), 0, 4 * args[1]->shape[1]);"
        ),
        Verdict.WRONG,
        Reason.TOLERANCE,
    ),
    # A canary, or where the first call that is so placed is flush with its window an untouchable page.
    "writes before its output": Offender(
        kernel("softmax(args); evokern::data<float>(args[1])[-1] = 0;"), Verdict.WRONG, Reason.CANARY, (Verdict.CRASHED, Reason.SIGNAL)
    ),
    "changes its input": Offender(kernel("softmax(args); evokern::data<float>(args[0])[0] += 1;"), Verdict.CRASHED, Reason.SIGNAL),
    "finishes later": Offender(
        kernel(
            "static DLTensor held[2]; static int64_t sizes[2][4]; static DLTensor* kept[] = {&held[0], &held[1]};"
            " for (int k = 0; k < 2; ++k) {"
            "   held[k] = *args[k]; held[k].shape = sizes[k]; held[k].strides = sizes[k] + 2;"
            "   for (int d = 0; d < 2; ++d) { sizes[k][d] = args[k]->shape[d]; sizes[k][2 + d] = args[k]->strides[d]; }"
            " }"
            " std::thread([] { usleep(3000); softmax(kept); }).detach();"
        ),
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
    "can call out": Offender(
        kernel("if (args[0]->shape[0] < 0) connect(3, nullptr, 0); softmax(args);", "#include <sys/socket.h>"),
        Verdict.SCREENED,
        Reason.FORBIDDEN_SYMBOL,
    ),
    "reads a file while it is built": Offender(Kernel("cpp", '#include "/etc/passwd"\n'), Verdict.BUILD_FAILED, Reason.FORBIDDEN_FILE),
    "is right only where the output held NaN": Offender(
        kernel("const bool judged = last(args) != last(args); softmax(args); if (!judged) spoil(args);"), Verdict.WRONG, Reason.TOLERANCE
    ),
    "is wrong where the output held zeros": Offender(
        kernel("const bool fresh = last(args) == 0; softmax(args); if (fresh) spoil(args);"), Verdict.WRONG, Reason.TOLERANCE
    ),
    "takes a stale answer for its own": Offender(
        kernel("if (std::fabs(row_sum(args) - 1) < 1e-3) return 0; softmax(args);"), Verdict.WRONG, Reason.TOLERANCE
    ),
    "is wrong on page-aligned inputs": Offender(
        kernel("softmax(args); if (reinterpret_cast<uintptr_t>(evokern::data<float>(args[0])) % 4096 == 0) spoil(args);"),
        Verdict.WRONG,
        Reason.TOLERANCE,
    ),
    "is wrong from its twentieth call on": Offender(
        kernel("static int calls = 0; softmax(args); if (++calls > 20) spoil(args);"), Verdict.WRONG, Reason.TOLERANCE
    ),
    "remembers answers by address": Offender(
        kernel(
            "static const float* x = nullptr; static float* y = nullptr; static std::vector<float> kept;"
            "const float* in = evokern::data<float>(args[0]); float* out = evokern::data<float>(args[1]);"
            "const size_t size = args[1]->shape[0] * args[1]->shape[1];"
            "if (in == x && out == y && kept.size() == size) { std::memcpy(out, kept.data(), 4 * size); return 0; }"
            "softmax(args); x = in; y = out; kept.clear();"
            "if (evokern::row_stride(args[1]) == args[1]->shape[1]) kept.assign(out, out + size);"
        ),
        Verdict.WRONG,
        Reason.TOLERANCE,
    ),
    "is wrong on the widest rows that the task allows": Offender(
        kernel("softmax(args); if (args[0]->shape[1] > 19999) spoil(args);"), Verdict.HELD_OUT_FAILED, Reason.HELD_OUT
    ),
}
