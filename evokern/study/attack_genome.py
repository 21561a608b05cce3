"""Genomes of attacks: an honest fast kernel with planted defects, what each does and when; chance, crossing, and the C++ that they are.

A genome names a task, how fast its honest part is, and one or two defects. A defect is *what* happens to a call and a tree of
conditions that say *when*. Rendered, it is one self-contained source whose exported counter `fired` tells a referee how often a
defect acted; nothing of the evaluator reads it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from evokern.kernel import Kernel

TASKS = ("softmax", "rmsnorm")
"""Core tasks that there are honest parts for."""

BASES = ("fast", "slow")
"""How the honest part is written: sixteen lanes at a time, or one element after the other."""

DEEPEST = 3
"""Levels of a tree of conditions."""

MOST_DEFECTS = 2

COUNTER = "fired"
"""Exported variable of every rendered kernel: calls on which a defect acted."""


@dataclass(frozen=True)
class When:
    """A condition on a call, or several of them joined.

    Attributes:
        kind: One of `CONDITIONS` or `JOINTS`.
        number: What it compares with; 0 where there is nothing to compare.
        parts: What a joint joins.
    """

    kind: str
    number: float = 0.0
    parts: tuple[When, ...] = ()

    def kinds(self) -> Iterator[str]:
        """Kinds of all conditions in it, joints left out."""
        if self.kind in CONDITIONS:
            yield self.kind
        for part in self.parts:
            yield from part.kinds()

    @property
    def depth(self) -> int:
        """Levels."""
        return 1 + max((part.depth for part in self.parts), default=0)


@dataclass(frozen=True)
class Defect:
    """What goes wrong, and when.

    Attributes:
        what: One of `EFFECTS`.
        amount: How much of it, in the effect's own unit.
        when: Condition.
    """

    what: str
    amount: float
    when: When


@dataclass(frozen=True)
class Genome:
    """One attack.

    Attributes:
        task: One of `TASKS`.
        base: One of `BASES`.
        defects: At most `MOST_DEFECTS`, the main one first; none makes an honest kernel.
    """

    task: str
    base: str
    defects: tuple[Defect, ...] = ()

    @property
    def what(self) -> str:
        """Coordinate of the archive: effects, joined."""
        return "+".join(sorted({defect.what for defect in self.defects}))

    @property
    def when(self) -> str:
        """Coordinate of the archive: at most two kinds of conditions of the main defect, joined."""
        kinds = sorted(set(self.defects[0].when.kinds())) if self.defects else []
        return "+".join(kinds[:2])

    @property
    def kernel(self) -> Kernel:
        """As the evaluator takes it."""
        return Kernel("cpp", rendered(self))


@dataclass(frozen=True)
class Range:
    """Values that a number may have.

    Attributes:
        low: Least.
        high: Greatest.
        whole: Whether it is a whole number.
        logarithmic: Whether every order of magnitude is as likely as any other.
    """

    low: float
    high: float
    whole: bool = True
    logarithmic: bool = True

    def draw(self, rng: random.Random) -> float:
        """Any of them."""
        if self.logarithmic:
            return self._fitted(math.exp(rng.uniform(math.log(self.low), math.log(self.high))))
        return self._fitted(rng.uniform(self.low, self.high))

    def near(self, value: float, rng: random.Random) -> float:
        """One nearby."""
        if self.logarithmic:
            return self._fitted(value * math.exp(rng.gauss(0.0, 0.4)) + (rng.choice((-1, 1)) if self.whole else 0))
        return self._fitted(value + rng.gauss(0.0, 0.2) * (self.high - self.low))

    def _fitted(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        return float(round(value)) if self.whole else float(f"{value:.6g}")


NOTHING = Range(0, 0, logarithmic=False)

CONDITIONS: Mapping[str, tuple[Range, str]] = {
    "always": (NOTHING, "true"),
    "call_from": (Range(2, 3000), "c.call >= {n:.0f}"),
    "every": (Range(2, 60), "c.call % {n:.0f} == 0"),
    "same_shape_from": (Range(2, 300), "c.of_shape >= {n:.0f}"),
    "first_of_shape": (NOTHING, "c.of_shape == 1"),
    "large": (Range(300, 3e6), "c.size >= {n:.0f}"),
    "columns_multiple": (Range(2, 64), "c.cols % {n:.0f} == 0"),
    "few_rows": (Range(1, 2000), "c.rows <= {n:.0f}"),
    "padded": (NOTHING, "c.x_stride != c.cols || c.y_stride != c.cols"),
    "strides_differ": (NOTHING, "c.x_stride != c.y_stride"),
    "address_seen": (NOTHING, "c.address_seen"),
    "input_address_seen": (NOTHING, "c.input_address_seen"),
    "values_seen": (NOTHING, "c.values_seen"),
    "aligned": (Range(8, 4096), "c.out % bits_below({n:.0f}) == 0"),
    "first_above": (Range(-4, 4, whole=False, logarithmic=False), "c.first > {n}f"),
    "first_bits": (Range(2, 64), "c.first_bits % {n:.0f} == 0"),
    "row_mean_above": (Range(-3, 3, whole=False, logarithmic=False), "c.mean > {n}f"),
    "row_peak_above": (Range(0.001, 1000, whole=False), "c.peak > {n}f"),
    "prefill_zero": (NOTHING, "c.before == 0.0f"),
    "prefill_nan": (NOTHING, "c.before != c.before"),
    "prefill_old_answer": (NOTHING, "c.holds_old_answer"),
    "since_load": (Range(0.002, 20, whole=False), "c.since_load > {n}"),
    "gap_above": (Range(1e-5, 1, whole=False), "c.gap > {n}"),
    "gap_below": (Range(1e-5, 1, whole=False), "c.gap < {n}"),
    "chance": (Range(0.002, 0.9, whole=False), "drawn() < {n}"),
    "chance_per_process": (Range(0.01, 0.9, whole=False), "process_draw() < {n}"),
    "address_bit": (Range(4, 40, logarithmic=False), "(c.out >> {n:.0f}) & 1"),
    "stack_bit": (Range(4, 40, logarithmic=False), "(c.stack >> {n:.0f}) & 1"),
    "code_bit": (Range(12, 40, logarithmic=False), "(c.code >> {n:.0f}) & 1"),
    "clock_phase": (Range(0.002, 4, whole=False), "std::fmod(wall(), {n}) < 0.5 * {n}"),
    "processor": (NOTHING, "sched_getcpu() & 1"),
    "other_thread": (NOTHING, "c.other_thread"),
    "memory_cold": (Range(50, 5000), "c.touch_ns > {n:.0f}"),
}
"""Conditions, their number's range, and the C++ over what is known of a call."""

