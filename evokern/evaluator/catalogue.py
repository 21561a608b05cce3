"""The catalogue: where tasks are, by name or path, and how a new one begins.

Look-up order: the path given; the home's `tasks/`; the checkout's `benchmarks/tasks/`; the tasks packaged with evokern. A
root holds `<suite>/<task>/` or `<task>/`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import evokern
from evokern.errors import UsageError
from evokern.task import Task, load_task

if TYPE_CHECKING:
    from evokern.event import RunSettings

_PACKAGE = Path(evokern.__file__).parent
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_HOME_VARIABLE = "EVOKERN_HOME"
_HOME_FOLDER = ".evokern"


def find_task(name_or_path: str | Path, *, home: Path | None = None) -> Task:
    """The task of that name, `suite/name`, or path.

    Args:
        name_or_path: Such as `softmax`, `core/softmax` or `./my_tasks/softmax`.
        home: Folder of run data; found as the store finds it when None.

    Raises:
        UsageError: There is none; the message names the nearest. Or its files are wrong.
    """
    text = str(name_or_path)
    path = Path(text).expanduser()
    if (path / "task.toml").is_file():
        return load_task(path.absolute())
    if path.name == "task.toml" and path.is_file():
        return load_task(path.absolute().parent)
    folders = list(_folders(home))
    for folder in folders:
        if text in (folder.name, f"{folder.parent.name}/{folder.name}"):
            return load_task(folder)
    if path.is_dir():
        raise UsageError("holds no task.toml", where=text, mend="A task folder holds task.toml and reference.py")
    near = difflib.get_close_matches(text.rsplit("/", 1)[-1], sorted({folder.name for folder in folders}), n=1)
    mend = f"Did you mean '{near[0]}'?" if near else "`evokern task list` names those that are here"
    raise UsageError(f"no task is called '{text}'", mend=mend)


def list_tasks(*, home: Path | None = None) -> list[Task]:
    """Every task that can be found by name; of one name in one suite, the first in look-up order.

    Raises:
        UsageError: A task's files are wrong.
    """
    return [load_task(folder) for folder in _folders(home)]


def new_task(name: str, folder: Path) -> Path:
    """Write a task that is complete and sound, to be changed to what is needed.

    Args:
        name: `[a-z][a-z0-9_]*`.
        folder: Folder that will hold the task's own; made where it is not there.

    Returns:
        The task's folder.

    Raises:
        UsageError: The name is no such name, or the folder is there already or cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name}' is no name for a task", mend="Use a-z, 0-9 and _, beginning with a letter")
    made = folder / name
    if made.exists():
        raise UsageError("is there already", where=str(made))
    try:
        (made / "seeds").mkdir(parents=True)
        (made / "task.toml").write_text(_TASK_TOML.format(name=name))
        (made / "reference.py").write_text(_REFERENCE)
        (made / "seeds" / "cpp-float32.cpp").write_text(_SEED)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(made)) from error
    load_task(made)
    return made


def check_task(settings: RunSettings, *, home: Path) -> list[str]:
    """Why a task is degenerate, in words; empty where it can tell kernels apart.

    The reference runs in a slot, as it does in a run.

    Args:
        settings: Name or path of the task, and the element type.
        home: Folder of run data.

    Raises:
        UsageError: The task's files are wrong, or the reference fails.
        Unavailable: torch or a sandbox is not here.
    """
    # Here and not above: finding a task starts no process.
    from evokern.backend import Limits
    from evokern.evaluator.reference import oracle
    from evokern.evaluator.reference.admission import admit
    from evokern.evaluator.secrecy import fresh_secret
    from evokern.sandbox.policy import Policy
    from evokern.sandbox.spawner import Spawner

    task = find_task(settings.task, home=home)
    with Spawner.start({"torch": list(oracle.MODULES)}, scratch=home / "scratch") as spawner:
        argument = oracle.argument(task, settings.dtype)
        slot = spawner.slot(oracle.ENTRY, zygote="torch", descriptors=[], argument=argument, limits=Limits(), policy=Policy.TORCH)
        try:
            return admit(task, settings.dtype, oracle.Oracle(slot.socket, task, settings.dtype), fresh_secret())
        finally:
            slot.kill()


