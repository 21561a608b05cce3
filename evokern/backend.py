"""Protocols to the outside: what builds and loads kernels, and where their processes live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from evokern.evaluation import Tier
from evokern.kernel import Kernel
from evokern.sandbox.limits import Completed, Limits
from evokern.task import DType, Task

__all__ = ["Backend", "Built", "Completed", "Device", "Facts", "Limits", "Replay", "Sandbox", "Window"]


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
        traits: What was read from the artefact when it was built, by name.
        images: Device binaries (cubin or hsaco) that belong to the artefact and came out of the same compilation: read-only files
            beside it in the cache; none on a processor.
    """

    ok: bool
    artefact: Path | None
    reason: str = "none"
    log: str = ""
    seconds: float = 0.0
    digest: str = ""
    traits: Mapping[str, str] = field(default_factory=dict)
    images: tuple[Path, ...] = ()


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
        preference: The higher, the sooner `--backend auto` takes it where it works.
    """

    name: str
    dialects: tuple[str, ...]
    dtypes: tuple[DType, ...]
    preference: int

    def probe(self) -> Facts:
        """What is here.

        Raises:
            Unavailable: Something it needs is missing; the message says what and how to get it.
        """
        ...

    def for_task(self, task: Task, dtype: DType) -> Backend:
        """This backend as it builds for the visible workloads of a task; itself where products do not depend on them."""
        ...

    def require(self, dtype: DType) -> None:
        """Refuse an element type that is not built for.

        Raises:
            Unavailable: It is not in `dtypes`.
        """
        ...

    def build(self, kernels: Sequence[Kernel], *, sandbox: Sandbox, cache: Path, limits: Limits, seal: bytes = b"") -> list[Built]:
        """Build a batch; one bad kernel never spoils another's product.

        Args:
            kernels: Distinct kernels.
            sandbox: Where compilers run.
            cache: Folder for products, keyed by source, flags, compiler, headers and architecture.
            limits: Of one compiler process.
            seal: Key of the builder's seals: a product of the cache without one over its key, its bytes and what was read from them
                is built anew, so that nobody's library can be laid in another's place. Empty where damage alone is to be found.
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

    def device(self, home: Path) -> Device | None:
        """The GPU that its kernels run on, opened in this process, which is the judge's; None where windows are the host's memory.

        Args:
            home: Folder for what is measured of it once.

        Raises:
            Unavailable: There is none.
        """
        ...

    def server(self) -> Kernel | None:
        """Native code with which a runner answers calls, built as kernels are and handed to `loader()` beside one.

        What a call costs beside the kernel is taken off: a kernel that does the runner's work in its place would gain what it does
        better. None where the runner's own loop is all there is.
        """
        ...


# What a GPU is to the judge. Settled by one look at an H200 (`benchmarks/gpu_look`, `benchmarks/results/gpu-look.json`); times below
# are medians from there. A processor needs none of this: its windows are memfds and its clock is the slot's CPU time.


class Window(Protocol):
    """One tensor of device memory that the judge shares with one runner.

    An allocation of its own by the virtual-memory API, exported as a descriptor, 2 MiB at least. A legacy IPC handle is not a
    window: it opened the whole block in every kind of slot, and a neighbour 4096 bytes on could be read and written. Import worked
    with another uid, with PID (own /proc), network, mount, IPC and UTS namespaces, and in a user namespace with or without a map;
    a PID namespace that shows the outer /proc keeps CUDA from starting, and so does a /proc that cannot be written.

    Attributes:
        size: Bytes, a multiple of the device's granularity.
        descriptor: What travels to the runner beside BIND.
        address: Where it lies in the judge's own context.
    """

    size: int
    descriptor: int
    address: int

    def close(self) -> None:
        """Give the memory back; with the lease, at the latest."""
        ...


@dataclass(frozen=True, slots=True)
class Noted:
    """One call of a runner, noted at two sets of addresses.

    Attributes:
        places: Of its arguments, as they were the second time (`evokern.evaluator.call.protocol.Place`).
        workspace_bytes: Of its workspace.
        first: What the runner said that it would launch.
        second: The same where everything lay elsewhere.
    """

    places: Sequence[Any]
    workspace_bytes: int
    first: bytes
    second: bytes