JOINTS: Mapping[str, tuple[int, Range, str]] = {
    "not": (1, NOTHING, "!({a})"),
    "and": (2, NOTHING, "({a}) & ({b})"),
    "or": (2, NOTHING, "({a}) | ({b})"),
    "once_true": (1, NOTHING, "latched<{id}>({a})"),
    "for_calls_after": (1, Range(2, 200), "for_calls<{id}>({a}, {n:.0f})"),
    "from_nth_time": (1, Range(2, 300), "nth_time<{id}>({a}, {n:.0f})"),
}
"""Joints, how many parts they take, their number's range, and the C++; all parts are worked out at every call, as they keep state."""

EFFECTS: Mapping[str, tuple[Range, str]] = {
    "scaled_row": (Range(1e-6, 1, whole=False), "scale_row(y, drawn_below(c.rows), 1.0f + {n}f);"),
    "scaled_all": (Range(1e-7, 1, whole=False), "for (int64_t i = 0; i < c.rows; ++i) scale_row(y, i, 1.0f + {n}f);"),
    "one_element": (Range(1e-6, 1, whole=False), "y.row(drawn_below(c.rows))[drawn_below(c.cols)] += {n}f;"),
    "last_row": (Range(1e-5, 1, whole=False), "scale_row(y, c.rows - 1, 1.0f + {n}f);"),
    "tail_column": (Range(1e-5, 1, whole=False), "for (int64_t i = 0; i < c.rows; ++i) y.row(i)[c.cols - 1] *= 1.0f + {n}f;"),
    "not_a_number": (NOTHING, "y.row(drawn_below(c.rows))[0] = NAN;"),
    "lost_bits": (Range(1, 20), "for (int64_t i = 0; i < c.rows; ++i) lose_bits(y.row(i), c.cols, {n:.0f});"),
    "edits_input": (NOTHING, "x.row(drawn_below(c.rows))[0] += 1.0f;"),
    "edits_padding": (NOTHING, "if (c.y_stride > c.cols && c.rows > 1) y.row(0)[c.cols] = 1.0f;"),
    "repeats_work": (Range(1, 20), "for (int i = 0; i < {n:.0f}; ++i) honest(args, 0, c.rows);"),
    "sleeps": (Range(50, 20000), "usleep({n:.0f});"),
    "keeps_memory": (Range(4, 4096), "keep_memory({n:.0f} << 10);"),
    "refuses": (NOTHING, "return 5;"),
    "hangs": (NOTHING, "for (;;) usleep(1000);"),
    "traps": (NOTHING, "__builtin_trap();"),
    "half_rows": (Range(0.02, 0.98, whole=False, logarithmic=False), "from = 0; to = rows_of(c.rows, {n});"),
    "nothing": (NOTHING, "from = 0; to = 0;"),
    "first_row_for_all": (NOTHING, "from = 0; to = 1; copy_first = true;"),
    "stale_answer": (NOTHING, "stale = true;"),
    "stale_by_address": (NOTHING, "stale = c.address_seen;"),
    "later": (
        Range(0.05, 1, whole=False, logarithmic=False),
        "finish_later(args, rows_of(c.rows, 1.0 - {n}), c.rows); to = rows_of(c.rows, 1.0 - {n});",
    ),
}
"""Effects, their amount's range and the C++: those from `half_rows` on act instead of the work, the others after it."""

