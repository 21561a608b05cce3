"""The triton backend on a GPU: seeds and styles of the field through the runner's own loader, in forks without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from evokern_gpu import card

from evokern.errors import Unavailable
from tests.gpu import triton_smoke

NAMES = [f"{task}-{dtype}" for task in triton_smoke.TASKS for dtype in triton_smoke.DTYPES] + list(triton_smoke.COPIES)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    try:
        card.find()
    except Unavailable as error:
        pytest.skip(error.what)
    pytest.importorskip("triton")
    return {row["name"]: row for row in triton_smoke.everything(Path(tmp_path_factory.mktemp("home")))}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_is_right_in_every_layout_and_compiles_nothing_for_visible_shapes(name: str, rows: dict[str, dict[str, Any]]) -> None:
    assert list(triton_smoke.complaints(rows[name])) == []


@pytest.mark.parametrize("name", [name for name in NAMES if name != "descriptors"])  # whose scratch memory is no window
def test_can_be_noted_for_a_sealed_run(name: str, rows: dict[str, dict[str, Any]]) -> None:
    assert rows[name]["capture"] == ""


def test_what_no_build_foresaw_is_compiled_in_the_runner(rows: dict[str, dict[str, Any]]) -> None:
    assert rows["block_of_the_row"]["compiled_here"] > 0
    assert rows["plain"]["compiled_here"] == 0
