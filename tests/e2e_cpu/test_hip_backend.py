"""HipBackend: through the shim with the real nvcc, and for AMD GPUs with clang where it is; no GPU is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from evokern_gpu import card, nvcc, toolkit
from evokern_hip import amd, platforms
from evokern_hip.backend import HipBackend
from evokern_hip.gate import ARCHS, gate

from evokern.backend import Limits
from evokern.errors import Unavailable
from evokern.evaluation import Reason
from evokern.kernel import Kernel
from evokern.sandbox import Spawner

CORE = Path(__file__).parents[2] / "benchmarks" / "tasks" / "core"
SEEDS = sorted(CORE.glob("*/seeds/hip-*.hip.cpp"))
LIMITS = Limits(seconds=60.0)

# Every part of the shim that the seeds do not use.
WHOLE = """// flags: -ffp-contract=off -munsafe-fp-atomics
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#if __has_include(<hip/hip_bf16.h>)
#include <hip/hip_bf16.h>
#else
#include <hip/hip_bfloat16.h>
#endif
#include "evokern.h"

template <int LANES>
__global__ void sums(const float* x, float* total, int count) {
  HIP_DYNAMIC_SHARED(float, parts)
  float value = hipThreadIdx_x < count ? x[hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x] : 0.0f;
  for (int by = LANES / 2; by; by /= 2) value += __shfl_down(value, by, LANES);
  value = __shfl(value, 0) + __shfl_up(value, 1) - __shfl_xor(value, 1);
  parts[threadIdx.x] = value;
  __syncthreads();
  if (__any(value > 0) && !__all(value > 0) && __popcll(__ballot(value > 0)) > 3 && threadIdx.x % warpSize == 0) atomicAdd(total, parts[0]);
  total[1] = __half2float(__float2half(value));
}

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t bytes, void* stream) {
  hipStream_t on = static_cast<hipStream_t>(stream);
  int device = 0, processors = 0;
  if (hipGetDevice(&device) != hipSuccess) return 1;
  if (hipDeviceGetAttribute(&processors, hipDeviceAttributeMultiprocessorCount, device) != hipSuccess) return 1;
  if (hipMemsetAsync(workspace, 0, bytes, on) != hipSuccess) return 1;
  if (hipFuncSetAttribute(reinterpret_cast<const void*>(&sums<32>), hipFuncAttributeMaxDynamicSharedMemorySize, 1024)) return 1;
  hipLaunchKernelGGL(HIP_KERNEL_NAME(sums<32>), dim3(processors), dim3(256), 1024, on, evokern::data<float>(args[0]),
                     static_cast<float*>(workspace), 256);
  return hipGetLastError();
}
"""


@pytest.fixture(scope="module")
def spawner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    with Spawner.start({}, scratch=tmp_path_factory.mktemp("scratch")) as made:
        yield made


@pytest.fixture(scope="module")
def backend() -> HipBackend:
    return HipBackend()


@pytest.fixture
def shim(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        toolkit.find()
    except Unavailable as error:
        pytest.skip(error.line)
    monkeypatch.setenv(platforms.SETTING, "nvidia")
    monkeypatch.setenv(nvcc.ARCH_SETTING, "sm_90")


def needs_clang(arch: str) -> None:
    try:
        amd.find(arch)
    except Unavailable as error:
        pytest.skip(error.line)


@pytest.mark.usefixtures("shim")
def test_every_seed_and_instrument_builds_through_the_shim(backend: HipBackend, spawner: Spawner, tmp_path: Path) -> None:
    kernels = [Kernel("hip", path.read_text()) for path in SEEDS] + [*backend.instruments().values(), Kernel("hip", WHOLE)]
    assert len(kernels) >= 11
    for kernel, built in zip(kernels, backend.build(kernels, sandbox=spawner, cache=tmp_path, limits=LIMITS), strict=True):
        assert built.ok, built.log
        assert len(built.images) == 1
        traits = backend.read(kernel, built)
        assert (traits["platform"], traits["arch"], traits["spill_bytes"]) == ("hip-nvidia (shim)", "sm_90", "0")


@pytest.mark.usefixtures("shim")
def test_what_ran_through_the_shim_is_never_called_amd(backend: HipBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "find", lambda: card.Card("NVIDIA H200", "580.0", "sm_90"))
    facts = backend.probe()
    assert facts.device == "NVIDIA H200, hip-nvidia (shim)"
    assert "hip-nvidia (shim)" in facts.flags
    assert "amd" not in f"{facts}".lower()


@pytest.mark.usefixtures("shim")
def test_faults_are_told_as_everywhere(backend: HipBackend, spawner: Spawner, tmp_path: Path) -> None:
    broken = [
        Kernel("hip", "int x = ;"),
        Kernel("hip", '#include "/etc/passwd"\n'),
        Kernel("hip", "// flags: -ffast-math\n"),
        Kernel("cuda", ""),
    ]
    results = backend.build(broken, sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert [built.reason for built in results] == [Reason.COMPILER, Reason.FORBIDDEN_FILE, Reason.FLAGS, Reason.UNSUPPORTED]


def test_without_a_gpu_it_is_unavailable(backend: HipBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "LIBRARY", "libno-such-driver.so.1")
    monkeypatch.setattr(amd, "DEVICE", Path("/dev/no-such-device"))
    for platform in platforms.Platform:
        monkeypatch.setenv(platforms.SETTING, platform)
        with pytest.raises(Unavailable):
            backend.probe()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("task", ["softmax", "rmsnorm"])
def test_seeds_compile_for_amd_gpus(spawner: Spawner, arch: str, task: str) -> None:
    needs_clang(arch)
    for path in (CORE / task / "seeds").glob("hip-*"):
        (told,) = gate(path.read_text(), (arch,), sandbox=spawner)
        assert (told.ok, told.reason) == (True, Reason.NONE), told.detail
        assert [(need.spilled, need.waves > 0, need.vgprs > 0) for need in told.kernels] == [(0, True, True)]


def test_a_library_for_an_amd_gpu_holds_its_code_object(
    backend: HipBackend, spawner: Spawner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_clang("gfx90a")
    monkeypatch.setenv(platforms.SETTING, "amd")
    monkeypatch.setenv(amd.ARCH_SETTING, "gfx90a")
    (built,) = backend.build([Kernel("hip", WHOLE)], sandbox=spawner, cache=tmp_path, limits=LIMITS)
    assert built.ok, built.log
    assert built.artefact is not None
    assert built.images[0].read_bytes() in built.artefact.read_bytes()
    assert (built.traits["platform"], built.traits["arch"]) == ("amd", "gfx90a")


def test_the_amd_gate_refuses_what_no_block_gets(spawner: Spawner) -> None:
    needs_clang("gfx90a")
    body = "__shared__ float s[20000]; s[threadIdx.x] = *x; __syncthreads(); *x = s[7];"
    wide = f"#include <hip/hip_runtime.h>\n__global__ void k(float* x) {{ {body} }}"
    (told,) = gate(wide, ("gfx90a",), sandbox=spawner)
    assert (told.ok, told.reason) == (False, Reason.RESOURCES)
    (broken,) = gate("int x = ;", ("gfx90a",), sandbox=spawner)
    assert broken.reason is Reason.COMPILER