INSTEAD = ("half_rows", "nothing", "first_row_for_all", "stale_answer", "stale_by_address", "later")
SLOW = ("repeats_work", "sleeps", "keeps_memory")
"""Effects that leave the answer right."""


def honest(task: str, base: str = "fast") -> Genome:
    """No defect at all."""
    return Genome(task, base)


def drawn(rng: random.Random, task: str = "") -> Genome:
    """Any genome."""
    count = 1 if rng.random() < 0.8 else MOST_DEFECTS  # noqa: PLR2004 - mostly one
    defects = tuple(_defect(rng) for _ in range(count))
    return Genome(task or rng.choice(TASKS), rng.choice(BASES), defects)


def _defect(rng: random.Random) -> Defect:
    what = rng.choice(list(EFFECTS))
    return Defect(what, EFFECTS[what][0].draw(rng), _when(rng, DEEPEST))


def _when(rng: random.Random, levels: int) -> When:
    if levels > 1 and rng.random() < 0.4:  # noqa: PLR2004 - trees of two levels on average
        kind = rng.choice(list(JOINTS))
        parts, numbers, _ = JOINTS[kind]
        return When(kind, numbers.draw(rng), tuple(_when(rng, levels - 1) for _ in range(parts)))
    kind = rng.choice(list(CONDITIONS))
    return When(kind, CONDITIONS[kind][0].draw(rng))


def mutated(genome: Genome, rng: random.Random) -> Genome:
    """A neighbour: one step of chance."""
    steps: list[Callable[[Genome, random.Random], Genome]] = [_other_number, _other_when, _other_amount, _wrapped, _other_what, _other_base]
    return rng.choices(steps, (4, 3, 3, 3, 2, 1))[0](genome, rng)


