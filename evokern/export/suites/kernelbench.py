"""KernelBench: problems as PyTorch modules, one file each (Ouyang et al. 2025, arXiv 2502.10517).

A checkout holds `level<L>/<id>_<Name>.py` in a folder `KernelBench` or at its root. A file defines `Model`, `get_inputs()`
and `get_init_inputs()`; its sizes are constants of the module. Sources are parsed here and never run: sizes are changed by
assigning other constants in the syntax tree, and whatever must be run is asked of a function that the caller gives.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evokern.errors import EvokernError, UsageError
from evokern.task import UNREADABLE

_FILE = re.compile(r"(\d+)_(\w+)\.py")
_LEVEL = re.compile(r"level(\d+)")

REQUIRED = ("Model", "get_inputs", "get_init_inputs")

LARGEST = 1 << 63
"""Larger numbers are no sizes."""

FEWEST = 2
"""What a size is halved down to at first; then input sizes down to 1."""

SMALLEST_SHRUNK = 8
"""Smaller constants are kernel sizes, strides and numbers of groups, and stay."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One file.

    Attributes:
        level: Number of its level.
        number: Its number there.
        name: The rest of its file's name.
        source: Its text.
    """

    level: int
    number: int
    name: str
    source: str

    @property
    def id(self) -> str:
        """Level and number, such as `L1/23`."""
        return f"L{self.level}/{self.number}"


@dataclass(frozen=True, slots=True)
class Size:
    """How large a problem is.

    Attributes:
        shapes: Of the tensors that `get_inputs` returns.
        elements: Of the inputs and of everything that is computed on the way.
        parameters: Elements of the parameters.
        flops: Of contractions.
    """

    shapes: tuple[tuple[int, ...], ...]
    elements: int
    parameters: int
    flops: int


@dataclass(frozen=True, slots=True)
class Most:
    """How large a problem may be; as `Size`."""

    elements: int
    parameters: int
    flops: int

    def holds(self, size: Size) -> bool:
        """Whether it is no larger."""
        return size.elements <= self.elements and size.parameters <= self.parameters and size.flops <= self.flops


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A problem with smaller sizes.

    Attributes:
        source: Its text.
        sizes: The constants that were changed.
        size: How large it is now.
    """

    source: str
    sizes: dict[str, int] = field(default_factory=dict)
    size: Size | None = None


Measure = Callable[[str], Size]
"""How large the problem of that text is; raises EvokernError where it does not run."""


def find_problems(path: Path, only: Sequence[str] = ()) -> list[Problem]:
    """The problems of a checkout, by level and number.

    Args:
        path: The checkout, its folder `KernelBench`, a level's folder or one file.
        only: Levels and problems to keep, such as `level1`, `L2` or `L1/23`; empty for all.

    Raises:
        UsageError: There are none, or a file cannot be read.
    """
    files = [path] if path.is_file() else sorted({*path.glob("*.py"), *path.glob("level*/*.py"), *path.glob("KernelBench/level*/*.py")})
    problems = [problem for file in files if (problem := _problem(file)) is not None]
    if not problems:
        raise UsageError(
            "holds no KernelBench problems", where=str(path), mend="Give the folder that holds level1/, with files such as 23_Softmax.py"
        )
    wanted = [text.lower().replace("level", "l") for text in only]
    for given, text in zip(only, wanted, strict=True):
        if not any(_is_named(p, text) for p in problems):
            raise UsageError(f"no problem is called '{given}'", where=str(path), mend="Name a level, as L1, or a problem, as L1/23")
    chosen = [p for p in problems if not wanted or any(_is_named(p, text) for text in wanted)]
    return sorted(chosen, key=lambda p: (p.level, p.number))


def _problem(file: Path) -> Problem | None:
    named, level = _FILE.fullmatch(file.name), _LEVEL.fullmatch(file.parent.name)
    if named is None:
        return None
    try:
        source = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(file)) from error
    return Problem(int(level[1]) if level else 0, int(named[1]), named[2], source)


def _is_named(problem: Problem, text: str) -> bool:
    return text in (f"l{problem.level}", problem.id.lower())


def fault(source: str) -> str:
    """Why a text is no problem, in words; empty where it is one."""
    try:
        tree = ast.parse(source)
        ast.unparse(tree)
        list(_assigned(tree))
    except UNREADABLE as error:
        return f"is not valid Python: {error}"
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    missing = [name for name in REQUIRED if name not in names]
    return f"defines no {', no '.join(missing)}" if missing else ""


def constants(source: str) -> dict[str, int]:
    """Whole numbers that the module assigns from literals alone; elements of tuples as `name[i]`."""
    return {name: value for name, value, _ in _assigned(ast.parse(source))}


def with_constants(source: str, values: Mapping[str, int]) -> str:
    """The source with other values for some of its `constants`; whatever is computed from them follows."""
    tree = ast.parse(source)
    for name, _, replace in _assigned(tree):
        if name in values:
            replace(ast.Constant(values[name]))
    return ast.unparse(ast.fix_missing_locations(tree))


Replace = Callable[[ast.expr], None]


