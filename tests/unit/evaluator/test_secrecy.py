from __future__ import annotations

import os
from pathlib import Path

import pytest

from evokern.errors import Unavailable
from evokern.evaluator.secrecy import KEY_BYTES, Secret, fresh_secret, kept_secret


def test_draws_depend_on_key_and_context_alone() -> None:
    one, other = Secret(b"a" * KEY_BYTES), Secret(b"b" * KEY_BYTES)

    assert one.seed("x", 1) == Secret(b"a" * KEY_BYTES).seed("x", 1)
    assert len({one.seed("x", 1), one.seed("x", 2), one.seed("x1"), other.seed("x", 1), one.derive("x").seed(1)}) == 5
    assert 0 <= one.seed("x") < 1 << 63
    assert one.stream("x").bytes(8) == one.stream("x").bytes(8)


def test_a_kept_key_is_the_same_on_a_resume_and_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "run.key"

    first = kept_secret(path)

    assert kept_secret(path).key == first.key
    assert len(first.key) == KEY_BYTES
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert fresh_secret().key != first.key


def test_a_file_that_holds_no_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.key"
    path.write_bytes(b"short")

    with pytest.raises(Unavailable, match=r"run\.key"):
        kept_secret(path)


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file")

    with pytest.raises(Unavailable, match="key cannot be kept"):
        kept_secret(tmp_path / "keys" / "run.key")
    assert os.listdir(tmp_path) == ["keys"]
