"""Which platform HIP is built for, and what is read of clang's remarks."""

from __future__ import annotations

from pathlib import Path

import pytest
from evokern_gpu.building import Compiled, Recipe
from evokern_hip import amd, platforms
from evokern_hip.backend import HipBackend
from hypothesis import given
from hypothesis import strategies as st

from evokern.errors import Unavailable, UsageError
from evokern.evaluation import Reason

# As clang 15 and clang 19 print it, with intermediate files and without.
REMARKS = """remark: kernel.hip:4:0: Function Name: _Z4softPKfPfi [-Rpass-analysis=kernel-resource-usage]
remark: kernel.hip:4:0:     SGPRs: 11 [-Rpass-analysis=kernel-resource-usage]
remark: kernel.hip:4:0:     VGPRs: 3 [-Rpass-analysis=kernel-resource-usage]
remark: kernel.hip:4:0:     AGPRs: 0 [-Rpass-analysis=kernel-resource-usage]
remark: kernel.hip:4:0:     ScratchSize [bytes/lane]: 0 [-Rpass-analysis=kernel-resource-usage]
remark: kernel.hip:4:0:     Occupancy [waves/SIMD]: 8 [-Rpass-analysis=kernel-resource-usage]
remark: kernel.hip:4:0:     SGPRs Spill: 0 [-Rpass-analysis=kernel-resource-usage]
remark: kernel.hip:4:0:     VGPRs Spill: 0 [-Rpass-analysis=kernel-resource-usage]
remark: kernel.hip:4:0:     LDS Size [bytes/block]: 128 [-Rpass-analysis=kernel-resource-usage]
kernel.hip:9:1: remark: Function Name: heavy [-Rpass-analysis=kernel-resource-usage]
kernel.hip:9:1: remark:     TotalSGPRs: 102 [-Rpass-analysis=kernel-resource-usage]
kernel.hip:9:1: remark:     VGPRs: 128 [-Rpass-analysis=kernel-resource-usage]
kernel.hip:9:1: remark:     AGPRs: 128 [-Rpass-analysis=kernel-resource-usage]
kernel.hip:9:1: remark:     ScratchSize [bytes/lane]: 64 [-Rpass-analysis=kernel-resource-usage]
kernel.hip:9:1: remark:     Dynamic Stack: False [-Rpass-analysis=kernel-resource-usage]
kernel.hip:9:1: remark:     Occupancy [waves/SIMD]: 2 [-Rpass-analysis=kernel-resource-usage]
kernel.hip:9:1: remark:     VGPRs Spill: 16 [-Rpass-analysis=kernel-resource-usage]
kernel.hip:9:1: remark:     LDS Size [bytes/block]: 65600 [-Rpass-analysis=kernel-resource-usage]
"""

SOFT = amd.Needs("_Z4softPKfPfi", 3, 0, 11, 0, 0, 128, 8)
HEAVY = amd.Needs("heavy", 128, 128, 102, 64, 16, 65600, 2)


def test_remarks_of_both_kinds() -> None:
    assert amd.from_remarks(REMARKS) == (SOFT, HEAVY)
    assert amd.from_remarks("warning: nothing of the kind") == ()


@given(st.lists(st.sampled_from(REMARKS.splitlines()) | st.text()).map("\n".join))
def test_no_remark_stops_the_reader(text: str) -> None:
    assert all(need.vgprs >= 0 for need in amd.from_remarks(text))


def test_what_cannot_be_launched_is_told_before() -> None:
    assert amd.complaint(SOFT, "gfx942") == ""
    assert "65600 bytes of local data share; a block may have 65536" in amd.complaint(HEAVY, "gfx942")
    assert amd.complaint(HEAVY, "gfx950") == ""
    assert amd.complaint(HEAVY, "gfx1201") == ""


def test_traits_have_the_names_that_nvidia_s_have() -> None:
    recipe = Recipe("kernel.hip", (), "clang", (), "gfx942", "clang++")
    compiled = Compiled(b"", b"", b"", {}, REMARKS, 1.0, Reason.NONE)
    assert HipBackend().describe(recipe, compiled, "") == {
        "platform": "amd",
        "arch": "gfx942",
        "kernels": "2",
        "registers": "256",
        "scalar_registers": "102",
        "spill_bytes": "64",
        "shared_bytes": "65600",
        "resident": "0.25",
        "occupancy": "low",
    }


def test_the_setting_decides_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(platforms.SETTING, "amd")
    assert platforms.chosen() is platforms.Platform.AMD
    monkeypatch.setenv(platforms.SETTING, "nvidia")
    assert platforms.chosen() is platforms.Platform.NVIDIA
    monkeypatch.setenv(platforms.SETTING, "intel")
    with pytest.raises(UsageError, match="is no platform of HIP"):
        platforms.chosen()


def test_an_architecture_is_named_as_amd_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(amd.ARCH_SETTING, "gfx90a")
    assert amd.target() == "gfx90a"
    monkeypatch.setenv(amd.ARCH_SETTING, "gfx90a; rm -r x")
    with pytest.raises(UsageError, match="is no AMD architecture"):
        amd.target()


def test_without_a_compiler_the_fix_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amd, "clangs", list)
    with pytest.raises(Unavailable, match=r"no compiler for AMD GPUs found.*apt install"):
        amd.find("gfx90a")


def test_a_clang_builds_for_what_it_and_its_libraries_know(tmp_path: Path) -> None:
    for name in ("90a", "940"):
        (tmp_path / f"oclc_isa_version_{name}.bc").touch()
    old, new = (amd.Clang(tmp_path / "clang++", f"clang version {major}", major, tmp_path, tmp_path, tmp_path) for major in (15, 19))
    assert [clang.builds_for("gfx90a") for clang in (old, new)] == [True, True]
    assert [clang.builds_for("gfx942") for clang in (old, new)] == [False, False]
    for name in ("llvm-dis", "llvm-as"):
        (tmp_path / name).touch()
    assert [clang.builds_for("gfx942") for clang in (old, new)] == [False, True]
    assert not new.builds_for("gfx950")
