"""CpuBackend: builds C++ kernels as shared libraries in the sandbox."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import evokern
from evokern.backend import Built, Facts, Limits, Sandbox
from evokern.building import product
from evokern.building.batch import finished
from evokern.errors import SourceError, Unavailable
from evokern.evaluation import Reason
from evokern.kernel import Kernel
from evokern.task import DType, Task
from evokern_cpu import compiler, flags, reading, traits
from evokern_cpu.instruments import INSTRUMENTS, SERVER

HEADER = "evokern.h"
SOURCE = "kernel.cpp"

BUILD_SECONDS = 60.0
"""Time of one compiler process where the limits do not say."""

_PRINTED = "printed"
_LOG_CHARACTERS = 16_000
_OUTSIDE = re.compile(r"(?:fatal error: |file not found: ?)['\"]?(?:/|\.\./)|#embed|incbin")
_NOT_THERE = re.compile(r"No such file or directory|file not found", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Job:
    """One kernel that has to be compiled."""

    kernel: Kernel
    flags: tuple[str, ...]
    key: str


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What the compiler made of it."""

    library: bytes | None
    log: str
    seconds: float
    timed_out: bool = False
    out_of_memory: bool = False


class CpuBackend:
    """C++ on the machine's own processor (`evokern.backend.Backend`)."""

    name = "cpu"
    dialects = ("cpp",)
    dtypes = (DType.FLOAT32,)
    preference = 0

    def probe(self) -> Facts:
        """What is here.

        Raises:
            Unavailable: No compiler.
        """
        found = compiler.find()
        return Facts(self.name, _cpu_model(), platform.release(), found.version, flags.FIXED, _arch())

    def for_task(self, task: Task, dtype: DType) -> CpuBackend:
        """Itself: a library serves any shape."""
        return self

    def require(self, dtype: DType) -> None:
        """Refuse an element type that is not built for yet.

        Raises:
            Unavailable: It is not in `dtypes`.
        """
        if dtype not in self.dtypes:
            raise Unavailable(f"{dtype} is not here yet on the {self.name} backend", mend="Use --dtype float32")

    def build(self, kernels: Sequence[Kernel], *, sandbox: Sandbox, cache: Path, limits: Limits, seal: bytes = b"") -> list[Built]:
        """Build a batch; one bad kernel never spoils another's product.

        Args:
            kernels: Distinct kernels.
            sandbox: Where compilers and readers run.
            cache: Folder for products.
            limits: Of one compiler process; its `seconds` default to `BUILD_SECONDS`.
            seal: Key of the seals on products.

        Returns:
            One result a kernel, in their order.

        Raises:
            Unavailable: No compiler.
        """
        limits = limits if limits.seconds is not None else dataclasses.replace(limits, seconds=BUILD_SECONDS)
        planned = [self._plan(kernel, cache, seal) for kernel in kernels]
        # Each compiler and each reader has a slot of its own: what one source does to it, no other sees.
        return finished(planned, _Job, lambda job: self._made(job, sandbox, limits, cache, seal), limits.cpus)

    def loader(self) -> str:
        """`module:function` for the runner."""
        return "evokern_cpu.loader:load"

    def read(self, kernel: Kernel, built: Built) -> dict[str, str]:
        """Traits of a product (`evokern_cpu.traits`) and facts about what it asks of the system (`evokern.building.linkage`)."""
        found = traits.from_source(kernel.source)
        return {**found, **built.traits}

    def instruments(self) -> dict[str, Kernel]:
        """Kernels that measure the machine: "null" and "copy"."""
        return INSTRUMENTS

    def device(self, home: Path) -> None:
        """None: its windows are the host's memory."""

    def server(self) -> Kernel:
        """The native half of a runner, which answers calls."""
        return SERVER

    @cached_property
    def _header(self) -> bytes:
        return (Path(evokern.__file__).parent / "include" / HEADER).read_bytes()

    def _plan(self, kernel: Kernel, cache: Path, seal: bytes) -> Built | _Job:
        if kernel.dialect not in self.dialects:
            return Built(False, None, Reason.UNSUPPORTED, f"the {self.name} backend takes {', '.join(self.dialects)}, not {kernel.dialect}")
        try:
            chosen = flags.flags_for(kernel)
        except SourceError as error:
            return Built(False, None, Reason.FLAGS, error.line)
        source = kernel.source.encode("utf-8", "surrogatepass").hex()
        headers = hashlib.sha256(self._header).hexdigest()
        key = product.key_of(source=source, flags=chosen, compiler=compiler.find().identity, headers=headers, arch=_arch())
        found = product.Product.find(cache, key, seal)
        return Built(True, found.path, digest=found.digest, traits=found.traits) if found else _Job(kernel, chosen, key)

    def _made(self, job: _Job, sandbox: Sandbox, limits: Limits, cache: Path, seal: bytes) -> Built:
        outcome = self._compile(job, sandbox, limits)
        if outcome.library is None:
            return Built(False, None, _reason(outcome), outcome.log[:_LOG_CHARACTERS], outcome.seconds)
        descriptors = reading.found(_listing(outcome.library, sandbox, limits))
        stored = product.Product.store(cache, job.key, outcome.library, descriptors, seal)
        log = outcome.log[:_LOG_CHARACTERS]
        return Built(True, stored.path, log=log, seconds=outcome.seconds, digest=stored.digest, traits=stored.traits)

    def _compile(self, job: _Job, sandbox: Sandbox, limits: Limits) -> _Outcome:
        found = compiler.find()
        files = {SOURCE: _source_bytes(job.kernel), HEADER: self._header}
        done = sandbox.run(self._command(found, job), files=files, want=[product.LIBRARY], limits=limits, readable=found.readable)
        library = done.files.get(product.LIBRARY) if done.status == 0 else None
        return _Outcome(library, done.output, done.seconds, done.timed_out, done.out_of_memory)

    def _command(self, found: compiler.Compiler, job: _Job) -> list[str]:
        return [found.path, *job.flags, *flags.quiet_flags(is_clang=found.is_clang), "-I.", "-o", product.LIBRARY, SOURCE]


def _listing(library: bytes, sandbox: Sandbox, limits: Limits) -> str:
    """What the readers print, made in a slot because a library's bytes are a candidate's; empty where there are no readers."""
    if not reading.able():
        return ""
    command = ["sh", "-c", reading.script(product.LIBRARY, _PRINTED)]
    done = sandbox.run(command, files={product.LIBRARY: library}, want=[_PRINTED], limits=limits)
    return done.files.get(_PRINTED, b"").decode("utf-8", "replace")


def _source_bytes(kernel: Kernel) -> bytes:
    return kernel.source.encode("utf-8", "surrogatepass")


def _reason(outcome: _Outcome) -> str:
    if outcome.timed_out:
        return Reason.DEADLINE_BUILD
    if outcome.out_of_memory:
        return Reason.MEMORY
    # The file is absent in the sandbox whether it exists outside or not; what it was meant to be can be told from its path.
    if _NOT_THERE.search(outcome.log) and _OUTSIDE.search(outcome.log):
        return Reason.FORBIDDEN_FILE
    return Reason.COMPILER


def _cpu_model() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _arch() -> str:
    """Architecture and a hash of the CPU's features: a library built with -march=native runs only where these are."""
    features = " ".join(sorted((_cpuinfo("flags") or _cpuinfo("Features")).split()))
    return f"{platform.machine()}-{hashlib.sha256(features.encode()).hexdigest()[:12]}"


def _cpuinfo(field: str) -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as stream:
        for line in stream:
            name, _, value = line.partition(":")
            if name.strip() == field:
                return value.strip()
    return ""
