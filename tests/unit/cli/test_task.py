"""`evokern task` and what a run is made of, over the tasks that are here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evokern.cli.run import settings_for
from evokern.config import load_config
from evokern.errors import UsageError
from evokern.evaluator.signing import enroll
from evokern.event import Budget
from evokern.task import DType

Shell = Callable[..., Any]
CORE = {"softmax", "rmsnorm", "cross_entropy", "bias_gelu"}


def test_the_core_tasks_are_listed(shell: Shell) -> None:
    document = shell("task", "list", "--json").document
    assert document["schema"] == "evokern.tasks/1"
    assert {task["name"] for task in document["tasks"]} >= CORE
    assert "softmax" in shell("task", "list").out


@pytest.mark.parametrize("name", sorted(CORE))
def test_a_task_is_shown_with_arguments_workloads_and_held_out_ranges(shell: Shell, name: str) -> None:
    document = shell("task", "show", name, "--json").document
    assert {argument["role"] for argument in document["arguments"]} >= {"in", "out"}
    assert document["search"]
    assert document["held_out"]["axes"]
    assert "held out" in shell("task", "show", name).out


def test_a_wrong_name_is_code_2_with_the_nearest(shell: Shell) -> None:
    answer = shell("task", "show", "sofmax", "--json")
    assert answer.code == 2
    assert answer.document["mend"] == "Did you mean 'softmax'?"


def test_a_new_task_is_complete_and_found_by_its_path(shell: Shell, tmp_path: Path) -> None:
    made = shell("task", "new", "my_task", "--folder", str(tmp_path), "--json").document["folder"]
    assert shell("task", "show", made, "--json").document["name"] == "my_task"
    assert shell("task", "new", "my_task", "--folder", str(tmp_path)).code == 2, "nothing is overwritten"
    assert shell("task", "new", "My-Task").code == 2


def test_settings_come_from_the_task_and_the_flags(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.cpp").write_text("// mine\n")
    settings = settings_for(load_config(None, {"task": "softmax", "seed_kernel": ("mine.cpp",), "evals": 9}))
    assert (settings.dtype, settings.backend, settings.budget) == (DType.FLOAT32, "cpu", Budget(evaluations=9))
    assert settings.seeds == (("cpp", "// mine\n"),)


def test_a_dtype_that_the_task_lacks_is_refused(home: Path) -> None:
    with pytest.raises(UsageError, match="no dtype 'float64'"):
        settings_for(load_config(None, {"task": "softmax", "dtype": "float64"}))


def test_an_unknown_backend_is_code_2_and_makes_no_run(shell: Shell) -> None:
    answer = shell("run", "--task", "softmax", "--backend", "cpuu", "--json")
    assert answer.code == 2
    assert answer.document["mend"] == "Did you mean 'cpu'?"
    assert shell("status").code == 3, "no run has been made"


def test_the_environment_names_a_model_unless_the_flag_says_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVOKERN_MODEL", "openai/local")
    config = load_config(None, {"task": "softmax"})
    assert settings_for(config, model_given=False).model == "openai/local"
    assert settings_for(config, model_given=True).model == ""


def test_a_task_given_as_a_path_is_kept_whole(shell: Shell, tmp_path: Path) -> None:
    shell("task", "new", "my_task")
    assert settings_for(load_config(None, {"task": "my_task"})).task == str(tmp_path / "my_task")


def test_plugins_lists_the_first_party_parts(shell: Shell) -> None:
    found = {(entry["kind"], entry["name"]) for entry in shell("plugins", "--json").document["plugins"]}
    assert found >= {("backend", "cpu"), ("operator", "retune"), ("operator", "rewrite"), ("store", "sqlite")}


def test_doctor_says_what_is_here_and_prints_the_reasons(shell: Shell) -> None:
    answer = shell("doctor", "--json")
    names = {finding["name"] for finding in answer.document["findings"]}
    assert names >= {"python", "torch", "home", "backend cpu", "readers", "sandbox", "judges", "model"}
    assert "tolerance" in answer.document["reasons"]
    assert answer.code == (0 if answer.document["able"] else 3)


def test_doctor_shows_whose_verdicts_count_here(shell: Shell, home: Path) -> None:
    home.mkdir()
    for key in ("ab" * 32, "0123456789abcdef" * 4):
        enroll(home, key)
    shown = [finding["found"] for finding in shell("doctor", "--json").document["findings"] if finding["name"] == "judge"]
    assert shown == ["0123 4567 89ab cdef 0123 4567 89ab cdef", "abab " * 7 + "abab"]


def test_doctor_in_a_home_that_cannot_be_written_is_code_3(shell: Shell, home: Path) -> None:
    home.write_text("a file where the home should be")
    answer = shell("doctor", "--json")
    assert answer.code == 3
    (finding,) = [finding for finding in answer.document["findings"] if finding["name"] == "home"]
    assert finding["state"] == "missing"
    assert "EVOKERN_HOME" in finding["mend"]


def test_doctor_leaves_no_home_behind(shell: Shell, home: Path) -> None:
    shell("doctor")
    assert not home.exists()
