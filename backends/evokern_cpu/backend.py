"""CpuBackend: builds C++ kernels as shared libraries in the sandbox."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import platform
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import evokern
from evokern.backend import Built, Completed, Facts, Limits, Sandbox
from evokern.errors import SourceError, Unavailable
from evokern.evaluation import Reason
from evokern.kernel import Kernel
from evokern.task import DType
from evokern_cpu import compiler, flags, product, traits
from evokern_cpu.instruments import INSTRUMENTS

HEADER = "evokern.h"
SOURCE = "kernel.cpp"

BUILD_SECONDS = 60.0
"""Time of one compiler process where the limits do not say."""

_TIMED_OUT = 124  # of timeout(1)
_LOG_CHARACTERS = 16_000
_OUTSIDE = re.compile(r"(?:fatal error: |file not found: ?)['\"]?(?:/|\.\./)|#embed|incbin")
_NOT_THERE = re.compile(r"No such file or directory|file not found", re.IGNORECASE)

_RULE = """\
rule compile
  command = cd $folder && timeout -k 1 {seconds:.3f} {command} > log 2>&1; status=$$?; echo $$status > status; exit $$status
"""


@dataclass(frozen=True, slots=True)
class _Job:
    """One kernel that has to be compiled."""

    index: int
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

    def probe(self) -> Facts:
        """What is here.

        Raises:
            Unavailable: No compiler, or no ninja.
        """
        found = compiler.find()
        _ninja()
        return Facts(self.name, _cpu_model(), platform.release(), found.version, flags.FIXED, _arch())

    def require(self, dtype: DType) -> None:
        """Refuse an element type that is not built for yet.

        Raises:
            Unavailable: It is not in `dtypes`.
        """
        if dtype not in self.dtypes:
            raise Unavailable(f"{dtype} is not here yet on the {self.name} backend", mend="Use --dtype float32")

    def build(self, kernels: Sequence[Kernel], *, sandbox: Sandbox, cache: Path, limits: Limits) -> list[Built]:
        """Build a batch; one bad kernel never spoils another's product.

        Args:
            kernels: Distinct kernels.
            sandbox: Where the compiler runs.
            cache: Folder for products.
            limits: Of one compiler process; its `seconds` default to `BUILD_SECONDS`.

        Returns:
            One result a kernel, in their order.

        Raises:
            Unavailable: No compiler.
        """
        limits = limits if limits.seconds is not None else dataclasses.replace(limits, seconds=BUILD_SECONDS)
        results: dict[int, Built] = {}
        jobs: list[_Job] = []
        for index, kernel in enumerate(kernels):
            planned = self._plan(index, kernel, cache)
            if isinstance(planned, Built):
                results[index] = planned
            else:
                jobs.append(planned)
        outcomes = self._compile_all(jobs, sandbox, limits)
        listings = self._disassemble(outcomes, sandbox, limits)
        for job in jobs:
            results[job.index] = _settled(job, outcomes[job.index], listings.get(job.index, ""), cache)
        return [results[index] for index in range(len(kernels))]

    def loader(self) -> str:
        """`module:function` for the runner."""
        return "evokern_cpu.loader:load"

    def read(self, kernel: Kernel, built: Built) -> dict[str, str]:
        """Traits of a product (`evokern_cpu.traits`): `passes`, and where it was built `simd`, `libm`, `nt_stores`."""
        found = traits.from_source(kernel.source)
        return {**found, **product.traits_beside(built.artefact)} if built.artefact is not None else found

    def instruments(self) -> dict[str, Kernel]:
        """Kernels that measure the machine: "null" and "copy"."""
        return INSTRUMENTS

    @cached_property
    def _header(self) -> bytes:
        return (Path(evokern.__file__).parent / "include" / HEADER).read_bytes()

    def _plan(self, index: int, kernel: Kernel, cache: Path) -> Built | _Job:
        if kernel.dialect not in self.dialects:
            return Built(False, None, Reason.UNSUPPORTED, f"the {self.name} backend takes {', '.join(self.dialects)}, not {kernel.dialect}")
        try:
            chosen = flags.flags_for(kernel)
        except SourceError as error:
            return Built(False, None, Reason.FLAGS, error.line)
        source = kernel.source.encode("utf-8", "surrogatepass").hex()
        headers = hashlib.sha256(self._header).hexdigest()
        key = product.key_of(source=source, flags=chosen, compiler=compiler.find().identity, headers=headers, arch=_arch())
        found = product.Product.find(cache, key)
        return Built(True, found.path, digest=found.digest) if found else _Job(index, kernel, chosen, key)

    def _compile_all(self, jobs: Sequence[_Job], sandbox: Sandbox, limits: Limits) -> dict[int, _Outcome]:
        """Outcome by index. What a batch leaves open, for lack of memory or time as a whole, is compiled alone."""
        outcomes = self._compile_batch(jobs, sandbox, limits) if len(jobs) > 1 else {}
        return {job.index: outcomes.get(job.index) or self._compile_one(job, sandbox, limits) for job in jobs}

    def _compile_one(self, job: _Job, sandbox: Sandbox, limits: Limits) -> _Outcome:
        found = compiler.find()
        files = {SOURCE: _source_bytes(job.kernel), HEADER: self._header}
        done = sandbox.run(self._command(found, job), files=files, want=[product.LIBRARY], limits=limits, readable=found.readable)
        library = done.files.get(product.LIBRARY) if done.status == 0 else None
        return _Outcome(library, done.output, done.seconds, done.timed_out, done.out_of_memory)

    def _compile_batch(self, jobs: Sequence[_Job], sandbox: Sandbox, limits: Limits) -> dict[int, _Outcome]:
        found, ninja = compiler.find(), _ninja()
        workers = min(len(jobs), len(limits.cpus) or len(os.sched_getaffinity(0)))
        files: dict[str, bytes] = {"build.ninja": self._ninja_file(found, jobs, limits.seconds or BUILD_SECONDS).encode()}
        want: list[str] = []
        for job in jobs:
            files |= {f"{job.index}/{SOURCE}": _source_bytes(job.kernel), f"{job.index}/{HEADER}": self._header}
            want += [f"{job.index}/{name}" for name in (product.LIBRARY, "log", "status")]
        start = time.monotonic()
        done = sandbox.run(
            [str(ninja), "-k", "0", "-j", str(workers)],
            files=files,
            want=want,
            limits=_scaled(limits, jobs=len(jobs), workers=workers),
            readable=[*found.readable, ninja],
        )
        seconds = (time.monotonic() - start) / len(jobs)
        return {job.index: outcome for job in jobs if (outcome := _batch_outcome(job, done, seconds)) is not None}

    def _ninja_file(self, found: compiler.Compiler, jobs: Sequence[_Job], seconds: float) -> str:
        rules = []
        for job in jobs:
            command = " ".join(self._command(found, job))  # paths and white-listed flags: nothing that a shell would read otherwise
            rule = _RULE.format(seconds=seconds, command=command).replace("rule compile", f"rule compile{job.index}")
            rules.append(f"{rule}build {job.index}/{product.LIBRARY}: compile{job.index} {job.index}/{SOURCE}\n  folder = {job.index}\n")
        return "".join(rules)

    def _command(self, found: compiler.Compiler, job: _Job) -> list[str]:
        return [found.path, *job.flags, *flags.quiet_flags(is_clang=found.is_clang), "-I.", "-o", product.LIBRARY, SOURCE]

    def _disassemble(self, outcomes: Mapping[int, _Outcome], sandbox: Sandbox, limits: Limits) -> dict[int, str]:
        """Listing by index, made in the sandbox because a library's bytes are a candidate's; empty where there is no objdump."""
        files = {f"{index}.so": outcome.library for index, outcome in outcomes.items() if outcome.library is not None}
        if not files or shutil.which(traits.DISASSEMBLE[0]) is None:
            return {}
        script = f'for file in *.so; do {" ".join(traits.DISASSEMBLE)} "$file" > "$file.txt" 2> /dev/null; done'
        want = [f"{name}.txt" for name in files]
        done = sandbox.run(["sh", "-c", script], files=files, want=want, limits=limits)
        return {int(name.partition(".")[0]): text.decode("utf-8", "replace") for name, text in done.files.items()}


def _source_bytes(kernel: Kernel) -> bytes:
    return kernel.source.encode("utf-8", "surrogatepass")


def _scaled(limits: Limits, *, jobs: int, workers: int) -> Limits:
    """Limits of a batch from those of one compiler process."""
    rounds = math.ceil(jobs / workers)
    return dataclasses.replace(
        limits,
        memory_bytes=limits.memory_bytes * workers,
        processes=limits.processes * workers + 8,
        scratch_bytes=limits.scratch_bytes * jobs,
        seconds=(limits.seconds or BUILD_SECONDS) * rounds + 5.0,
    )


def _batch_outcome(job: _Job, done: Completed, seconds: float) -> _Outcome | None:
    """What a batch says of one kernel; None where it has to be compiled alone."""
    written = done.files.get(f"{job.index}/status", b"").strip()
    if not written.isdigit():
        return None
    status = int(written)
    if status not in (0, _TIMED_OUT) and done.out_of_memory:
        return None
    library = done.files.get(f"{job.index}/{product.LIBRARY}") if status == 0 else None
    log = done.files.get(f"{job.index}/log", b"")[: 4 * _LOG_CHARACTERS].decode("utf-8", "replace")
    return _Outcome(library, log, seconds, timed_out=status == _TIMED_OUT)


def _settled(job: _Job, outcome: _Outcome, listing: str, cache: Path) -> Built:
    if outcome.library is None:
        return Built(False, None, _reason(outcome), outcome.log[:_LOG_CHARACTERS], outcome.seconds)
    stored = product.Product.store(cache, job.key, outcome.library, traits.from_disassembly(listing))
    return Built(True, stored.path, log=outcome.log[:_LOG_CHARACTERS], seconds=outcome.seconds, digest=stored.digest)


def _reason(outcome: _Outcome) -> str:
    if outcome.timed_out:
        return Reason.DEADLINE_BUILD
    if outcome.out_of_memory:
        return Reason.MEMORY
    # The file is absent in the sandbox whether it exists outside or not; what it was meant to be can be told from its path.
    if _NOT_THERE.search(outcome.log) and _OUTSIDE.search(outcome.log):
        return Reason.FORBIDDEN_FILE
    return Reason.COMPILER


def _ninja() -> Path:
    """The ninja program of the Python package, else the system's.

    Raises:
        Unavailable: Neither is there.
    """
    try:
        from ninja import BIN_DIR
    except ImportError:
        packaged = None
    else:
        packaged = shutil.which("ninja", path=BIN_DIR)
    found = packaged or shutil.which("ninja")
    if found is None:
        raise Unavailable("ninja is missing", mend="Install it: pip install ninja")
    return Path(found).resolve()


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
