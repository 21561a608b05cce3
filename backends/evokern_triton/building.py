"""The program of the build slot: a source and the calls that it is for -> an artefact and a report.

The candidate's own `run` is called with light tensors whose addresses lie nowhere, and Triton's launch path has a driver that launches
nothing; what it asks to be compiled is compiled. All that is written here was written beside candidate code and is a claim. Imports
Triton and what is in a bare Python; its folder of files is all that it sees of evokern.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import time
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evokern_triton import module, specialising, stand_in
from evokern_triton.artefact import Artefact, Specialisation
from evokern_triton.compiling import BINARIES, SUFFIX_DIGITS, compiled
from evokern_triton.specialising import OF_TRITON, Wanted, made_of
from evokern_triton.target import Target, target_for
from evokern_triton.tensor import DTYPES, Tensor

REQUEST, REPORT, ARTEFACT = "request.json", "report.json", "artefact"

AHEAD_SECONDS = 10.0
"""From the start of a build, after which nothing more is compiled for calls that no visible workload makes."""

MOST_STRANGE = 3
"""Sets of constants that are compiled although no visible call has them, such as a block for the longest rows."""

_WORKSPACE_ADDRESS = 1 << 46


class _Failed(Exception):
    """The build ends here; the report says why."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(log)
        self.reason, self.log = reason, log


@dataclass
class _Traced:
    """What stands for a compiled kernel while calls are traced. Kernels' host code may ask it for its resources.

    Attributes:
        key: Of its specialisation.
        metadata: What the stages noted, under Triton's names.
        launched: Told the key at every launch.
        n_regs: Registers a thread; a guess, since no device has loaded it.
        n_spills: Bytes spilled; likewise.
    """

    key: str
    metadata: Any
    launched: Callable[[str], None]
    n_regs: int = 32
    n_spills: int = 0
    n_max_threads: int = 1024
    function: Any = None
    packed_metadata: Any = None

    def launch_metadata(self, grid: Any, stream: int, *arguments: Any) -> None:
        """Nothing is noted about launches."""

    def run(self, x: int, y: int, z: int, stream: int, *rest: Any) -> None:
        """Nothing is launched; the arguments are there, since Triton has bound them."""
        assert len(rest) >= OF_TRITON
        self.launched(self.key)

    def __getitem__(self, grid: Any) -> Any:
        """As Triton's compiled kernel: (grid) -> a function of the arguments."""
        return lambda *arguments, **_: self.launched(self.key)

    def _init_handles(self) -> None:
        """Of Triton's compiled kernel; kernels' host code calls it before it asks for resources."""


class Builder:
    """Compiles what a source's calls ask for.

    Args:
        source: The kernel's text.
        target: What it is compiled for.
        most_ahead: How many specialisations are compiled that no visible call asks for, the general ones left out; 0 for none of either.
    """

    def __init__(self, source: str, target: Target, *, most_ahead: int) -> None:
        self._source, self._target, self._most_ahead = source, target, most_ahead
        self._start = time.monotonic()
        self._made: dict[str, Specialisation] = {}
        self._images: dict[str, bytes] = {}
        self._families: dict[str, Wanted] = {}
        self._needs: dict[str, dict[str, int]] = {}
        self._visible: list[list[str]] = []
        self._is_visible = True
        self._seconds = 0.0
        self._ahead = self._strange = 0

    def build(self, entry: str, calls: Sequence[Mapping[str, Any]]) -> Artefact:
        """Trace the calls.

        Args:
            entry: Name of the function that is called.
            calls: As `calls.encoded` makes them, the visible ones first.

        Raises:
            _Failed: Some visible call cannot be served.
        """
        stand_in.install(self._target.properties, self._target.capability)
        specialising.install(specialising.Driver(self._target), self._first_asked)
        loaded = self._load(entry)
        for call in calls:
            if call["visible"]:
                self._visible.append([])
                self._trace(loaded, call)
        self._is_visible = False
        if self._most_ahead:
            self._go_ahead(loaded, [call for call in calls if not call["visible"]])
        return Artefact(self._source, self._target.name, tuple(self._made.values()), self._images)

    def report(self) -> dict[str, Any]:
        """What was done, for the judge to read: keys launched by each visible call, what AMD's assembly says, seconds."""
        return {"visible": self._visible, "needs": self._needs, "compile_seconds": round(self._seconds, 3)}

    def _go_ahead(self, loaded: tuple[Any, Any], calls: Sequence[Mapping[str, Any]]) -> None:
        """Compile for others than visible calls. They may be refused, or fail: the gate sees to that."""
        for family in list(self._families.values()):
            with contextlib.suppress(Exception):
                self._compile(family)
        for call in calls:
            if time.monotonic() - self._start < AHEAD_SECONDS:
                with contextlib.suppress(Exception):
                    self._trace(loaded, call)

    def _load(self, entry: str) -> tuple[Any, Any]:
        try:
            found = module.module_of(self._source)
        except SyntaxError as error:
            raise _Failed("syntax", "".join(traceback.format_exception_only(error))) from error
        except Exception as error:
            raise _Failed("compiler", _told(error)) from error
        try:
            return module.entry_of(found, entry), getattr(found, "workspace_size", None)
        except AttributeError as error:
            raise _Failed("entry", str(error)) from error

    def _trace(self, loaded: tuple[Any, Any], call: Mapping[str, Any]) -> None:
        run, workspace_size = loaded
        arguments = [_argument(value) for value in call["values"]]
        named = {}
        try:
            if workspace_size is not None:
                size = int(workspace_size(tuple(tuple(value["shape"]) for value in call["values"])))
                named = {"workspace": Tensor(_WORKSPACE_ADDRESS, (size,), (1,), DTYPES["uint8"])} if size else {}
            run(*arguments, **named)
        except _Failed:
            raise
        except Exception as error:
            raise _Failed("compiler", f"while run was called for {call['name']}:\n{_told(error)}") from error

    def _first_asked(self, wanted: Wanted) -> _Traced:
        family = wanted.general()
        if not self._is_visible:
            return self._asked_ahead(wanted, family)
        self._families.setdefault(family.key, family)
        return _Traced(wanted.key, self._compile(wanted), self._launched)

    def _launched(self, key: str) -> None:
        self._visible[-1].append(key)

    def _asked_ahead(self, wanted: Wanted, family: Wanted) -> _Traced:
        if family.key not in self._families:
            # Constants that no visible call has: the general form alone, and not for ever more of them.
            if self._strange < MOST_STRANGE:
                self._strange += 1
                self._families[family.key] = family
                self._compile(family)
        elif self._ahead < self._most_ahead and wanted.key != family.key:
            self._ahead += 1
            self._compile(wanted)
        return _Traced(wanted.key, _metadata({}), lambda _: None)

    def _compile(self, wanted: Wanted) -> Any:
        from triton.backends.compiler import GPUTarget

        start = time.monotonic()
        target = GPUTarget(self._target.platform, self._target.arch, self._target.warp_size)
        try:
            found = compiled(wanted.source, target, wanted.options, last=BINARIES[self._target.platform], suffix=wanted.key[:SUFFIX_DIGITS])
            version = _version(wanted.options, self._target) if self._target.platform == "cuda" else 0
            made = made_of(wanted, found.metadata, image=hashlib.sha256(found.code).hexdigest(), version=version)
        except Exception as error:
            raise _Failed("compiler", _told(error)) from error
        finally:
            self._seconds += time.monotonic() - start
        self._made[made.key] = made
        self._images[made.image] = found.code
        self._needs[made.key] = need_of_amd(found.assembly) if self._target.platform == "hip" else {}
        return _metadata(found.metadata)


