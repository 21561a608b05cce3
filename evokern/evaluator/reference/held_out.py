"""Held-out workloads: shapes and layouts that nobody saw, drawn from a key (DESIGN section 5, EVALUATOR section 4).

One epoch's set comes from HMAC-SHA256 of (key, task, epoch) alone, so a resumed run has the same and nobody without the key
can tell any. Each set mixes the kinds of shapes that kernels tuned on round ones fail on (`draw`), and small ones beside them go
through the sizes of every axis, so that no range of sizes is left to chance (`sweep`).
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from evokern.errors import UsageError
from evokern.task import HeldOutSpace, Task, constraints_hold

TILE = 16
"""Rows of this length or less are shorter than the tile of any vectorised kernel."""

FEW_ROWS = 4

LONG_SHARE = 0.5
"""A workload of at least this share of `max_elements` counts as long enough to time."""

SHARE_TOLD = 0.25
"""Share of a set's entropy that the gate may tell before another takes its place."""

FEWEST_BITS = 16
"""A set that were retired sooner would cost more than it hides: drawing one takes as long as some evaluations."""

SWEPT_OTHERS = 256
"""Largest size of an axis beside the one that is swept."""

SWEPT_ELEMENTS = 1 << 16
"""Elements up to which the axes beside the swept one may be drawn at all, so that a gate stays cheap."""

SWEPT_ROWS = 24
"""Fewest rows beside a swept inner axis: among them every edge of values (`edges`) occurs twice."""

_TRIES = 400


@dataclass(frozen=True, slots=True)
class HeldOutWorkload:
    """One secret workload.

    Attributes:
        axes: Value of every axis, sorted by name.
        layout: "contiguous", "offset" or "padded".
        timed_hint: Whether it is meant to be long enough to time; the device decides.
    """

    axes: tuple[tuple[str, int], ...]
    layout: str
    timed_hint: bool

    @property
    def name(self) -> str:
        """Axes as text, such as `cols=4099,rows=1021`; never shown before the set is retired."""
        return ",".join(f"{axis}={value}" for axis, value in self.axes)


def draw(task: Task, key: bytes, epoch: int) -> list[HeldOutWorkload]:
    """The held-out workloads of one epoch.

    A third or more are long. As far as the task's ranges allow, among them are rows longer than any visible one, a prime
    number of columns, odd sizes, rows shorter than a tile, a single row and a single column; every layout occurs. None is a
    visible workload, and all are distinct.

    Args:
        task: Gives ranges, count and layouts.
        key: Secret of the run.
        epoch: Index of the set.

    Raises:
        UsageError: The ranges hold too few workloads that satisfy the constraints.
    """
    context = f"evokern.held_out/1\0{task.digest}\0{epoch}\0".encode()
    taken = {w.axes for w in task.search}
    layouts = task.held_out.layouts
    first = _Chance(key, context + b"layout").below(len(layouts))
    drawn = []
    for index in range(task.held_out.count):
        kind = _KINDS[index % len(_KINDS)]
        axes = _found(task, _Chance(key, context + str(index).encode()), kind, taken)
        taken.add(axes)
        elements = math.prod(value for _, value in axes)
        drawn.append(HeldOutWorkload(axes, layouts[(first + index) % len(layouts)], elements >= LONG_SHARE * task.held_out.max_elements))
    return drawn


