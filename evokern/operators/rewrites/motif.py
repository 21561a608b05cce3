"""Motif: one kind of rewrite of a C++ source, matched on its syntax tree.

A motif finds the sites where its precondition holds. A site is a set of edits that is right on its own; a variant of the source
is all sites at once, or one of them. Names, helpers and tunables that a site needs are added here, so that two motifs which need
the same helper share it. Everything is a function of the source alone: the same source gives the same variants in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from evokern.syntax.cpp import Edit, Loop, Unit, text_of, walk

MAX_SITES = 6
"""Sites offered one by one; beyond that only all of them at once."""


@dataclass(frozen=True)
class Site:
    """One place where a motif applies.

    Attributes:
        line: Line of the source, counted from 1.
        edits: Edits that belong together.
        helpers: Names from `HELPERS` that the new text calls.
        tunables: Name, value and allowed values of constants that the new text uses.
        headers: Headers that the new text needs, such as `<stdint.h>`.
        note: A word on which of several forms this is; sites with different notes are never combined.
    """

    line: int
    edits: tuple[Edit, ...]
    helpers: tuple[str, ...] = ()
    tunables: tuple[tuple[str, str, str], ...] = ()
    headers: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Variant:
    """A rewritten source.

    Attributes:
        label: Which motif, where: `polynomial_exp@21,24`.
        source: The whole new text.
    """

    label: str
    source: str


@dataclass(frozen=True)
class Motif:
    """A named kind of rewrite.

    Attributes:
        name: Stable name, used in lineage.
        precondition: When it applies, in one sentence.
        effect: What it changes and why that may be faster.
        find: The sites of a source.
        threads: The least number of threads with which it can pay.
        weight: How often it is drawn beside others, above 0: a prior of how often it pays.
    """

    name: str
    precondition: str
    effect: str
    find: Callable[[Unit], list[Site]] = field(repr=False)
    threads: int = 1
    weight: float = 1.0

    def variants(self, source: str) -> list[Variant]:
        """Every rewritten source, all sites at once first; empty where the motif does not apply.

        Args:
            source: A C++ source; one that the grammar rejects has no variants.
        """
        unit = Unit(source)
        if not unit.is_valid:
            return []
        sites = self.find(unit)
        choices: list[list[Site]] = []
        for note in dict.fromkeys(site.note for site in sites):
            group = [site for site in sites if site.note == note]
            together = _compatible(group)
            singles = [[site] for site in group] if len(group) <= MAX_SITES else []
            choices += ([together] if len(together) > 1 else []) + singles
        found: dict[str, Variant] = {}
        for choice in choices:
            text = _applied(unit, choice)
            if text != source and text not in found and Unit(text).is_valid:
                where = ",".join(str(line) for line in dict.fromkeys(site.line for site in choice))
                note = f"[{choice[0].note}]" if choice[0].note else ""
                found[text] = Variant(f"{self.name}{note}@{where}", text)
        return list(found.values())


@dataclass(frozen=True)
class ChainedMotif(Motif):
    """Two motifs one after the other, where the first seldom pays by itself.

    Attributes:
        then: The motif that is applied to what the first one made.
    """

    then: Motif | None = None

    def variants(self, source: str) -> list[Variant]:
        """Sources that both motifs have changed, and that the second one could not have changed in this way alone."""
        if self.then is None:
            return super().variants(source)
        alone = {variant.label for variant in self.then.variants(source)}
        found: dict[str, Variant] = {}
        for first in super().variants(source):
            second = self.then.variants(first.source)
            fresh = second if len(second) > len(alone) else []
            for variant in fresh[:1]:
                found[variant.source] = Variant(first.label, variant.source)
        return list(found.values())


def _compatible(sites: list[Site]) -> list[Site]:
    """The sites that can be applied together: no two edits overlap."""
    taken: list[tuple[int, int]] = []
    chosen = []
    for site in sites:
        spans = [(e.start, e.stop) for e in site.edits]
        if all(stop <= first or start >= last for start, stop in spans for first, last in taken):
            chosen.append(site)
            taken += spans
    return chosen


def _applied(unit: Unit, sites: list[Site]) -> str:
    edits = [edit for site in sites for edit in site.edits]
    headers = dict.fromkeys(h for site in sites for h in site.headers)
    tunables = dict.fromkeys(t for site in sites for t in site.tunables)
    helpers: dict[str, None] = {}
    for site in sites:
        for helper in site.helpers:
            for name in (*HELPER_NEEDS.get(helper, ()), helper):
                if name not in unit.functions:
                    helpers[name] = None
    text = "".join(f"#include {h}\n" for h in headers if f"#include {h}" not in unit.source)
    text += "".join(f"constexpr int {name} = {value};  // tune: {allowed}\n" for name, value, allowed in tunables)
    text += "".join(f"\n{HELPERS[name]}" for name in helpers)
    place = preamble_end(unit)
    if text and unit.data[:place].endswith(b"}\n"):
        text = f"\n{text}"
    return unit.edited([Edit(place, place, text), *edits] if text else edits)


def preamble_end(unit: Unit) -> int:
    """First byte after the last top-level include, tunable or helper; the place for new definitions."""
    place = 0
    for node in unit.root.children:
        name = text_of(node)
        if node.type == "preproc_include" or (node.type == "comment" and place == 0):
            place = node.end_byte
        elif node.type == "function_definition" and any(f" {helper}(" in name.split("{", 1)[0] for helper in HELPERS):
            place = node.end_byte
        elif node.type in ("function_definition", "linkage_specification"):
            break
        elif node.type == "declaration" and name.startswith("constexpr int"):
            place = node.end_byte
        elif node.type.startswith("preproc"):
            place = node.end_byte
    newline = unit.data.find(b"\n", max(place - 1, 0))
    return 0 if place == 0 else len(unit.data) if newline < 0 else newline + 1


def block(indent: str, text: str) -> str:
    """The text's lines, each after the indent; the first one bare, because it replaces something already indented.

    A pragma is indented like the line that it is about.
    """
    lines = text.strip("\n").split("\n")
    for number in range(len(lines) - 2, -1, -1):
        if lines[number].startswith("#pragma"):
            following = lines[number + 1]
            lines[number] = following[: len(following) - len(following.lstrip())] + lines[number]
    return "\n".join([lines[0].lstrip(), *(indent + line if line else line for line in lines[1:])])


def body_lines(unit: Unit, loop: Loop, edits: list[Edit] | None = None, *, depth: str = "  ") -> str:
    """Statements of a loop's body after edits, one to a line, each after `depth`."""
    edits = edits or []
    lines = []
    for statement in loop.statements:
        inside = [e for e in edits if statement.start_byte <= e.start and e.stop <= statement.end_byte]
        text = unit.text_with(statement, inside)
        old = unit.indent_of(statement.start_byte)
        rest = [line.removeprefix(old) for line in text.rstrip("\n").split("\n")]
        lines += [depth + line for line in rest]
    return "\n".join(lines)


