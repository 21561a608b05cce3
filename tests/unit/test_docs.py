"""What the documents say is true: commands, flags, targets, files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import typer

from evokern.cli.app import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
MCP = (ROOT / "docs" / "mcp.md").read_text()
CONTRIBUTING = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z0-9]+):.*## ", MAKEFILE, flags=re.MULTILINE))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def commands() -> dict[str, set[str]]:
    """Every command with its long flags, subcommands as `task new`."""
    found: dict[str, set[str]] = {}

    def visit(command: object, path: str) -> None:
        below = getattr(command, "commands", {})
        for name, child in below.items():
            visit(child, f"{path} {name}".strip())
        if not below:
            found[path] = {option for parameter in command.params for option in getattr(parameter, "opts", []) if option.startswith("--")}  # type: ignore[attr-defined]

    visit(typer.main.get_command(app), "")
    return found


def quoted(text: str) -> list[str]:
    """Command lines that a document shows, in code blocks or between back-ticks."""
    inline = re.findall(r"`(evokern [^`\n]+)`", text)
    blocks = [line.removeprefix("$ ") for block in re.findall(r"```\n(.*?)```", text, flags=re.DOTALL) for line in block.splitlines()]
    return [*inline, *(re.sub(r"\s+#.*", "", line) for line in blocks if line.startswith("evokern "))]


@pytest.mark.parametrize(
    "line", sorted({*quoted(README), *quoted(CONTRIBUTING), *quoted(MCP), *quoted((ROOT / "archives" / "README.md").read_text())})
)
def test_a_quoted_command_exists_with_its_flags(line: str) -> None:
    words = line.split()[1:]
    known = commands()
    name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
    assert name in known or any(command.startswith(f"{name} ") for command in known), line
    flags = {word for word in words if word.startswith("--")}
    assert flags <= known.get(name, set()), line


def test_every_command_of_the_issue_is_there_and_takes_json() -> None:
    known = commands()
    wanted = [
        "run",
        "resume",
        "status",
        "top",
        "show",
        "eval",
        "profile",
        "promote",
        "verify",
        "doctor",
        "plugins",
        "mcp",
        *(f"task {n}" for n in ("list", "show", "new", "check")),
    ]
    assert sorted(known) == sorted(wanted)
    assert [name for name, flags in known.items() if "--json" not in flags] == []


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?:^|`)make ([a-z0-9]+)", README + CONTRIBUTING, flags=re.MULTILINE))))
def test_a_quoted_make_target_exists(target: str) -> None:
    assert target in TARGETS


def test_every_target_is_listed_by_help() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    assert phony is not None
    assert set(phony.group(1).split()) == TARGETS


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:evokern|tests|benchmarks|backends|archives)/[\w./]+)`", README + CONTRIBUTING)))
)
def test_a_quoted_path_exists(path: str) -> None:
    invented = {"backends/evokern_NAME", "benchmarks/holds/issueN.py"}
    assert path in invented or (ROOT / path).exists(), path


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)h][^)]*)\)", README))
def test_a_link_leads_somewhere(link: str) -> None:
    assert (ROOT / link).is_file()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"EVOKERN_[A-Z_]+", README))))
def test_a_variable_is_read(name: str) -> None:
    assert any(f'"{name}"' in file.read_text() for file in (ROOT / "evokern").rglob("*.py"))


def test_the_flags_that_the_backend_s_page_lists_are_the_white_list() -> None:
    from evokern.syntax.flags import ALLOWED_FLAGS

    page = (ROOT / "backends" / "evokern_cpu" / "README.md").read_text()
    (listed,) = re.findall(r"The white list[^:]*:\n\n(.*?)\.\n\n", page, flags=re.DOTALL)
    assert set(re.findall(r"`([^`]+)`", listed)) == ALLOWED_FLAGS


def test_the_page_on_mcp_lists_every_option_tool_and_field() -> None:
    from evokern.cli.lines import FIELDS

    options = commands()["mcp"] - {"--json"}
    assert options <= set(re.findall(r"--[a-z-]+", MCP))
    tables = set(re.findall(r"`([a-z]+)`", "".join(line.split("|")[1] for line in MCP.splitlines() if line.startswith("| `"))))
    assert {"task", "evaluate", "profile", "top", "show", *FIELDS} <= tables


def test_the_changelog_has_an_unreleased_part_with_entries() -> None:
    unreleased = (ROOT / "CHANGELOG.md").read_text().split("## [Unreleased]")[1].split("\n## ")[0]
    assert unreleased.count("\n- ") >= 1


@pytest.mark.parametrize("group", sorted(PROJECT["entry-points"]))
def test_an_entry_point_names_something(group: str) -> None:
    for target in PROJECT["entry-points"][group].values():
        module, name = target.split(":")
        files = [ROOT / root / (module.replace(".", "/") + ending) for root in ("", "backends") for ending in (".py", "/__init__.py")]
        assert any(re.search(rf"^class {name}\b", file.read_text(), flags=re.MULTILINE) for file in files if file.is_file()), target


def test_packaged_data_is_where_it_is_looked_for() -> None:
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    for folder, place in wheel["sources"].items():
        assert place == "" or (f"/{folder}" in wheel["include"] and place.startswith("evokern/_data/"))
    looked_for = (ROOT / "evokern" / "evaluator" / "catalogue.py").read_text()
    assert wheel["sources"]["benchmarks/tasks"] == "evokern/_data/tasks"
    assert '_PACKAGE / "_data" / "tasks"' in looked_for
