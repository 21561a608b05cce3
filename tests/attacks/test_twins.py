"""Kernels that are near enough to the right values, but get there from something that they must not look at; and edges of values."""

from __future__ import annotations

import pytest

from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.contestant import CANDIDATE
from evokern.evaluator.rule import check
from evokern.evaluator.session import Session
from evokern.kernel import Kernel
from tests.attacks.planted import HONEST, kernel

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

_WORKSPACE = 'extern "C" size_t workspace_size(DLTensor* const*, int) { return 4096; }'
_ULP = "uint32_t bits; memcpy(&bits, y, 4); bits ^= 1 & static_cast<uint32_t>({}); memcpy(y, &bits, 4);"
_PEAK = """
  for (int64_t i = 0; i < rows; ++i) {{
    const float* x = evokern::data<float>(args[0]) + i * evokern::row_stride(args[0]);
    float* out = y + i * evokern::row_stride(args[1]);
    {}
    double total = 0;
    for (int64_t j = 0; j < cols; ++j) total += out[j] = expf(x[j] - peak);
    for (int64_t j = 0; j < cols; ++j) out[j] /= total;
  }}
"""


def with_workspace(body: str) -> Kernel:
    plain = kernel(body, before=_WORKSPACE)
    signature = ("run(DLTensor* const* args, int, void*, size_t, void*)", "run(DLTensor* const* args, int, void* space, size_t, void*)")
    assert signature[0] in plain.source
    return Kernel("cpp", plain.source.replace(*signature))


HONEST_ONES = {
    "the plain one": HONEST,
    "one that uses its workspace": with_workspace("memset(space, 7, 4096); softmax(args); " + _ULP.format("*(char*)space & 2")),
    "a shift of exponents that is rounded": kernel(
        _PEAK.format(
            "float peak = -INFINITY; for (int64_t j = 0; j < cols; ++j) peak = fmaxf(peak, x[j]); const float shift = -peak * 1.44269504f;"
        ).replace("expf(x[j] - peak)", "exp2f(fmaf(x[j], 1.44269504f, shift))")
    ),
    "a maximum that starts at -inf": kernel(
        _PEAK.format("float peak = -INFINITY; for (int64_t j = 0; j < cols; ++j) peak = fmaxf(peak, x[j]);")
    ),
}

