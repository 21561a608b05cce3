"""TritonBackend: compiles Triton kernels in the sandbox, with no GPU, for what a task's visible workloads ask for."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shlex
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from evokern_gpu import card
from evokern_gpu.building import source_bytes, with_deadline

from evokern.backend import Built, Completed, Device, Facts, Limits, Sandbox
from evokern.building import product
from evokern.building.batch import finished
from evokern.errors import Unavailable
from evokern.evaluation import Reason
from evokern.kernel import Kernel
from evokern.task import DType, Task
from evokern_triton import artefact, calls, target, traits
from evokern_triton.artefact import Artefact, Specialisation
from evokern_triton.building import ARTEFACT, REPORT, REQUEST
from evokern_triton.instruments import INSTRUMENTS

MOST_AHEAD = 3
"""Specialisations that are compiled for others than visible workloads, beside the general ones."""

IN_THE_SLOT = ("__init__", "artefact", "building", "compiling", "module", "packing", "specialising", "stand_in", "target", "tensor")
"""Modules that the build slot is given."""

PROGRAM = "import sys; sys.path[:0] = ['.', sys.argv[1]]; from evokern_triton.building import main; main()"
"""Started in a bare interpreter, whose path then holds evokern_triton's own modules, the standard library and Triton."""

ENVIRONMENT = {
    "TRITON_CACHE_DIR": "/tmp/triton",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",  # some passes walk sets: one source has one product
    "OMP_NUM_THREADS": "1",
}
"""Of the build's process, beside the slot's own."""

_SYSTEM = Path("/usr")
_LOG_CHARACTERS = 16_000
_PRINTED, _LISTING = "printed", "listing"
_MOST_READ = 4


