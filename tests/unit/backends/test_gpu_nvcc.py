"""Which architecture is built for, with which flags, and how a build that left nothing is told."""

from __future__ import annotations

import pytest
from evokern_gpu import card, nvcc
from evokern_gpu.building import Refused, reason_of

from evokern.backend import Completed
from evokern.errors import SourceError, Unavailable, UsageError
from evokern.evaluation import Reason
from evokern.syntax.flags import ALLOWED_FLAGS, CUDA_FLAGS, HIP_FLAGS, flags_of


def test_the_setting_decides_what_is_built_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(nvcc.ARCH_SETTING, "sm_80")
    assert nvcc.target() == "sm_80"
    monkeypatch.setenv(nvcc.ARCH_SETTING, "hopper; rm")
    with pytest.raises(UsageError, match="is no CUDA architecture"):
        nvcc.target()


def test_without_a_gpu_hopper_is_built_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(nvcc.ARCH_SETTING, raising=False)
    monkeypatch.setattr(card, "LIBRARY", "libno-such-driver.so.1")
    with pytest.raises(Unavailable, match="no NVIDIA driver"):
        card.find()
    assert nvcc.target() == nvcc.DEFAULT_ARCH


@pytest.mark.parametrize(
    ("source", "flags", "arch", "exact"),
    [
        ("plain", (), "sm_90", "sm_90"),
        ("plain", ("-arch=sm_90a",), "sm_90", "sm_90a"),
        ('asm volatile("wgmma.fence.sync.aligned;");', (), "sm_90", "sm_90a"),
        ('asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");', (), "sm_90", "sm_90a"),
        ('asm volatile("tcgen05.fence::before_thread_sync;");', (), "sm_100", "sm_100a"),
        ("wgmma", (), "sm_90a", "sm_90a"),
        ("wgmmas", (), "sm_90", "sm_90"),
    ],
)
def test_what_only_one_generation_has_is_built_for_that_one(source: str, flags: tuple[str, ...], arch: str, exact: str) -> None:
    assert nvcc.variant(source, flags, arch) == exact


def test_another_generation_is_refused_before_a_compiler_runs() -> None:
    with pytest.raises(Refused, match="it asks for sm_90a, and sm_80 is built for") as refused:
        nvcc.variant("", ("-arch=sm_90a",), "sm_80")
    assert refused.value.reason is Reason.UNSUPPORTED


@pytest.mark.parametrize(("dialect", "allowed"), [("cpp", ALLOWED_FLAGS), ("cuda", CUDA_FLAGS), ("hip", HIP_FLAGS)])
def test_every_dialect_has_a_white_list_of_its_own(dialect: str, allowed: frozenset[str]) -> None:
    line = f"// flags: {' '.join(sorted(allowed))}\n"
    assert set(flags_of(line, dialect)) == allowed
    for flag in ("-I/etc", "-DX", "-Xcompiler=-fplugin=x.so", "--run", "-ccbin=x", "-include=/etc/passwd", "-lcublas", "@file"):
        with pytest.raises(SourceError, match="is not allowed"):
            flags_of(f"// flags: {flag}\n", dialect)


@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (Completed(1, "kernel.cu(1): error: expected a ';'", 1.0), Reason.COMPILER),
        (Completed(1, "kernel.cu:1:10: fatal error: /etc/passwd: No such file or directory", 1.0), Reason.FORBIDDEN_FILE),
        (Completed(1, "kernel.cu:1:10: fatal error: missing.h: No such file or directory", 1.0), Reason.COMPILER),
        (
            Completed(1, "ptxas error   : Entry function '_Z1kv' uses too much shared data (0x10000 bytes, 0xc000 max)", 1.0),
            Reason.RESOURCES,
        ),
        (Completed(-9, "", 60.0, timed_out=True), Reason.DEADLINE_BUILD),
        (Completed(-9, "", 6.0, out_of_memory=True), Reason.MEMORY),
    ],
)
def test_why_there_is_no_product(done: Completed, reason: Reason) -> None:
    assert reason_of(done) is reason
