"""Tunables, flags, normal form and likeness of sources in both families of languages."""

from __future__ import annotations

from evokern.errors import SourceError
from evokern.kernel import Kernel
from evokern.syntax.flags import FLAGS_BY_DIALECT, flags_of, with_flags
from evokern.syntax.likeness import contained, fingerprint
from evokern.syntax.normal import normal_form
from evokern.syntax.tunables import tunables_of, with_values
from tests.fuzz.harness import text_of


def once(data: bytes) -> None:
    source = text_of(data)
    for dialect in ("cpp", "triton"):
        assert normal_form(source, dialect) == normal_form(source, dialect)
        own = fingerprint(source, dialect)
        assert contained(own, own) == bool(own)
        assert Kernel(dialect, source).id == Kernel(dialect, source).id
        _tuned(source, dialect)
    for dialect in FLAGS_BY_DIALECT:
        _flagged(source, dialect)


def _tuned(source: str, dialect: str) -> None:
    try:
        tunables = tunables_of(source, dialect)
    except SourceError:
        return
    assert with_values(source, dialect, {t.name: t.value for t in tunables}) == source
    for tunable in tunables:
        other = with_values(source, dialect, {tunable.name: tunable.allowed[-1]})
        assert {t.name for t in tunables_of(other, dialect)} == {t.name for t in tunables}


def _flagged(source: str, dialect: str) -> None:
    try:
        flags = flags_of(source, dialect)
    except SourceError:
        return
    assert flags_of(with_flags(source, flags), dialect) == flags
    assert flags_of(with_flags(source, ()), dialect) == ()