@dataclass(frozen=True, slots=True)
class _Job:
    kernel: Kernel
    key: str


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of compiling a kernel.

    Attributes:
        reason: A `Reason`, "none" where it compiles and fits.
        log: What the compiler says, or what does not fit.
        seconds: Wall time of the compiler's process.
        made: The artefact, where it compiled.
        launched: What visible workloads launch.
        of_largest: What the largest of them launches.
        used: (registers, local bytes) by function, of those that could be read.
        listing: Binaries of `of_largest`, disassembled.
    """

    reason: Reason
    log: str
    seconds: float
    made: Artefact | None = None
    launched: tuple[Specialisation, ...] = ()
    of_largest: tuple[Specialisation, ...] = ()
    used: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    listing: str = ""


class TritonBackend:
    """Triton on an NVIDIA GPU (`evokern.backend.Backend`).

    Args:
        target: What is compiled for, of `evokern_triton.target.TARGETS`; the GPU that is here where None, else `target.DEFAULT`.
        facts: What is known better about the device, under Triton's names (`Target.facts`).

    `for_task` gives the backend that builds; without the calls of a task there is nothing to specialise a kernel for.
    """

    name = "triton"
    dialects = ("triton",)
    preference = 3
    dtypes = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)

    def __init__(
        self, target: str | None = None, facts: Mapping[str, int] | None = None, bound: tuple[calls.Call, ...] | None = None
    ) -> None:
        self._named, self._given, self._calls = target, facts, bound

    def for_task(self, task: Task, dtype: DType) -> TritonBackend:
        """This backend, building for the visible workloads of a task in an element type."""
        return TritonBackend(self._named, self._given, calls.calls_for(task, dtype))

    def probe(self) -> Facts:
        """What is here.

        Raises:
            Unavailable: No Triton, or no GPU.
        """
        triton = toolchain()
        gpu = card.find()
        return Facts(self.name, gpu.name, gpu.driver, f"triton {triton.version}", (), gpu.arch)

    def require(self, dtype: DType) -> None:
        """Refuse an element type that is not built for.

        Raises:
            Unavailable: It is not in `dtypes`.
        """
        if dtype not in self.dtypes:
            known = ", ".join(self.dtypes)
            raise Unavailable(f"{dtype} is not here on the {self.name} backend", mend=f"Use --dtype with one of {known}")

    def device(self, home: Path) -> Device | None:
        """The GPU, opened in this process.

        Raises:
            Unavailable: There is none.
        """
        from evokern_gpu.device import Gpu

        return Gpu(home=home)

    def build(self, kernels: Sequence[Kernel], *, sandbox: Sandbox, cache: Path, limits: Limits, seal: bytes = b"") -> list[Built]:
        """Build a batch; one bad kernel never spoils another's product.

        Args:
            kernels: Distinct kernels.
            sandbox: Where compilers and readers run.
            cache: Folder for products.
            limits: Of one build; its `seconds` default to `evokern_gpu.building.BUILD_SECONDS`.
            seal: Key of the seals on products.

        Returns:
            One result a kernel, in their order.

        Raises:
            Unavailable: No Triton.
            ValueError: No task was named.
        """
        limits = with_deadline(limits)
        planned = [self._plan(kernel, cache, seal) for kernel in kernels]
        # Each build and each reader has a slot of its own: what one source does to it, no other sees.
        return finished(planned, _Job, lambda job: self._made(job, sandbox, limits, cache, seal), limits.cpus)

    def loader(self) -> str:
        """`module:function` for the runner."""
        return "evokern_triton.loader:load"

    def read(self, kernel: Kernel, built: Built) -> dict[str, str]:
        """Traits of a product (`evokern_triton.traits`)."""
        # There is no library of its host code, which could ask the system for anything.
        return {**built.traits, "imports": ""}

    def instruments(self) -> dict[str, Kernel]:
        """Kernels that measure the machine: "null" and "copy"."""
        return INSTRUMENTS

    def server(self) -> Kernel | None:
        """None: the runner's own loop answers calls."""
        return None

    @cached_property
    def target(self) -> target.Target:
        """What is compiled for."""
        return target.target_for(self._named or _here(), **(self._given or {}))

    def _plan(self, kernel: Kernel, cache: Path, seal: bytes) -> Built | _Job:
        if kernel.dialect not in self.dialects:
            return Built(False, None, Reason.UNSUPPORTED, f"the {self.name} backend takes {', '.join(self.dialects)}, not {kernel.dialect}")
        key = product.key_of(
            source=source_bytes(kernel).hex(),
            entry=kernel.entry,
            request=self._request(kernel),
            compiler=toolchain().identity,
            program=self._program_digest,
        )
        found = product.Product.find(cache, key, seal)
        if found:
            return Built(True, found.path, digest=found.digest, traits=found.traits, images=found.images)
        return _Job(kernel, key)

    def _made(self, job: _Job, sandbox: Sandbox, limits: Limits, cache: Path, seal: bytes) -> Built:
        tried = self.tried(job.kernel, sandbox, limits, most_ahead=MOST_AHEAD)
        if tried.made is None or tried.reason is not Reason.NONE:
            return Built(False, None, tried.reason, tried.log, tried.seconds)
        images = {f"{product.IMAGE}-{digest}": image for digest, image in tried.made.images.items()}
        told = traits.traits(tried.of_largest, self.target, tried.used, tried.listing)
        stored = product.Product.store(cache, job.key, tried.made.encoded(), told, seal, images)
        return Built(
            True, stored.path, log=tried.log, seconds=tried.seconds, digest=stored.digest, traits=stored.traits, images=stored.images
        )

    def tried(self, kernel: Kernel, sandbox: Sandbox, limits: Limits, *, most_ahead: int = 0) -> Tried:
        """Compile a kernel and read what came of it; nothing is kept.

        Args:
            kernel: Of the dialect "triton".
            sandbox: Where compilers and readers run.
            limits: Of one build.
            most_ahead: Specialisations beside those of visible workloads; see `building.Builder`.
        """
        done = self._compile(kernel, sandbox, limits, most_ahead)
        try:
            report = _report(done)
            made = _of(kernel, artefact.decoded(done.files[ARTEFACT]), self.target) if report["reason"] == Reason.NONE else None
        except (ValueError, KeyError) as error:
            return Tried(_reason(done), (done.output or str(error))[-_LOG_CHARACTERS:], done.seconds)
        log = str(report["log"])[:_LOG_CHARACTERS]
        if made is None:
            return Tried(_known(str(report["reason"])), log, done.seconds)
        visible = _visible(made, report)
        of_largest = visible[min(calls.largest(self._calls or ()), len(visible) - 1)] if visible else []
        launched = tuple(dict.fromkeys(one for launches in visible for one in launches))
        used, listing = self._read(of_largest, made, sandbox, limits) if self.target.platform == "cuda" else (_needs(made, report), "")
        too_much = [text for one in launched if (text := traits.complaint(one, self.target, used.get(one.symbol, (0, 0))[0]))]
        reason = Reason.RESOURCES if too_much else Reason.NONE
        return Tried(reason, "\n".join(too_much) or log, done.seconds, made, launched, tuple(dict.fromkeys(of_largest)), used, listing)

    def _compile(self, kernel: Kernel, sandbox: Sandbox, limits: Limits, most_ahead: int) -> Completed:
        files = {f"evokern_triton/{name}.py": content for name, content in self._program.items()}
        files[REQUEST] = json.dumps(self._request(kernel) | {"source": kernel.source, "most_ahead": most_ahead}).encode(
            "utf-8", "surrogatepass"
        )
        found = toolchain()
        variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        command = ["env", *variables, found.interpreter, "-s", "-S", "-c", PROGRAM, str(found.folder.parent)]
        return sandbox.run(command, files=files, want=[REPORT, ARTEFACT], limits=limits, readable=found.readable)

    def _request(self, kernel: Kernel) -> dict[str, object]:
        if self._calls is None:
            raise ValueError("a Triton kernel is built for the workloads of a task: take the backend of `for_task`")
        return {
            "entry": kernel.entry,
            "target": self.target.name,
            "facts": dict(self.target.facts),
            "calls": calls.encoded(self._calls),
            "most_ahead": MOST_AHEAD,
        }

    @cached_property
    def _program(self) -> dict[str, bytes]:
        return {name: Path(__file__).with_name(f"{name}.py").read_bytes() for name in IN_THE_SLOT}

    @cached_property
    def _program_digest(self) -> str:
        return hashlib.sha256(b"\0".join(self._program.values()) + json.dumps(ENVIRONMENT).encode()).hexdigest()

    def _read(
        self, visible: Sequence[Specialisation], made: Artefact, sandbox: Sandbox, limits: Limits
    ) -> tuple[dict[str, tuple[int, int]], str]:
        """What the readers print of the binaries that visible workloads use, made in a slot because their bytes are a candidate's."""
        folder = toolchain().folder / "backends" / "nvidia" / "bin"
        names = {one.image: f"{place}.cubin" for place, one in enumerate(visible[:_MOST_READ])}
        resources = [shlex.join([str(folder / "cuobjdump"), "-res-usage", name]) for name in names.values()]
        listings = [shlex.join([str(folder / "nvdisasm"), "--print-code", name]) for name in names.values()]
        script = f"{{ {'; '.join(resources)}; }} >{_PRINTED} 2>/dev/null; {{ {'; '.join(listings)}; }} >{_LISTING} 2>/dev/null"
        files = {name: made.images[image] for image, name in names.items()}
        done = sandbox.run(["sh", "-c", script], files=files, want=[_PRINTED, _LISTING], limits=limits, readable=[folder])
        printed, listing = (done.files.get(name, b"").decode("utf-8", "replace") for name in (_PRINTED, _LISTING))
        return traits.usage(printed), listing


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The Triton that is installed, and the interpreter that runs it.

    Attributes:
        version: Of Triton.
        folder: Of its package.
        interpreter: Absolute path.
        readable: What a slot must show beside the system's own folders.
        identity: What products are keyed by.
    """

    version: str
    folder: Path
    interpreter: str
    readable: tuple[Path, ...]
    identity: str


def toolchain() -> Toolchain:
    """The Triton that is here, which is not imported.

    Raises:
        Unavailable: There is none.
    """
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        raise Unavailable("Triton is not installed", mend="pip install triton")
    folder = Path(spec.origin).resolve().parent
    version = importlib.metadata.version("triton")
    interpreter = os.path.realpath(sys.executable)
    library = next(iter(sorted((folder / "_C").glob("libtriton*"))), None)
    stamp = (library.stat().st_size, library.stat().st_mtime_ns) if library else ()
    identity = json.dumps([version, str(folder), stamp, interpreter, platform.python_version()])
    # Triton finds its own backends by the entry points of its distribution.
    wanted = {folder, *_metadata(), Path(interpreter), Path(sysconfig.get_path("stdlib")).resolve(), *_libraries()}
    readable = tuple(sorted(path for path in wanted if not path.is_relative_to(_SYSTEM)))
    return Toolchain(version, folder, interpreter, readable, identity)


def _metadata() -> list[Path]:
    """The folder that describes Triton's distribution."""
    described = next((file for file in importlib.metadata.files("triton") or () if file.name == "METADATA"), None)
    return [Path(str(described.locate())).resolve().parent] if described is not None else []


