"""Text that a kernel, a compiler or a model wrote, on its way to a terminal; and what a slot prints, on its way to the judge."""

from __future__ import annotations

import os
import unicodedata

from evokern import printable
from evokern.sandbox.drain import KEPT_BYTES, Stream
from tests.fuzz.harness import text_of

_MOST = 3000


def once(data: bytes) -> None:
    for text in (text_of(data), data.decode("utf-8", "surrogateescape"), data.decode("latin-1")):
        for clean, kept in ((printable.line, ""), (printable.block, "\n\t")):
            shown = clean(text, 200)
            assert len(shown) <= 200
            assert all(unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"} or c in kept for c in shown)
            assert clean(shown, 200) == shown
    _drained(data)


def _drained(data: bytes) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, data[:4096])
        os.close(writing)
        floods: list[bool] = []
        stream = Stream(reading, _MOST, lambda: floods.append(True))
        while stream.take():
            pass
        assert stream.flooded == bool(floods) == (len(data[:4096]) > _MOST)
        assert len(stream.text().encode("utf-8", "surrogatepass")) <= 3 * KEPT_BYTES
    finally:
        os.close(reading)
