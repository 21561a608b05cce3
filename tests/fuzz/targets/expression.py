"""Arithmetic over axes, and comparisons of it."""

from __future__ import annotations

from evokern.errors import EvokernError
from evokern.task import constraints_hold, evaluate_expression
from tests.fuzz.harness import text_of

_AXES = {"rows": 7, "cols": 4096, "itemsize": 4}


def once(data: bytes) -> None:
    text = text_of(data)
    for read in (lambda: evaluate_expression(text, _AXES), lambda: constraints_hold((text,), _AXES)):
        try:
            assert isinstance(read(), int)
        except EvokernError as error:
            assert "\n" not in error.line
