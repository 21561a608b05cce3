"""A build cache that somebody damaged: a product is whole, or there is none."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from evokern_cpu import product

from tests.fuzz.harness import halves

_KEY = "k"


def once(data: bytes) -> None:
    first, second = (part.encode("utf-8", "surrogateescape") for part in halves(data))
    for digest in (first, hashlib.sha256(second).hexdigest().encode()):
        _used(digest, second)


def _used(digest: bytes, content: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name) / _KEY
        folder.mkdir()
        (folder / product.LIBRARY).write_bytes(content)
        (folder / "sha256").write_bytes(digest)
        (folder / product._TRAITS).write_bytes(content)
        traits = product.traits_beside(folder / product.LIBRARY)
        assert all(isinstance(key, str) and isinstance(value, str) for key, value in traits.items())
        found = product.Product.find(Path(name), _KEY)
        assert found is None or hashlib.sha256(found.path.read_bytes()).hexdigest() == found.digest
        assert (found is None) != folder.is_dir()
