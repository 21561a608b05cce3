"""The KernelBench format: what is found in a checkout, which sizes can change, and in which order they shrink."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from evokern.errors import EvokernError, UsageError
from evokern.export.suites.kernelbench import Most, Size, constants, fault, find_problems, shrunk, with_constants

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features, kernel):
        super().__init__()

    def forward(self, x):
        return x

batch_size = 64  # not everybody's
features = 2 * 512
height, width = 32, 48
input_shape = (16, 16)
kernel: int = 3
half = features // 2
name, rate, flag = "a", 0.5, True

def get_inputs():
    return [torch.rand(batch_size, features, height, width)]

def get_init_inputs():
    return [features, kernel]
"""


def checkout(folder: Path, *names: str) -> Path:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SOURCE)
    return folder


def test_problems_are_found_by_level_and_number(tmp_path: Path) -> None:
    root = checkout(tmp_path, *(f"KernelBench/level{n}" for n in ("2/10_B.py", "2/9_A.py", "1/1_First.py", "1/notes.py")))
    for path in (root, root / "KernelBench"):
        assert [p.id for p in find_problems(path)] == ["L1/1", "L2/9", "L2/10"]
    assert [p.name for p in find_problems(root / "KernelBench" / "level2")] == ["A", "B"]
    assert [p.id for p in find_problems(root / "KernelBench" / "level1" / "1_First.py")] == ["L1/1"]
    assert [p.id for p in find_problems(root, ["level2"])] == ["L2/9", "L2/10"]
    assert [p.id for p in find_problems(root, ["L1", "L2/9"])] == ["L1/1", "L2/9"]


def test_no_problems_and_unknown_names_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no KernelBench problems"):
        find_problems(tmp_path)
    checkout(tmp_path, "level1/1_First.py")
    with pytest.raises(UsageError, match="no problem is called 'L3'"):
        find_problems(tmp_path, ["L3"])
    (tmp_path / "level1" / "2_Odd.py").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"2_Odd\.py"):
        find_problems(tmp_path)


def test_a_text_that_is_no_problem_is_told() -> None:
    assert fault(SOURCE) == ""
    assert fault("def get_inputs(): pass") == "defines no Model, no get_init_inputs"
    assert "not valid Python" in fault("def (")
    assert "not valid Python" in fault("x = '\0'")


def test_sizes_are_literals_of_the_module_and_change_in_its_tree() -> None:
    found = constants(SOURCE)
    assert found == {
        "batch_size": 64, "features": 1024, "height": 32, "width": 48, "input_shape[0]": 16, "input_shape[1]": 16, "kernel": 3,
    }  # fmt: skip
    changed = with_constants(SOURCE, {"batch_size": 4, "width": 6, "input_shape[1]": 8})
    assert constants(changed) == {**found, "batch_size": 4, "width": 6, "input_shape[1]": 8}
    assert "half = features // 2" in changed, "what is computed from sizes follows"
    ast.parse(changed)


def measure(text: str) -> Size:
    """As the model would be: a contraction over features."""
    c = constants(text)
    if c["features"] % 16:
        raise EvokernError("features must be whole groups of 16")
    shape = (c["batch_size"], c["features"], c["height"], c["width"])
    elements = c["batch_size"] * c["features"] * c["height"] * c["width"]
    return Size((shape,), elements, c["features"] ** 2, elements * c["features"])


def test_a_batch_shrinks_first_and_what_is_summed_over_last() -> None:
    start = measure(SOURCE)
    enough = Most(start.elements, start.parameters, start.flops)
    assert shrunk(SOURCE, measure, enough).sizes == {}
    fewer = shrunk(SOURCE, measure, Most(start.elements // 16, start.parameters, start.flops))
    assert fewer.sizes == {"batch_size": 4}
    assert fewer.size == measure(fewer.source)
    much_fewer = shrunk(SOURCE, measure, Most(start.elements // 64, start.parameters, start.flops))
    assert much_fewer.sizes == {"batch_size": 2, "height": 16}, "what decides no parameter before what does"
    assert shrunk(SOURCE, measure, Most(start.elements, start.parameters // 4, start.flops)).sizes["features"] == 512


def test_what_cannot_shrink_is_told() -> None:
    with pytest.raises(EvokernError, match="cannot be made small enough"):
        shrunk(SOURCE, measure, Most(1, 1, 1))


def test_sizes_that_must_be_equal_shrink_together() -> None:
    source = "rows = 256\ncols = 256\nheight = width = 64\n"

    def square(text: str) -> Size:
        c = constants(text)
        if c["rows"] != c["cols"]:
            raise EvokernError("rows and cols differ")
        return Size(((c["rows"], c["cols"], c["height"]),), c["rows"] * c["cols"], 0, 0)

    assert constants(source) == {"rows": 256, "cols": 256, "height": 64}
    assert "height = width = 8" in with_constants(source, {"height": 8})
    assert shrunk(source, square, Most(64 * 64, 0, 0)).sizes == {"rows": 64, "cols": 64}
