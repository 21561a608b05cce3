"""Tasks: loading says what is wrong and where; looking up finds, or names the nearest; a new one is complete."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from evokern.errors import UsageError
from evokern.evaluator.catalogue import find_task, list_tasks, new_task
from evokern.task import (
    Argument,
    DType,
    Role,
    Task,
    Workload,
    constraints_hold,
    default_dtype,
    evaluate_expression,
    load_task,
    task_to_json,
)

CORE = Path(__file__).parents[2] / "benchmarks" / "tasks" / "core"
NAMES = ("bias_gelu", "cross_entropy", "rmsnorm", "softmax")
EVERY = sorted(file.parent.name for file in CORE.glob("*/task.toml"))
ON_GPU = """
[[search_gpu]]
axes = { rows = 65536, cols = 4099 }

[held_out_gpu]
axes = { rows = [1, 65536], cols = [1, 65536] }
count = 5
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound task's folder, to be spoilt."""
    return new_task("mine", tmp_path / "suite")


def spoil(folder: Path, change: Callable[[str], str], file: str = "task.toml") -> str:
    """What loading says once a file has been changed."""
    path = folder / file
    before = path.read_text()
    path.write_text(change(before))
    assert path.read_text() != before
    with pytest.raises(UsageError) as caught:
        load_task(folder)
    assert str(folder) in caught.value.line
    return caught.value.line


@pytest.mark.parametrize("name", NAMES)
def test_core_tasks_load(name: str) -> None:
    task = load_task(CORE / name)
    assert (task.name, task.suite) == (name, "core")
    assert task.laws == ("rows",)
    assert len(task.search) == 4
    assert {w.residency for w in task.search} == {"cold"}
    assert default_dtype(task, gpu=False) is DType.FLOAT32
    assert default_dtype(task, gpu=True) is DType.BFLOAT16
    assert (task.folder / "seeds" / "cpp-float32.cpp").is_file()
    assert task.held_out.count >= 8
    ranges = {axis: (low, high) for axis, low, high in task.held_out.axes}
    assert all(low == 1 for low, _ in ranges.values())
    assert ranges["cols"][1] > max(dict(w.axes)["cols"] for w in task.search)


@pytest.mark.parametrize("name", EVERY)
def test_every_core_task_is_complete(name: str) -> None:
    """What any of them has: shapes for both kinds of device that differ, the same few small ones at the end, and a seed."""
    task = load_task(CORE / name)
    gpu = task.on("gpu")
    assert (task.name, task.suite) == (name, "core")
    assert task.on("cpu") is task
    assert gpu.search == task.search_gpu
    assert gpu.held_out == task.held_out_gpu != task.held_out
    assert (gpu.digest, gpu.arguments) == (task.digest, task.arguments)
    assert (task.folder / "seeds" / "cpp-float32.cpp").is_file()
    for shapes in (task, gpu):
        assert len({w.axes for w in shapes.search}) == len(shapes.search) >= 2
        assert shapes.held_out.count >= 8
        high = {axis: high for axis, _, high in shapes.held_out.axes}
        assert high[task.axes[-1]] > max(dict(w.axes)[task.axes[-1]] for w in shapes.search)
        assert set(shapes.held_out.layouts) == {"contiguous", "offset", "padded"}
    read, written = task.bytes_moved(dict(task.search[0].axes), DType.FLOAT32)
    assert written <= sum(nbytes(task, a, task.search[0]) for a in task.outputs)
    assert 0 < read <= sum(nbytes(task, a, task.search[0]) for a in task.inputs if not a.is_scalar)


def nbytes(task: Task, argument: Argument, workload: Workload) -> int:
    return math.prod(argument.shape_for(dict(workload.axes))) * argument.dtype_for(DType.FLOAT32).itemsize


def test_shapes_of_a_gpu_are_part_of_the_task(folder: Path) -> None:
    plain = load_task(folder)
    assert (plain.search_gpu, plain.held_out_gpu) == ((), None)
    assert plain.on("gpu") == plain
    path = folder / "task.toml"
    path.write_text(path.read_text() + ON_GPU)
    task = load_task(folder)
    assert task.digest != plain.digest
    assert task.search == plain.search
    assert [w.name for w in task.on("gpu").search] == ["cols=4099,rows=65536"]
    assert task.on("gpu").held_out.count == 5
    assert task.on("gpu").on("gpu") == task.on("gpu")
    assert task_to_json(task)["search_gpu"] == [{"rows": 65536, "cols": 4099, "residency": "cold"}]
    with pytest.raises(UsageError, match="no kind of device"):
        task.on("abacus")


