"""Building kernels of C dialects for GPUs: commands in the sandbox, a reader in another slot, products in the cache.

CUDA and HIP differ in their compilers, flags and reports; what is done with them is the same and stands here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shlex
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import evokern
from evokern.backend import Built, Completed, Limits, Sandbox
from evokern.building import linkage, product
from evokern.building.batch import finished
from evokern.errors import SourceError, Unavailable
from evokern.evaluation import Reason
from evokern.kernel import Kernel
from evokern.task import DType, Task
from evokern_gpu import measuring

if TYPE_CHECKING:
    from evokern_gpu.device import Gpu

Need = TypeVar("Need")

HEADER = "evokern.h"

BUILD_SECONDS = 60.0
"""Time of one build where the limits do not say."""

OBJECT = "kernel.o"
"""What the compiler leaves before it is linked with the runtime: the host half, with the device half in its data."""

IMAGE = f"{product.IMAGE}.bin"
"""The device binary."""

_HOST = "host.so"
_PRINTED = "printed"
_LISTING = "listing"
_LOG_CHARACTERS = 16_000
_DISASSEMBLE = ("objdump", "--disassemble", "--no-show-raw-insn")
_OUTSIDE = re.compile(r"(?:fatal error: |file not found: ?|cannot open source file )['\"]?(?:/|\.\./)|#embed|incbin")
_NOT_THERE = re.compile(r"No such file or directory|file not found|cannot open source file", re.IGNORECASE)
_TOO_MUCH = re.compile(r"uses too much shared data|local memory \(\w+\) exceeds limit|uses too many resources")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one kernel is built.

    Attributes:
        source: Name of the source's file.
        steps: Commands, one after the other, the first that fails ends the build. They leave `OBJECT`, `product.LIBRARY` and `IMAGE`.
        compiler: What made the product, exactly; part of the key.
        flags: All that change what is built; part of the key.
        arch: What the device binary is for; part of the key.
        host: The compiler that links what is read of the host half.
        files: Headers beside the source, by name; part of the key.
        readable: What the sandbox must show beside the system's own folders.
        leaves: Further files that the commands leave, for `DeviceBuilder.describe`.
        listing: Command that lists the device binary, or empty where there is no such program.
        own_loads: Functions of the compiler's own that run when the library is loaded or unloaded.
        products: What must be there afterwards; a gate asks for `IMAGE` alone.
    """

    source: str
    steps: tuple[tuple[str, ...], ...]
    compiler: str
    flags: tuple[str, ...]
    arch: str
    host: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    readable: tuple[Path, ...] = ()
    leaves: tuple[str, ...] = ()
    listing: tuple[str, ...] = ()
    own_loads: int = linkage.COMPILERS_OWN
    products: tuple[str, ...] = (product.LIBRARY, IMAGE)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What came of a recipe's commands.

    Attributes:
        library: The shared library, or None.
        image: The device binary, or None.
        host: The host half before it is linked.
        left: Further files that the recipe names, as text.
        log: What the compilers printed.
        seconds: Wall time.
        reason: A `Reason`, "none" where all is there that the recipe promises.
    """

    library: bytes | None
    image: bytes | None
    host: bytes
    left: Mapping[str, str]
    log: str
    seconds: float
    reason: Reason


@dataclass(frozen=True, slots=True)
class _Job:
    kernel: Kernel
    recipe: Recipe
    key: str


class Refused(Exception):
    """A kernel that cannot be built here, before any compiler has run.

    Args:
        reason: Why.
        line: In one line.
    """

    def __init__(self, reason: Reason, line: str) -> None:
        self.reason, self.line = reason, line
        super().__init__(line)


class DeviceBuilder(ABC):
    """Builds kernels of C dialects for GPUs (`evokern.backend.Backend.build`); subclasses say by which recipe.

    Attributes:
        name: As in `--backend`.
        dialects: Dialects it takes.
        dtypes: Element types it takes.
    """

    name: str
    dialects: tuple[str, ...]
    dtypes: tuple[DType, ...] = (DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16)

    def require(self, dtype: DType) -> None:
        """Refuse an element type that is not built for.

        Raises:
            Unavailable: It is not in `dtypes`.
        """
        if dtype not in self.dtypes:
            raise Unavailable(f"{dtype} is not here yet on the {self.name} backend", mend=f"Use one of {', '.join(self.dtypes)}")

    def loader(self) -> str:
        """`module:function` for the runner."""
        return "evokern_gpu.loader:load"

    def read(self, kernel: Kernel, built: Built) -> dict[str, str]:
        """Traits of a product: those of `describe`, and what its host half asks of the system (`evokern.building.linkage`)."""
        return dict(built.traits)

    def instruments(self) -> dict[str, Kernel]:
        """Kernels that measure the machine: "null" and "copy"."""
        return measuring.instruments(self.dialects[0])

    def server(self) -> Kernel | None:
        """None: a runner's calls are answered by `evokern_gpu.kernel`."""
        return None

    def device(self, home: Path) -> Gpu:
        """The GPU in the judge's process, opened; an NVIDIA one.

        Raises:
            Unavailable: There is none, or the driver refuses.
        """
        from evokern_gpu.device import Gpu

        return Gpu(home=home)

    def for_task(self, task: Task, dtype: DType) -> Self:
        """Itself: a library serves any shape."""
        return self

    @abstractmethod
    def recipe(self, kernel: Kernel) -> Recipe:
        """How a kernel is built.

        Raises:
            SourceError: It asks for a flag outside the white list.
            Refused: It cannot be built here.
            evokern.errors.Unavailable: No compiler.
        """

    @abstractmethod
    def describe(self, recipe: Recipe, compiled: Compiled, listing: str) -> dict[str, str]:
        """Traits of a product.

        Args:
            recipe: How it was built.
            compiled: What came of it.
            listing: Its device binary, disassembled; empty where it could not be.
        """

    def build(self, kernels: Sequence[Kernel], *, sandbox: Sandbox, cache: Path, limits: Limits, seal: bytes = b"") -> list[Built]:
        """Build a batch; one bad kernel never spoils another's product.

        Args:
            kernels: Distinct kernels.
            sandbox: Where compilers and readers run.
            cache: Folder for products.
            limits: Of one build; its `seconds` default to `BUILD_SECONDS`.
            seal: Key of the seals on products.

        Returns:
            One result a kernel, in their order.

        Raises:
            evokern.errors.Unavailable: No compiler.
        """
        limits = with_deadline(limits)
        planned = [self._plan(kernel, cache, seal) for kernel in kernels]
        # Each compiler and each reader has a slot of its own: what one source does to it, no other sees.
        return finished(planned, _Job, lambda job: self._made(job, sandbox, limits, cache, seal), limits.cpus)

    def _plan(self, kernel: Kernel, cache: Path, seal: bytes) -> Built | _Job:
        if kernel.dialect not in self.dialects:
            return Built(False, None, Reason.UNSUPPORTED, f"the {self.name} backend takes {', '.join(self.dialects)}, not {kernel.dialect}")
        try:
            recipe = self.recipe(kernel)
        except SourceError as error:
            return Built(False, None, Reason.FLAGS, error.line)
        except Refused as refused:
            return Built(False, None, refused.reason, refused.line)
        key = self._key(kernel, recipe)
        found = product.Product.find(cache, key, seal)
        return _built(found) if found else _Job(kernel, recipe, key)

    def _key(self, kernel: Kernel, recipe: Recipe) -> str:
        headers = {name: hashlib.sha256(content).hexdigest() for name, content in (*recipe.files.items(), (HEADER, self._header))}
        return product.key_of(
            backend=self.name,
            source=source_bytes(kernel).hex(),
            steps=recipe.steps,
            flags=recipe.flags,
            compiler=recipe.compiler,
            headers=headers,
            arch=recipe.arch,
            reader=recipe.listing,
        )

    def _made(self, job: _Job, sandbox: Sandbox, limits: Limits, cache: Path, seal: bytes) -> Built:
        compiled = self.compiled(job.kernel, job.recipe, sandbox, limits)
        log = compiled.log[:_LOG_CHARACTERS]
        if compiled.library is None or compiled.image is None:
            return Built(False, None, compiled.reason, log, compiled.seconds)
        printed, listing = _read(job.recipe, compiled, sandbox, limits)
        traits = self.describe(job.recipe, compiled, listing) | linkage.from_headers(printed, job.recipe.own_loads)
        stored = product.Product.store(cache, job.key, compiled.library, traits, seal, {IMAGE: compiled.image})
        return dataclasses.replace(_built(stored), log=log, seconds=compiled.seconds)

    def compiled(self, kernel: Kernel, recipe: Recipe, sandbox: Sandbox, limits: Limits) -> Compiled:
        """Run a recipe's commands in one slot; nothing is read or kept."""
        files = {recipe.source: source_bytes(kernel), HEADER: self._header, **recipe.files}
        want = [product.LIBRARY, IMAGE, OBJECT, *recipe.leaves]
        script = " && ".join(shlex.join(step) for step in recipe.steps)
        done = sandbox.run(["sh", "-c", script], files=files, want=want, limits=limits, readable=recipe.readable)
        whole = done.status == 0 and set(recipe.products) <= done.files.keys()
        left = {name: done.files.get(name, b"").decode("utf-8", "replace") for name in recipe.leaves}
        reason = Reason.NONE if whole else reason_of(done)
        library, image = (done.files.get(name) if whole else None for name in (product.LIBRARY, IMAGE))
        return Compiled(library, image, done.files.get(OBJECT, b""), left, done.output, done.seconds, reason)

    @cached_property
    def _header(self) -> bytes:
        return (Path(evokern.__file__).parent / "include" / HEADER).read_bytes()


