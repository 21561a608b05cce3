from __future__ import annotations

from evokern.syntax.likeness import RUN, contained, fingerprint

SUM = "float sum(const float* x, long n) { float s = 0; for (long i = 0; i < n; ++i) s += x[i]; return s; }"
RENAMED = (
    "float total(const float* values, long count) { float t = 0; for (long k = 0; k < count; ++k) t += values[k]; /* mine */ return t; }"
)
OTHER = "void copy(const float* x, float* y, long n) { long i = 0; while (i < n) { y[i] = x[i]; i += 1; } if (n) y[0] = -y[0]; }"


def test_names_numbers_and_comments_make_no_difference() -> None:
    assert fingerprint(SUM, "cpp") == fingerprint(RENAMED, "cpp") == fingerprint(SUM.replace("0", "1.5f"), "cpp")


def test_another_program_shares_little_and_a_part_is_found_in_the_whole() -> None:
    assert contained(fingerprint(OTHER, "cpp"), fingerprint(SUM, "cpp")) < 0.3
    assert contained(fingerprint(SUM, "cpp"), fingerprint(OTHER + SUM, "cpp")) == 1.0
    assert contained(fingerprint(OTHER + SUM, "cpp"), fingerprint(SUM, "cpp")) < 0.9


def test_python_is_read_as_python() -> None:
    source = "def run(x, y):\n    for i in range(len(x)):\n        y[i] = x[i] * 2\n"
    assert fingerprint(source, "triton") == fingerprint(source.replace("x", "left").replace("y", "right"), "triton")
    assert fingerprint(source, "triton")


def test_what_is_too_short_or_no_program_has_no_fingerprint() -> None:
    assert fingerprint("int x;", "cpp") == frozenset()
    assert fingerprint("def f(:\n  '''", "triton") == frozenset()
    assert contained(frozenset(), fingerprint(SUM, "cpp")) == 0.0
    assert len(fingerprint(" ".join("+" * RUN), "cpp")) <= 1
