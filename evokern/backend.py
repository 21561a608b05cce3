"""Protocols to the outside: what builds and loads kernels, and where their processes live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from evokern.evaluation import Tier
from evokern.kernel import Kernel
from evokern.sandbox.limits import Completed, Limits
from evokern.task import DType

__all__ = ["Backend", "Built", "Completed", "Facts", "Limits", "Sandbox"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a backend found on this machine; part of every fingerprint.

    Attributes:
        backend: Its name.
        device: Model of the processor or GPU.
        driver: Kernel release or driver version.
        compiler: Compiler and version.
        flags: Fixed flags.
        arch: What binaries are tied to: architecture and CPU features.
    """

    backend: str
    device: str
    driver: str
    compiler: str
    flags: tuple[str, ...]
    arch: str


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a build.

    Attributes:
        ok: Whether there is an artefact.
        artefact: The shared library or module, or None.
        reason: A `Reason` value where there is none: "compiler", "deadline_build", "flags", "memory".
        log: The compiler's text, capped.
        seconds: Wall time; 0 where the product was cached.
        digest: sha256 of the artefact, hex.
    """

    ok: bool
    artefact: Path | None
    reason: str = "none"
    log: str = ""
    seconds: float = 0.0
    digest: str = ""


class Sandbox(Protocol):
    """Where untrusted commands run. Tiers are found by canaries, not by hope.

    Attributes:
        tier: What this machine gives.
    """

    tier: Tier

    def run(
        self, argv: Sequence[str], *, files: Mapping[str, bytes], want: Sequence[str], limits: Limits, readable: Sequence[Path] = ()
    ) -> Completed:
        """Run a command in an empty folder that holds `files`; only the toolchain and `readable` can be seen beside it.

        Args:
            argv: Command; relative names are those of `files`.
            files: Content by relative name.
            want: Names to read back afterwards.
            limits: What it may use.
            readable: Further files or folders it may read, at their own paths.
        """
        ...


class Backend(Protocol):
    """Builds kernels of its dialects and says how to load them.

    Attributes:
        name: As in `--backend`.
        dialects: Dialects it takes.
        dtypes: Element types it takes.
    """

    name: str
    dialects: tuple[str, ...]
    dtypes: tuple[DType, ...]

    def probe(self) -> Facts:
        """What is here.

        Raises:
            Unavailable: Something it needs is missing; the message says what and how to get it.
        """
        ...

    def require(self, dtype: DType) -> None:
        """Refuse an element type that is not built for.

        Raises:
            Unavailable: It is not in `dtypes`.
        """
        ...

    def build(self, kernels: Sequence[Kernel], *, sandbox: Sandbox, cache: Path, limits: Limits) -> list[Built]:
        """Build a batch; one bad kernel never spoils another's product.

        Args:
            kernels: Distinct kernels.
            sandbox: Where compilers run.
            cache: Folder for products, keyed by source, flags, compiler, headers and architecture.
            limits: Of one compiler process.
        """
        ...

    def loader(self) -> str:
        """`module:function` that the zygote imports: (artefact descriptor, entry) -> the callable kernel."""
        ...

    def read(self, kernel: Kernel, built: Built) -> dict[str, str]:
        """Descriptors of a product: what it does, in terms that predict time."""
        ...

    def instruments(self) -> dict[str, Kernel]:
        """Kernels that measure the machine instead of computing.

        Returns:
            "null", which returns at once, and "copy", which reads every input and writes every output as fast as it can.
        """
        ...
