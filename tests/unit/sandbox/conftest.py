from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from evokern.errors import Unavailable
from evokern.sandbox import Spawner
from evokern.sandbox.spawner import SWITCH

FOLDER = Path(__file__).parent
MEANS = ("root", "user", "off")


def start(means: str, scratch: Path, renew_after: Mapping[str, int] | None = None) -> Spawner:
    """A spawner that walls off by these means, or a skip where this machine does not give them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, means)
        patch.setenv("EVOKERN_TEST_SECRET", "not for candidates")
        patch.syspath_prepend(FOLDER)
        try:
            return Spawner.start({"c": ["sandbox_entries"]}, scratch=scratch, renew_after=renew_after)
        except Unavailable as error:
            pytest.skip(error.line)


@pytest.fixture(scope="session", params=MEANS)
def spawner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    """One spawner for each means."""
    with start(request.param, tmp_path_factory.mktemp("scratch")) as made:
        yield made


@pytest.fixture(scope="session")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    """The strongest that this user can have."""
    with start("root" if os.geteuid() == 0 else "user", tmp_path_factory.mktemp("scratch")) as made:
        yield made
