from __future__ import annotations

import pytest

from evokern.syntax import normal_form
from evokern.syntax.normal import tokens

SAME = [
    ("int a = 1;\n", "int  a=1 ; // note\n"),
    ("int a = 1;\n", "/* long\nnote */ int a\n= 1;\n"),
    ("#define A(x) x\nint a;\n", "#define  A(x)   x // note\nint a;\n"),
    ("a = b - -c;", "a = b -  -c;"),
    ('s = "x // y";', 's =  "x // y"; // z'),
]
DIFFERENT = [
    ("int a = 1;", "int a = 2;"),
    ("int a = 1;", "int b = 1;"),
    ("float a = 1.0f;", "float a = 1.0;"),
    ("a = b - -c;", "a = b --c;"),
    ("a = b + +c;", "a = b ++c;"),
    ("int ab;", "int a b;"),
    ("#define A(x) x\n", "#define A (x) x\n"),
    ("#define A 1\nint a;\n", "#define A 1 int a;\n"),
    ("#pragma omp simd\nfor (;;) {}\n", "for (;;) {}\n"),
    ("// flags: -O2\nint a;\n", "int a;\n"),
    ("#define T 1  // tune: 1 2\n", "#define T 1  // tune: 1 4\n"),
    ('s = "a  b";', 's = "a b";'),
    ("c = '\"'; d = 1; // \"", "c = '\"'; d = 2; // \""),
    ('s = R"(// x)";', 's = R"(// y)";'),
    ('s = R"k(a)" /* )k";', 's = R"k(a)" /*  )k";'),
    ("int a; // note \\\nint b;\n", "int a; // note\nint b;\n"),
    ("ab\\\ncd;", "ab cd;"),
    ("x = 1'000;", "x = 1000;"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_comments_and_white_space_do_not_count(one: str, other: str) -> None:
    assert normal_form(one, "cpp") == normal_form(other, "cpp")


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_every_token_counts(one: str, other: str) -> None:
    assert normal_form(one, "cpp") != normal_form(other, "cpp")


def test_python_keeps_its_blocks() -> None:
    one = "if a:\n    b()\nc()\n"
    assert normal_form(one, "triton") == normal_form("if a:  # note\n  b()\n\nc()\n", "triton")
    assert normal_form(one, "triton") != normal_form("if a:\n    b()\n    c()\n", "triton")
    assert normal_form("B = 1  # tune: 1 2\n", "triton") != normal_form("B = 1  # tune: 1 4\n", "triton")
    assert normal_form("s = 'a  b'\n", "triton") != normal_form("s = 'a b'\n", "triton")


def test_what_is_no_python_has_a_form_of_its_own() -> None:
    assert normal_form("def f(:\n  '''\n", "triton") != normal_form("def f(:\n   '''\n", "triton")


def test_dialects_do_not_meet() -> None:
    assert normal_form("int a;", "cpp") != normal_form("int a;", "cuda")


@pytest.mark.parametrize("part", ["/*", 'R"(', 'R"a(', '"\\', "'\\", "//\\\n", "u8", '"', "R", "\\ ", "#"])
def test_nothing_makes_reading_slow(part: str) -> None:
    # The test's own time limit is the judge: reading that looks again and again for an end took more than an hour.
    assert len(normal_form(part * 100_000, "cpp")) == 64


def test_what_is_never_closed_is_read_as_its_signs() -> None:
    assert tokens('a "b\nc', "cpp") == ["a", '"', "b", "c"]
    assert tokens('a "\\" b', "cpp") == ["a", '"', "\\", '"', "b"]
    assert tokens('R"(x', "cpp") == ["R", '"', "(", "x"]
    assert tokens('R"k(a)" )k" /* b', "cpp") == ['R"k(a)" )k"', "/", "*", "b"]
    assert tokens("u8\"a\" L'b' 1'0", "cpp") == ['u8"a"', "L'b'", "1'0"]