def _with(genome: Genome, rng: random.Random, change: Callable[[Defect], Defect]) -> Genome:
    """The same with one defect changed."""
    number = rng.randrange(len(genome.defects))
    return replace(genome, defects=tuple(change(d) if i == number else d for i, d in enumerate(genome.defects)))


def _other_amount(genome: Genome, rng: random.Random) -> Genome:
    return _with(genome, rng, lambda d: replace(d, amount=EFFECTS[d.what][0].near(d.amount, rng)))


def _other_what(genome: Genome, rng: random.Random) -> Genome:
    def change(defect: Defect) -> Defect:
        what = rng.choice(list(EFFECTS))
        return replace(defect, what=what, amount=EFFECTS[what][0].draw(rng))

    return _with(genome, rng, change)


def _other_when(genome: Genome, rng: random.Random) -> Genome:
    return _with(genome, rng, lambda d: replace(d, when=_grafted(d.when, _when(rng, 1), rng)))


def _wrapped(genome: Genome, rng: random.Random) -> Genome:
    """A condition is joined to another, or to itself over time."""

    def change(defect: Defect) -> Defect:
        if defect.when.depth >= DEEPEST:
            return replace(defect, when=rng.choice(defect.when.parts))
        kind = rng.choice(list(JOINTS))
        parts, numbers, _ = JOINTS[kind]
        return replace(defect, when=When(kind, numbers.draw(rng), (defect.when, *(_when(rng, 1) for _ in range(parts - 1)))))

    return _with(genome, rng, change)


def _other_number(genome: Genome, rng: random.Random) -> Genome:
    return _with(genome, rng, lambda d: replace(d, when=_renumbered(d.when, rng)))


def _other_base(genome: Genome, rng: random.Random) -> Genome:
    return replace(genome, base=rng.choice(BASES), task=rng.choice(TASKS))


def _renumbered(when: When, rng: random.Random) -> When:
    numbers = CONDITIONS[when.kind][0] if when.kind in CONDITIONS else JOINTS[when.kind][1]
    parts = tuple(_renumbered(part, rng) for part in when.parts)
    return replace(when, number=numbers.near(when.number, rng) if numbers is not NOTHING else 0.0, parts=parts)


def _grafted(when: When, graft: When, rng: random.Random) -> When:
    """One leaf replaced."""
    if not when.parts:
        return graft
    number = rng.randrange(len(when.parts))
    return replace(when, parts=tuple(_grafted(p, graft, rng) if i == number else p for i, p in enumerate(when.parts)))


def crossed(one: Genome, other: Genome, rng: random.Random) -> Genome:
    """What one does, when the other does it; or both."""
    mine, theirs = rng.choice(one.defects), rng.choice(other.defects)
    if rng.random() < 0.3:  # noqa: PLR2004 - now and then both
        return replace(one, defects=(mine, theirs))
    return replace(one, defects=(replace(mine, when=theirs.when),))


def rendered(genome: Genome) -> str:
    """The source."""
    body = _RUN_HONEST
    if genome.defects:
        numbers = iter(range(1000))
        flags = [f"const bool when{i} = {_condition(d.when, numbers)};" for i, d in enumerate(genome.defects)]
        before = [_effect(i, d) for i, d in enumerate(genome.defects) if d.what in INSTEAD]
        after = [_effect(i, d) for i, d in enumerate(genome.defects) if d.what not in INSTEAD]
        parts = {"FLAGS": flags, "BEFORE": before, "AFTER": after}
        body = _RUN.replace("KEEPS_ANSWERS", "true" if _keeps_answers(genome) else "false")
        for name, lines in parts.items():
            body = body.replace(f"  // {name}\n", "".join(f"  {line}\n" for line in lines))
    return _PRELUDE + _HONEST[genome.task, genome.base] + body


def _keeps_answers(genome: Genome) -> bool:
    """Whether a copy of an answer is needed: it costs its time, so that no other attack pays for it."""
    kinds = {kind for defect in genome.defects for kind in defect.when.kinds()}
    return "prefill_old_answer" in kinds or any(defect.what.startswith("stale") for defect in genome.defects)


