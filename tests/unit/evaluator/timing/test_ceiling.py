from __future__ import annotations

from pathlib import Path

import pytest

from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.timing.ceiling import LEAST_BYTES_PER_NS, SLACK, least_ns, refuse_impossible
from evokern.task import DType, load_task

TASK = load_task(Path(__file__).parents[4] / "benchmarks" / "tasks" / "core" / "softmax")
WORKLOAD = TASK.search[0]
READ = TASK.bytes_moved(dict(WORKLOAD.axes), DType.FLOAT32)[0]


def test_the_bound_is_the_time_that_the_inputs_need() -> None:
    assert least_ns(TASK, WORKLOAD, DType.FLOAT32, bytes_per_ns=20.0, kept_bytes=0) == pytest.approx(READ / 20 * (1 - SLACK))


def test_what_caches_may_hold_is_taken_off() -> None:
    assert least_ns(TASK, WORKLOAD, DType.FLOAT32, bytes_per_ns=20.0, kept_bytes=READ // 2) == pytest.approx(READ / 40 * (1 - SLACK))
    assert least_ns(TASK, WORKLOAD, DType.FLOAT32, bytes_per_ns=20.0, kept_bytes=2 * READ) == 0


def test_nothing_is_said_where_the_rate_is_unknown() -> None:
    assert least_ns(TASK, WORKLOAD, DType.FLOAT32, bytes_per_ns=0.0, kept_bytes=0) == 0


def test_a_loaded_machine_is_not_believed_to_be_as_slow_as_it_seems() -> None:
    loaded, least = (least_ns(TASK, WORKLOAD, DType.FLOAT32, bytes_per_ns=r, kept_bytes=0) for r in (0.5, LEAST_BYTES_PER_NS))

    assert loaded == least


def test_times_below_the_bound_or_the_resolution_are_quarantined() -> None:
    for time_ns, bound_ns, resolution_ns in ((900.0, 1000.0, 1.0), (10.0, 0.0, 10.0)):
        with pytest.raises(Fault) as caught:
            refuse_impossible(WORKLOAD, time_ns, bound_ns, resolution_ns)
        assert (caught.value.verdict, caught.value.reason) == (Verdict.QUARANTINED, Reason.IMPOSSIBLE)


def test_a_time_above_both_is_possible_however_large_the_ratio() -> None:
    refuse_impossible(WORKLOAD, 1001.0, 1000.0, 10.0)
