"""Parts by name, with distributions made on the spot: what a stranger's `pip install` would leave behind."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from evokern import plugins
from evokern.errors import Unavailable, UsageError

ROOT = Path(__file__).parents[2]


def install(folder: Path, name: str, points: str) -> None:
    """Leave the metadata of a distribution in a folder."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(points)


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with parts that load and parts that do not."""
    install(
        tmp_path,
        "stranger",
        "[evokern.operators]\nshuffle = stranger_shuffle:Shuffle\nneedy = stranger_needy:Needy\nempty = stranger_shuffle:Nothing\n"
        "gone = stranger_gone:Gone\nbursts = stranger_bursts:Bursts\ntyped = stranger_typed:Typed\n",
    )
    (tmp_path / "stranger_shuffle.py").write_text("class Shuffle:\n    pass\n")
    (tmp_path / "stranger_needy.py").write_text("import a_module_that_nobody_has.inner\n")
    (tmp_path / "stranger_bursts.py").write_text("raise OSError('libnothing.so: cannot open shared object file')\n")
    typed = "from evokern.errors import Unavailable\nraise Unavailable('no such device', mend='Plug one in')\n"
    (tmp_path / "stranger_typed.py").write_text(typed)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("stranger")
def test_a_strangers_part_is_listed_and_loaded_by_its_name() -> None:
    assert "shuffle" in plugins.names("operator")
    assert plugins.Part("operator", "shuffle", "stranger_shuffle:Shuffle", "stranger 1.0") in plugins.available("operator")
    assert plugins.load("operator", "shuffle").__name__ == "Shuffle"


@pytest.mark.usefixtures("stranger")
def test_listing_loads_nothing_and_loading_loads_only_what_was_named() -> None:
    for module in ("stranger_shuffle", "stranger_needy"):
        sys.modules.pop(module, None)
    plugins.available("operator")
    plugins.names("operator")
    assert "stranger_shuffle" not in sys.modules
    plugins.load("operator", "shuffle")
    assert "stranger_needy" not in sys.modules


@pytest.mark.usefixtures("stranger")
def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no operator is called 'shufle'\. Did you mean 'shuffle'"):
        plugins.load("operator", "shufle")
    with pytest.raises(UsageError, match=r"Known: .*shuffle"):
        plugins.load("operator", "qqq")


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("needy", r"No module named 'a_module_that_nobody_has'.* `pip install a_module_that_nobody_has`"),
        ("empty", r"AttributeError.*Reinstall stranger 1\.0"),
        ("gone", r"No module named 'stranger_gone'.*Reinstall stranger 1\.0"),
        ("bursts", r"OSError: libnothing\.so"),
        ("typed", r"^no such device\. Plug one in$"),
    ],
)
def test_a_part_that_cannot_be_loaded_says_cause_and_fix_and_nothing_takes_its_place(name: str, cause: str) -> None:
    with pytest.raises(Unavailable, match=cause) as caught:
        plugins.load("operator", name)
    assert "\n" not in caught.value.line


def test_one_name_for_two_things_is_refused(stranger: Path) -> None:
    install(stranger, "rival", "[evokern.operators]\nshuffle = rival:Other\n")
    with pytest.raises(UsageError, match=r"claimed by several distributions: rival 1\.0 \(rival:Other\), stranger 1\.0"):
        plugins.load("operator", "shuffle")


def test_one_thing_installed_twice_is_one_thing(stranger: Path) -> None:
    install(stranger, "twin", "[evokern.operators]\nshuffle = stranger_shuffle:Shuffle\n")
    assert plugins.load("operator", "shuffle").__name__ == "Shuffle"


def test_an_unknown_kind_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean 'operator'"):
        plugins.load("operators", "x")
    with pytest.raises(UsageError, match="Did you mean 'backend'"):
        plugins.names("backends")


def test_a_kind_without_parts_says_so() -> None:
    assert plugins.names("suite") == []
    with pytest.raises(UsageError, match="None is installed"):
        plugins.load("suite", "x")


def test_every_declared_group_has_its_kind_and_its_parts_are_installed() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    for group, parts in declared.items():
        kind = group.removeprefix("evokern.").removesuffix("s")
        assert kind in plugins.KINDS
        assert set(parts) <= set(plugins.names(kind))


def test_the_module_imports_no_part() -> None:
    code = "import sys, evokern.plugins; evokern.plugins.names('operator'); print(*(m for m in sys.modules if m.startswith('evokern')))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60)
    assert set(ended.stdout.split()) == {"evokern", "evokern.errors", "evokern.plugins", "evokern.printable"}
