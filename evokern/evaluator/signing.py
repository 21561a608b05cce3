"""Signatures: which judge gave a verdict, provable to whoever knows the judges' public keys (EVALUATOR section 5).

A home has one judge's key. The private half stays in a file of mode 0600 that judge processes alone read; the public half is
enrolled in the home's list by the engine that started the judge. Ed25519 (RFC 8032), because signing and verifying take about
0.1 ms and the same content always has the same signature.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from evokern import record
from evokern.errors import Unavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PRIVATE = Path("keys") / "judge.ed25519"
"""Within a home: 32 bytes, mode 0600, outside every mount of a slot."""

ENROLLED = "judges"
"""Within a home: public keys of the judges whose verdicts count, hex, one a line."""

PRODUCTS = Path("keys") / "products"
"""Likewise: the key of the seals on build products, a secret of whoever built them."""

SEED_BYTES = 32


class Signable(Protocol):
    """A noun with room for a signature: `Evaluation`, `Preparation`, `Closing`, `Seal`."""

    @property
    def judge(self) -> str:
        """Public key, hex; empty where nobody signed."""
        ...

    @property
    def signature(self) -> str:
        """Over everything else, hex."""
        ...


Noun = TypeVar("Noun", bound=Signable)


@dataclass(frozen=True, slots=True)
class Seal:
    """A signed head of a run's chain: nothing up to it can be changed, and nothing up to it can be missing.

    Attributes:
        run: Id of the run.
        position: Of the last event that it covers, from 0.
        digest: That event's digest.
        judge: Public key of who sealed, hex.
        signature: Over the rest, hex.
    """

    run: str
    position: int
    digest: str
    judge: str = ""
    signature: str = ""


class Signer:
    """Holds a private key; lives in a judge's process.

    Args:
        seed: 32 bytes from the operating system.

    Attributes:
        public: The public key, hex.
    """

    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key: Ed25519PrivateKey = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._key.public_key().public_bytes_raw().hex()

    @classmethod
    def of_home(cls, home: Path) -> Signer:
        """The home's judge; its key is drawn where there is none yet.

        Raises:
            Unavailable: The key's file cannot be written or read.
        """
        return cls(kept_seed(home / PRIVATE))

    def sign(self, noun: Noun) -> Noun:
        """The noun with `judge` and `signature`, in the form in which it comes back from JSON."""
        unsigned: Any = noun
        unsigned = replace(unsigned, judge=self.public, signature="")
        named: Any = record.from_json(type(noun), record.to_json(unsigned))
        signed: Noun = replace(named, signature=self._key.sign(content(named)).hex())
        return signed


class Judges:
    """Judges whose verdicts count.

    Args:
        keys: Public keys, hex.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.keys = frozenset(keys)

    @classmethod
    def of_home(cls, home: Path) -> Judges:
        """Those enrolled in a home; none where it has no list."""
        try:
            return cls((home / ENROLLED).read_text(encoding="ascii").split())
        except (FileNotFoundError, NotADirectoryError):
            return cls()
        except (OSError, ValueError) as error:
            raise Unavailable(f"the list of judges cannot be read: {error}", where=str(home / ENROLLED)) from error

    def accept(self, noun: Signable) -> bool:
        """Whether an enrolled judge signed exactly this."""
        return noun.judge in self.keys and genuine(noun)


def enroll(home: Path, judge: str) -> Judges:
    """Let a judge's verdicts count in a home.

    Args:
        home: The home folder.
        judge: Its public key, hex; nothing is enrolled where it is empty.

    Returns:
        All judges enrolled there.

    Raises:
        Unavailable: The list cannot be written.
    """
    known = Judges.of_home(home)
    if not judge or judge in known.keys:
        return known
    try:
        descriptor = os.open(home / ENROLLED, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "ab", buffering=0) as file:
            file.write(f"{judge}\n".encode("ascii"))
            os.fsync(file.fileno())
    except OSError as error:
        raise Unavailable(f"the judge cannot be enrolled: {error.strerror}", where=str(home / ENROLLED)) from error
    return Judges({*known.keys, judge})


def genuine(noun: Signable) -> bool:
    """Whether the judge that a noun names signed exactly this; whose key that is, it does not say."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(noun.judge))
        key.verify(bytes.fromhex(noun.signature), content(noun))
    except (InvalidSignature, ValueError):
        return False
    return True


def content(noun: Signable) -> bytes:
    """What is signed: the kind of noun and its fields but the signature, in canonical JSON.

    A field at its default is left out, so that a signature outlives fields that later versions add.
    """
    fields = _sparse(noun)
    fields.pop("signature", None)
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return b"evokern.signed/1\0" + type(noun).__name__.encode() + b"\0" + text.encode("ascii")


def _sparse(value: Any) -> Any:
    """As `record.to_json`, without fields that hold their default."""
    if value is None or type(value) in (str, int, bool):  # most of what an evaluation holds
        return value
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        held = ((name, getattr(value, name), default) for name, default in _defaults(kind))
        return {name: _sparse(item) for name, item, default in held if item is not default and item != default}
    if isinstance(value, list | tuple):
        return [_sparse(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _sparse(item) for key, item in value.items()}
    return record.to_json(value)


@functools.cache
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """Fields of a dataclass with their defaults; `MISSING`, which equals nothing, where there is none."""
    return tuple(
        (field.name, field.default if field.default_factory is dataclasses.MISSING else field.default_factory())
        for field in dataclasses.fields(kind)
    )


def kept_seed(path: Path) -> bytes:
    """The seed in a file; drawn where there is none. Two judges that start at once get the same one.

    Raises:
        Unavailable: The file cannot be written or does not hold a key.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _draw_seed(path)
        seed = path.read_bytes()
    except OSError as error:
        raise Unavailable(f"the judge's key cannot be kept: {error.strerror}", where=str(path)) from error
    if len(seed) != SEED_BYTES:
        raise Unavailable("does not hold a judge's key", where=str(path), mend="Move it away: earlier verdicts stay valid")
    return seed


def _draw_seed(path: Path) -> None:
    """Written whole under another name first, and linked only if nobody else was quicker."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(SEED_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)
    except FileExistsError:
        return
    finally:
        partial.unlink()
