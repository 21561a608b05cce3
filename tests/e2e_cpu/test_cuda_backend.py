"""CudaBackend with the real nvcc in the real sandbox, on a machine that need not have a GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from evokern_cuda.backend import CudaBackend
from evokern_cuda.gate import ARCHS, gate
from evokern_gpu import card, nvcc, toolkit
from evokern_gpu.building import IMAGE

from evokern.backend import Completed, Limits
from evokern.errors import Unavailable
from evokern.evaluation import Evidence, Reason
from evokern.evaluator import screen
from evokern.kernel import Kernel
from evokern.sandbox import Spawner
from evokern.task import DType

CORE = Path(__file__).parents[2] / "benchmarks" / "tasks" / "core"
SEEDS = sorted(CORE.glob("*/seeds/cuda-*.cu"))
LIMITS = Limits(seconds=60.0)
ELF = b"\x7fELF"

SCALE = """
#include "evokern.h"
__global__ void __launch_bounds__(128) scale(const float* x, float* y, int64_t count) {
  int64_t at = blockIdx.x * 128ll + threadIdx.x;
  if (at < count) y[at] = BY * x[at];
}
extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  int64_t count = args[0]->shape[0];
  scale<<<(count + 127) / 128, 128, 0, (cudaStream_t)stream>>>(evokern::data<float>(args[0]), evokern::data<float>(args[1]), count);
  return cudaGetLastError();
}
"""

# Instantiates 2^60 templates.
ENDLESS = """
template <int depth, long at> struct Tree { static constexpr long sum = Tree<depth - 1, 2 * at>::sum + Tree<depth - 1, 2 * at + 1>::sum; };
template <long at> struct Tree<0, at> { static constexpr long sum = at; };
long sum = Tree<60, 0>::sum;
"""

WGMMA = """
__global__ void fence() { asm volatile("wgmma.fence.sync.aligned;"); }
extern "C" int run() { fence<<<1, 128>>>(); return 0; }
"""


def scaling(by: str) -> Kernel:
    return Kernel("cuda", f"#define BY {by}\n{SCALE}")


def with_static_shared(size: int) -> str:
    return (
        f"__global__ void k(float* x) {{ __shared__ float s[{size // 4}]; s[threadIdx.x] = *x; __syncthreads(); *x = s[threadIdx.x ^ 1]; }}"
    )


@pytest.fixture(scope="module", autouse=True)
def _needs_nvcc() -> None:
    try:
        toolkit.find()
    except Unavailable as error:
        pytest.skip(error.line)


@pytest.fixture(autouse=True)
def _for_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(nvcc.ARCH_SETTING, "sm_90")


@pytest.fixture(scope="module")
def spawner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    with Spawner.start({}, scratch=tmp_path_factory.mktemp("scratch")) as made:
        yield made


@pytest.fixture(scope="module")
def backend() -> CudaBackend:
    return CudaBackend()


def test_without_a_gpu_it_is_unavailable_and_says_what_works(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "LIBRARY", "libno-such-driver.so.1")
    with pytest.raises(Unavailable, match=r"no NVIDIA driver is here.*compile gates work without"):
        backend.probe()
    for dtype in (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16):
        backend.require(dtype)
    with pytest.raises(Unavailable, match="int8 is not here yet"):
        backend.require(DType.INT8)


def test_a_library_holds_the_very_image_that_lies_beside_it(backend: CudaBackend, spawner: Spawner, tmp_path: Path) -> None:
    (built,) = backend.build([scaling("2.0f")], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert built.ok, built.log
    assert built.artefact is not None
    (image,) = built.images
    assert image == built.artefact.with_name(IMAGE)
    assert image.stat().st_mode & 0o222 == 0
    assert image.read_bytes().startswith(ELF)
    assert image.read_bytes() in built.artefact.read_bytes()
    assert b".target sm_90" not in built.artefact.read_bytes()  # no PTX that a driver would compile anew


def test_traits(backend: CudaBackend, spawner: Spawner, tmp_path: Path) -> None:
    vector = Kernel("cuda", scaling("2.0f").source.replace("float* x, float* y", "float4* x, float4* y").replace("BY * x[at]", "x[at]")
                    .replace("data<float>", "data<float4>"))  # fmt: skip
    plain, wide = backend.build([scaling("2.0f"), vector], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    traits = backend.read(scaling("2.0f"), plain)
    assert {"arch": "sm_90", "kernels": "1", "spill_bytes": "0", "shared_bytes": "0", "occupancy": "high"}.items() <= traits.items()
    assert 4 <= int(traits["registers"]) <= 32
    if toolkit.disassembler() is not None:
        assert (traits["wide"], backend.read(vector, wide)["wide"]) == ("none", "most")


def test_the_screen_sees_what_the_author_s_host_code_asks_for(backend: CudaBackend, spawner: Spawner, tmp_path: Path) -> None:
    def evidence(kernel: Kernel) -> tuple[Evidence, ...]:
        (built,) = backend.build([kernel], sandbox=spawner, cache=tmp_path, limits=LIMITS)
        assert built.ok, built.log
        return screen.evidence(kernel, backend.read(kernel, built))

    assert evidence(scaling("2.0f")) == ()  # the run time's own threads, files and lookups are not the author's
    started = '#include <stdlib.h>\nstatic int started = system("true");\n' + scaling("2.0f").source
    assert {piece.code for piece in evidence(Kernel("cuda", started))} == {screen.FORBIDDEN, "load"}


def test_one_bad_kernel_does_not_spoil_the_others(backend: CudaBackend, spawner: Spawner, tmp_path: Path) -> None:
    batch = {
        "good": scaling("1.0f"),
        "syntax": Kernel("cuda", "int x = ;"),
        "include": Kernel("cuda", '#include "/etc/passwd"\n'),
        "parent": Kernel("cuda", '#include "../../../etc/passwd"\n'),
        "incbin": Kernel("cuda", 'asm(".incbin \\"/etc/passwd\\"");\n'),
        "flag": Kernel("cuda", "// flags: -Xcompiler=-fplugin=./x.so\n"),
        "generation": Kernel("cuda", "// flags: -arch=sm_100a\n"),
        "shared": Kernel("cuda", with_static_shared(60 << 10)),
        "undefined": Kernel("cuda", 'extern "C" int elsewhere(); extern "C" int run() { return elsewhere(); }'),
        "date": Kernel("cuda", "const char* when = __DATE__;"),
        "endless": Kernel("cuda", ENDLESS),
        "dialect": Kernel("cpp", ""),
        "also good": scaling("2.0f"),
    }
    # What never ends takes more memory the faster the machine is: time is to be what ends it.
    limits = dataclasses.replace(LIMITS, seconds=15.0, memory_bytes=8 << 30)
    results = dict(zip(batch, backend.build(list(batch.values()), sandbox=spawner, cache=tmp_path, limits=limits), strict=True))
    assert {name: str(built.reason) for name, built in results.items()} == {
        "good": "none",
        "syntax": Reason.COMPILER,
        "include": Reason.FORBIDDEN_FILE,
        "parent": Reason.FORBIDDEN_FILE,
        "incbin": Reason.FORBIDDEN_FILE,
        "flag": Reason.FLAGS,
        "generation": Reason.UNSUPPORTED,
        "shared": Reason.RESOURCES,
        "undefined": Reason.COMPILER,
        "date": Reason.COMPILER,
        "endless": Reason.DEADLINE_BUILD,
        "dialect": Reason.UNSUPPORTED,
        "also good": "none",
    }
    assert "kernel.cu(1)" in results["syntax"].log
    assert all(built.ok == (built.artefact is not None) == bool(built.images) for built in results.values())


def test_a_product_is_used_again_and_is_one_whole(backend: CudaBackend, spawner: Spawner, tmp_path: Path) -> None:
    def build(seal: bytes = b"") -> Any:
        (built,) = backend.build([scaling("3.0f")], sandbox=spawner, cache=tmp_path, limits=LIMITS, seal=seal)
        return built

    first = build(b"key")
    again = build(b"key")
    assert (again.artefact, again.digest, again.images, again.traits) == (first.artefact, first.digest, first.images, first.traits)
    assert again.seconds == 0.0
    (image,) = first.images
    content = image.read_bytes()
    image.chmod(0o644)
    image.write_bytes(content[:-1] + b"!")
    mended = build(b"key")
    assert mended.seconds > 0
    assert mended.images[0].read_bytes() == content  # the same source gives the same bytes
    assert mended.digest == first.digest
    assert build(b"another key").seconds > 0


def test_flags_and_architecture_are_parts_of_the_key(
    backend: CudaBackend, spawner: Spawner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = Kernel("cuda", "// flags: --use_fast_math\n" + scaling("4.0f").source)
    precise, fast = backend.build([scaling("4.0f"), loose], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    monkeypatch.setenv(nvcc.ARCH_SETTING, "sm_80")
    (older,) = backend.build([scaling("4.0f")], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert all(built.ok for built in (precise, fast, older))
    assert len({built.artefact for built in (precise, fast, older)}) == 3
    assert older.traits["arch"] == "sm_80"


def test_what_only_hopper_has_is_built_for_hopper(backend: CudaBackend, spawner: Spawner, tmp_path: Path) -> None:
    (built,) = backend.build([Kernel("cuda", WGMMA)], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert built.ok, built.log
    assert built.traits["arch"] == "sm_90a"


def test_compilers_and_readers_see_one_source_each(backend: CudaBackend, spawner: Spawner, tmp_path: Path) -> None:
    held: list[set[str]] = []

    class Watched:
        tier = spawner.tier

        def run(self, argv: Sequence[str], *, files: Mapping[str, bytes], want: Sequence[str], limits: Limits, **more: Any) -> Completed:
            held.append(set(files))
            return spawner.run(argv, files=files, want=want, limits=limits, **more)

    assert all(b.ok for b in backend.build([scaling("5.0f"), scaling("6.0f")], sandbox=Watched(), cache=tmp_path, limits=LIMITS))
    assert sorted(map(sorted, held)) == [["evokern.h", "kernel.cu"]] * 2 + [["image.bin", "kernel.o"]] * 2


def test_the_gate_tells_for_every_architecture(spawner: Spawner) -> None:
    source = next(path for path in SEEDS if path.parts[-3:] == ("softmax", "seeds", "cuda-float32.cu")).read_text()
    told = gate(source, sandbox=spawner)
    assert [(one.arch, one.ok, one.reason) for one in told] == [(arch, True, Reason.NONE) for arch in ARCHS]
    assert all(one.kernels[0].threads == 256 and one.kernels[0].registers > 0 for one in told)
    older, newer, unlike = gate(WGMMA, ("sm_80", "sm_90", "sm_100"), sandbox=spawner)
    assert (older.ok, newer.ok, unlike.ok) == (False, True, False)
    assert older.reason is Reason.COMPILER


def test_the_gate_refuses_what_no_block_gets(spawner: Spawner) -> None:
    (told,) = gate(with_static_shared(60 << 10), ("sm_90",), sandbox=spawner)
    assert (told.ok, told.reason) == (False, Reason.RESOURCES)
    assert "shared data" in told.detail
    (flag,) = gate("// flags: -g\n", ("sm_90",), sandbox=spawner)
    assert flag.reason is Reason.FLAGS


def test_every_seed_and_instrument_builds(backend: CudaBackend, spawner: Spawner, tmp_path: Path) -> None:
    kernels = [Kernel("cuda", path.read_text()) for path in SEEDS] + list(backend.instruments().values())
    assert len(kernels) >= 10
    for built in backend.build(kernels, sandbox=spawner, cache=tmp_path, limits=LIMITS):
        assert built.ok, built.log
        assert built.traits["spill_bytes"] == "0"