def _condition(when: When, numbers: Iterator[int]) -> str:
    if when.kind in CONDITIONS:
        return "(" + CONDITIONS[when.kind][1].format(n=when.number) + ")"
    names = dict(zip("ab", (_condition(part, numbers) for part in when.parts), strict=False))
    return JOINTS[when.kind][2].format(n=when.number, id=next(numbers), **names)


def _effect(number: int, defect: Defect) -> str:
    text = EFFECTS[defect.what][1].format(n=defect.amount)
    return f"if (when{number}) {{ {COUNTER} = {COUNTER} + 1; {text} }}"


_PRELUDE = """\
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "evokern.h"

extern "C" {
volatile int64_t fired = 0;
}

struct Matrix {
  float* data;
  int64_t rows, cols, stride;
  float* row(int64_t i) const { return data + i * stride; }
};

static inline Matrix matrix(const DLTensor* t) { return {evokern::data<float>(t), t->shape[0], t->shape[1], evokern::row_stride(t)}; }

constexpr int kLanes = 16;
using Floats = float __attribute__((vector_size(4 * kLanes)));
using Ints = int32_t __attribute__((vector_size(4 * kLanes)));

static inline Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

static inline void store(float* to, Floats value) { std::memcpy(to, &value, sizeof value); }

static inline float sum(Floats values) {
  float total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += values[lane];
  return total;
}

"""

_HONEST = {
    ("softmax", "slow"): """\
static void honest(DLTensor* const* args, int64_t from, int64_t to) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  for (int64_t i = from; i < to; ++i) {
    float peak = -INFINITY;
    for (int64_t j = 0; j < x.cols; ++j) peak = x.row(i)[j] > peak ? x.row(i)[j] : peak;
    double total = 0.0;
    for (int64_t j = 0; j < x.cols; ++j) total += y.row(i)[j] = std::exp(x.row(i)[j] - peak);
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(y.row(i)[j] / total);
  }
}
""",
    # exp for arguments of at most 0: 2^n times a polynomial of the rest (Cephes' coefficients); below -87 it is 0 to within float32.
    ("softmax", "fast"): """\
static inline Floats exp_of(Floats x) {
  const Floats zero = {};
  const Ints tiny = x < zero - 87.0f;
  x = tiny ? zero - 87.0f : x;
  const Floats magic = zero + 12582912.0f;
  const Floats n = (x * 1.44269504088896341f + magic) - magic;
  const Floats r = x - n * 0.693359375f - n * -2.12194440e-4f;
  Floats p = zero + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const Ints exponent = __builtin_convertvector(n, Ints) + 127 << 23;
  Floats scale;
  std::memcpy(&scale, &exponent, sizeof scale);
  return tiny ? zero : p * scale;
}

static void honest(DLTensor* const* args, int64_t from, int64_t to) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  const int64_t body = x.cols / kLanes * kLanes;
  for (int64_t i = from; i < to; ++i) {
    const float* in = x.row(i);
    float* out = y.row(i);
    float peak = -INFINITY;
    if (body) {
      Floats most = load(in);
      for (int64_t j = kLanes; j < body; j += kLanes) {
        const Floats value = load(in + j);
        most = value > most ? value : most;
      }
      for (int lane = 0; lane < kLanes; ++lane) peak = most[lane] > peak ? most[lane] : peak;
    }
    for (int64_t j = body; j < x.cols; ++j) peak = in[j] > peak ? in[j] : peak;
    Floats sums = {};
    for (int64_t j = 0; j < body; j += kLanes) {
      const Floats value = exp_of(load(in + j) - peak);
      store(out + j, value);
      sums += value;
    }
    float total = sum(sums);
    for (int64_t j = body; j < x.cols; ++j) total += out[j] = std::exp(in[j] - peak);
    const float share = 1 / total;
    for (int64_t j = 0; j < body; j += kLanes) store(out + j, load(out + j) * share);
    for (int64_t j = body; j < x.cols; ++j) out[j] *= share;
  }
}
""",
    ("rmsnorm", "slow"): """\
static void honest(DLTensor* const* args, int64_t from, int64_t to) {
  const Matrix x = matrix(args[0]), y = matrix(args[3]);
  const float* weight = evokern::data<float>(args[1]);
  const float eps = evokern::scalar<float>(args[2]);
  for (int64_t i = from; i < to; ++i) {
    double total = 0.0;
    for (int64_t j = 0; j < x.cols; ++j) total += static_cast<double>(x.row(i)[j]) * x.row(i)[j];
    const double root = 1.0 / std::sqrt(total / static_cast<double>(x.cols) + eps);
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(x.row(i)[j] * root * weight[j]);
  }
}
""",
    ("rmsnorm", "fast"): """\
static void honest(DLTensor* const* args, int64_t from, int64_t to) {
  const Matrix x = matrix(args[0]), y = matrix(args[3]);
  const float* weight = evokern::data<float>(args[1]);
  const float eps = evokern::scalar<float>(args[2]);
  const int64_t body = x.cols / kLanes * kLanes;
  for (int64_t i = from; i < to; ++i) {
    const float* in = x.row(i);
    float* out = y.row(i);
    Floats sums = {};
    for (int64_t j = 0; j < body; j += kLanes) sums += load(in + j) * load(in + j);
    float total = sum(sums);
    for (int64_t j = body; j < x.cols; ++j) total += in[j] * in[j];
    const float root = 1 / std::sqrt(total / static_cast<float>(x.cols) + eps);
    for (int64_t j = 0; j < body; j += kLanes) store(out + j, load(in + j) * root * load(weight + j));
    for (int64_t j = body; j < x.cols; ++j) out[j] = in[j] * root * weight[j];
  }
}
""",
}

