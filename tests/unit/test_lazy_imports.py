"""What is heavy is imported where it is used: proven in processes of their own, which hold no module of ours yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEVER_IN_THE_ENGINE = ("torch", "triton", "litellm", "chromadb", "sentence_transformers")
HEAVY = ("torch", "triton", "litellm", "chromadb", "sentence_transformers", "sqlmodel", "sqlalchemy", "networkx", "tree_sitter", "libcst",
         "optuna", "jinja2", "scipy", "numpy", "rich", "asyncio_pool", "mcp", "uvicorn")  # fmt: skip


def modules_after(code: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter holds after the code."""
    paths = [str(ROOT), str(ROOT / "backends")]
    script = f"import sys\nsys.path[:0] = {paths!r}\n{code}\nprint(*sorted({{n.split('.')[0] for n in sys.modules}}))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(ended.stdout.split("\n")[-2].split())


@pytest.mark.parametrize(
    "argv", [["--help"], ["run", "--help"], ["task", "--help"], ["eval", "--help"], ["mcp", "--help"], ["no-such-command"]]
)
def test_help_imports_nothing_heavy(argv: list[str]) -> None:
    loaded = modules_after(f"from evokern.cli.app import answer\nanswer({argv!r})")
    assert "typer" in loaded
    assert loaded.intersection(HEAVY) == set()


def test_the_package_and_its_nouns_import_nothing_heavy() -> None:
    nouns = "errors task kernel evaluation lesson event record backend config"
    loaded = modules_after("import evokern\n" + "\n".join(f"import evokern.{noun}" for noun in nouns.split()))
    assert loaded.intersection(HEAVY) <= {"numpy"}


def test_the_engine_does_not_import_torch() -> None:
    loaded = modules_after("import evokern.engine")
    assert loaded.intersection(NEVER_IN_THE_ENGINE) == set()


def test_a_heavy_module_would_be_seen() -> None:
    assert "numpy" in modules_after("import numpy")
