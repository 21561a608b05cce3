"""The judge's secrets: one key per run, and every draw that a candidate must not foresee.

Sets, orders, offsets, sentinels, permutations and tiles come from HMAC-SHA256 of the key and a context, so that a resumed
run draws the same held-out set and nobody without the key can draw any.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

import numpy as np

from evokern.errors import Unavailable

KEY_BYTES = 32


class Secret:
    """A key and the streams of chance that it gives.

    Args:
        key: `KEY_BYTES` random bytes.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key

    def seed(self, *context: object) -> int:
        """A number in [0, 2^63) for a context."""
        text = "\0".join(map(str, context)).encode()
        return int.from_bytes(hmac.digest(self.key, text, hashlib.sha256)[:8], "little") >> 1

    def derive(self, *context: object) -> Secret:
        """A secret of its own for a context."""
        return Secret(hmac.digest(self.key, "\0".join(map(str, ("derive", *context))).encode(), hashlib.sha256))

    def stream(self, *context: object) -> np.random.Generator:
        """A generator for a context."""
        return np.random.Generator(np.random.Philox(self.seed(*context)))


def fresh_secret() -> Secret:
    """A key from the operating system that nothing keeps."""
    return Secret(os.urandom(KEY_BYTES))


def kept_secret(path: Path) -> Secret:
    """The key in a file of mode 0600; drawn and written where there is none, so that a run can be resumed.

    Raises:
        Unavailable: The file cannot be written or does not hold a key.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            key = path.read_bytes()
            if len(key) != KEY_BYTES:
                raise Unavailable("does not hold a key", where=str(path), mend="Start a new run") from None
            return Secret(key)
        key = os.urandom(KEY_BYTES)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        return Secret(key)
    except OSError as error:
        raise Unavailable(f"the run's key cannot be kept: {error.strerror}", where=str(path)) from error
