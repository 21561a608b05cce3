"""Where a kernel's time goes, with a real judge: rungs that are here on a processor, by file, by id, and in an elite's evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from evokern.evaluation import Bottleneck, ProfileRung
from evokern.evaluator.session import Session
from evokern.kernel import Kernel
from evokern.report.profile import MEMORY
from tests.e2e_cpu.conftest import Shell
from tests.e2e_cpu.small_task import CORE

SEED = CORE / "softmax" / "seeds" / "cpp-float32.cpp"

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]


def test_a_file_is_judged_and_told_by_its_resources(shell: Shell, small_task: Path) -> None:
    code, document, said = shell("profile", str(SEED), "--task", str(small_task), "--backend", "cpu")
    assert (code, document["schema"], document["rung"], document["verdict"]) == (0, "evokern.profile/1", "resources", "passed"), said
    assert document["missing"] == {"counters": "no counters are read on a processor"}
    assert document["traits"]["passes"] == "3+"
    for workload in document["workloads"]:
        assert workload["share"] == pytest.approx(workload["floor_us"] / workload["time_us"])
        assert workload["gb_per_s"] == pytest.approx(workload["bytes"] / workload["time_us"] / 1000)
        assert 0 < workload["sol"] < 1
        assert workload["why"]
    assert "profiling" in said


def test_a_wrong_kernel_has_a_verdict_instead(shell: Shell, small_task: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.cpp").write_text(SEED.read_text().replace("/ total", "/ (total + 1)"))
    code, document, _ = shell("profile", str(tmp_path / "bad.cpp"), "--task", str(small_task))
    assert (code, document["schema"], document["reason"]) == (1, "evokern.eval/1", "tolerance")


def test_a_run_s_elite_holds_its_profile_and_is_told_at_once(eager_shell: Shell, small_task: Path) -> None:
    code, summary, said = eager_shell("run", "--task", str(small_task), "--evals", "2", "--seed", "3")
    assert code == 0, said
    kernel = summary["kernel"][:12]
    code, document, said = eager_shell("profile", kernel)
    assert (code, document["schema"], document["run"], document["confirmed"]) == (0, "evokern.profile/1", summary["run"], True)
    assert "starting the oracle" not in said, "nothing is run"
    assert list(document["missing"]) == ["counters"]
    shown = eager_shell.plain("profile", kernel).stdout
    assert f"profile by resources: {document['bottleneck']}" in shown
    assert MEMORY in shown
    for file in ("nothing", "ffffffffffff"):
        assert eager_shell("profile", file)[0] == 2
    assert "no task is named" in eager_shell.plain("profile", str(SEED)).stderr


def test_a_kernel_that_computes_one_element_at_a_time_is_told_so(session: Session) -> None:
    """The exponential called from the mathematical library, and no vectors: far from the memory's rate."""
    source = "// flags: -fno-tree-vectorize -fno-tree-slp-vectorize\n" + SEED.read_text()
    kernel = Kernel("cpp", source)
    evaluation = session.ladder.judge(kernel, session.build(kernel), None)
    assert evaluation.passed, evaluation.detail
    profile = session.profiled(kernel, evaluation, counted=True).profile
    assert profile is not None
    assert profile.rung is ProfileRung.RESOURCES
    assert profile.bottleneck in (Bottleneck.COMPUTE, Bottleneck.MEMORY)
    (found, *_) = profile.workloads
    assert found.launch_us == 0.0
    assert found.memory_us is not None
