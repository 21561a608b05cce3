"""Kernels that are right and seem fast: each hides its cost where a careless clock does not look."""

from __future__ import annotations

import pytest

from evokern.evaluation import INCUMBENT, Evaluation, Ratio, Reason, Verdict
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.contestant import CANDIDATE
from evokern.evaluator.session import Session
from evokern.evaluator.timing.series import Series
from evokern.evaluator.timing.stopping import CLUSTERS, never
from evokern.kernel import Kernel
from tests.e2e_cpu.offenders import HONEST, kernel

BIG = "args[0]->shape[0] * args[0]->shape[1] > 1000000"
TWICE_MORE = "softmax(args); softmax(args);"


def timed(session: Session, candidate: Kernel, incumbent: Kernel = HONEST) -> Series:
    """A candidate timed against a kernel, as in a confirmation."""
    ladder = session.ladder
    ours, theirs = session.build(candidate), session.build(incumbent)
    assert ours.ok and theirs.ok
    series = ladder.clock.compare(
        ladder.contestant(CANDIDATE, candidate, ours),
        ladder.contestant(INCUMBENT, incumbent, theirs),
        ladder.timed,
        session.secret.derive("cheats", candidate.id),
        clusters=CLUSTERS,
        stop=never,
    )
    return series[ladder.timed[0].name]


def ratio(session: Session, candidate: Kernel) -> Ratio:
    found = timed(session, candidate).ratio(CANDIDATE, INCUMBENT)
    assert found is not None
    return found


def charged(session: Session, candidate: Kernel) -> tuple[Verdict, Reason]:
    with pytest.raises(Fault) as caught:
        timed(session, candidate)
    return caught.value.verdict, caught.value.reason


def test_work_that_every_second_call_does_is_paid_by_all(session: Session) -> None:
    every_second = kernel(f"static int calls = 0; softmax(args); if (calls++ % 2) {{ {TWICE_MORE} }}")

    assert ratio(session, every_second).estimate < 0.75  # half, if calls were equally many


def test_a_kernel_that_is_fast_for_seven_calls_wears(session: Session) -> None:
    young = kernel(f"static int calls = 0; softmax(args); if (++calls > 7 && {BIG}) {{ {TWICE_MORE} }}")

    assert charged(session, young) == (Verdict.QUARANTINED, Reason.WEAR)


def test_growth_in_time_wears(session: Session) -> None:
    growing = kernel(f"static int calls = 0; softmax(args); if ({BIG}) for (int i = 0; i < calls / 4; ++i) softmax(args); ++calls;")

    assert charged(session, growing) == (Verdict.QUARANTINED, Reason.WEAR)


def test_growth_in_memory_wears(session: Session) -> None:
    hoarding = kernel("static std::vector<std::vector<char>> kept; softmax(args); kept.emplace_back(200 << 10, 1);")

    assert charged(session, hoarding) == (Verdict.QUARANTINED, Reason.WEAR)


def test_memory_that_is_kept_once_and_used_again_does_no_harm(session: Session) -> None:
    static = kernel("static std::vector<float> scratch(1 << 22); scratch[0] += 1; softmax(args);")

    assert 0.7 < ratio(session, static).estimate < 1.4


def test_sleeping_is_charged(session: Session) -> None:
    sleeper = kernel(f"softmax(args); if ({BIG}) usleep(250000);")

    assert charged(session, sleeper) == (Verdict.QUARANTINED, Reason.CLOCK_MISMATCH)


def test_work_that_a_thread_does_after_the_call_is_paid_or_refused(session: Session) -> None:
    later = kernel(
        f"softmax(args); if ({BIG}) std::thread([] {{"
        " static volatile float sink; float x = 1; for (int i = 0; i < 8000000; ++i) x = std::fma(x, 0.999f, 0.5f); sink = x;"
        " }).detach();"
    )

    # Threads that pile up make later calls dearer, and crowd the machine: it may be charged, or the measurement given up, first.
    try:
        told = ratio(session, later).estimate
    except Fault as fault:
        assert fault.verdict in (Verdict.QUARANTINED, Verdict.INFRASTRUCTURE)
    else:
        assert told < 0.8


@pytest.fixture(scope="module")
def honest(judge: tuple[Session, set[int]]) -> Series:
    """An honest kernel timed against itself."""
    return timed(judge[0], HONEST)


def test_claims_are_shown_and_never_scored(honest: Series) -> None:
    series = Series(honest.null_ns, honest.margin, list(honest.samples), honest.aged)

    assert all(sample.claimed_ns > 0 for sample in series.samples)
    before = series.ratio(CANDIDATE, INCUMBENT)
    series.samples = [type(s)(s.who, s.cluster, s.pair, s.cpu_ns, s.wall_ns, s.void, 1, s.position) for s in series.samples]
    assert series.ratio(CANDIDATE, INCUMBENT) == before


def test_no_process_is_timed_at_a_foreseeable_call(honest: Series) -> None:
    mine = [s for s in honest.samples if s.who == CANDIDATE]
    old, young = ({s.position for s in mine if (s.cluster in honest.aged) is aged} for aged in (True, False))
    assert len(honest.aged) == CLUSTERS // 2
    assert max(young) < 10 < max(old)
    assert len(old) > 4


SPOILT = kernel(f"softmax(args); if ({BIG}) spoil(args);")
"""Wrong in one row of its timed calls. Secret rows miss it in 15 calls of 16; that one timed call of each side is checked whole, in the
first allocation of every measurement, leaves it no chance."""


@pytest.mark.parametrize("name", [CANDIDATE, INCUMBENT])
def test_a_side_that_is_wrong_in_one_row_of_timed_calls_is_found_by_the_shortest_measurement(session: Session, name: str) -> None:
    ladder = session.ladder
    kernels = {CANDIDATE: HONEST, INCUMBENT: HONEST, name: SPOILT}
    ours, theirs = (ladder.contestant(side, one, session.build(one)) for side, one in kernels.items())

    with pytest.raises(Fault) as caught:
        ladder.clock.compare(ours, theirs, ladder.timed, session.secret.derive("spoilt", name), clusters=1, stop=never)

    assert (caught.value.verdict, caught.value.reason) == {
        CANDIDATE: (Verdict.WRONG, Reason.TOLERANCE),
        INCUMBENT: (Verdict.INFRASTRUCTURE, Reason.OPPONENT),
    }[name]


def test_an_incumbent_at_fault_is_no_verdict_on_its_challenger(session: Session) -> None:
    evaluation: Evaluation = session.ladder.judge(HONEST, session.build(HONEST), (SPOILT, session.build(SPOILT)))

    assert (evaluation.verdict, evaluation.reason) == (Verdict.INFRASTRUCTURE, Reason.OPPONENT)
    assert evaluation.passed_held_out