def _folders(home: Path | None) -> Iterator[Path]:
    """Task folders by look-up order, each `suite/name` once."""
    seen = set()
    for root in (_home(home) / "tasks", _PACKAGE.parent / "benchmarks" / "tasks", _PACKAGE / "_data" / "tasks"):
        for file in sorted([*root.glob("*/task.toml"), *root.glob("*/*/task.toml")]):
            folder = file.parent
            if (folder.parent.name, folder.name) not in seen:
                seen.add((folder.parent.name, folder.name))
                yield folder


def _home(home: Path | None) -> Path:
    # The store's rule, said again because this package and the store do not know each other.
    if home is not None:
        return home
    named = os.environ.get(_HOME_VARIABLE, "")
    if named:
        return Path(named).expanduser()
    here = Path.cwd()
    return next((f / _HOME_FOLDER for f in (here, *here.parents) if (f / _HOME_FOLDER).is_dir()), here / _HOME_FOLDER)


_TASK_TOML = """\
name = "{name}"
description = "Each row divided by its largest absolute value, times a weight per column."
dtypes = ["float32"]
axes = ["rows", "cols"]
# K: terms of the longest sum behind one output element. It scales the error that is allowed.
reduction = "1"
# Changing one row of the inputs changes the same row of the outputs only.
laws = ["rows"]
distributions = ["normal", "wide", "tiny", "shifted", "spiked"]

[inputs.x]
shape = ["rows", "cols"]
dtype = "dtype"

[inputs.weight]
shape = ["cols"]
dtype = "dtype"
role = "parameter"

[outputs.y]
shape = ["rows", "cols"]
dtype = "dtype"

# What everybody may see: at least half of these long enough to time.
[[search]]
axes = {{ rows = 2048, cols = 4096 }}

[[search]]
axes = {{ rows = 4096, cols = 1003 }}

[[search]]
axes = {{ rows = 127, cols = 1021 }}

# Where secret shapes are drawn from.
[held_out]
axes = {{ rows = [1, 16384], cols = [1, 20000] }}
max_elements = 4194304

[cost]
bytes_read = "rows * cols * itemsize + cols * itemsize"
bytes_written = "rows * cols * itemsize"
flops = "3 * rows * cols"
"""

_REFERENCE = '''\
"""Each row divided by its largest absolute value, times a weight per column."""

import torch

# Optional beside `run`:
#   make_inputs(axes, dtype, generator) -> dict of inputs that random normal is not right for, such as integers;
#   magnitude(*inputs) -> size of the terms behind each output, where they cancel and the result is far smaller than they are.


def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """[rows, cols], [cols] -> [rows, cols]; called in the run's dtype and in float64."""
    return x / x.abs().amax(dim=-1, keepdim=True) * weight
'''

_SEED = """\
// Each row divided by its largest absolute value, times a weight per column: a plain loop nest.
#include <algorithm>
#include <cmath>

#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 3) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* x = evokern::data<float>(args[0]);
  const float* weight = evokern::data<float>(args[1]);
  float* y = evokern::data<float>(args[2]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  const int64_t y_stride = evokern::row_stride(args[2]);

  for (int64_t row = 0; row < rows; ++row) {
    float peak = 0;
    for (int64_t col = 0; col < cols; ++col) {
      peak = std::max(peak, std::fabs(x[row * x_stride + col]));
    }
    for (int64_t col = 0; col < cols; ++col) {
      y[row * y_stride + col] = x[row * x_stride + col] / peak * weight[col];
    }
  }
  return 0;
}
"""
