"""Evaluations in JSON, as caches, journals and `--json` files hold them, and their signatures."""

from __future__ import annotations

import json

from evokern import record
from evokern.errors import EvokernError
from evokern.evaluation import Evaluation
from evokern.evaluator.signing import Judges, content, genuine
from tests.fuzz.harness import text_of

_NOBODY = Judges()


def once(data: bytes) -> None:
    try:
        found = record.from_json(Evaluation, record.parse(text_of(data)))
    except EvokernError as error:
        assert "\n" not in error.line
        return
    again = record.from_json(Evaluation, json.loads(json.dumps(record.to_json(found))))
    assert content(again) == content(found)
    assert not genuine(found)
    assert not _NOBODY.accept(found)
