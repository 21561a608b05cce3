from __future__ import annotations

import pytest

from evokern.errors import SourceError
from evokern.syntax import tunables_of, with_values

CPP = """\
#define TILE 64  // tune: 32 64 128
constexpr int LANES = 4;  // tune: 1, 2, 4
static const float SCALE = 0.5;// tune: 0.5 1.0
int other = 4;  // no tuning here: 1 2
"""
PYTHON = "BLOCK = 1024  # tune: 256 512 1024\nWARPS: int = 4  # tune: 4 8\ntext = '''\nX = 1\n'''\n"


def test_both_c_spellings_are_found_in_order() -> None:
    found = tunables_of(CPP, "cpp")
    assert [(t.name, t.value, t.allowed) for t in found] == [
        ("TILE", "64", ("32", "64", "128")),
        ("LANES", "4", ("1", "2", "4")),
        ("SCALE", "0.5", ("0.5", "1.0")),
    ]
    assert all(CPP[t.start : t.stop] == t.value for t in found)


def test_python_spelling() -> None:
    assert [(t.name, t.value) for t in tunables_of(PYTHON, "triton")] == [("BLOCK", "1024"), ("WARPS", "4")]


def test_setting_values_changes_the_values_alone() -> None:
    changed = with_values(CPP, "cpp", {"LANES": "2", "TILE": "128"})
    assert changed == CPP.replace("TILE 64 ", "TILE 128 ").replace("LANES = 4;", "LANES = 2;")
    assert with_values(changed, "cpp", {"LANES": "4", "TILE": "64"}) == CPP
    assert with_values(PYTHON, "triton", {"BLOCK": "256"}).startswith("BLOCK = 256  # tune: 256 512 1024\n")


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("#define A 3  // tune: 1 2\n", "A is 3"),
        ("int x;\nconstexpr int A = 1;  // tune:\n", "line 2: 'tune:' of A must list numbers"),
        ("#define A 1  // tune: 1 x; system(0)\n", "must list numbers"),
        ("#define A 1  // tune: 1 2\nconstexpr int A = 1;  // tune: 1 2\n", "tuned twice"),
    ],
)
def test_malformed_lists_are_refused_with_their_place(source: str, fault: str) -> None:
    with pytest.raises(SourceError) as caught:
        tunables_of(source, "cpp")
    assert fault in caught.value.line


def test_unknown_names_and_values_are_refused() -> None:
    with pytest.raises(SourceError, match="no tunable WIDTH"):
        with_values(CPP, "cpp", {"WIDTH": "1"})
    with pytest.raises(SourceError, match="LANES may not be 3"):
        with_values(CPP, "cpp", {"LANES": "3"})