def test_a_wrong_shape_of_a_gpu_is_named(folder: Path) -> None:
    assert "[[search_gpu]] 1" in spoil(folder, lambda text: text + ON_GPU.replace("rows = 65536, ", ""))
    (folder / "task.toml").write_text((new_task("other", folder.parent) / "task.toml").read_text())
    assert "[held_out_gpu]" in spoil(folder, lambda text: text + ON_GPU.replace("[1, 65536]", "[9, 3]"))


def test_core_arguments() -> None:
    def described(name: str) -> list[tuple[str, tuple[str, ...], str, Role]]:
        return [(a.name, a.shape, a.dtype, a.role) for a in load_task(CORE / name).arguments]

    matrix = ("rows", "cols")
    assert described("softmax") == [("x", matrix, "dtype", Role.IN), ("y", matrix, "dtype", Role.OUT)]
    assert described("rmsnorm") == [
        ("x", matrix, "dtype", Role.IN),
        ("weight", ("cols",), "dtype", Role.PARAMETER),
        ("eps", (), "float32", Role.IN),
        ("y", matrix, "dtype", Role.OUT),
    ]
    assert described("cross_entropy") == [
        ("logits", matrix, "dtype", Role.IN),
        ("labels", ("rows",), "int64", Role.IN),
        ("loss", ("rows",), "dtype", Role.OUT),
    ]
    assert described("bias_gelu")[1] == ("bias", ("cols",), "dtype", Role.PARAMETER)
    assert described("add_rmsnorm")[1] == ("residual", matrix, "dtype", Role.INOUT)
    assert described("rmsnorm_quant_fp8")[-2:] == [("q", matrix, "float8_e4m3fn", Role.OUT), ("scale", ("rows",), "float32", Role.OUT)]
    assert [a.name for a in load_task(CORE / "rope_kv_write").outputs] == ["key_cache", "value_cache"]


def test_bytes_moved() -> None:
    axes = {"rows": 3, "cols": 5}
    assert load_task(CORE / "softmax").bytes_moved(axes, DType.FLOAT32) == (60, 60)
    assert load_task(CORE / "rmsnorm").bytes_moved(axes, DType.BFLOAT16) == (30 + 10, 30)
    assert load_task(CORE / "cross_entropy").bytes_moved(axes, DType.FLOAT32) == (60 + 24, 12)


def test_digest_covers_what_decides_a_verdict(folder: Path) -> None:
    first = load_task(folder).digest
    (folder / "seeds" / "another.cpp").write_text("// nothing")
    assert load_task(folder).digest == first
    (folder / "reference.py").write_text((folder / "reference.py").read_text() + "\n# changed\n")
    second = load_task(folder).digest
    (folder / "task.toml").write_text((folder / "task.toml").read_text() + "\n# changed\n")
    assert len({first, second, load_task(folder).digest}) == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("distributions", "distributoins", "distributoins"),
        ('"normal"', '"gaussian"', "gaussian"),
        ('laws = ["rows"]', 'laws = ["columns"]', "columns"),
        ('dtypes = ["float32"]', 'dtypes = ["float31"]', "float31"),
        ('role = "parameter"', 'role = "weight"', "weight"),
        ('shape = ["cols"]', 'shape = ["columns"]', "columns"),
        ("rows = 2048, cols = 4096", "rows = 2048", "rows, cols"),
        ("rows = 2048, cols = 4096", "rows = 0, cols = 4096", "at least 1"),
        ("rows = [1, 16384]", "rows = [9, 3]", "low <= high"),
        ('"rows * cols * itemsize"', '"rows ** 9"', "rows ** 9"),
        ('reduction = "1"', 'reduction = "__import__(1)"', "__import__"),
        ('axes = ["rows", "cols"]', 'axes = ["rows", "cols"]\nconstraints = ["rows % 2 == 1"]', "breaks a constraint"),
        ('axes = ["rows", "cols"]', 'axes = ["rows", "cols"]\nconstraints = ["rows"]', "comparison"),
        ("[cost]", "[tolerance]\nelement = 9\n\n[cost]", "reason"),
        ("[cost]", "[cost", "TOML"),
    ],
)
def test_a_wrong_field_is_named(folder: Path, old: str, new: str, said: str) -> None:
    assert said in spoil(folder, lambda text: text.replace(old, new))