def renamed(node_edits: list[Edit], loop: Loop, old: str, new: str) -> list[Edit]:
    """The edits, with every identifier `old` in the loop's body replaced by `new`."""
    return node_edits + [Edit(n.start_byte, n.end_byte, new) for n in walk(loop.body) if n.type == "identifier" and text_of(n) == old]


HELPERS: dict[str, str] = {
    "polynomial_exp": """\
// exp(x) without branches: x = n ln 2 + r, a polynomial in r, n added to the exponent bits. At most 0.65 units in the last
// place off. Results below 2^-126 become 0; infinities and NaN go through.
static inline __attribute__((always_inline)) float polynomial_exp(float x) {
  const float n = __builtin_rintf(x * 1.44269504f);
  const float r = __builtin_fmaf(n, -1.42860677e-6f, __builtin_fmaf(n, -0.693145752f, x));
  float p = __builtin_fmaf(0.0013814599f, r, 0.008368717f);
  p = __builtin_fmaf(p, r, 0.04166839f);
  p = __builtin_fmaf(p, r, 0.16666521f);
  p = __builtin_fmaf(p, r, 0.49999994f);
  p = __builtin_fmaf(p, r, 1.0f);
  p = __builtin_fmaf(p, r, 1.0f);
  const float beyond = x + __builtin_inff();
  __INT32_TYPE__ bits, beyond_bits;
  __builtin_memcpy(&bits, &p, sizeof bits);
  __builtin_memcpy(&beyond_bits, &beyond, sizeof beyond_bits);
  bits += static_cast<__INT32_TYPE__>(static_cast<__UINT32_TYPE__>(static_cast<__INT32_TYPE__>(n)) << 23);
  const __INT32_TYPE__ finite = -static_cast<__INT32_TYPE__>(x < 88.7228394f);
  bits = (bits & finite) | (beyond_bits & ~finite);
  bits &= static_cast<__INT32_TYPE__>(x < -87.3365402f) - 1;
  float y;
  __builtin_memcpy(&y, &bits, sizeof y);
  return y;
}
""",
    "polynomial_exp_down": """\
// exp(x) for x <= 0 (or NaN) without branches: x = n ln 2 + r, a polynomial in r, n added to the exponent bits. At most 0.65
// units in the last place off. Results below 2^-126 become 0.
static inline __attribute__((always_inline)) float polynomial_exp_down(float x) {
  const float n = __builtin_rintf(x * 1.44269504f);
  const float r = __builtin_fmaf(n, -1.42860677e-6f, __builtin_fmaf(n, -0.693145752f, x));
  float p = __builtin_fmaf(0.0013814599f, r, 0.008368717f);
  p = __builtin_fmaf(p, r, 0.04166839f);
  p = __builtin_fmaf(p, r, 0.16666521f);
  p = __builtin_fmaf(p, r, 0.49999994f);
  p = __builtin_fmaf(p, r, 1.0f);
  p = __builtin_fmaf(p, r, 1.0f);
  __INT32_TYPE__ bits;
  __builtin_memcpy(&bits, &p, sizeof bits);
  bits += static_cast<__INT32_TYPE__>(static_cast<__UINT32_TYPE__>(static_cast<__INT32_TYPE__>(n)) << 23);
  bits &= static_cast<__INT32_TYPE__>(x < -87.3365402f) - 1;
  float y;
  __builtin_memcpy(&y, &bits, sizeof y);
  return y;
}
""",
    "polynomial_tanh": """\
// tanh(x) without branches: an odd polynomial below 0.625 (Cephes, tanhf), else 1 - 2 / (exp(2 |x|) + 1) with the sign of x.
static inline __attribute__((always_inline)) float polynomial_tanh(float x) {
  const float z = x * x;
  float p = __builtin_fmaf(-5.70498872745e-3f, z, 2.06390887954e-2f);
  p = __builtin_fmaf(p, z, -5.37397155531e-2f);
  p = __builtin_fmaf(p, z, 1.33314422036e-1f);
  p = __builtin_fmaf(p, z, -3.33332819422e-1f);
  const float size = __builtin_fabsf(x);
  const float small = __builtin_fmaf(p * z, size, size);
  const float large = 1.0f - 2.0f / (polynomial_exp(2.0f * size) + 1.0f);
  __INT32_TYPE__ small_bits, large_bits;
  __builtin_memcpy(&small_bits, &small, sizeof small_bits);
  __builtin_memcpy(&large_bits, &large, sizeof large_bits);
  const __INT32_TYPE__ near = -static_cast<__INT32_TYPE__>(size < 0.625f);
  const __INT32_TYPE__ bits = (small_bits & near) | (large_bits & ~near);
  float y;
  __builtin_memcpy(&y, &bits, sizeof y);
  return __builtin_copysignf(y, x);
}
""",
    "stream_line": """\
#if defined(__AVX__)
#include <immintrin.h>
#endif

// Writes 16 floats from a to b, both on 64-byte boundaries, past the caches where the processor can.
static inline __attribute__((always_inline)) void stream_line(float* b, const float* a) {
#if defined(__AVX512F__)
  _mm512_stream_ps(b, _mm512_load_ps(a));
#elif defined(__AVX__)
  _mm256_stream_ps(b, _mm256_load_ps(a));
  _mm256_stream_ps(b + 8, _mm256_load_ps(a + 8));
#else
  __builtin_memcpy(b, a, 64);
#endif
}
""",
    "stream_fence": """\
// Streamed writes become visible before anything that is written later.
static inline __attribute__((always_inline)) void stream_fence() {
#if defined(__AVX__)
  _mm_sfence();
#endif
}
""",
}
"""Functions that rewritten sources call; they use compiler built-ins only, so no header has to be there."""

HELPER_NEEDS: dict[str, tuple[str, ...]] = {"polynomial_tanh": ("polynomial_exp",), "stream_fence": ("stream_line",)}
"""Helpers that a helper calls."""
