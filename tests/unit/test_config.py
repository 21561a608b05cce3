from __future__ import annotations

from pathlib import Path

import pytest

from evokern.config import Config, load_config
from evokern.errors import UsageError
from evokern.event import Budget


def write(folder: Path, text: str) -> Path:
    file = folder / "run.toml"
    file.write_text(text)
    return file


def test_defaults_end_a_run_after_five_minutes() -> None:
    config = load_config(None, {})
    assert config == Config()
    assert config.budget.budget() == Budget(seconds=300.0)


def test_a_flag_beats_the_file_and_the_file_beats_the_default(tmp_path: Path) -> None:
    file = write(tmp_path, 'task = "rmsnorm"\nthreads = 2\nseed = 5\n[budget]\nevals = 40\n')
    config = load_config(file, {"threads": 3, "model": None, "seed_kernel": ()})
    assert (config.task, config.threads, config.seed, config.islands) == ("rmsnorm", 3, 5, 4)
    assert config.budget.budget() == Budget(evaluations=40)


def test_a_time_flag_replaces_the_files_time_in_the_other_unit(tmp_path: Path) -> None:
    file = write(tmp_path, "[budget]\nhours = 2\nusd = 1\n")
    assert load_config(file, {"minutes": 3.0}).budget.budget() == Budget(seconds=180.0, usd=1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thread = 2\n", "unknown setting 'thread'. Did you mean 'threads'?"),
        ("[budget]\nminute = 2\n", "unknown setting 'minute'. Did you mean 'minutes'?"),
        ("budget = 3\n", "'budget' must be a table"),
        ('threads = "2"\n', "'threads' must be int, not '2'"),
        ("threads = true\n", "'threads' must be int, not True"),
        ("threads = 0\n", "'threads' must be above 0"),
        ("[budget]\nusd = nan\n", "'usd' must be above 0"),
        ("[budget]\nhours = 1\nminutes = 1\n", "hours and minutes are both given"),
        ('seed_kernel = "a.cpp"\n', "must be a list of texts"),
        ("task = \n", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_config(write(tmp_path, text), {})
    assert message in caught.value.line
    assert "run.toml" in caught.value.line
    assert "\n" not in caught.value.line


def test_a_wrong_flag_is_named_as_it_was_typed() -> None:
    with pytest.raises(UsageError, match="--evals: 'evals' must be above 0"):
        load_config(None, {"evals": 0})
    with pytest.raises(UsageError, match="hours and minutes"):
        load_config(None, {"hours": 1.0, "minutes": 1.0})


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_config(tmp_path / "none.toml", {})