def _assigned(tree: ast.Module) -> Iterator[tuple[str, int, Replace]]:
    """Name, value and a way to replace it, of every literal whole number that the module assigns."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield from _numbers(node.target.id, node.value, _value_setter(node))
        elif isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            if all(isinstance(t, ast.Name) for t in node.targets) and isinstance(target, ast.Name):
                # Of `height = width = 32` the first name stands for all.
                yield from _numbers(target.id, value, _value_setter(node))
            elif (
                len(node.targets) == 1
                and isinstance(target, ast.Tuple)
                and isinstance(value, ast.Tuple)
                and len(target.elts) == len(value.elts)
            ):
                for i, part in enumerate(target.elts):
                    if isinstance(part, ast.Name):
                        yield from _numbers(part.id, value.elts[i], _setter(value.elts, i))


def _numbers(name: str, value: ast.expr, replace: Replace) -> Iterator[tuple[str, int, Replace]]:
    if isinstance(value, ast.Tuple | ast.List):
        for i, element in enumerate(value.elts):
            number = _literal(element)
            if number is not None:
                yield f"{name}[{i}]", number, _setter(value.elts, i)
        return
    number = _literal(value)
    if number is not None:
        yield name, number, replace


def _value_setter(node: ast.Assign | ast.AnnAssign) -> Replace:
    def replace(new: ast.expr) -> None:
        node.value = new

    return replace


def _setter(elements: list[ast.expr], index: int) -> Replace:
    def replace(new: ast.expr) -> None:
        elements[index] = new

    return replace


def _literal(value: ast.expr) -> int | None:
    """A whole number, or one computed from such by + - * //; None for anything else."""
    match value:
        case ast.Constant(value=int(number)) if not isinstance(number, bool) and abs(number) <= LARGEST:
            return number
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() as operator, right):
            one, two = _literal(left), _literal(right)
            if one is None or two is None or (two == 0 and isinstance(operator, ast.FloorDiv)):
                return None
            found = {ast.Add: one + two, ast.Sub: one - two, ast.Mult: one * two, ast.FloorDiv: one // (two or 1)}[type(operator)]
            return found if abs(found) <= LARGEST else None
    return None


def shrunk(source: str, measure: Measure, most: Most) -> Shrunk:
    """The problem with sizes halved until it is small enough.

    Sizes that lead an input's shape shrink first (a batch), then those further behind, then those that decide parameters too,
    then those that decide parameters alone: what a result is summed over stays as long as possible, for that is what makes it
    small or even. Sizes that must be equal shrink together.

    Args:
        source: Text of the problem.
        measure: Says how large a text is.
        most: How large it may be.

    Raises:
        EvokernError: It does not run, or cannot be made small enough.
    """
    start = measure(source)
    state = Shrunk(source, {}, start)
    if most.holds(start):
        return state
    order = _by_position(source, measure, start)
    for floor, groups in ((FEWEST, order), (1, [names for names in order if order[names] < _CONSTRUCTOR])):
        for names in groups:
            state = _halved(source, state, names, measure, most, floor)
            if state.size is not None and most.holds(state.size):
                return state
    raise EvokernError("is too large, and its constants cannot be made small enough")


_CONSTRUCTOR = 50  # added to the place of sizes that decide parameters
_NO_INPUT = 99


def _by_position(source: str, measure: Measure, start: Size) -> dict[tuple[str, ...], int]:
    """Constants that can shrink, with the first dimension of an input that each decides, in that order.

    Those that cannot alone are tried together with all others of their value.
    """
    values = {name: value for name, value in constants(source).items() if value >= SMALLEST_SHRUNK}
    found: dict[tuple[str, ...], int] = {}
    stuck = []
    for name, value in values.items():
        place = _place(source, measure, start, {name: value // 2})
        if place is None:
            stuck.append(value)
        elif place < _NO_INPUT or value >= SMALLEST_SHRUNK * 4:
            found[name,] = place
    for value in dict.fromkeys(stuck):
        names = tuple(name for name in values if values[name] == value)
        place = _place(source, measure, start, dict.fromkeys(names, value // 2)) if len(names) > 1 else None
        if place is not None:
            found[names] = place
    return dict(sorted(found.items(), key=lambda pair: pair[1]))


def _place(source: str, measure: Measure, start: Size, sizes: Mapping[str, int]) -> int | None:
    """Which dimension of an input sizes change first, plus `_CONSTRUCTOR` where they change parameters; None where nothing runs."""
    try:
        size = measure(with_constants(source, sizes))
    except EvokernError:
        return None
    pairs = [(one, two) for one, two in zip(start.shapes, size.shapes, strict=False) if len(one) == len(two) and one != two]
    if not pairs:
        return _NO_INPUT
    first = min(next(i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b) for one, two in pairs)
    return first + _CONSTRUCTOR * (size.parameters != start.parameters)


def _halved(source: str, state: Shrunk, names: tuple[str, ...], measure: Measure, most: Most, floor: int) -> Shrunk:
    value = state.sizes.get(names[0], constants(source)[names[0]])
    while value // 2 >= floor and state.size is not None and not most.holds(state.size):
        value //= 2
        sizes = {**state.sizes, **dict.fromkeys(names, value)}
        text = with_constants(source, sizes)
        try:
            size = measure(text)
        except EvokernError:
            return state
        if (size.elements, size.parameters, size.flops) == (state.size.elements, state.size.parameters, state.size.flops):
            return state
        state = Shrunk(text, sizes, size)
    return state