def sweep(task: Task, key: bytes, epoch: int) -> list[HeldOutWorkload]:
    """Few elements each, with one axis at a secret size in each of the `strata` in turn.

    A kernel that is wrong on a range of an axis's sizes, whatever the other axes, is met there with certainty where the range has
    no end and begins at half of what the axis reaches or sooner, or at a power of two; and, of the inner axis, where it holds all
    from some size beyond a tile to its double, as when an index loses its sign. Sizes of one axis leave remainders by `TILE` in a
    secret order that leaves none out, so that a kernel which is wrong on one tail is met wherever an axis has so many strata. Each
    of the `corners`, where few rows or a short one are special, is met in every layout.

    Args:
        task: Gives ranges and layouts.
        key: Secret of the run.
        epoch: Index of the set.
    """
    context = f"evokern.held_out.sweep/1\0{task.digest}\0{epoch}\0".encode()
    taken = {w.axes for w in task.search}
    layouts = task.held_out.layouts
    first = _Chance(key, context + b"layout").below(len(layouts))
    chance = _Chance(key, context + b"remainder")
    start, step = chance.below(TILE), 1 + 2 * chance.below(TILE // 2)
    swept = []
    for index, stratum in enumerate(strata(task)):
        axes = _found_within(task, _Chance(key, context + str(index).encode()), stratum, (start + index * step) % TILE, taken)
        if axes is not None:
            taken.add(axes)
            swept.append(HeldOutWorkload(axes, layouts[(first + index) % len(layouts)], timed_hint=False))
    return swept + _cornered(task, key, context, taken)


def _cornered(task: Task, key: bytes, context: bytes, taken: set[tuple[tuple[str, int], ...]]) -> list[HeldOutWorkload]:
    found = []
    for corner in corners(task):
        for layout in task.held_out.layouts:
            chance = _Chance(key, context + f"{corner[0]} {layout}".encode())
            axes = _found_within(task, chance, corner, chance.below(TILE), taken)
            if axes is not None:
                taken.add(axes)
                found.append(HeldOutWorkload(axes, layout, timed_hint=False))
    return found


def corners(task: Task) -> list[tuple[str, int, int]]:
    """Axis, least and largest size where kernels treat few rows, or rows below a tile, in a way of their own."""
    ends = [(axis, low, min(high, TILE if axis == task.axes[-1] else FEW_ROWS)) for axis, low, high in task.held_out.axes]
    return [(axis, low, end) for axis, low, end in ends if low <= end]


def strata(task: Task) -> list[tuple[str, int, int]]:
    """Axis, least and largest size of each part of the ranges that `sweep` draws from.

    Every power of two begins a part of its own; of the inner axis half-way to the next there is another, so that whatever lies
    between a size and its double holds a part whole. Sizes up to a tile, or up to a few rows, are met by the kinds of `draw`.
    """
    found = []
    for axis, low, high in task.held_out.axes:
        others = math.prod(least for name, least, _ in task.held_out.axes if name != axis)
        reach = min(high, task.held_out.max_elements // others)
        power = TILE if axis == task.axes[-1] else FEW_ROWS
        while power < reach:
            ends = [power, power * 3 // 2, 2 * power] if axis == task.axes[-1] else [power, 2 * power]
            found += [(axis, max(begin + 1, low), min(end, reach)) for begin, end in pairwise(ends)]
            power *= 2
    return [(axis, least, most) for axis, least, most in found if least <= most]


def most_workloads(task: Task) -> int:
    """How many held-out workloads an epoch has at most, those of `sweep` included."""
    return task.held_out.count + len(strata(task)) + len(corners(task)) * len(task.held_out.layouts)


def entropy_bits(task: Task) -> float:
    """Bits that somebody must be told to know a set: the shapes of its workloads, as if each were drawn from the ranges alone.

    Those of a sweep, which hide far less each, are not counted, so that a set is retired no later for having one.
    A set mixes kinds that are smaller than the ranges, which a task's author may know; `budget_bits` leaves room for that.
    """
    each = math.log2(len(task.held_out.layouts)) + sum(_free_bits(low, high) for _, low, high in task.held_out.axes)
    room = math.log2(task.held_out.max_elements) + math.log2(len(task.held_out.layouts))
    return task.held_out.count * min(each, room)


def budget_bits(task: Task) -> int:
    """Answers of the gate after which a set is retired: `SHARE_TOLD` of its entropy, and no fewer than `FEWEST_BITS`."""
    return max(FEWEST_BITS, math.floor(SHARE_TOLD * entropy_bits(task)))


def _free_bits(low: int, high: int) -> float:
    return math.log2(high - low + 1)


class _Chance:
    """A stream of numbers from a key: HMAC-SHA256 in counter mode."""

    def __init__(self, key: bytes, context: bytes) -> None:
        self._blocks = self._numbers(key, context)

    @staticmethod
    def _numbers(key: bytes, context: bytes) -> Iterator[int]:
        counter = 0
        while True:
            yield int.from_bytes(hmac.digest(key, context + counter.to_bytes(8, "little"), hashlib.sha256), "little")
            counter += 1

    def below(self, bound: int) -> int:
        """Uniform in [0, bound): 256 bits leave no bias that matters."""
        return next(self._blocks) % bound

    def between(self, low: int, high: int) -> int:
        """Uniform in [low, high]; `low` where the range is empty."""
        return low + self.below(max(high - low, 0) + 1)

    def spread(self, low: int, high: int) -> int:
        """In [low, high] with a uniform logarithm, so that small sizes occur as often as large ones."""
        if high <= low:
            return low
        share = self.below(1 << 53) / (1 << 53)
        return min(high, max(low, round(math.exp(math.log(low) + share * (math.log(high + 1) - math.log(low))))))


Kind = Callable[[Task, _Chance], dict[str, int]]


def _longer_row(task: Task, chance: _Chance) -> dict[str, int]:
    """The inner axis above every visible workload's."""
    inner = task.axes[-1]
    longest = max(dict(w.axes)[inner] for w in task.search)
    low, high = _range(task.held_out, inner)
    return _filled(task, chance, {inner: chance.between(max(low, longest + 1), high)})


def _prime_row(task: Task, chance: _Chance) -> dict[str, int]:
    """A prime inner axis, long."""
    low, high = _long_inner(task)
    return _filled(task, chance, {task.axes[-1]: _prime_at_most(chance.spread(low, high), low)})


def _long_and_odd(task: Task, chance: _Chance) -> dict[str, int]:
    """All axes odd, long."""
    low, high = _long_inner(task)
    axes = _filled(task, chance, {task.axes[-1]: chance.spread(low, high) | 1})
    return {axis: value | 1 if value < _range(task.held_out, axis)[1] else value - 1 + value % 2 for axis, value in axes.items()}


def _below_a_tile(task: Task, chance: _Chance) -> dict[str, int]:
    """The inner axis shorter than a tile."""
    low, high = _range(task.held_out, task.axes[-1])
    return _any(task, chance) | {task.axes[-1]: chance.between(max(low, min(2, high)), min(TILE - 1, high))}


def _few_rows(task: Task, chance: _Chance) -> dict[str, int]:
    """The outer axes at most four, the inner one at the high end of its range."""
    ranges = ((axis, *_range(task.held_out, axis)) for axis in task.axes[:-1])
    return {task.axes[-1]: _range(task.held_out, task.axes[-1])[1]} | {
        axis: chance.between(low, min(FEW_ROWS, high)) for axis, low, high in ranges
    }


def _one_row(task: Task, chance: _Chance) -> dict[str, int]:
    """The outer axes at the low end of their ranges."""
    return _any(task, chance) | {axis: _range(task.held_out, axis)[0] for axis in task.axes[:-1]}


def _one_column(task: Task, chance: _Chance) -> dict[str, int]:
    """The inner axis at the low end of its range, the outer ones at the high end."""
    return {axis: _range(task.held_out, axis)[1] for axis in task.axes[:-1]} | {task.axes[-1]: _range(task.held_out, task.axes[-1])[0]}


def _primes(task: Task, chance: _Chance) -> dict[str, int]:
    """All axes prime."""
    return {axis: _prime_at_most(value, _range(task.held_out, axis)[0]) for axis, value in _any(task, chance).items()}


def _any(task: Task, chance: _Chance) -> dict[str, int]:
    """Anywhere in the ranges."""
    return {axis: chance.spread(*_range(task.held_out, axis)) for axis in task.axes}


_KINDS: tuple[Kind, ...] = (_longer_row, _below_a_tile, _prime_row, _one_row, _long_and_odd, _primes, _one_column, _few_rows, _any)
"""In this order a third or more is long whatever the count, and of three layouts each falls on a long one."""


def _long_inner(task: Task) -> tuple[int, int]:
    """Range of the inner axis in which the others can make the workload long."""
    low, high = _range(task.held_out, task.axes[-1])
    others = math.prod(_range(task.held_out, axis)[1] for axis in task.axes[:-1])
    return min(high, max(low, 2 * TILE, math.ceil(LONG_SHARE * task.held_out.max_elements / others) + 1)), high


def _filled(task: Task, chance: _Chance, fixed: Mapping[str, int]) -> dict[str, int]:
    """The other axes such that the workload is long."""
    axes = dict(fixed)
    for axis in task.axes:
        if axis not in axes:
            low, high = _range(task.held_out, axis)
            room = task.held_out.max_elements / math.prod(axes.values())
            most = math.floor(room)
            axes[axis] = min(high, max(low, chance.between(min(math.ceil(LONG_SHARE * room) + 1, most), most)))
    return axes


def _found(task: Task, chance: _Chance, kind: Kind, taken: set[tuple[tuple[str, int], ...]]) -> tuple[tuple[str, int], ...]:
    # Where a kind does not exist in the task's ranges, any other shape is better than none.
    for attempt in range(_TRIES):
        axes = (kind if attempt < _TRIES // 2 else _any)(task, chance)
        key = tuple(sorted(axes.items()))
        if key not in taken and _allowed(task, axes):
            return key
    raise UsageError("the held-out ranges hold too few workloads that satisfy the constraints", where=str(task.folder / "task.toml"))


def _found_within(
    task: Task, chance: _Chance, stratum: tuple[str, int, int], remainder: int, taken: set[tuple[tuple[str, int], ...]]
) -> tuple[tuple[str, int], ...] | None:
    """A shape with one axis in a stratum, if possible with a remainder by `TILE`, and others short; None where constraints have none.

    They are not so short that a vector or an edge of values is missing, unless nothing longer is allowed.
    """
    swept, least, most = stratum
    for attempt in range(_TRIES):
        wanted = attempt < _TRIES // 2
        axes = {swept: _leaving(chance, least, most, remainder) if wanted else chance.between(least, most)}
        for axis, low, high in task.held_out.axes:
            if axis != swept:
                short, long = _beside(task, axis, SWEPT_ELEMENTS // math.prod(axes.values()))
                axes[axis] = chance.spread(min(max(low, short), high), min(long, high)) if wanted else low
        key = tuple(sorted(axes.items()))
        if key not in taken and _allowed(task, axes):
            return key
    return None


def _beside(task: Task, axis: str, room: int) -> tuple[int, int]:
    """Least and largest size of an axis that is not the swept one, where there is room for so many."""
    short = TILE // 2 + 1 if axis == task.axes[-1] else SWEPT_ROWS
    return short, max(short + TILE // 2, min(room, SWEPT_OTHERS))


def _leaving(chance: _Chance, least: int, most: int, remainder: int) -> int:
    """Uniform among the sizes in [least, most] that leave a remainder by `TILE`; among all where none does."""
    first = least + (remainder - least) % TILE
    return first + TILE * chance.below((most - first) // TILE + 1) if first <= most else chance.between(least, most)


def _allowed(task: Task, axes: Mapping[str, int]) -> bool:
    within = all(low <= axes[axis] <= high for axis, low, high in task.held_out.axes)
    return within and math.prod(axes.values()) <= task.held_out.max_elements and constraints_hold(task.constraints, axes)


def _range(space: HeldOutSpace, axis: str) -> tuple[int, int]:
    return next((low, high) for name, low, high in space.axes if name == axis)


def _prime_at_most(value: int, low: int) -> int:
    """The largest prime in [low, value]; `value` where there is none."""
    return next((n for n in range(value, max(low, 2) - 1, -1) if _is_prime(n)), value)


def _is_prime(n: int) -> bool:
    return n >= 2 and all(n % d for d in range(2, math.isqrt(n) + 1))  # noqa: PLR2004 - the first prime
