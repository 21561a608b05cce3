"""The whole ladder on a GPU: honest kernels pass and are sealed, wrong ones are told apart, and what a bad one does ends with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import pytest

from evokern.evaluation import REASONS, Clock, Evaluation, Reason, Rung, Verdict
from evokern.kernel import Kernel
from tests.gpu.kernels import AUTOTUNED, BREAKS, OFF_THE_MAP, ONLY_INTEGERS, UNSEALABLE, WRONG, WRONG_IN_TRITON, Edits, edited, seed
from tests.gpu.stands import BACKENDS, Stand, Stands, facts, said

# What PyTorch warns of is not what is tested here, and here it is in the judge's own process.
pytestmark = [pytest.mark.timeout(240), pytest.mark.filterwarnings("default")]

NEXT, NEXT_OF_OTHERS = 20, 5
"""Fresh runners of an honest kernel that must be right after each kernel that breaks something, those of `LASTING` and others."""

LASTING = ("an illegal address", "never ends", "exhausts the device's memory and refuses", "writes far from its output")
"""What other systems do not recover from."""


@pytest.fixture
def cuda(stands: Stands) -> Stand:
    return stands.get("cuda", "softmax")


@pytest.fixture
def triton(stands: Stands) -> Stand:
    return stands.get("triton", "softmax")


def word(evaluation: Evaluation) -> str:
    return f"{evaluation.verdict}/{evaluation.reason}"


def troubles(stand: Stand, honest: Kernel, count: int) -> list[tuple[Verdict, Reason, str]]:
    """What is wrong with so many calls of an honest kernel, each in a fresh runner."""
    return [trouble for trouble in (stand.called(honest) for _ in range(count)) if trouble]


def sources(edits: Mapping[str, Edits], dialect: str) -> dict[str, str]:
    return {name: edited(seed(dialect, "softmax"), *some) for name, some in edits.items()}


@pytest.mark.parametrize("task", ["softmax", "rmsnorm"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_honest_seed_passes_is_sealed_and_confirmed(stands: Stands, backend: str, task: str) -> None:
    stand = stands.get(backend, task)

    found = stand.judged(stand.kernel(seed(stand.dialect, task)), confirm=True)

    assert found.passed, said(found)
    assert found.confirmed
    assert found.passed_held_out
    assert "unsealed" not in found.descriptors, found.descriptors["unsealed"]
    assert {m.clock for m in found.measurements} == {Clock.STREAM}, facts(stand)
    assert len(found.measurements) >= 2
    assert all(m.time_us > 0 and m.versus for m in found.measurements)
    if backend == "hip":
        assert found.fingerprint is not None
        assert "shim" in found.fingerprint.device


class TestWrong:
    @pytest.mark.parametrize("name", WRONG)
    @pytest.mark.parametrize("backend", ["cuda", "hip"])
    def test_in_a_c_dialect(self, stands: Stands, backend: str, name: str) -> None:
        stand = stands.get(backend, "softmax")
        kernels = {key: stand.kernel(source) for key, source in sources(WRONG, backend).items()}
        stand.prepare(list(kernels.values()))

        found = stand.judged(kernels[name])

        assert found.verdict in (Verdict.WRONG, Verdict.HELD_OUT_FAILED), said(found)
        if name.startswith("columns beyond"):
            assert found.rung is Rung.GATE, said(found)
            assert found.detail == REASONS[Reason.HELD_OUT]

    @pytest.mark.parametrize("name", WRONG_IN_TRITON)
    def test_in_triton(self, triton: Stand, name: str) -> None:
        kernels = {key: triton.kernel(source) for key, source in sources(WRONG_IN_TRITON, "triton").items()}
        triton.prepare(list(kernels.values()))

        found = triton.judged(kernels[name])

        assert found.verdict in (Verdict.WRONG, Verdict.HELD_OUT_FAILED), said(found)


class TestWhatBreaks:
    @pytest.mark.parametrize("name", BREAKS)
    def test_is_typed_and_the_next_are_right(self, cuda: Stand, name: str) -> None:
        cuda.prepare([cuda.kernel(edited(seed("cuda", "softmax"), *edits)) for edits, _ in BREAKS.values()])
        edits, right = BREAKS[name]
        honest = cuda.kernel(seed("cuda", "softmax"))

        found = cuda.judged(cuda.kernel(edited(honest.source, *edits)))

        assert word(found) in right, said(found)
        assert found.rung in (Rung.CHECK, Rung.GATE, Rung.MEASURE)
        assert troubles(cuda, honest, NEXT if name in LASTING else NEXT_OF_OTHERS) == []
        health = cuda.session.probe()
        assert health.ok, health.detail

    def test_an_illegal_address_of_a_triton_kernel(self, triton: Stand) -> None:
        honest = seed("triton", "softmax")
        broken = edited(honest, *OFF_THE_MAP)

        found = triton.judged(triton.kernel(broken))

        assert word(found) == "crashed/device_error", said(found)
        assert troubles(triton, triton.kernel(honest), NEXT) == []

    def test_after_all_of_them_an_honest_kernel_passes_the_whole_ladder(self, cuda: Stand) -> None:
        found = cuda.judged(cuda.kernel(seed("cuda", "softmax") + "// once more\n"), confirm=True)

        assert found.passed, said(found)
        assert found.confirmed


@pytest.mark.parametrize("name", UNSEALABLE)
def test_what_cannot_be_sealed_says_why_and_is_timed_by_the_judge(cuda: Stand, name: str) -> None:
    cuda.prepare([cuda.kernel(edited(seed("cuda", "softmax"), *edits)) for edits, _ in UNSEALABLE.values()])
    edits, words = UNSEALABLE[name]

    found = cuda.judged(cuda.kernel(edited(seed("cuda", "softmax"), *edits)))

    assert found.passed, said(found)
    assert words in found.descriptors["unsealed"]
    assert {m.clock for m in found.measurements} == {Clock.JUDGED}


class TestCasesFromTheField:
    """Numbers are those of the list of what users of other systems report."""

    def test_30_35_others_are_built_while_a_kernel_hangs_and_the_hang_is_bounded(self, cuda: Stand) -> None:
        hangs = cuda.kernel(edited(seed("cuda", "softmax"), *BREAKS["never ends"][0]) + "// while others are built\n")
        cuda.built(hangs)
        other, ended = cuda.kernel(seed("cuda", "softmax") + "// built meanwhile\n"), 0.0

        def build() -> None:
            nonlocal ended
            assert cuda.session.build(other).ok
            ended = time.monotonic()

        builder = threading.Thread(target=build)
        builder.start()
        began = time.monotonic()
        found = cuda.judged(hangs)
        over = time.monotonic()
        builder.join()

        assert word(found) == "timed_out/deadline_run", said(found)
        assert over - began < 30, "one hung call, its deadline of a few seconds, and the end of its process"
        assert ended < over or cuda.session.build(other).seconds > over - began, "the build waited for the device"

    def test_32_to_tune_a_kernel_does_not_change_its_arguments(self, triton: Stand) -> None:
        found = triton.judged(triton.kernel(AUTOTUNED))

        assert found.passed, said(found)

    def test_33_the_policy_of_precision_is_in_the_fingerprint(self, cuda: Stand) -> None:
        fingerprint = cuda.session.preparation.fingerprint

        assert cuda.session.task.policy
        assert fingerprint.policy == cuda.session.task.policy
        assert fingerprint.backend == "cuda"
        assert "torch" in fingerprint.libraries

    def test_36_labels_come_as_integers(self, stands: Stands) -> None:
        stand = stands.get("cuda", "cross_entropy")
        whole = edited(seed("cuda", "cross_entropy"), *ONLY_INTEGERS)

        found = stand.judged(stand.kernel(whole))

        assert found.passed, said(found)
