"""A settings file that a user wrote."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evokern.config import load_config
from evokern.errors import EvokernError


def once(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(data)
        file.flush()
        try:
            config = load_config(Path(file.name), {"threads": 2})
        except EvokernError as error:
            assert "\n" not in error.line
            return
    assert config.threads == 2
    config.budget.budget()
