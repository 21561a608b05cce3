"""Profiles: which rung, why no better one, figures from times and the task's cost, and bars that are as long as the time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evokern import record
from evokern.errors import UsageError
from evokern.evaluation import BASELINE, Bottleneck, Clock, Evaluation, Fingerprint, Measurement, ProfileRung, Ratio, Tier, Verdict
from evokern.evaluator.profile import Counted, profile_of
from evokern.evaluator.signing import Judges, Signer
from evokern.evaluator.statement import Preparation, WorkloadTimes
from evokern.report.profile import CELLS, LAUNCH, MEMORY, REST, bar, profile_document, profile_text
from evokern.task import Task
from evokern.testing.requests import row_task

NAME = "cols=4096,rows=64"
BYTES = 64 * 4096 * 4 + 64 * 4
FINGERPRINT = Fingerprint("e", "cpu", "a processor", "", "", "", "", "ieee", 1, Tier.ISOLATED, "", (), 0)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return row_task(tmp_path)


def timed(task: Task, time_us: float, share: float | None = None, **traits: str) -> Evaluation:
    measurement = Measurement(NAME, Clock.JUDGED, time_us, 1.0, 0.1, share, {BASELINE: Ratio(2.0, 1.9, 2.1, 8, 8)})
    return Evaluation(
        "k" * 64, task.digest, "float32", Verdict.PASSED, measurements=(measurement,), descriptors=traits, fingerprint=FINGERPRINT
    )


@pytest.fixture
def preparation() -> Preparation:
    return Preparation(FINGERPRINT, Tier.ISOLATED, (WorkloadTimes(NAME, True, {"copy": 100.0}, "eager"),), 0.0, 0.0)


@pytest.mark.parametrize(("time_us", "bottleneck"), [(110.0, "memory"), (180.0, "memory"), (1000.0, "unknown")])
def test_times_alone_are_held_against_a_copy(task: Task, preparation: Preparation, time_us: float, bottleneck: str) -> None:
    evaluation = timed(task, time_us)
    profile = profile_of(evaluation, task, preparation)
    assert profile is not None
    assert (profile.rung, profile.bottleneck) == (ProfileRung.TIMING, Bottleneck(bottleneck))
    assert set(profile.missing) == {"counters", "resources"}
    document = profile_document(evaluation, profile)
    (row,) = document["workloads"]
    assert row["bytes"] == BYTES
    assert row["floor_us"] == pytest.approx(100.0)
    assert row["gb_per_s"] == pytest.approx(BYTES / time_us / 1000)
    assert row["share"] == pytest.approx(100.0 / time_us)
    assert f"profile by timing: {bottleneck}: " in profile_text(document)
    assert "no counters: " in profile_text(document)


def test_the_share_that_the_judge_saw_goes_before_what_it_prepared(task: Task, preparation: Preparation) -> None:
    profile = profile_of(timed(task, 100.0, share=0.5), task, preparation)
    assert profile is not None
    (found,) = profile.workloads
    assert found.share == pytest.approx(0.5)
    assert found.memory_us == pytest.approx(50.0)
    assert found.sol == pytest.approx(1 / (1 + 50 / 150))


def test_a_device_s_own_ceilings_go_before_both_and_have_a_launch(task: Task, preparation: Preparation) -> None:
    device = replace(preparation, ceilings={"read": 1e12, "write": 1e12, "launch_us": 2.0, "vector": 1e12})
    profile = profile_of(timed(task, 10.0, share=0.5), task, device)
    assert profile is not None
    (found,) = profile.workloads
    assert found.launch_us == 2.0
    assert found.memory_us == pytest.approx(BYTES / 1e6)
    assert found.share == pytest.approx((2.0 + BYTES / 1e6) / 10.0)
    assert found.compute_us == pytest.approx(found.flops / 1e6)


def test_without_a_floor_the_bottleneck_is_unknown(task: Task) -> None:
    evaluation = timed(task, 100.0)
    profile = profile_of(evaluation, task, None)
    assert profile is not None
    assert profile.bottleneck is Bottleneck.UNKNOWN
    text = profile_text(profile_document(evaluation, profile))
    assert " - " in text
    assert REST not in text


def test_what_was_read_from_the_product_names_the_rung_and_an_auditor_s_facts_do_not(task: Task) -> None:
    evaluation = timed(task, 100.0, simd="wide", imports="expf", unsealed="has no image")
    profile = profile_of(evaluation, task, None)
    assert profile is not None
    assert (profile.rung, set(profile.missing)) == (ProfileRung.RESOURCES, {"counters"})
    assert profile_document(evaluation, profile)["traits"] == {"simd": "wide"}
    plain = profile_of(timed(task, 100.0, imports="expf"), task, None)
    assert plain is not None
    assert plain.rung is ProfileRung.TIMING


def test_counters_are_the_best_rung_and_are_told(task: Task, preparation: Preparation) -> None:
    seen = {"read_bytes": 4e6, "written_bytes": 256.0, "dram_pct": 91.0, "occupancy_pct": 88.0, "stall_memory": 12.5}
    evaluation = timed(task, 1000.0, registers="32")
    profile = profile_of(evaluation, task, preparation, Counted({NAME: seen}, ""))
    assert profile is not None
    assert (profile.rung, profile.missing, profile.bottleneck) == (ProfileRung.COUNTERS, {}, Bottleneck.MEMORY)
    text = profile_text(profile_document(evaluation, profile))
    assert "moved: read 4 MB (3.81 times what is needed)" in text
    assert "dram 91 %" in text
    assert "memory 12.5" in text


def test_a_kernel_that_was_not_timed_has_none(task: Task) -> None:
    assert profile_of(replace(timed(task, 1.0), measurements=()), task, None) is None


def test_an_evaluation_of_another_task_is_refused(task: Task) -> None:
    with pytest.raises(UsageError, match="another version"):
        profile_of(replace(timed(task, 1.0), task_digest="d" * 64), task, None)


def test_an_evaluation_keeps_its_profile_and_one_without_is_read_and_signed_as_before(task: Task, preparation: Preparation) -> None:
    evaluation = timed(task, 110.0)
    whole = replace(evaluation, profile=profile_of(evaluation, task, preparation))
    assert record.from_json(Evaluation, record.to_json(whole)) == whole
    held = record.to_json(evaluation)
    del held["profile"]
    assert record.from_json(Evaluation, held) == evaluation
    signer = Signer(bytes(32))
    signed = record.to_json(signer.sign(evaluation))
    del signed["profile"]
    assert Judges([signer.public]).accept(record.from_json(Evaluation, signed))
    assert not Judges([signer.public]).accept(replace(signer.sign(whole), profile=None))


@pytest.mark.parametrize(
    ("launch", "memory", "expected"),
    [
        (0.0, 0.5, MEMORY * 16 + REST * 16),
        (0.25, 0.5, LAUNCH * 8 + MEMORY * 16 + REST * 8),
        (0.0, 1.0, MEMORY * 32),
        (0.5, 3.0, LAUNCH * 16 + MEMORY * 16),
        (0.0, 0.0, REST * 32),
        (2.0, 2.0, LAUNCH * 32),
        (0.0, 1 / 64, "▌" + REST * 31),
    ],
)
def test_a_bar_is_as_long_as_the_time(launch: float, memory: float, expected: str) -> None:
    assert bar(launch, memory) == expected
    assert len(expected) == CELLS
