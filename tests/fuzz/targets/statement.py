"""Messages between engine and judge."""

from __future__ import annotations

from evokern import record
from evokern.errors import EvokernError
from evokern.evaluator import statement
from evokern.executor import local
from tests.fuzz.harness import text_of

_NOUNS = (statement.Opening, statement.Preparation, statement.Assignment, statement.Closing, statement.Finish, statement.Health)


def once(data: bytes) -> None:
    try:
        message = record.parse(text_of(data))
    except EvokernError:
        return
    for noun in _NOUNS:
        try:
            found = record.from_json(noun, message)
        except EvokernError as error:
            assert "\n" not in error.line
            continue
        record.to_json(found)
    assert isinstance(local._error(message), Exception)
