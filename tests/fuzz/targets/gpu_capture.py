"""What a runner says that it would launch: refused with the reason, or a launch list that is the same after another journey."""

from __future__ import annotations

import json

from evokern_gpu.capture import Unsealable
from evokern_gpu.launches import from_json, to_json
from evokern_gpu.relocation import relocated

from tests.fuzz.harness import SEPARATOR


def once(data: bytes) -> None:
    first, _, second = data.partition(SEPARATOR)
    try:
        found = relocated(first, second or first)
    except Unsealable:
        return
    for item in found:
        assert from_json(json.loads(json.dumps(to_json(item))), arguments=257) == item