OFFENDERS: dict[str, tuple[Kernel, Verdict, Reason]] = {
    "bits from a workspace that nobody wrote": (
        with_workspace(
            "softmax(args); uint64_t seen = 0; for (int i = 0; i < 4096; ++i) seen = (seen ^ ((unsigned char*)space)[i]) * 1099511628211u;"
            " for (int j = 0; j < 16; ++j) { uint32_t bits; memcpy(&bits, y + j, 4); bits ^= seen >> (40 + j) & 1;"
            " memcpy(y + j, &bits, 4); }"
        ),
        Verdict.FLAKY,
        Reason.NOT_REPEATABLE,
    ),
    "a bit from what the output held": (
        kernel("uint32_t held; memcpy(&held, y, 4); softmax(args); " + _ULP.format("held != 0")),
        Verdict.FLAKY,
        Reason.NOT_REPEATABLE,
    ),
    # Two calls show it in a place with a chance of 0.6 where its own row stayed, which it does in 5 of 9 where half of the rows changed, in
    # 8 of 9 where one did, and in half where one did after those: of 16 pairs of calls and 3 places none does with
    # ((1 - 0.6 * 5/9)^8 (1 - 0.6 * 8/9)^4 (1 - 0.6 * 1/2)^4)^3 = 1e-10.
    "the hidden shift of other rows": (
        kernel(
            "double sum = 0; for (int64_t i = 0; i < rows; ++i) {"
            " const float x = evokern::data<float>(args[0])[i * evokern::row_stride(args[0])]; if (fabsf(x) < 1e6f) sum += x; }"
            " softmax(args);"
            " if (cols == 33) for (int64_t i = 0; i < rows; i += 3) {"
            " float* out = y + i * evokern::row_stride(args[1]); int64_t least = 0;"
            " for (int64_t j = 1; j < cols; ++j) if (out[j] < out[least]) least = j;"
            " const double part = sum * (i + 1) * 1e4; out[least] += 9e-8 * (part - floor(part) - 0.5); }"
        ),
        Verdict.WRONG,
        Reason.LAW,
    ),
    # Of 9 rows it overlooks 5, and of 65 all but 4: that one row alone changed escapes it 8 times and 10 times more with less than 1e-10.
    "the last answer, where four elements are those of the last call": (
        kernel(
            "static float* kept = nullptr; static uint64_t last = 0; uint64_t seen = 77 + rows * 131 + cols;"
            " const int64_t stride = evokern::row_stride(args[1]);"
            " for (int64_t part = 0; part < 4; ++part) { const int64_t at = part * rows * cols / 4; uint32_t bits;"
            " memcpy(&bits, evokern::data<float>(args[0]) + at / cols * evokern::row_stride(args[0]) + at % cols, 4);"
            " seen = (seen ^ bits) * 1099511628211u; }"
            " const bool again = seen == last; last = seen;"
            " if (!again) softmax(args);"
            " kept = static_cast<float*>(realloc(kept, 4 * rows * cols));"
            " for (int64_t i = 0; i < rows; ++i) if (again) memcpy(y + i * stride, kept + i * cols, 4 * cols);"
            " else memcpy(kept + i * cols, y + i * stride, 4 * cols);"
        ),
        Verdict.WRONG,
        Reason.TOLERANCE,
    ),
    "a maximum that starts at 0": (
        kernel(_PEAK.format("float peak = 0; for (int64_t j = 0; j < cols; ++j) peak = fmaxf(peak, x[j]);")),
        Verdict.WRONG,
        Reason.NON_FINITE,
    ),
    "a maximum that starts at -1e3": (
        kernel(_PEAK.format("float peak = -1e3f; for (int64_t j = 0; j < cols; ++j) peak = fmaxf(peak, x[j]);")),
        Verdict.WRONG,
        Reason.NON_FINITE,
    ),
    "a running maximum that meets -inf first": (
        kernel(
            "softmax(args); for (int64_t i = 0; i < rows; ++i) {"
            " const float* x = evokern::data<float>(args[0]) + i * evokern::row_stride(args[0]);"
            " float peak = -INFINITY, kept = 0; for (int64_t j = 0; j < cols; ++j) {"
            " const float next = fmaxf(peak, x[j]); kept = kept * expf(peak - next) + 1; peak = next; }"
            " if (kept != kept) y[i * evokern::row_stride(args[1])] = kept; }"
        ),
        Verdict.WRONG,
        Reason.NON_FINITE,
    ),
    # A call lies within 8 KiB of one end of its window with a chance of 0.31, and a check has 32 placements or more: 7e-6 to miss them all.
    "a look behind its input": (
        kernel(
            "softmax(args); const float* x = evokern::data<float>(args[0]) + (rows - 1) * evokern::row_stride(args[0]);"
            " volatile float sink = 0; for (int64_t j = cols; j < cols + 2048; ++j) sink = sink + x[j];"
        ),
        Verdict.CRASHED,
        Reason.SIGNAL,
    ),
    "a look before its input": (
        kernel("softmax(args); volatile float sink = 0; for (int j = 1; j <= 2048; ++j) sink = sink + evokern::data<float>(args[0])[-j];"),
        Verdict.CRASHED,
        Reason.SIGNAL,
    ),
    "the neighbour of a window": (
        kernel("softmax(args); y[(1 << 20) / 4 + rows * cols] = 1;"),
        Verdict.CRASHED,
        Reason.SIGNAL,
    ),
    "wrong from the fortieth short call on": (
        kernel("static int calls = 0; softmax(args); if (cols < 100 && ++calls > 40) y[0] *= 1.5f;"),
        Verdict.WRONG,
        Reason.TOLERANCE,
    ),
}


def checked(session: Session, one: Kernel) -> float:
    built = session.build(one)
    assert built.ok, built.log
    contestant = session._contestant(CANDIDATE, one, built)
    return check.check(session.task, session.dtype, contestant, session._shelf, session.secret.derive("test", one.id)).error


@pytest.mark.parametrize("name", HONEST_ONES)
def test_an_honest_twin_passes(primes: Session, name: str) -> None:
    assert checked(primes, HONEST_ONES[name]) < 1


@pytest.mark.parametrize("name", OFFENDERS)
def test_a_kernel_that_looks_where_it_should_not_is_refused(primes: Session, name: str) -> None:
    one, verdict, reason = OFFENDERS[name]
    with pytest.raises(Fault) as fault:
        checked(primes, one)
    assert (fault.value.verdict, fault.value.reason) == (verdict, reason), fault.value.detail
