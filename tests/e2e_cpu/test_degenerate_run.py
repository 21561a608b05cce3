"""A degenerate task: refused, unless asked for; then everything that comes of it is marked and nothing of it is promoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e_cpu.conftest import Shell
from tests.e2e_cpu.small_task import small_softmax

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

FLAT = """

def make_inputs(axes, dtype, generator):
    return {"x": torch.zeros(axes["rows"], axes["cols"], dtype=dtype)}
"""


@pytest.fixture(scope="module")
def flat_task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A softmax whose inputs are all zeros: whoever writes one over the number of columns is right."""
    folder = small_softmax(tmp_path_factory.mktemp("flat"))
    with (folder / "reference.py").open("a") as stream:
        stream.write(FLAT)
    toml = folder / "task.toml"
    lines = [line for line in toml.read_text().splitlines() if not line.startswith("distributions")]
    at = next(i for i, line in enumerate(lines) if line.startswith("["))
    toml.write_text("\n".join([*lines[:at], 'distributions = ["task"]', *lines[at:]]) + "\n")
    return folder


def test_it_is_refused(eager_shell: Shell, flat_task: Path) -> None:
    code, document, _ = eager_shell("run", "--task", str(flat_task), "--evals", "1")
    assert code == 2
    assert "cannot tell good kernels from bad ones" in document["what"]
    assert "--degenerate" in document["mend"]


def test_where_it_is_asked_for_its_run_is_marked_and_its_kernels_are_not_promoted(
    eager_shell: Shell, flat_task: Path, tmp_path: Path
) -> None:
    code, summary, said = eager_shell("run", "--task", str(flat_task), "--evals", "1", "--degenerate")
    assert code == 0, said
    assert "no output depends on input 'x'" in summary["degenerate"]
    assert summary["kernel"] is not None, said
    _, top, _ = eager_shell("top", summary["run"])
    assert "degenerate" in top["kernels"][0]["standing"]["lacks"]
    code, promoted, _ = eager_shell("promote", summary["run"], "--into", str(tmp_path))
    assert (code, promoted["promoted"]) == (1, False)
    assert promoted["reason"] == "its task cannot tell good kernels from bad ones"