def test_a_wrong_reference_is_named(folder: Path) -> None:
    assert "run" in spoil(folder, lambda text: text.replace("def run", "def walk"), "reference.py")
    assert "line" in spoil(folder, lambda text: "def run(:\n" + text, "reference.py")


def test_expressions() -> None:
    axes = {"rows": 7, "cols": 3}
    assert evaluate_expression("rows * (cols + 1) // 2 - rows % cols", axes) == 13
    for text in ("rows + depth", "rows.real", "rows if cols else 1", "", "1 / 0", "(" * 300 + "1" + ")" * 300):
        with pytest.raises(UsageError):
            evaluate_expression(text, axes)


def test_constraints() -> None:
    axes = {"rows": 7, "cols": 16}
    assert constraints_hold(("cols % 8 == 0", "1 <= rows < cols", "rows != 8"), axes)
    assert not constraints_hold(("cols % 8 == 0", "rows > cols"), axes)
    for text in ("rows", "rows ==", "rows in cols", "depth > 1"):
        with pytest.raises(UsageError):
            constraints_hold((text,), axes)


def test_visible_half_holds_no_secret(folder: Path) -> None:
    assert "held_out" not in task_to_json(load_task(folder))


# Looking up.


def test_names_paths_and_suites_find_the_same_task(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CORE)
    expected = load_task(CORE / "softmax")
    for name in ("softmax", "core/softmax", str(CORE / "softmax"), "./softmax", str(CORE / "softmax" / "task.toml")):
        assert find_task(name, home=home) == expected
        assert find_task(name, home=home).folder.is_absolute()


def test_the_home_comes_before_the_checkout(home: Path) -> None:
    made = new_task("softmax", home / "tasks")
    assert find_task("softmax", home=home).folder == made
    assert find_task("core/softmax", home=home).folder == CORE / "softmax"
    suite = new_task("another", home / "tasks" / "own")
    assert find_task("own/another", home=home).folder == suite


def test_listing_names_each_task_once(home: Path) -> None:
    def names() -> list[tuple[str, str]]:
        return [(t.suite, t.name) for t in list_tasks(home=home)]

    assert set(NAMES) <= {name for _, name in names()}
    new_task("softmax", home / "tasks" / "core")
    assert len(names()) == len(set(names()))
    assert next(t for t in list_tasks(home=home) if t.name == "softmax").folder == home / "tasks" / "core" / "softmax"


def test_home_is_found_upward_and_by_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVOKERN_HOME", raising=False)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    new_task("upward", tmp_path / ".evokern" / "tasks")
    new_task("named", tmp_path / "elsewhere" / "tasks")
    monkeypatch.chdir(below)
    assert find_task("upward").name == "upward"
    with pytest.raises(UsageError):
        find_task("named")
    monkeypatch.setenv("EVOKERN_HOME", str(tmp_path / "elsewhere"))
    assert find_task("named").name == "named"


def test_an_unknown_name_answers_with_the_nearest(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'softmax'"):
        find_task("sofmax", home=home)
    with pytest.raises(UsageError, match="evokern task list"):
        find_task("zzzzzz", home=home)
    with pytest.raises(UsageError, match=r"no task\.toml"):
        find_task(str(tmp_path), home=home)


def test_a_new_task_loads(folder: Path) -> None:
    task: Task = load_task(folder)
    assert (task.name, task.suite) == ("mine", "suite")
    assert "run" in (folder / "seeds" / "cpp-float32.cpp").read_text()


@pytest.mark.parametrize("name", ["", "Mine", "my-task", "../mine", "1st", "a b"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no name for a task"):
        new_task(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(folder: Path) -> None:
    before = (folder / "task.toml").read_bytes()
    with pytest.raises(UsageError, match="there already"):
        new_task("mine", folder.parent)
    assert (folder / "task.toml").read_bytes() == before


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        new_task("mine", tmp_path / "file")
