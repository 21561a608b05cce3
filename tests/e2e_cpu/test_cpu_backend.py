"""CpuBackend with the real compiler in the real sandbox, and its products called by the real runner."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evokern_cpu.backend import CpuBackend

from evokern.backend import Completed, Limits
from evokern.errors import Unavailable
from evokern.evaluation import Reason, Tier, Verdict
from evokern.evaluator.call import protocol
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.contestant import KernelContestant
from evokern.evaluator.call.runner import REFUSED_TO_LOAD
from evokern.kernel import Kernel
from evokern.sandbox import Slot, Spawner
from evokern.task import DType, load_task

SEEDS = sorted((Path(__file__).parents[2] / "benchmarks" / "tasks" / "core").glob("*/seeds/cpp-float32.cpp"))
SECONDS = 30.0
LIMITS = Limits(memory_bytes=1 << 30, seconds=SECONDS)

ADD_ONE = """
#include "evokern.h"
extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  for (int64_t i = 0; i < args[0]->shape[0]; ++i) evokern::data<float>(args[1])[i] = evokern::data<float>(args[0])[i] + ONE;
  return 0;
}
"""

# Instantiates 2^60 templates.
ENDLESS = """
template <int depth, long at> struct Tree { static constexpr long sum = Tree<depth - 1, 2 * at>::sum + Tree<depth - 1, 2 * at + 1>::sum; };
template <long at> struct Tree<0, at> { static constexpr long sum = at; };
long sum = Tree<60, 0>::sum;
"""


def adding(one: str) -> Kernel:
    return Kernel("cpp", f"#define ONE {one}\n{ADD_ONE}")


@pytest.fixture(scope="module")
def spawner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    modules = ["evokern.evaluator.call.runner", "evokern_cpu.loader"]
    with Spawner.start({"c": modules}, scratch=tmp_path_factory.mktemp("scratch")) as made:
        yield made


@pytest.fixture(scope="module")
def backend() -> CpuBackend:
    return CpuBackend()


def runner_of(spawner: Spawner, artefact: Path, entry: str = "run") -> Slot:
    descriptor = os.open(artefact, os.O_RDONLY)
    try:
        argument = json.dumps({"loader": CpuBackend().loader(), "entry": entry}).encode()
        slot = spawner.slot("evokern.evaluator.call.runner:serve", zygote="c", descriptors=[descriptor], argument=argument, limits=Limits())
    finally:
        os.close(descriptor)
    slot.socket.settimeout(SECONDS)
    return slot


def call(slot: Slot, x: np.ndarray) -> np.ndarray:
    """One call of a kernel with one input and one output of x's shape, over windows as the judge makes them."""
    windows = [os.memfd_create(name, 0) for name in ("in", "out")]
    for window in windows:
        os.ftruncate(window, x.nbytes)
    os.pwrite(windows[0], x.tobytes(), 0)
    spec = protocol.Spec(2, 32, x.ndim, x.nbytes)
    socket.send_fds(slot.socket, [protocol.encode_bind(protocol.Bind(1, (spec, spec), 0))], windows)
    protocol.decode_done(slot.socket.recv(protocol.MAX_RECORD), 1)
    place = protocol.Place(0, x.shape, tuple(stride // 4 for stride in x.strides))
    slot.socket.send(protocol.encode_go(protocol.Go(2, (place, place))))
    assert protocol.decode_done(slot.socket.recv(protocol.MAX_RECORD), 2).status == 0
    answer = np.frombuffer(os.pread(windows[1], x.nbytes, 0), np.float32).reshape(x.shape)
    for window in windows:
        os.close(window)
    return answer


def test_facts(backend: CpuBackend) -> None:
    facts = backend.probe()
    assert facts.backend == "cpu"
    assert all((facts.device, facts.driver, facts.compiler, facts.arch))
    assert "-march=native" in facts.flags


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16])
def test_other_dtypes_are_not_here_yet(backend: CpuBackend, dtype: DType) -> None:
    backend.require(DType.FLOAT32)
    with pytest.raises(Unavailable, match=f"{dtype} is not here yet"):
        backend.require(dtype)


