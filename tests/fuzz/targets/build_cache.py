"""A build cache that somebody damaged: a product is whole, or there is none."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from evokern.building import product
from tests.fuzz.harness import halves

_KEY = "k"


def once(data: bytes) -> None:
    first, second = (part.encode("utf-8", "surrogateescape") for part in halves(data))
    digest = hashlib.sha256(second).hexdigest()
    for seal in (first, product._sealed(b"", _KEY, digest, second)):
        _used(seal, second)


def _used(seal: bytes, content: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name) / _KEY
        folder.mkdir()
        (folder / product.LIBRARY).write_bytes(content)
        (folder / product._SEAL).write_bytes(seal)
        (folder / product._TRAITS).write_bytes(content)
        found = product.Product.find(Path(name), _KEY)
        if found is not None:
            assert all(isinstance(key, str) and isinstance(value, str) for key, value in found.traits.items())
            assert hashlib.sha256(found.path.read_bytes()).hexdigest() == found.digest
        assert (found is None) != folder.is_dir()
        assert product.Product.find(Path(name), _KEY, b"another's") is None
