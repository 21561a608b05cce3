"""What each motif does to code that is not one of our seeds, and where it keeps off."""

from __future__ import annotations

import pytest

from evokern.operators.rewrites import load_motifs
from evokern.syntax.cpp import Unit

MOTIF = {motif.name: motif for motif in load_motifs()}


def function(body: str, *, before: str = "") -> str:
    return f"""#include <cmath>
{before}
static void work(const float* a, const float* b, float* y, long n, float d, double e) {{
{body}
}}
"""


def rewritten(name: str, source: str) -> str:
    """The first variant, all sites at once, white space folded; empty where the motif does not apply."""
    assert Unit(source).is_valid
    variants = MOTIF[name].variants(source)
    assert variants == MOTIF[name].variants(source)
    return " ".join(variants[0].source.split()) if variants else ""


FIRES = {
    "exp of a float": ("polynomial_exp", "for (long i = 0; i < n; ++i) y[i] = expf(a[i]);", "y[i] = polynomial_exp(a[i]);"),
    "tanh of a float": ("polynomial_tanh", "for (long i = 0; i < n; ++i) y[i] = std::tanh(a[i] * d);", "y[i] = polynomial_tanh(a[i] * d);"),
    "half one plus tanh": (
        "tanh_to_logistic",
        "for (long i = 0; i < n; ++i) y[i] = (std::tanh(a[i]) + 1.0f) * (a[i] + d) * 0.5f;",
        "y[i] = (a[i] + d) / (1.0f + std::exp(-2.0f * (a[i])));",
    ),
    "reciprocal": (
        "reciprocal",
        "for (long i = 0; i < n; ++i) { y[i] = a[i] / d; }",
        "const float inverse_d = static_cast<float>(1.0f / (d)); for (long i = 0; i < n; ++i) { y[i] = a[i] * inverse_d; }",
    ),
    "invariant": (
        "hoist_invariant",
        "for (int i = 0; i < n; i++) { y[i] = a[i] * sqrtf(d + 1.0f); }",
        "const auto row_sqrtf = sqrtf(d + 1.0f); for (int i = 0; i < n; i++) { y[i] = a[i] * row_sqrtf; }",
    ),
    "row pointer": (
        "row_pointer",
        "for (long r = 0; r < 9; ++r) { for (long i = 0; i < n; ++i) y[r * n + i] = a[i + r * n]; }",
        "y_row[i] = a_row_2[i];",
    ),
    "restrict": ("restrict", "const float* p = a + 1; float* q = y + 1; q[0] = p[0];", "const float* __restrict p = a + 1;"),
    "max by if": (
        "branchless_max",
        "float m = a[0]; for (long i = 0; i < n; ++i) { if (m < a[i]) { m = a[i]; } } y[0] = m;",
        "m = a[i] > m ? a[i] : m;",
    ),
    "max by call": (
        "simd_max",
        "float m = a[0]; for (long i = 0; i < n; ++i) { m = fmaxf(std::fabs(a[i]), m); } y[0] = m;",
        "#pragma omp simd reduction(max:m) for (long i = 0; i < n; ++i) { const float other = std::fabs(a[i]);"
        " m = other > m ? other : m; }",
    ),
    "simd": (
        "omp_simd",
        "float s = 0; for (long i = 0; i < n; i += 1) s = s + a[i] * b[i]; y[0] = s;",
        "#pragma omp simd reduction(+:s) for",
    ),
    "narrow": (
        "float_tiles",
        "double s = 0; for (long i = 0; i < n; ++i) { const float v = a[i]; s += (double)v * v; } y[0] = s;",
        "const float v = a[i]; part += v * v;",
    ),
    "lanes": (
        "accumulator_lanes",
        "float m = a[0]; for (long i = 1; i < n; ++i) { m = m < a[i] ? a[i] : m; } y[0] = m;",
        "lanes[lane] = lanes[lane] < a[i] ? a[i] : lanes[lane];",
    ),
    "keep": (
        "keep_values",
        "double s = 0; for (long i = 0; i < n; ++i) { s += std::exp(a[i]); } for (long j = 0; j < n;"
        " ++j) { y[j] = std::exp(a[j]) * d; } y[0] += s;",
        "const float kept = std::exp(a[i]); y[i] = kept; s += kept;",
    ),
    "fuse": (
        "fuse_loops",
        "for (long i = 0; i < n; ++i) y[i] = a[i] + d; for (long k = 0; k < n; ++k) y[k] = y[k] * y[k];",
        "const float kept = a[i] + d; y[i] = kept * kept; }",
    ),
    "online": (
        "online_tiles",
        "float m = -INFINITY; for (long i = 0; i < n; ++i) m = a[i] > m ? a[i] : m;"
        " float s = 0; for (long i = 0; i < n; ++i) s += std::exp(a[i] - m); y[0] = s * m;",
        "s *= std::exp(m - tile_peak); m = tile_peak;",
    ),
    "stream": (
        "streaming_stores",
        "for (long i = 0; i < n; ++i) y[i] = a[i] * d;",
        "stream_line(y + base + lane, staged + lane);",
    ),
    "prefetch": ("prefetch", "for (long i = 0; i < n; ++i) y[i] = a[i] * d;", "__builtin_prefetch(a + strip + ahead + PREFETCH);"),
    "threads": (
        "parallel_rows",
        "for (long r = 0; r < 9; ++r) { float s = 0; for (long i = 0; i < n; ++i) s += a[r * n + i]; y[r] = s; }",
        "#pragma omp parallel for schedule(static) for (long r",
    ),
    "unroll": ("unroll", "for (long i = 0; i < n; ++i) y[i] = a[i];", "#pragma GCC unroll UNROLL for"),
    "flags": ("flags", "for (long i = 0; i < n; ++i) y[i] = a[i];", "// flags: -fno-trapping-math #include"),
}


