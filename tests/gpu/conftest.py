"""What tests on a GPU share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gpu.stands import Stands


@pytest.fixture(scope="session")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stands]:
    """Sessions by backend and task."""
    made = Stands(tmp_path_factory.mktemp("stands"))
    yield made
    made.close()