def test_product_is_called_by_the_runner(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    (built,) = backend.build([adding("1.0f")], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert built.ok, built.log
    assert built.artefact is not None
    slot = runner_of(spawner, built.artefact)
    x = np.arange(1000, dtype=np.float32)
    assert np.array_equal(call(slot, x), x + 1)
    assert slot.kill().strays == 0


def test_softmax_seed(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    source = next(path for path in SEEDS if path.parts[-3] == "softmax").read_text()
    (built,) = backend.build([Kernel("cpp", source)], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert built.artefact is not None, built.log
    x = np.random.default_rng(0).normal(size=(7, 129)).astype(np.float32)
    expected = np.exp(x - x.max(axis=1, keepdims=True))
    slot = runner_of(spawner, built.artefact)
    np.testing.assert_allclose(call(slot, x), expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)
    slot.kill()


def test_missing_entry(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    (built,) = backend.build([adding("1.0f")], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert built.artefact is not None
    slot = runner_of(spawner, built.artefact, "absent")
    assert slot.socket.recv(1) == b""
    death = slot.kill()
    assert death.status == REFUSED_TO_LOAD
    assert "absent" in death.output


def test_every_seed_builds_and_reads(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    kernels = [Kernel("cpp", path.read_text()) for path in SEEDS]
    assert len(kernels) >= 4
    for kernel, built in zip(kernels, backend.build(kernels, sandbox=spawner, cache=tmp_path, limits=LIMITS), strict=True):
        assert built.ok, built.log
        assert set(backend.read(kernel, built)) >= {"passes", "simd", "libm", "nt_stores"}


def test_traits_tell_apart_what_differs_in_time(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    scalar = Kernel("cpp", "// flags: -fno-tree-vectorize\n" + adding("1.0f").source)
    both = [adding("1.0f"), scalar]
    vector, plain = (
        backend.read(*pair) for pair in zip(both, backend.build(both, sandbox=spawner, cache=tmp_path, limits=LIMITS), strict=True)
    )
    assert vector["simd"] in ("wide", "narrow")
    assert plain["simd"] == "none"


def test_one_bad_kernel_does_not_spoil_the_others(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    batch = {
        "good": adding("1.0f"),
        "syntax": Kernel("cpp", "int x = ;"),
        "include": Kernel("cpp", '#include "/etc/passwd"\n'),
        "parent": Kernel("cpp", '#include "../../../etc/passwd"\n'),
        "incbin": Kernel("cpp", 'asm(".incbin \\"/etc/passwd\\"");\n'),
        "flag": Kernel("cpp", "// flags: -ffast-math\n"),
        "plugin": Kernel("cpp", "// flags: -fplugin=./x.so\n"),
        "endless": Kernel("cpp", ENDLESS),
        "dialect": Kernel("cuda", ""),
        "also good": adding("2.0f"),
    }
    limits = dataclasses.replace(LIMITS, seconds=4.0)

    results = dict(zip(batch, backend.build(list(batch.values()), sandbox=spawner, cache=tmp_path, limits=limits), strict=True))

    assert {name: str(built.reason) for name, built in results.items()} == {
        "good": "none",
        "syntax": Reason.COMPILER,
        "include": Reason.FORBIDDEN_FILE,
        "parent": Reason.FORBIDDEN_FILE,
        "incbin": Reason.FORBIDDEN_FILE,
        "flag": Reason.FLAGS,
        "plugin": Reason.FLAGS,
        "endless": Reason.DEADLINE_BUILD,
        "dialect": Reason.UNSUPPORTED,
        "also good": "none",
    }
    assert "kernel.cpp:1" in results["syntax"].log
    assert all(built.ok == (built.artefact is not None) for built in results.values())


def test_build_deadline(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    (built,) = backend.build([Kernel("cpp", ENDLESS)], sandbox=spawner, cache=tmp_path, limits=dataclasses.replace(LIMITS, seconds=1.0))
    assert (built.ok, built.reason) == (False, Reason.DEADLINE_BUILD)


def test_build_memory(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    if spawner.tier is not Tier.ISOLATED:
        pytest.skip("without a memory cgroup the compiler itself reports that it got no more")
    tight = dataclasses.replace(LIMITS, memory_bytes=64 << 20)
    hungry = [Kernel("cpp", f"{ENDLESS}// {name}\n") for name in "ab"]
    for kernels in (hungry[:1], hungry):
        results = backend.build(kernels, sandbox=spawner, cache=tmp_path, limits=tight)
        assert {built.reason for built in results} == {Reason.MEMORY}


def test_same_bytes_alone_and_in_a_batch(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    kernels = [adding(f"{number}.0f") for number in range(3)]
    batch = backend.build(kernels, sandbox=spawner, cache=tmp_path / "batch", limits=LIMITS)
    alone = [built for kernel in kernels for built in backend.build([kernel], sandbox=spawner, cache=tmp_path / "alone", limits=LIMITS)]
    assert [built.digest for built in batch] == [built.digest for built in alone]
    assert len({built.digest for built in batch}) == 3


def test_product_is_used_again(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    kernel = adding("3.0f")
    (first,) = backend.build([kernel], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    (second,) = backend.build([kernel], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert (second.artefact, second.digest, second.seconds) == (first.artefact, first.digest, 0.0)
    assert first.artefact is not None
    (changed,) = backend.build([Kernel("cpp", kernel.source + "\n")], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert changed.artefact != first.artefact  # exact source


def test_damaged_product_is_built_again(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    (first,) = backend.build([adding("4.0f")], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert first.artefact is not None
    first.artefact.chmod(0o644)
    first.artefact.write_bytes(b"something else")
    (second,) = backend.build([adding("4.0f")], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert second.digest == first.digest
    assert second.seconds > 0


def test_a_product_in_another_ones_place_is_built_anew(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    kernels, seal = [adding("6.0f"), adding("7.0f")], b"a key of the judge's own"
    first = backend.build(kernels, sandbox=spawner, cache=tmp_path, limits=LIMITS, seal=seal)
    one, other = (built.artefact.parent for built in first if built.artefact is not None)
    one.rename(tmp_path / "aside")
    other.rename(one)
    (tmp_path / "aside").rename(other)

    again = backend.build(kernels, sandbox=spawner, cache=tmp_path, limits=LIMITS, seal=seal)

    assert [built.digest for built in again] == [built.digest for built in first]
    assert [built.traits for built in again] == [built.traits for built in first]
    assert all(built.seconds > 0 for built in again)


def test_a_library_that_was_changed_after_its_build_is_not_taken(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    task = load_task(SEEDS[0].parents[1])
    (built,) = backend.build([adding("5.0f")], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert built.artefact is not None
    limits, environment = Limits(), dict[str, str]()
    taker = KernelContestant(
        "candidate", task, DType.FLOAT32, built.artefact, "run", backend.loader(), spawner, ["c"], limits, environment, digest=built.digest
    )
    taker.start([dict(task.search[0].axes)]).close()
    built.artefact.chmod(0o644)
    with built.artefact.open("ab") as library:
        library.write(b"one byte more")
    with pytest.raises(Fault, match="is not what was stored") as fault:
        taker.start([dict(task.search[0].axes)])
    assert (fault.value.verdict, fault.value.reason) == (Verdict.INFRASTRUCTURE, Reason.HOST_ERROR)


def test_every_compiler_and_every_reader_has_a_slot_of_its_own(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    held: list[list[bytes]] = []

    class Watched:
        tier = spawner.tier

        def run(self, argv: Sequence[str], *, files: Mapping[str, bytes], want: Sequence[str], limits: Limits, **more: Any) -> Completed:
            held.append([content for name, content in files.items() if name != "evokern.h"])
            return spawner.run(argv, files=files, want=want, limits=limits, **more)

    kernels = [adding(f"{number}.5f") for number in range(3)]
    assert all(built.ok for built in backend.build(kernels, sandbox=Watched(), cache=tmp_path, limits=LIMITS))
    assert [len(contents) for contents in held] == [1] * 6
    assert sorted(c for contents in held for c in contents if not c.startswith(b"\x7fELF")) == sorted(k.source.encode() for k in kernels)


def test_builds_only_see_the_toolchain_and_the_header(backend: CpuBackend, spawner: Spawner, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#define SECRET 1\n")
    unseen = [str(secret), "/proc/loadavg", "/proc/self/stat", "/sys/kernel/mm/transparent_hugepage/enabled", "/etc/passwd"]
    refused = "".join(f'#if __has_include("{path}")\n#error seen\n#endif\n' for path in unseen)
    probe = Kernel("cpp", f'{refused}#if !__has_include("evokern.h")\n#error no header\n#endif\n')
    (built,) = backend.build([probe], sandbox=spawner, cache=tmp_path / "cache", limits=LIMITS)
    assert built.ok, built.log