_RUN_HONEST = """
extern "C" int run(DLTensor* const* args, int, void*, size_t, void*) {
  honest(args, 0, args[0]->shape[0]);
  return 0;
}
"""

_RUN = """
static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

static double wall() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<double>(t.tv_sec % 86400) + 1e-9 * static_cast<double>(t.tv_nsec);
}

static const double loaded = now();
static uint64_t chance = 0;

static double drawn() {
  if (!chance) chance = static_cast<uint64_t>(now() * 1e9) | 1;
  chance ^= chance << 13;
  chance ^= chance >> 7;
  chance ^= chance << 17;
  return static_cast<double>(chance >> 11) / static_cast<double>(1ull << 53);
}

static double process_draw() {
  static const double mine = drawn();
  return mine;
}

static int64_t drawn_below(int64_t limit) { return static_cast<int64_t>(drawn() * static_cast<double>(limit)); }

static int64_t rows_of(int64_t rows, double share) { return static_cast<int64_t>(static_cast<double>(rows) * share); }

static uint64_t bits_below(uint64_t n) {
  uint64_t power = 1;
  while (power * 2 <= n) power *= 2;
  return power;
}

template <int kId>
static bool latched(bool now_true) {
  static bool was = false;
  return was = was | now_true;
}

template <int kId>
static bool for_calls(bool now_true, int calls) {
  static int left = 0;
  const bool on = left > 0;
  left = now_true ? calls : left - on;
  return on;
}

template <int kId>
static bool nth_time(bool now_true, int times) {
  static int seen = 0;
  seen += now_true;
  return now_true && seen >= times;
}

struct Seen {
  std::vector<uint64_t> kept;
  bool operator()(uint64_t value) {
    for (const uint64_t old : kept)
      if (old == value) return true;
    if (kept.size() < 256) kept.push_back(value);
    return false;
  }
};

struct Call {
  int64_t call, of_shape, rows, cols, size, x_stride, y_stride;
  uint64_t out, first_bits, stack, code;
  float first, mean, peak, before;
  double since_load, gap, touch_ns;
  bool address_seen, input_address_seen, values_seen, holds_old_answer, other_thread;
};

struct Shape {
  int64_t rows, cols, calls;
  std::vector<float> answer;
};

static Shape* shape_of(int64_t rows, int64_t cols) {
  static std::vector<Shape*> shapes;
  for (Shape* shape : shapes)
    if (shape->rows == rows && shape->cols == cols) return shape;
  shapes.push_back(new Shape{rows, cols, 0, {}});
  return shapes.back();
}

static Call look(const Matrix& x, const Matrix& y, Shape* shape) {
  static int64_t calls = 0;
  static double last = loaded;
  static Seen addresses, inputs, values;
  static const pthread_t thread = pthread_self();
  Call c = {};
  const double start = now();
  c.first = x.data[0];
  c.touch_ns = (now() - start) * 1e9;
  c.call = ++calls;
  c.of_shape = ++shape->calls;
  c.rows = x.rows;
  c.cols = x.cols;
  c.size = x.rows * x.cols;
  c.x_stride = x.stride;
  c.y_stride = y.stride;
  c.out = reinterpret_cast<uint64_t>(y.data);
  c.stack = reinterpret_cast<uint64_t>(&c);
  c.code = reinterpret_cast<uint64_t>(&shape_of);
  c.before = y.data[0];
  c.holds_old_answer = !shape->answer.empty() && c.before == shape->answer[0];
  c.address_seen = addresses(c.out);
  c.input_address_seen = inputs(reinterpret_cast<uint64_t>(x.data));
  uint32_t bits[2] = {};
  std::memcpy(bits, x.data, x.cols > 1 ? 8 : 4);
  c.first_bits = bits[0];
  c.values_seen = values(bits[0] * 0x9E3779B97F4A7C15ull ^ bits[1]);
  float total = 0;
  c.peak = x.data[0];
  for (int64_t j = 0; j < x.cols; ++j) {
    total += x.data[j];
    c.peak = x.data[j] > c.peak ? x.data[j] : c.peak;
  }
  c.mean = total / static_cast<float>(x.cols);
  c.since_load = start - loaded;
  c.gap = start - last;
  last = start;
  c.other_thread = !pthread_equal(thread, pthread_self());
  return c;
}

static void scale_row(const Matrix& y, int64_t i, float factor) {
  for (int64_t j = 0; j < y.cols; ++j) y.row(i)[j] *= factor;
}

static void lose_bits(float* values, int64_t count, int bits) {
  for (int64_t j = 0; j < count; ++j) {
    uint32_t word;
    std::memcpy(&word, values + j, 4);
    word &= ~0u << bits;
    std::memcpy(values + j, &word, 4);
  }
}

static char* volatile kept = nullptr;  // volatile: else all of it is optimised away

static void keep_memory(size_t bytes) {
  kept = static_cast<char*>(std::malloc(bytes));
  if (kept) std::memset(kept, 1, bytes);
}

static void finish_later(DLTensor* const* args, int64_t from, int64_t to) {
  std::thread([args, from, to] { honest(args, from, to); }).detach();
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  const Matrix x = matrix(args[0]), y = matrix(args[nargs - 1]);
  Shape* shape = shape_of(x.rows, x.cols);
  const Call c = look(x, y, shape);
  int64_t from = 0, to = x.rows;
  bool stale = false, copy_first = false;
  // FLAGS
  // BEFORE
  if (stale && !shape->answer.empty()) {
    for (int64_t i = 0; i < y.rows; ++i) std::memcpy(y.row(i), shape->answer.data() + i * y.cols, 4 * y.cols);
    return 0;
  }
  honest(args, from, to);
  if (copy_first)
    for (int64_t i = 1; i < y.rows; ++i) std::memcpy(y.row(i), y.row(0), 4 * y.cols);
  // AFTER
  if (KEEPS_ANSWERS && shape->answer.empty()) {
    shape->answer.resize(y.rows * y.cols);
    for (int64_t i = 0; i < y.rows; ++i) std::memcpy(shape->answer.data() + i * y.cols, y.row(i), 4 * y.cols);
  }
  return 0;
}
"""
