from __future__ import annotations

from evokern.syntax.cpp import Edit, Unit, walk

SOURCE = """\
#include <cmath>
static inline float half(float v) { return 0.5f * v; }
static float counted(float v) { static int n = 0; n += 1; return v; }
extern "C" int run(const float* x, float* y, long n) {
  const double scale = 2.0;
  auto third = x[0] / 3.0f;
  for (long i = 0; i < n; ++i) {
    const float a = x[i];
    y[i] = a * half(a) + third;
  }
  for (long i = n; i > 0; --i) y[i] += scale * x[i];
  for (long i = 0; i < n; i += 1) y[i] = counted(std::exp(x[i]) + (float)scale);
  return 0;
}
"""


def expression(unit: Unit, text: str):  # type: ignore[no-untyped-def]
    return next(n for n in walk(unit.root) if n.text is not None and n.text.decode() == text and n.type != "expression_statement")


def test_only_loops_that_count_up_by_one_are_canonical() -> None:
    unit = Unit(SOURCE)
    assert unit.is_valid
    assert [(unit.line_of(loop.node), loop.variable, loop.type, loop.start, loop.stop) for loop in unit.loops] == [
        (7, "i", "long", "0", "n"),
        (12, "i", "long", "0", "n"),
    ]


def test_types_are_read_off_the_text_or_not_told() -> None:
    unit = Unit(SOURCE)
    told = {t: unit.type_of(expression(unit, t)) for t in ("x[0] / 3.0f", "a * half(a)", "scale * x[i]", "std::exp(x[i])", "(float)scale")}
    assert told == {
        "x[0] / 3.0f": "float",
        "a * half(a)": "float",
        "scale * x[i]": "double",
        "std::exp(x[i])": "float",
        "(float)scale": "float",
    }
    assert unit.type_of(expression(Unit("float f() { return unknown(1) + 2.0f; }"), "unknown(1) + 2.0f")) == ""


def test_purity() -> None:
    unit = Unit(SOURCE)
    assert unit.pure_functions == {"half"}
    assert unit.is_pure(expression(unit, "a * half(a)"))
    assert not unit.is_pure(expression(unit, "counted(std::exp(x[i]) + (float)scale)"))


def test_invariance() -> None:
    unit = Unit(SOURCE)
    loop = unit.loops[0]
    assert unit.is_invariant(expression(unit, "third"), loop.node)
    assert not unit.is_invariant(expression(unit, "half(a)"), loop.node)
    assert not unit.is_invariant(expression(unit, "x[i]"), loop.node)


def test_edits_apply_together_and_bytes_stay() -> None:
    unit = Unit("int ä = 1;  // ünï\nint b = 2;\n")
    one, two = (n for n in walk(unit.root) if n.type == "number_literal")
    edits = [Edit(two.start_byte, two.end_byte, "22"), Edit(one.start_byte, one.end_byte, "11"), Edit(0, 0, "x;\n"), Edit(0, 0, "y;\n")]
    assert unit.edited(edits) == "x;\ny;\nint ä = 11;  // ünï\nint b = 22;\n"


def test_fresh_names_do_not_clash() -> None:
    unit = Unit("int tile = 0; int tile_2 = 0;")
    assert unit.fresh("tile") == "tile_3"
    assert unit.fresh("lane") == "lane"


def test_a_source_that_does_not_parse_says_so() -> None:
    assert not Unit("int run( {").is_valid
