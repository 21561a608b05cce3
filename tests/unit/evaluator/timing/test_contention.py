from __future__ import annotations

import os
import time

from evokern.evaluator.timing.contention import CONTENDED_SHARE, VOID_SHARE, VOID_US, cpu_pressure, idle_ns, waited


def test_a_call_that_waited_is_told_from_one_that_did_not() -> None:
    assert waited(2 * VOID_SHARE * 10e6, 10_000_000, contended=False)
    assert not waited(0.5 * VOID_SHARE * 10e6, 10_000_000, contended=False)


def test_short_calls_have_a_floor() -> None:
    assert not waited(0.9 * VOID_US * 1000, 1000, contended=False)


def test_a_contended_machine_may_keep_a_call_waiting() -> None:
    assert not waited(0.9 * CONTENDED_SHARE * 10e6, 10_000_000, contended=True)
    assert waited(1.1 * CONTENDED_SHARE * 10e6, 10_000_000, contended=True)


def test_idle_time_only_grows_and_never_faster_than_the_clock() -> None:
    cpus = os.sched_getaffinity(0)
    began, before = time.monotonic_ns(), idle_ns(cpus)
    time.sleep(0.03)
    after, elapsed = idle_ns(cpus), time.monotonic_ns() - began

    tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert before <= after <= before + len(cpus) * (elapsed + 2 * tick)


def test_processors_that_are_not_there_are_never_idle() -> None:
    assert idle_ns([4095]) == 0
    assert idle_ns([]) == 0


def test_pressure_is_a_share() -> None:
    assert 0 <= cpu_pressure() <= 1