def _libraries() -> list[Path]:
    """The interpreter's own shared library, where it has one."""
    folder, name = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")
    found = Path(folder) / name if folder and name else None
    return [found] if found is not None and found.is_file() else []


def _here() -> str:
    """Target of the GPU that is here; the usual one where there is none, since compilers need no GPU."""
    try:
        return f"cuda:{card.find().arch.removeprefix('sm_')}"
    except Unavailable:
        return target.DEFAULT


def _of(kernel: Kernel, made: Artefact, here: target.Target) -> Artefact:
    """An artefact that holds this kernel's own text, whatever candidate code wrote beside it: that is what a runner runs."""
    return dataclasses.replace(made, source=kernel.source, arch=here.name)


def _report(done: Completed) -> dict[str, object]:
    """What the build said of itself; candidate code ran beside whatever wrote it.

    Raises:
        KeyError: It said nothing.
        ValueError: It said nothing of use.
    """
    if done.timed_out or done.out_of_memory:
        raise ValueError("the build did not end")
    try:
        found = json.loads(done.files[REPORT])
    except RecursionError as error:
        raise ValueError("a report that is nested too deeply") from error
    if not isinstance(found, dict) or not {"reason", "log", "visible"} <= found.keys():
        raise ValueError("a report that says nothing of use")
    return found


