"""Built libraries, keyed by everything that their bytes depend on (EVALUATOR section 5).

One folder a product: the library, read-only, its device binaries where it has any, what was read from it, and a seal over all of
them and the key. Written under another name and renamed, so that a folder of the right name is whole; the seal is verified at every
use, so that one which is damaged, or was built from another source, is built again.
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
IMAGE = "image"
"""What names of device binaries begin with."""

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
        images: Its device binaries, in the order of their names.
    """

    path: Path
    digest: str
    traits: Mapping[str, str] = field(default_factory=dict)
    images: tuple[Path, ...] = ()

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
            digest = _digest(folder / LIBRARY)
            images = {file: _digest(file) for file in sorted(folder.glob(f"{IMAGE}*"))}
        except OSError:
            pass
        else:
            named = {file.name: told for file, told in images.items()}
            if hmac.compare_digest(found, _sealed(seal, key, digest, traits, named)):
                return cls(folder / LIBRARY, digest, _traits(traits), tuple(images))
        shutil.rmtree(folder, ignore_errors=True)
        return None

    @classmethod
    def store(
        cls,
        cache: Path,
        key: str,
        library: bytes,
        traits: Mapping[str, str],
        seal: bytes = b"",
        images: Mapping[str, bytes] | None = None,
    ) -> Product:
        """Write a product; where another process was first, its product is taken.

        Args:
            cache: Folder of all products.
            key: `key_of` all that it was made from.
            library: Its bytes.
            traits: What was read from it.
            seal: Key of the seals.
            images: Device binaries by name; names begin with `IMAGE`.

        Raises:
            OSError: The cache cannot be written.
        """
        cache.mkdir(parents=True, exist_ok=True)
        fresh = cache / f".new-{os.getpid()}-{secrets.token_hex(4)}"
        fresh.mkdir()
        try:
            digest = hashlib.sha256(library).hexdigest()
            told = json.dumps(dict(traits), sort_keys=True).encode()
            binaries = dict(sorted((images or {}).items()))
            _write(fresh / LIBRARY, library)
            _write(fresh / _TRAITS, told)
            for name, binary in binaries.items():
                _write(fresh / name, binary)
            digests = {name: hashlib.sha256(binary).hexdigest() for name, binary in binaries.items()}
            _write(fresh / _SEAL, _sealed(seal, key, digest, told, digests))
            with contextlib.suppress(OSError):
                fresh.rename(cache / key)
            found = cls.find(cache, key, seal)
            if found is None:  # what was there was damaged or laid there, and is gone now
                fresh.rename(cache / key)
                found = cls(cache / key / LIBRARY, digest, dict(traits), tuple(cache / key / name for name in binaries))
            return found
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _sealed(seal: bytes, key: str, digest: str, traits: bytes, images: Mapping[str, str] | None = None) -> bytes:
    """HMAC-SHA256, hex, of what belongs together; `key` and all digests have fixed lengths, and `traits`, a JSON object, is the rest."""
    parts = ["evokern.product/1", key, digest, *(part for pair in sorted((images or {}).items()) for part in pair), ""]
    return hmac.new(seal, "\0".join(parts).encode() + traits, hashlib.sha256).hexdigest().encode()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _traits(text: bytes) -> dict[str, str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()) else {}


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    file.chmod(0o444)