@pytest.mark.parametrize("case", FIRES)
def test_it_fires_on_code_that_is_no_seed(case: str) -> None:
    name, body, expected = FIRES[case]
    assert expected in rewritten(name, function(body))


KEEPS_OFF = {
    "exp of a double": ("polynomial_exp", "for (long i = 0; i < n; ++i) y[i] = std::exp(e * a[i]);"),
    "division by what changes": ("reciprocal", "for (long i = 0; i < n; ++i) y[i] = a[i] / b[i];"),
    "division by a sum that grows": ("reciprocal", "float s = 1; for (long i = 0; i < n; ++i) { s += a[i]; y[i] = a[i] / s; }"),
    "whole-number division": ("reciprocal", "int k = 3; for (int i = 0; i < n; ++i) y[i / k] = a[i];"),
    "running sums": ("omp_simd", "float s = 0; for (long i = 0; i < n; ++i) { s += a[i]; y[i] = s; }"),
    "a shifted store": ("omp_simd", "for (long i = 1; i < n; ++i) y[i] = y[i - 1] + a[i];"),
    "an early exit": ("omp_simd", "float s = 0; for (long i = 0; i < n; ++i) { if (a[i] < 0) break; s += a[i]; } y[0] = s;"),
    "a call of something unknown": ("omp_simd", "for (long i = 0; i < n; ++i) y[i] = other(a[i]);"),
    "a scatter": ("omp_simd", "for (long i = 0; i < n; ++i) y[(long)a[i]] = b[i];"),
    "a sum of doubles": ("float_tiles", "double s = 0; for (long i = 0; i < n; ++i) s += a[i] * e; y[0] = s;"),
    "a library call in the sum": ("float_tiles", "double s = 0; for (long i = 0; i < n; ++i) s += std::exp(a[i]); y[0] = s;"),
    "a minimum": ("branchless_max", "float m = a[0]; for (long i = 0; i < n; ++i) { if (a[i] < m) m = a[i]; } y[0] = m;"),
    "an output that is read before": (
        "keep_values",
        "double s = y[0]; for (long i = 0; i < n; ++i) { s += std::exp(a[i]) + y[i]; } for (long i = 0; i < n;"
        " ++i) { y[i] = std::exp(a[i]); } y[0] += s;",
    ),
    "a value that changed in between": (
        "keep_values",
        "double s = 0; for (long i = 0; i < n; ++i) { s += std::exp(a[i] - d); } d += 1; for (long i = 0; i < n;"
        " ++i) { y[i] = std::exp(a[i] - d); } y[0] += s;",
    ),
    "loops that need each other's sum": (
        "fuse_loops",
        "float s = 0; for (long i = 0; i < n; ++i) s += a[i]; for (long i = 0; i < n; ++i) y[i] = a[i] * s;",
    ),
    "loops over other ranges": ("fuse_loops", "for (long i = 0; i < n; ++i) y[i] = a[i]; for (long i = 1; i < n; ++i) y[i] = y[i] + b[i];"),
    "a loop that reads a neighbour": (
        "fuse_loops",
        "for (long i = 0; i < n; ++i) y[i] = a[i]; float s = 0; for (long i = 0; i < n; ++i) s += y[n - 1 - i]; y[0] = s;",
    ),
    "a row that is used again": ("streaming_stores", "for (long i = 0; i < n; ++i) y[i] = a[i] * d; y[0] += 1;"),
    "a row that is read": ("streaming_stores", "for (long i = 0; i < n; ++i) y[i] = y[i] * d;"),
    "a row written each time around": (
        "streaming_stores",
        "for (long r = 0; r < 9; ++r) { for (long i = 0; i < n; ++i) y[i] = a[i] * r; }",
    ),
    "pointers into one array": ("restrict", "float* p = y; float* q = y + 1; q[0] = p[0];"),
    "rows that share a variable": (
        "parallel_rows",
        "float s = 0; for (long r = 0; r < 9; ++r) { for (long i = 0; i < n; ++i) s += a[r * n + i]; y[r] = s; }",
    ),
    "a maximum of something else": (
        "exp_down",
        "float m = -INFINITY; for (long i = 0; i < n; ++i) m = b[i] > m ? b[i] : m; for (long i = 0; i < n;"
        " ++i) y[i] = polynomial_exp(a[i] - m);",
    ),
    "a maximum over half of the row": (
        "exp_down",
        "float m = -INFINITY; for (long i = 0; i < n / 2; ++i) m = a[i] > m ? a[i] : m; for (long i = 0; i < n;"
        " ++i) y[i] = polynomial_exp(a[i] - m);",
    ),
    "a maximum that is lowered": (
        "exp_down",
        "float m = -INFINITY; for (long i = 0; i < n; ++i) m = a[i] > m ? a[i] : m; m -= 1; for (long i = 0;"
        " i < n; ++i) y[i] = polynomial_exp(a[i] - m);",
    ),
    "a row that goes further": (
        "scratch_row",
        "for (long r = 0; r < 9; ++r) { float* o = y + r * n; for (long i = 0; i < n + 1; ++i) o[i] = a[i];"
        " for (long i = 0; i < n; ++i) o[i] = o[i] * d; }",
    ),
}