def _visible(made: Artefact, report: Mapping[str, object]) -> list[list[Specialisation]]:
    """What each visible workload launches; what the report names and does not exist is passed over."""
    by_key = {one.key: one for one in made.specialisations}
    calls_of = report["visible"] if isinstance(report["visible"], list) else []
    named = [keys if isinstance(keys, list) else [] for keys in calls_of]
    return [[by_key[key] for key in keys if isinstance(key, str) and key in by_key] for keys in named]


def _needs(made: Artefact, report: Mapping[str, object]) -> dict[str, tuple[int, int]]:
    """(registers, local bytes) by function, as the build read them off AMD's assembly."""
    told = report.get("needs")
    found: dict[str, tuple[int, int]] = {}
    for one in made.specialisations:
        need = told.get(one.key) if isinstance(told, dict) else None
        if isinstance(need, dict):
            registers, local = need.get("registers"), need.get("local_bytes")
            found[one.symbol] = (registers if isinstance(registers, int) else 0, local if isinstance(local, int) else 0)
    return found


_REASONS = {Reason.SYNTAX, Reason.ENTRY, Reason.COMPILER, Reason.MEMORY}


def _known(reason: str) -> Reason:
    return Reason(reason) if reason in _REASONS else Reason.COMPILER


def _reason(done: Completed) -> Reason:
    if done.timed_out:
        return Reason.DEADLINE_BUILD
    return Reason.MEMORY if done.out_of_memory else Reason.COMPILER