@dataclass(frozen=True, slots=True)
class Gated(Generic[Need]):
    """What one architecture's compiler made of a source.

    Attributes:
        arch: Exactly what was built for, such as "sm_90a".
        ok: Whether it compiles and every kernel fits.
        reason: A `Reason`, "none" where it is ok.
        detail: Why not: the compiler's text, or one line a kernel that cannot be launched.
        kernels: What each kernel needs.
        seconds: Wall time.
    """

    arch: str
    ok: bool
    reason: Reason
    detail: str
    kernels: tuple[Need, ...] = ()
    seconds: float = 0.0


def with_deadline(limits: Limits) -> Limits:
    """The limits of a build, with a time where they have none."""
    return limits if limits.seconds is not None else dataclasses.replace(limits, seconds=BUILD_SECONDS)


def source_bytes(kernel: Kernel) -> bytes:
    """A kernel's source, exactly."""
    return kernel.source.encode("utf-8", "surrogatepass")


def reason_of(done: Completed) -> Reason:
    """Why there is no product."""
    if done.timed_out:
        return Reason.DEADLINE_BUILD
    if done.out_of_memory:
        return Reason.MEMORY
    # The file is absent in the sandbox whether it exists outside or not; what it was meant to be can be told from its path.
    if _NOT_THERE.search(done.output) and _OUTSIDE.search(done.output):
        return Reason.FORBIDDEN_FILE
    return Reason.RESOURCES if _TOO_MUCH.search(done.output) else Reason.COMPILER