def _metadata(noted: Mapping[str, Any]) -> types.SimpleNamespace:
    return types.SimpleNamespace(**{"shared": 0, "num_warps": 4, "num_stages": 1, "num_ctas": 1, **noted})


_AMD = {
    "registers": re.compile(r"\.vgpr_count:\s*(\d+)"),
    "local_bytes": re.compile(r"\.vgpr_spill_count:\s*(\d+)"),
    "scalars": re.compile(r"\.sgpr_count:\s*(\d+)"),
}


def need_of_amd(assembly: str) -> dict[str, int]:
    """registers, local_bytes (4 for each register spilled) and scalars, from the assembly that Triton leaves for AMD's GPUs."""
    found = {name: max(map(int, values), default=0) for name, pattern in _AMD.items() if (values := pattern.findall(assembly))}
    return found | {"local_bytes": 4 * found.get("local_bytes", 0)}


def _version(options: Any, target: Target) -> int:
    from triton.backends.nvidia.compiler import get_ptx_version_from_options

    return int(get_ptx_version_from_options(options, target.arch))


def _argument(value: Mapping[str, Any]) -> Any:
    if not value["shape"]:
        return value["number"]
    return Tensor(value["address"], value["shape"], value["strides"], DTYPES[value["dtype"]])


def _told(error: BaseException) -> str:
    """An error as its author wants to read it: what compiled code was refused for, or the lines of the source that led there."""
    if isinstance(error, _Failed):
        return error.log
    from triton.errors import TritonError

    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__
    if isinstance(chain[0], TritonError):
        return "\n".join(str(one) or type(one).__name__ for one in chain)
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == module.FILE]
    return "".join(traceback.format_list(lines)) + "".join(traceback.format_exception_only(error))


def main() -> None:
    """Build what `request.json` in this folder asks for; see `backend`."""
    request = json.loads(Path(REQUEST).read_bytes())
    target = target_for(request["target"], **request["facts"])
    builder = Builder(request["source"], target, most_ahead=request["most_ahead"])
    report: dict[str, Any] = {"ok": True, "reason": "none", "log": ""}
    printed = io.StringIO()
    try:
        # What Triton prints when an assembler fails is the whole program; its message is told.
        with contextlib.redirect_stdout(printed):
            made = builder.build(request["entry"], request["calls"])
        Path(ARTEFACT).write_bytes(made.encoded())
    except _Failed as failed:
        report = {"ok": False, "reason": failed.reason, "log": failed.log}
    Path(REPORT).write_text(json.dumps({**report, **builder.report()}), encoding="utf-8", errors="replace")
