"""Arrows point downwards only: DESIGN's rows, read from the sources with `ast`, imports inside functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

NOUNS = ("printable", "errors", "record", "task", "kernel", "evaluation", "lesson", "event")
"""The chain: each may import those before it."""

ROWS = (
    ("syntax", "statistics", "sandbox", "plugins", "building"),
    ("backend", "model"),
    ("program",),
    ("archive", "knowledge", "operators", "evaluator", "store", "export"),
    ("island", "migration", "executor"),
    ("engine",),
    ("study",),
    ("report", "config"),
    ("serve", "rl"),
    ("cli", "testing"),
)
"""Each row may import the nouns and every row before it, never a neighbour."""

HEIGHT = {name: (0, position) for position, name in enumerate(NOUNS)}
HEIGHT |= {name: (row, 0) for row, names in enumerate(ROWS, start=1) for name in names}

FOR_BACKENDS = {*NOUNS, "backend", "building", "syntax", "statistics"}
FROM_THE_PACKAGE = {"__version__"}
NOUN_PACKAGES = {"numpy"}


def modules() -> list[Path]:
    return sorted(path for folder in ("evokern", "backends") for path in (ROOT / folder).rglob("*.py"))


def imported(source: str, package: str) -> Iterator[str]:
    """Dotted names a source imports; `package` is its own, for relative imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base]).rstrip(".")
            yield from (f"{base}.{alias.name}" for alias in node.names) if base == "evokern" else (base,)


def complaints(file: str, source: str) -> list[str]:
    """What is wrong with the imports of one file, given its path below the root."""
    parts = Path(file).with_suffix("").parts
    if parts[0] == "backends":
        return [f"{file}: a backend imports {name}" for name in imported(source, ".".join(parts[1:-1])) if not _for_backend(name, parts[1])]
    unit = parts[1]
    found = []
    for name in imported(source, ".".join(parts[:-1])):
        if name.split(".")[0].startswith("evokern_"):
            found.append(f"{file}: imports the backend {name} by name")
        elif unit == "__init__" or not name.startswith("evokern.") or _unit(name) in (unit, *FROM_THE_PACKAGE):
            continue
        elif unit not in HEIGHT or _unit(name) not in HEIGHT:
            found.append(f"{file}: {unit} or {_unit(name)} has no row")
        elif HEIGHT[_unit(name)] >= HEIGHT[unit] or (HEIGHT[_unit(name)][0] == HEIGHT[unit][0] != 0):
            found.append(f"{file}: {unit} imports {name}, which is not below it")
    return found


def _for_backend(name: str, own: str) -> bool:
    if name.split(".", maxsplit=1)[0].startswith("evokern_"):
        return name.split(".", maxsplit=1)[0] in (own, "evokern_gpu")
    return not name.startswith("evokern.") or _unit(name) in FOR_BACKENDS


def _unit(name: str) -> str:
    return ([*name.split("."), ""])[1]


def test_imports_point_downwards_only() -> None:
    found = [line for path in modules() for line in complaints(str(path.relative_to(ROOT)), path.read_text())]
    assert not found, "\n".join(found)


def test_nouns_need_the_standard_library_and_numpy_alone() -> None:
    import sys

    allowed = sys.stdlib_module_names | NOUN_PACKAGES | {"evokern"}
    foreign = [
        f"{noun}: {name}"
        for noun in NOUNS
        for name in imported((ROOT / "evokern" / f"{noun}.py").read_text(), "evokern")
        if name.split(".")[0] not in allowed
    ]
    assert not foreign


def test_every_package_has_its_row() -> None:
    folder = ROOT / "evokern"
    units = {path.stem for path in folder.glob("*.py")} | {path.name for path in folder.iterdir() if any(path.glob("*.py"))}
    assert units - set(HEIGHT) == {"__init__"}


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("evokern/archive/grid.py", "from evokern.operators import retune"),
        ("evokern/archive/grid.py", "def f():\n    import evokern.engine"),
        ("evokern/kernel.py", "from evokern.evaluation import Evaluation"),
        ("evokern/kernel.py", "from evokern import evaluation"),
        ("evokern/engine.py", "from evokern import config"),
        ("evokern/report/tables.py", "from ..config import Config"),
        ("evokern/evaluator/ladder.py", "import evokern_cpu.backend"),
        ("evokern/evaluator/ladder.py", "from evokern_cpu import backend"),
        ("evokern/misc.py", "from evokern.task import Task"),
        ("backends/evokern_cpu/backend.py", "from evokern.sandbox import Spawner"),
        ("backends/evokern_cuda/backend.py", "import evokern_cpu"),
    ],
)
def test_an_arrow_that_points_up_or_sideways_is_found(file: str, source: str) -> None:
    assert complaints(file, source)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("evokern/archive/grid.py", "from evokern.evaluation import Elite\nfrom evokern.statistics.score import score\nimport math"),
        ("evokern/archive/grid.py", "from . import cell\nfrom evokern.archive.cell import Cell"),
        ("evokern/evaluation.py", "from evokern import record\nfrom evokern.kernel import Kernel"),
        ("evokern/engine.py", "from evokern import __version__"),
        ("backends/evokern_cpu/backend.py", "from evokern.backend import Facts\nfrom evokern_cpu.compiler import find"),
        ("backends/evokern_cuda/backend.py", "import evokern_gpu.memory"),
    ],
)
def test_an_arrow_that_points_down_is_fine(file: str, source: str) -> None:
    assert not complaints(file, source)