def _built(found: product.Product) -> Built:
    return Built(True, found.path, digest=found.digest, traits=found.traits, images=found.images)


def _read(recipe: Recipe, compiled: Compiled, sandbox: Sandbox, limits: Limits) -> tuple[str, str]:
    """What the readers print of the host half and of the image, made in a slot of its own because their bytes are a candidate's.

    The host half is linked without the runtime, whose own imports would hide what the kernel's author asks for.
    """
    readers = [command for command in (linkage.READ, _DISASSEMBLE) if shutil.which(command[0])]
    listing = [f"{{ {shlex.join((*recipe.listing, IMAGE))} 2>/dev/null >{_LISTING} & }}"] if recipe.listing else []
    lines = [*listing, f"{shlex.join((recipe.host, '-shared', '-o', _HOST, OBJECT))} 2>/dev/null"]
    lines += [f"{shlex.join((*reader, _HOST))} 2>/dev/null >>{_PRINTED}" for reader in readers]
    files = {OBJECT: compiled.host, IMAGE: compiled.image or b""}
    readable = {*recipe.readable, *(Path(program).parent for program in recipe.listing[:1])}
    command = ["sh", "-c", "; ".join([*lines, "wait"])]
    done = sandbox.run(command, files=files, want=[_PRINTED, _LISTING], limits=limits, readable=sorted(readable))
    printed, listed = (done.files.get(name, b"").decode("utf-8", "replace") for name in (_PRINTED, _LISTING))
    return printed, listed
