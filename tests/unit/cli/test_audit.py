"""What is told of refused kernels, and the audit queue, over a real journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evokern.evaluation import Clock, Evaluation, Evidence, Measurement, Reason, Rung, Sample, Verdict
from evokern.kernel import Candidate, Kernel
from evokern.store import Journal, payload
from evokern.task import DType

Shell = Callable[..., Any]
RUN = "softmax-20261129T1015-3f2a"
CLEAR = "\x1b[2J"
CLOCKED = Kernel("cpp", f"// {CLEAR}\u202e\nint run() {{ return 100; }}\n")
LINKED = Kernel("cpp", "int run() { return 101; }\n")
SUSPECT = Kernel("cpp", "int run() { return 102; }\n")


def judged(kernel: Kernel, verdict: Verdict, reason: Reason = Reason.NONE, **fields: Any) -> Evaluation:
    return Evaluation(kernel.id, "d" * 64, "float32", verdict, reason, rung=Rung.CHECK, key=kernel.id, **fields)


@pytest.fixture
def audited(run_in: Path) -> Path:
    evaluations = {
        CLOCKED: judged(
            CLOCKED, Verdict.WRONG, Reason.TOLERANCE, detail=f"row 3{CLEAR}\nfake: passed",
            log="".join(f"line {n}\n" for n in range(60)) + f"{CLEAR}end\n", evidence=(Evidence("clock", f"reads {CLEAR}", 2),),
        ),
        LINKED: judged(LINKED, Verdict.PASSED, evidence=(Evidence("vendored", "cblas_sgemm"), Evidence("prints", "puts"))),
        SUSPECT: judged(SUSPECT, Verdict.QUARANTINED, Reason.IMPOSSIBLE),
    }  # fmt: skip

    async def write() -> None:
        with Journal(run_in) as journal:
            for number, (kernel, evaluation) in enumerate(evaluations.items(), start=10):
                candidate = Candidate(kernel, "softmax", DType.FLOAT32, (), f"rewrite{CLEAR}")
                await journal.append([payload.proposed(RUN, number, candidate), payload.evaluated(RUN, evaluation, 0)])

    asyncio.run(write())
    return run_in


@pytest.mark.usefixtures("audited")
def test_a_refused_kernel_is_told_in_words_that_cannot_steer_a_terminal(shell: Shell) -> None:
    text = shell("show", CLOCKED.short).out
    assert "what happened: an output is further from the float64 oracle" in text
    assert "what to do:    Look at tails, strides" in text
    assert r"detail:        row 3\x1b[2J fake: passed" in text
    assert "[31 more lines" in text
    assert "line 59" in text
    assert "for an auditor: 1 remark\n" in text
    assert r"clock        reads \x1b[2J (line 2)" in text, "whole, as `eval` keeps no kernel to be shown later"
    assert text.replace("\n", "").isprintable()
    document = shell("show", CLOCKED.short, "--json").document
    assert document["source"] == CLOCKED.source
    (evaluation,) = document["runs"][0]["evaluations"]
    assert (evaluation["happened"], evaluation["evidence"][0]["line"]) == (
        "an output is further from the float64 oracle than rounding explains",
        2,
    )


@pytest.mark.usefixtures("audited")
def test_the_queue_of_a_run_lists_the_heaviest_first(shell: Shell) -> None:
    document = shell("show", "--audit", "softmax", "--json").document
    assert document["schema"] == "evokern.audit/1"
    assert [entry["kernel"] for entry in document["kernels"]] == [SUSPECT.id, LINKED.id, CLOCKED.id]
    assert [piece["code"] for piece in document["kernels"][1]["evidence"]] == ["vendored", "prints"]
    assert shell("show", "--audit", "--json").document == document, "the latest run"
    text = shell("show", RUN, "--audit").out
    assert "faster than the hardware can move the bytes" in text
    assert CLEAR not in text


@pytest.mark.usefixtures("audited")
def test_one_kernels_evidence_and_that_of_one_without(shell: Shell) -> None:
    assert "clock" in shell("show", CLOCKED.short, "--audit").out
    clean = Kernel("cpp", 'extern "C" int run() { return 1; }\n')
    assert "nothing was found" in shell("show", clean.short, "--audit").out
    assert shell("show", clean.short, "--audit", "--json").document["runs"][0]["kernels"][0]["evidence"] == []


@pytest.mark.usefixtures("run_in")
def test_a_run_without_evidence_and_a_name_of_nothing(shell: Shell) -> None:
    assert "nothing to audit" in shell("show", "--audit").out
    assert shell("show", "--audit", "rmsnorm").code == 2


@pytest.mark.usefixtures("run_in")
def test_rows_that_do_not_count_are_marked_and_nobody_elses_signature_counts(shell: Shell, home: Path) -> None:
    rows = shell("top").out
    assert (rows.count("NOT OFFICIAL"), rows.count(" official")) == (1, 4)
    assert "NOT OFFICIAL (unsandboxed)" in rows
    assert "NOT OFFICIAL" not in shell("status").out
    (home / "judges").write_text("ab" * 32 + "\n")
    assert shell("top").out.count("external") == 5
    assert "NOT OFFICIAL: no judge that is enrolled here signed it" in shell("status").out
    refused = shell("promote", RUN, "--json")
    assert (refused.code, refused.document["promoted"]) == (1, False)
    assert "signed" in refused.document["reason"]


def test_the_closed_list_is_printed_with_advice(shell: Shell) -> None:
    answer = shell("doctor", "--reasons", "--json")
    assert answer.code == 0
    assert set(answer.document["reasons"]) == {str(reason) for reason in Reason}
    text = shell("doctor", "--reasons").out
    assert all(reason in text for reason in Reason)


@pytest.mark.usefixtures("run_in")
def test_what_the_kernels_process_claims_stands_beside_the_judges_time(shell: Shell, home: Path) -> None:
    samples = (
        Sample("candidate", 0, 0, 5_000_000, 5_100_000, claimed_ns=1_000),
        Sample("candidate", 0, 1, 5_000_000, 5_100_000, claimed_ns=3_000),
        Sample("candidate", 0, 2, 9_000_000, 9_100_000, void="moved", claimed_ns=9_000),
        Sample("eager", 0, 0, 1, 1, claimed_ns=7_000),
    )
    measurement = Measurement("w", Clock.JUDGED, 5000.0, 3.0, 0.5, None, {}, samples)
    timed = judged(LINKED, Verdict.PASSED, measurements=(measurement,))

    async def write() -> None:
        with Journal(home) as journal:
            candidate = Candidate(LINKED, "softmax", DType.FLOAT32, (), "rewrite")
            await journal.append([payload.proposed(RUN, 20, candidate), payload.evaluated(RUN, timed, 0)])

    asyncio.run(write())
    (evaluation,) = shell("show", LINKED.short, "--json").document["runs"][0]["evaluations"]
    assert [(w["time_us"], w["claimed_us"]) for w in evaluation["workloads"]] == [(5000.0, 2.0)]
    assert "claimed us" in shell("show", LINKED.short).out