@pytest.mark.parametrize("case", KEEPS_OFF)
def test_it_keeps_off_where_its_precondition_fails(case: str) -> None:
    name, body = KEEPS_OFF[case]
    assert rewritten(name, function(body)) == ""


def test_a_maximum_over_the_same_row_is_seen_through_strips() -> None:
    body = (
        "float m = -INFINITY; for (long s = 0; s < n; s += 64) { const long stop = s + 64 < n ? s + 64 : n;"
        " for (long i = s; i < stop; ++i) m = a[i] > m ? a[i] : m; }"
        " for (long i = 0; i < n; ++i) y[i] = polynomial_exp(a[i] - m);"
    )
    assert "y[i] = polynomial_exp_down(a[i] - m);" in rewritten("exp_down", function(body))


def test_helpers_and_tunables_are_defined_once_and_under_new_names() -> None:
    body = "double s = 0; for (long i = 0; i < n; ++i) s += a[i]; double t = 0; for (long i = 0; i < n; ++i) t += b[i]; y[0] = s * t;"
    once = MOTIF["float_tiles"].variants(function(body))[1].source
    twice = MOTIF["float_tiles"].variants(once)[0].source
    assert [twice.count(text) for text in ("constexpr int TILE =", "constexpr int TILE_2 =")] == [1, 1]
    calls = function("for (long i = 0; i < n; ++i) y[i] = expf(a[i]); for (long i = 0; i < n; ++i) y[i] = y[i] + tanhf(b[i]);")
    text = MOTIF["polynomial_tanh"].variants(MOTIF["polynomial_exp"].variants(calls)[0].source)[0].source
    assert text.count("float polynomial_exp(float x) {") == 1
    assert text.index("float polynomial_exp(float x) {") < text.index("float polynomial_tanh(float x) {") < text.index("static void work")


def test_sources_without_includes_are_rewritten_too() -> None:
    source = "// a note\nfloat expf(float);\nvoid f(float* y, int n) { for (int i = 0; i < n; ++i) y[i] = expf(y[i]); }\n"
    text = MOTIF["polynomial_exp"].variants(source)[0].source
    assert Unit(text).is_valid
    assert text.index("float polynomial_exp(float x) {") < text.index("void f(")


def test_windows_line_ends_and_other_letters_survive() -> None:
    source = function("for (long i = 0; i < n; ++i) y[i] = expf(a[i]);  // größer").replace("\n", "\r\n")
    text = MOTIF["polynomial_exp"].variants(source)[0].source
    assert Unit(text).is_valid
    assert "// größer\r\n" in text


def test_a_flags_line_is_extended_in_place() -> None:
    source = "// flags: -funroll-loops\nint x;\n"
    text = MOTIF["flags"].variants(source)[0].source
    assert text == "// flags: -funroll-loops -fno-trapping-math\nint x;\n"
    assert not MOTIF["flags"].variants("// flags: -Ofast\nint x;\n")


@pytest.mark.parametrize("name", ["accumulator_lanes", "row_pointer", "omp_simd"])
def test_a_loop_in_lanes_is_left_alone(name: str) -> None:
    source = function("float s = 0; for (long i = 0; i < n; ++i) s += a[i]; y[0] = s;")
    assert MOTIF[name].variants(MOTIF["accumulator_lanes"].variants(source)[0].source) == []


def test_a_loop_in_lanes_is_prefetched_by_its_own_strides() -> None:
    source = function("float s = 0; for (long i = 0; i < n; ++i) s += a[i]; y[0] = s;")
    (variant,) = MOTIF["prefetch"].variants(MOTIF["accumulator_lanes"].variants(source)[0].source)
    assert "for (int ahead = 0; ahead < LANES; ahead += 16) __builtin_prefetch(a + base + ahead + PREFETCH);" in variant.source
    assert MOTIF["prefetch"].variants(variant.source) == []
