"""`evokern task check --format kernelbench` over a small checkout, in real slots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e_cpu.conftest import Shell

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

PROBLEM = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        {init}

    def forward(self, x, *more):
        {body}

{sizes}

def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [{given}]
"""


def problem(body: str, inputs: str, *, sizes: str = "", init: str = "pass", given: str = "") -> str:
    return PROBLEM.format(body=body, inputs=inputs, sizes=sizes, init=init, given=given)


PROBLEMS = {
    "level1/1_Rectifier.py": problem("return F.relu(x)", "torch.rand(32, 64)"),
    "level1/2_Long_softmax.py": problem("return F.softmax(x, dim=1)", "torch.rand(batch, 50000)", sizes="batch = 1024"),
    "level1/3_Product.py": problem("return x @ more[0]", "torch.randn(48, 64), torch.randn(64, 32)"),
    "level1/4_Softmax_by_hand.py": problem(
        "e = torch.exp(x - x.amax(1, keepdim=True)); return e / (e.sum(1, keepdim=True) + 1e-8)", "3 * torch.randn(64, 9)"
    ),
    "level1/5_Loss.py": problem("return F.cross_entropy(x, more[0])", "torch.rand(4096, 100), torch.randint(0, 100, (4096,))"),
    "level2/6_Norm.py": problem("return self.norm(x)", "torch.randn(32, 64)", init="self.norm = nn.LayerNorm(*sizes)", given="64"),
    "level2/7_Nothing_left.py": problem("y = x.sum(1, keepdim=True); return F.gelu(y - y.mean(1, keepdim=True))", "torch.randn(32, 64)"),
    "level2/8_Dropout.py": problem("return F.silu(self.drop(x))", "torch.randn(32, 64)", init="self.drop = nn.Dropout(0.5)"),
    "level2/9_Fails.py": problem("return x @ x", "torch.rand(3, 4)"),
    "level2/10_Too_large.py": problem("return x + x", "torch.rand(2**17, 2**17)"),
    "level2/11_No_model.py": "def get_inputs(): pass",
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    for name, source in PROBLEMS.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(source)
    return root


@pytest.fixture(scope="module")
def answer(shell: Shell, checkout: Path) -> tuple[int, Any, str]:
    return shell("task", "check", "--format", "kernelbench", str(checkout), "--keep", str(checkout / "rows"))


@pytest.fixture(scope="module")
def rows(answer: tuple[int, Any, str]) -> dict[str, Any]:
    return {row["name"]: row for row in answer[1]["tasks"]}


def test_the_document_counts_and_the_code_says_that_something_is_degenerate(answer: tuple[int, Any, str]) -> None:
    code, document, said = answer
    assert (code, document["schema"], document["checked"], document["skipped"]) == (1, "evokern.suite-check/1", 8, 3), said
    assert document["degenerate"] == ["L1/1", "L1/2", "L1/5", "L2/6", "L2/7"]
    assert document["as_published"]["degenerate"] == 5
    assert document["under_evokern"]["degenerate"] == 1
    assert sum(line.startswith(f"{n}/11 L") for n in range(1, 12) for line in said.splitlines()) == 11, "one line as each is done"


def reasons(row: Any, column: str = "as_published") -> str:
    return "\n".join(row[column]["reasons"])


def test_fakes_that_pass_as_published_are_named(rows: dict[str, Any]) -> None:
    assert "a copy of input 1 would pass" in reasons(rows["Rectifier"])
    assert "dropping `relu` (operator 1 of 1) changes nothing that the tolerance sees" in reasons(rows["Rectifier"])
    assert "an output of zeros would pass" in reasons(rows["Long_softmax"])
    assert rows["Long_softmax"]["as_published"]["sizes"]["batch"] < 1024
    assert "the output of the previous call would pass" in reasons(rows["Loss"])
    assert "'norm.weight' is drawn as ones" in reasons(rows["Norm"])


def test_evokern_draws_and_judges_so_that_these_fail(rows: dict[str, Any]) -> None:
    for name in ("Rectifier", "Long_softmax", "Loss", "Norm"):
        assert rows[name]["under_evokern"]["degenerate"] is False, name
    assert "zeros would pass" in reasons(rows["Nothing_left"], "under_evokern"), "which no values can mend"
    assert "zeros would pass" in reasons(rows["Nothing_left"])


def test_sound_tasks_are_sound_in_both(rows: dict[str, Any]) -> None:
    """Whatever a good kernel leaves out: the largest element subtracted, a constant that keeps the divisor off zero."""
    for name in ("Product", "Softmax_by_hand", "Dropout"):
        assert [rows[name][c]["reasons"] for c in ("as_published", "under_evokern")] == [[], []], name
    assert "draws random numbers" in rows["Dropout"]["as_published"]["notes"][0]


def test_what_cannot_be_checked_is_skipped_with_its_reason(rows: dict[str, Any]) -> None:
    assert "RuntimeError" in rows["Fails"]["skipped"]
    assert "too large" in rows["Too_large"]["skipped"]
    assert rows["No_model"]["skipped"] == "defines no Model, no get_init_inputs"


def test_rows_that_were_kept_are_not_checked_again(shell: Shell, checkout: Path, answer: tuple[int, Any, str]) -> None:
    kept = checkout / "rows"
    lines = kept.read_text().splitlines()
    assert sorted(json.loads(line)["task"] for line in lines) == sorted(row["task"] for row in answer[1]["tasks"])
    code, document, _ = shell("task", "check", "--format", "kernelbench", str(checkout), "--keep", str(kept))
    assert (code, document["tasks"]) == (1, answer[1]["tasks"]), "seconds and all"
    assert kept.read_text().splitlines() == lines
    code, document, _ = shell("task", "check", "--format", "kernelbench", str(checkout), "--keep", str(kept), "--only", "L1/3")
    assert (code, document["degenerate"]) == (0, [])
