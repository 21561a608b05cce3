"""Built libraries, keyed by everything that their bytes depend on (EVALUATOR section 5).

One folder a product: the library, read-only, its sha256, and what was read from it. Written under another name and renamed,
so that a folder of the right name is whole; verified by hash at every use, so that a damaged one is built again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LIBRARY = "kernel.so"
_DIGEST = "sha256"
_TRAITS = "traits-2.json"
"""Renamed whenever more is read from libraries, so that those of which less is known are built and read again."""


def key_of(**parts: object) -> str:
    """sha256 over named parts, hex."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Product:
    """A library in the cache.

    Attributes:
        path: The library.
        digest: sha256 of its bytes, hex.
    """

    path: Path
    digest: str

    @classmethod
    def find(cls, cache: Path, key: str) -> Product | None:
        """The product of a key; None where there is none, its bytes are not what was stored, or it was never read."""
        folder = cache / key
        try:
            digest = (folder / _DIGEST).read_text(encoding="ascii").strip()
            if (folder / _TRAITS).is_file() and hashlib.sha256((folder / LIBRARY).read_bytes()).hexdigest() == digest:
                return cls(folder / LIBRARY, digest)
        except (OSError, UnicodeDecodeError):
            pass
        shutil.rmtree(folder, ignore_errors=True)
        return None

    @classmethod
    def store(cls, cache: Path, key: str, library: bytes, traits: Mapping[str, str]) -> Product:
        """Write a product; where another process was first, its product is taken.

        Raises:
            OSError: The cache cannot be written.
        """
        cache.mkdir(parents=True, exist_ok=True)
        fresh = cache / f".new-{os.getpid()}-{secrets.token_hex(4)}"
        fresh.mkdir()
        try:
            digest = hashlib.sha256(library).hexdigest()
            _write(fresh / LIBRARY, library)
            _write(fresh / _TRAITS, json.dumps(dict(traits), sort_keys=True).encode())
            _write(fresh / _DIGEST, digest.encode())
            with contextlib.suppress(OSError):
                fresh.rename(cache / key)
            found = cls.find(cache, key)
            if found is None:  # what was there was damaged, and is gone now
                fresh.rename(cache / key)
                found = cls(cache / key / LIBRARY, digest)
            return found
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def traits_beside(library: Path) -> dict[str, str]:
    """What was read from a library when it was built; empty where there is nothing."""
    try:
        found = json.loads((library.parent / _TRAITS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()) else {}


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    file.chmod(0o444)
