from __future__ import annotations

import pytest

from evokern.errors import SourceError
from evokern.syntax.flags import ALLOWED_FLAGS, flags_of, with_flags

FORBIDDEN = (
    "-ffast-math",
    "-Ofast",
    "-funsafe-math-optimizations",
    "-mdaz-ftz",
    "-fopenmp",
    "-lm",
    "-I/",
    "-include",
    "-fplugin=x.so",
    "-DX=1",
)


def test_flags_are_read_in_order_each_once() -> None:
    source = "// flags: -O2 -funroll-loops\nint x;\n  //  flags:-O2, -fno-signed-zeros\n"
    assert flags_of(source) == ("-O2", "-funroll-loops", "-fno-signed-zeros")


def test_no_line_means_no_flags() -> None:
    assert flags_of('int x;  // a flags: b\nconst char* s = "// flags: -Ofast";\n') == ()


@pytest.mark.parametrize("flag", FORBIDDEN)
def test_what_is_not_on_the_white_list_is_refused_by_name_and_line(flag: str) -> None:
    assert flag not in ALLOWED_FLAGS
    with pytest.raises(SourceError, match=r"line 2: compiler flag '.*' is not allowed") as caught:
        flags_of(f"int x;\n// flags: -O2 {flag}\n")
    assert flag in caught.value.what


def test_nothing_allowed_takes_a_path_or_defines_a_name() -> None:
    assert not [f for f in ALLOWED_FLAGS if f.startswith(("-I", "-D", "-l", "-L", "-W", "-x", "-o")) or "/" in f]


def test_flags_can_be_replaced() -> None:
    source = with_flags("// flags: -O2\nint x;\n", ("-O3", "-funroll-loops"))
    assert source == "// flags: -O3 -funroll-loops\nint x;\n"
    assert with_flags(source, ()) == "int x;\n"


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_what_is_no_end_of_a_line_hides_no_code(end: str) -> None:
    source = f"int a; /* {end}// flags: -O2 */ int b;\n"
    assert flags_of(source) == ()
    assert with_flags(source, ()) == source
