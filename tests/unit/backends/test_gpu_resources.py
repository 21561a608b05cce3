"""What ptxas reports, what architectures have, and what follows for a launch."""

from __future__ import annotations

import pytest
from evokern_gpu import resources
from evokern_gpu.resources import ARCHS, Resources, arch_of, complaint, from_report, level, occupancy, traits
from hypothesis import given
from hypothesis import strategies as st

# As nvcc 13.0 prints it for three kernels, one of them with a function that was not inlined.
REPORT = """kernel.cu(3): warning #177-D: variable "x" was declared but never referenced
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4softPKfPfi' for 'sm_90'
ptxas info    : Function properties for _Z4softPKfPfi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, used 0 barriers, 128 bytes smem
ptxas info    : Compile time = 4.196 ms
ptxas info    : Compiling entry function '_Z5heavyPf' for 'sm_90'
ptxas info    : Function properties for _Z5heavyPf
    136 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads
ptxas info    : Function properties for _Z6helperf
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 136 bytes cumulative stack size, 49152 bytes smem, 384 bytes cmem[0]
ptxas info    : Compiling entry function '_Z5otherv' for 'sm_90'
"""

PTX = """
.visible .entry _Z4softPKfPfi(
\t.param .u64 _Z4softPKfPfi_param_0
)
.maxntid 256, 1, 1
{
\tret;
}
.visible .entry _Z5heavyPf(
\t.param .u64 _Z5heavyPf_param_0
)
{
.maxntid 9
"""

SOFT = Resources("_Z4softPKfPfi", 14, 0, 0, 128, 0, 256)
HEAVY = Resources("_Z5heavyPf", 255, 136, 64, 49152, 1, 0)


def test_a_report_gives_every_kernel_that_it_tells_of_to_the_end() -> None:
    assert from_report(REPORT, PTX) == (SOFT, HEAVY)
    assert from_report("nothing of the kind") == ()


@given(st.lists(st.sampled_from(REPORT.splitlines()) | st.text()), st.text() | st.sampled_from([PTX, PTX[:60]]))
def test_no_report_stops_the_reader(lines: list[str], ptx: str) -> None:
    for need in from_report("\n".join(lines), ptx):
        assert need.registers >= 0
        traits([need], ARCHS["sm_90"])


# Beside the CUDA toolkit's own occupancy calculator.
@pytest.mark.parametrize(
    ("registers", "shared", "threads", "share"),
    [
        (32, 0, 256, 1.0),
        (33, 0, 256, 0.75),
        (64, 0, 256, 0.5),
        (255, 0, 256, 0.125),
        (16, 0, 64, 1.0),
        (16, 0, 32, 0.5),
        (16, 40 << 10, 256, 0.625),
        (16, 227 << 10, 1024, 0.5),
        (128, 0, 1024, 0.0),
    ],
)
def test_occupancy(registers: int, shared: int, threads: int, share: float) -> None:
    assert occupancy(Resources("k", registers, shared_bytes=shared), ARCHS["sm_90"], threads) == share


def test_a_variant_has_the_limits_of_its_generation() -> None:
    assert arch_of("sm_90a") is ARCHS["sm_90"]
    assert arch_of("sm_100f") is ARCHS["sm_100"]
    assert arch_of("sm_999") is None


def test_what_cannot_be_launched_is_told_before() -> None:
    hopper, ampere = ARCHS["sm_90"], ARCHS["sm_80"]
    assert complaint(SOFT, hopper) == ""
    assert complaint(HEAVY, hopper) == ""
    assert "block of 2048 threads" in complaint(SOFT, hopper, threads=2048)
    assert "255 registers in each of 512 threads" in complaint(HEAVY, hopper, threads=512)
    assert complaint(SOFT, hopper, dynamic_bytes=200 << 10) == ""
    assert f"{128 + (200 << 10)} bytes of shared memory" in complaint(SOFT, ampere, dynamic_bytes=200 << 10)


def test_traits_are_extremes_and_sums_over_kernels() -> None:
    assert traits([SOFT, HEAVY], ARCHS["sm_90"]) == {
        "kernels": "2",
        "registers": "255",
        "spill_bytes": "64",
        "shared_bytes": "49152",
        "barriers": "1",
        "resident": "0.12",
        "occupancy": "low",
    }
    assert "occupancy" not in traits([SOFT], None)
    assert traits([], ARCHS["sm_90"]) == {}


def test_levels() -> None:
    assert [level(share) for share in (0.0, 0.34, 0.35, 0.69, 0.7, 1.0)] == ["low", "low", "middle", "middle", "high", "high"]


def test_every_block_fits_into_its_multiprocessor() -> None:
    for arch in resources.ARCHS.values():
        assert arch.block_shared_bytes <= arch.shared_bytes
        assert arch.block_threads <= arch.threads
