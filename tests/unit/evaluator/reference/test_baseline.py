"""What the judge makes of a baseline's answers."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from evokern.errors import DiskFull, EvokernError
from evokern.evaluator.call.protocol import Go
from evokern.evaluator.reference.baseline import Baseline
from evokern.task import DType
from evokern.testing.requests import row_task


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({"error": "InductorError: OSError: [Errno 28] No space left on device", "full": True}, DiskFull),
        ({"error": "RuntimeError: shapes", "full": False}, EvokernError),
        ({"error": "RuntimeError: shapes"}, EvokernError),
    ],
)
def test_a_full_disk_is_told_from_a_reference_that_fails(tmp_path: Path, told: Mapping[str, object], kind: type[EvokernError]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.send(json.dumps(told).encode())
        with pytest.raises(EvokernError) as caught:
            Baseline(ours, row_task(tmp_path), DType.FLOAT32).prepare(Go(1, ()))
    assert type(caught.value) is kind
