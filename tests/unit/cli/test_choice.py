"""Which backend `auto` stands for, on a machine with a compiler and no GPU."""

from __future__ import annotations

import pytest

from evokern import plugins
from evokern.cli.choice import chosen_backend
from evokern.errors import Unavailable, UsageError


def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_gpu(_: object) -> None:
        raise Unavailable("no GPU here")

    for name in set(plugins.names("backend")) - {"cpu"}:
        monkeypatch.setattr(plugins.load("backend", name), "probe", no_gpu)


def test_a_name_is_itself() -> None:
    assert chosen_backend("cuda") == "cuda"


def test_auto_is_what_works_here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    assert chosen_backend("auto") == "cpu"
    assert chosen_backend("auto", "cpp") == "cpu"


def test_auto_takes_a_gpu_before_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    monkeypatch.setattr(plugins.load("backend", "cuda"), "probe", lambda _: None)
    assert chosen_backend("auto") == "cuda"
    assert chosen_backend("auto", "cpp") == "cpu"


def test_a_dialect_whose_device_is_not_here_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpu(monkeypatch)
    with pytest.raises(Unavailable, match="no GPU here"):
        chosen_backend("auto", "triton")


def test_a_dialect_that_nothing_takes_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="no backend takes cobol"):
        chosen_backend("auto", "cobol")
