"""Built libraries, keyed by everything that their bytes depend on (EVALUATOR section 5).

One folder a product: the library, read-only, what was read from it, and a seal over both and the key. Written under another name
and renamed, so that a folder of the right name is whole; the seal is verified at every use, so that one which is damaged, or was
built from another source, is built again.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LIBRARY = "kernel.so"
_SEAL = "seal"
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
        traits: What was read from it when it was built; empty where nothing can be told.
    """

    path: Path
    digest: str
    traits: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def find(cls, cache: Path, key: str, seal: bytes = b"") -> Product | None:
        """The product of a key; None, and nothing is left of it, where it is not what was stored under this key by whoever seals so.

        Args:
            cache: Folder of all products.
            key: `key_of` all that it was made from.
            seal: Key of the seals; whoever does not know it cannot lay one product in another's place.
        """
        folder = cache / key
        try:
            found, traits = (folder / _SEAL).read_bytes(), (folder / _TRAITS).read_bytes()
            digest = hashlib.sha256((folder / LIBRARY).read_bytes()).hexdigest()
        except OSError:
            pass
        else:
            if hmac.compare_digest(found, _sealed(seal, key, digest, traits)):
                return cls(folder / LIBRARY, digest, _traits(traits))
        shutil.rmtree(folder, ignore_errors=True)
        return None

    @classmethod
    def store(cls, cache: Path, key: str, library: bytes, traits: Mapping[str, str], seal: bytes = b"") -> Product:
        """Write a product; where another process was first, its product is taken.

        Args:
            cache: Folder of all products.
            key: `key_of` all that it was made from.
            library: Its bytes.
            traits: What was read from it.
            seal: Key of the seals.

        Raises:
            OSError: The cache cannot be written.
        """
        cache.mkdir(parents=True, exist_ok=True)
        fresh = cache / f".new-{os.getpid()}-{secrets.token_hex(4)}"
        fresh.mkdir()
        try:
            digest = hashlib.sha256(library).hexdigest()
            told = json.dumps(dict(traits), sort_keys=True).encode()
            _write(fresh / LIBRARY, library)
            _write(fresh / _TRAITS, told)
            _write(fresh / _SEAL, _sealed(seal, key, digest, told))
            with contextlib.suppress(OSError):
                fresh.rename(cache / key)
            found = cls.find(cache, key, seal)
            if found is None:  # what was there was damaged or laid there, and is gone now
                fresh.rename(cache / key)
                found = cls(cache / key / LIBRARY, digest, dict(traits))
            return found
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _sealed(seal: bytes, key: str, digest: str, traits: bytes) -> bytes:
    """HMAC-SHA256, hex, of what belongs together; `key` and `digest` have fixed lengths, and `traits` is the rest."""
    return hmac.new(seal, f"evokern.product/1\0{key}\0{digest}\0".encode() + traits, hashlib.sha256).hexdigest().encode()


def _traits(text: bytes) -> dict[str, str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()) else {}


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    file.chmod(0o444)