@dataclass(frozen=True, slots=True)
class Replay:
    """One call of a sealed kernel that is to be looked at.

    Attributes:
        specs: Static halves of its arguments (`evokern.evaluator.call.protocol.Spec`).
        places: Of its arguments, as they were noted.
        zeroed: Which of them must begin as zeros.
        workspace_bytes: Of its workspace.
        cold: Whether caches are empty when it begins.
    """

    specs: Sequence[Any]
    places: Sequence[Any]
    zeroed: Sequence[bool]
    workspace_bytes: int
    cold: bool = True


class Device(Protocol):
    """A GPU as the judge's process drives it, in a context that no runner shares.

    The judge's clock runs until its own `snapshot` of the outputs has retired. On kernels of 5 to 200 us it grew by 1.03 us for
    each 1 us, 294 us above a null of 54 us: what a change between two contexts costs, to be found as the intercept and never
    assumed. Flagging DONE at launch gained nothing (a kernel of 100 us: 494 us, 453 us when honest), because the snapshot waits out
    the runner's time slice. Two cases it does not wait for, and they are caught by what it holds: a kernel of 5 ms was cut at
    2.6 ms with stale outputs every time, and DONE before the launch left stale outputs in 40 %. So a snapshot that misses words is a
    fault of the runner, and a call longer than a slice (about 2 ms) synchronises first.

    Calls revealed together in bursts of 1, 8 and 64 have a resolution (quartile distance of the null, per call) of 2.8, 0.3 and
    0.03 us in a row, and of 15, 1.8 and 0.26 us interleaved with kernels: one null in eight samples must lie among them.
    GO and DONE by a mailbox in shared memory take 0.8 us, by a socket 15 us; with inputs and snapshot 25 and 42 us. The context
    change outweighs both, so the socket's guarantees stay.
    """

    def facts(self) -> Mapping[str, str | int]:
        """What it is: name, driver, memory_bytes, l2_bytes, multiprocessors, arch ("sm_90")."""
        ...

    def window(self, size: int) -> Window:
        """A window of at least this many bytes.

        Raises:
            Unavailable: The device has no such memory left.
        """
        ...

    def tensor(self, window: Window) -> Any:
        """The window as a torch.Tensor of bytes on the device, without a copy."""
        ...

    def evict(self) -> None:
        """Empty the caches by reading four times the L2 of clean memory.

        A copy of 16 MiB took 8.3 us warm, 11.2 us cold, and 13.1 us after eviction by writing, which leaves dirty lines to be written
        back inside the span.
        """
        ...

    def probe_us(self) -> float:
        """Wall time of a known kernel: 17 us when alone, 2,380 us beside the kernel of a stopped process, whose events look normal.

        A killed runner's kernel was gone after 0.05 s. Freezing a process does not freeze its device work, so a slot that leaves
        work behind is found by this and not by events.
        """
        ...

    def ceilings(self) -> Mapping[str, float]:
        """What it does at best, measured once and kept: copy, read, write (bytes/s), launch_us, matrix and vector (flop/s)."""
        ...

    def sealed_loader(self) -> str:
        """`module:function` with which a runner loads what `sealed` made."""
        ...

    def sealed(self, images: Sequence[bytes], calls: Sequence[Noted]) -> bytes:
        """What runs noted launches without the host code that made them.

        Args:
            images: Device binaries of the kernel.
            calls: Two notes of each call.

        Raises:
            ValueError: There is no such thing; the text says why.
        """
        ...

    def profile(self, sealed: bytes, calls: Sequence[Replay]) -> list[dict[str, float]]:
        """What the device counts while a sealed kernel runs, by the names of `evokern.statistics.roofline.COUNTERS`; takes seconds.

        Args:
            sealed: What `sealed` made.
            calls: Which of its calls, all cold or all warm.

        Raises:
            Unavailable: Counters cannot be had here; the text says why.
        """
        ...

    def resident(self) -> str:
        """`module:Class` that holds windows, and takes samples, in a trusted process with PyTorch."""
        ...

    def clock(self) -> Mapping[str, float | str]:
        """The clock record of this moment: sm_mhz, temperature, throttle."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...
