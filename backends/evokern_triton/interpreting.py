"""Runs kernels in Triton's interpreter: right or wrong on small shapes, with no GPU. Never a time."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evokern.backend import Completed, Limits, Sandbox
from evokern.errors import Unavailable
from evokern.evaluation import Reason
from evokern.kernel import Kernel
from evokern_triton.backend import toolchain
from evokern_triton.interpreted import REQUEST, SOURCE, buffer_file

INTERPRET_SECONDS = 120.0
"""Time of one call where the limits do not say: an instance of a program takes 3-9 ms, and importing PyTorch some seconds."""

PROGRAM = "import sys; sys.path[:0] = ['.', *sys.argv[1:]]; from evokern_triton.interpreted import main; main()"
ENVIRONMENT = {
    "TRITON_INTERPRET": "1",
    "TRITON_CACHE_DIR": "/tmp/triton",
    "TRITON_DEFAULT_FP_FUSION": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
}

_LOG_CHARACTERS = 16_000


@dataclass(frozen=True, slots=True)
class Given:
    """One argument of an interpreted call.

    Attributes:
        name: As in the task.
        dtype: Element type, PyTorch's name.
        array: The elements, strided as they are to lie; bfloat16 as its bits, uint16. None for a number.
        number: A number's value.
    """

    name: str
    dtype: str
    array: NDArray[Any] | None = None
    number: float | int | bool | None = None


@dataclass(frozen=True, slots=True)
class Interpreted:
    """What came of an interpreted call.

    Attributes:
        reason: "none" where it returned; else a `Reason`: "refused" where it raised, "deadline_run", "memory".
        log: What it printed or raised.
        outputs: Every tensor afterwards, by name, inputs included: shape and bits as given.
        seconds: Wall time; says nothing about the kernel.
    """

    reason: str
    log: str
    outputs: dict[str, NDArray[Any]]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether it returned."""
        return self.reason == Reason.NONE


def interpret(kernel: Kernel, arguments: Sequence[Given], *, sandbox: Sandbox, limits: Limits | None = None) -> Interpreted:
    """Call a kernel in Triton's interpreter; see `interpret_all`."""
    return interpret_all(kernel, [arguments], sandbox=sandbox, limits=limits)[0]


def interpret_all(kernel: Kernel, calls: Sequence[Sequence[Given]], *, sandbox: Sandbox, limits: Limits | None = None) -> list[Interpreted]:
    """Call a kernel in Triton's interpreter, all calls in one process.

    Args:
        kernel: Of the dialect "triton".
        calls: The arguments of each, in the task's order; outputs hold what a kernel finds there.
        sandbox: Where it runs.
        limits: Of all calls together; a time of `INTERPRET_SECONDS` where they have none.

    Returns:
        One result a call; where one call fails, all have failed.

    Raises:
        Unavailable: PyTorch or Triton is not installed.
    """
    bounded = limits or Limits()
    bounded = bounded if bounded.seconds is not None else dataclasses.replace(bounded, seconds=INTERPRET_SECONDS)
    memories = {
        buffer_file(number, place): _memory(one.array)
        for number, arguments in enumerate(calls)
        for place, one in enumerate(arguments)
        if one.array is not None
    }
    done = _run(kernel, calls, memories, sandbox, bounded)
    log = done.output[-_LOG_CHARACTERS:]
    if done.status != 0 or set(memories) - done.files.keys():
        reason = Reason.DEADLINE_RUN if done.timed_out else Reason.MEMORY if done.out_of_memory else Reason.REFUSED
        return [Interpreted(str(reason), log, {}, done.seconds) for _ in calls]
    return [
        Interpreted(
            str(Reason.NONE),
            log,
            {one.name: _seen(done.files[buffer_file(n, at)], one.array) for at, one in enumerate(arguments) if one.array is not None},
            done.seconds,
        )
        for n, arguments in enumerate(calls)
    ]


def _run(kernel: Kernel, calls: Sequence[Sequence[Given]], memories: Mapping[str, bytes], sandbox: Sandbox, limits: Limits) -> Completed:
    found = toolchain()
    folders = sorted({str(folder) for folder in (found.folder.parent, _folder_of("torch"), _folder_of("numpy"))})
    files = {f"evokern_triton/{name}.py": Path(__file__).with_name(f"{name}.py").read_bytes() for name in ("__init__", "interpreted")}
    files[SOURCE] = kernel.source.encode("utf-8", "surrogatepass")
    files[REQUEST] = json.dumps({"entry": kernel.entry, "calls": [[_value(one) for one in arguments] for arguments in calls]}).encode()
    command = ["env", *(f"{name}={value}" for name, value in ENVIRONMENT.items())]
    command += [found.interpreter, "-s", "-S", "-c", PROGRAM, str(found.folder.parent), *folders]
    readable = [*found.readable, *map(Path, folders)]
    return sandbox.run(command, files={**files, **memories}, want=list(memories), limits=limits, readable=readable)


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise Unavailable(f"{package} is not installed, which Triton's interpreter needs", mend=f"pip install {package}")
    return Path(spec.origin).resolve().parents[1]


def _value(argument: Given) -> dict[str, object]:
    if argument.array is None:
        return {"name": argument.name, "dtype": argument.dtype, "shape": [], "number": argument.number}
    array = argument.array
    strides = [stride // array.itemsize for stride in array.strides]
    return {"name": argument.name, "dtype": argument.dtype, "shape": list(array.shape), "strides": strides}


def _memory(array: NDArray[Any]) -> bytes:
    """The memory from an array's first element to its last; what lies between its rows is zero."""
    memory = np.zeros(_extent(array), array.dtype)
    np.lib.stride_tricks.as_strided(memory, array.shape, array.strides)[...] = array
    return memory.tobytes()


def _seen(memory: bytes, like: NDArray[Any]) -> NDArray[Any]:
    whole = np.frombuffer(memory, like.dtype, count=_extent(like))
    return np.lib.stride_tricks.as_strided(whole, like.shape, like.strides).copy()


def _extent(array: NDArray[Any]) -> int:
    """Elements from the first to the last."""
    if not array.size:
        return 0
    last: int = sum((size - 1) * (stride // array.itemsize) for size, stride in zip(array.shape, array.strides, strict=True))
    return last + 1
