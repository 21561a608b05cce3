"""The list of what a machine for GPU work lacks: pinned, all that evokern asks for, less what is heavy or comes with PyTorch."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_NEEDED = {"chromadb", "sentence-transformers", "litellm", "ninja"}
"""Knowledge and models, which are turned off there."""

THERE = {"torch", "triton", "numpy", "networkx", "jinja2"}
"""PyTorch and what it brings."""

DEVELOPERS = {"atheris", "hypothesis", "mcp", "mypy", "ruff"}
"""What no test of tests/gpu needs."""


def name(line: str) -> str:
    return re.split(r"[^a-z0-9-]", line.lower())[0]


def listed() -> list[str]:
    lines = (ROOT / "benchmarks" / "gpu_requirements.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_line_is_one_version_in_order() -> None:
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in listed())
    assert [name(line) for line in listed()] == sorted({name(line) for line in listed()})


def test_all_that_is_asked_for_is_there_and_nothing_heavy() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {name(line) for line in [*project["dependencies"], *project["optional-dependencies"]["dev"]]}
    found = {name(line) for line in listed()}

    assert wanted - NOT_NEEDED - THERE - DEVELOPERS - found == set()
    assert found & (NOT_NEEDED | THERE) == set()
