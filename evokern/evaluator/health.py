"""Health: whether the machine still does a known piece of work, rightly and in about its time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.contestant import Contestant, entered
from evokern.evaluator.call.exchange import write
from evokern.evaluator.call.window import Placed
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.secrecy import Secret
from evokern.evaluator.statement import Health
from evokern.evaluator.timing.clock import JudgedClock
from evokern.task import Role, Workload

SLOWER = 4.0
"""Times the calibrated time that the known kernel may take: a machine that is merely busy stays below it."""

TRIES = 3
"""Calls of which the best one counts."""

DEADLINE_SECONDS = 30.0


def probe(clock: JudgedClock, copy: Contestant, workload: Workload, shelf: Shelf, secret: Secret, *, known_us: float) -> Health:
    """Run the plain copy once more: its answer is known, and so is its time.

    Args:
        clock: The judge's.
        copy: The instrument that copies the largest input to the last output (`Backend.instruments`).
        workload: On which.
        shelf: Sets of inputs.
        secret: Chance.
        known_us: Its time when the machine was calibrated, less the null, microseconds.
    """
    start = time.monotonic()
    try:
        with clock.taking(copy):
            detail = _wrong(clock, copy, workload, shelf, secret, known_us + clock.null_ns / 1000)
    except Fault as fault:
        detail = f"a plain copy fails: {fault.detail or fault.reason}"
    return Health(not detail, detail, time.monotonic() - start)


def _wrong(clock: JudgedClock, copy: Contestant, workload: Workload, shelf: Shelf, secret: Secret, known_us: float) -> str:
    rng, times = secret.stream("health", time.monotonic_ns()), []
    with entered(copy, [workload]) as callers:
        caller = callers[workload.name]
        for attempt in range(TRIES):
            values = shelf.timed(workload, attempt % shelf.count(workload))
            exchange = write(clock.task, caller, dict(workload.axes), values, rng, layout="contiguous", permute=False)
            times.append(clock.time_ns(caller.call(exchange.placed, DEADLINE_SECONDS, clock.kind(workload, evict=False))) / 1000)
            if not _copied(exchange.placed):
                return "a plain copy gives other bytes than it was given"
    if known_us and min(times) > SLOWER * known_us:
        return f"a plain copy takes {min(times):.0f} us where it took {known_us:.0f}"
    return ""


def _copied(placed: Sequence[Placed]) -> bool:
    """Whether the last output holds the largest input; true where their shapes differ, as nothing was copied then."""
    windows = [one for one in placed if one.window is not None]
    out = windows[-1]
    inputs = [one for one in windows if one.argument.role is not Role.OUT]
    largest = max(inputs, key=lambda one: one.view.nbytes, default=out)
    if largest.view.shape != out.view.shape or largest.view.dtype != out.view.dtype:
        return True
    if (far := out.far()) is not None and (source := largest.far()) is not None:
        return far.equals(source)
    return np.array_equal(largest.view.view(np.uint8), out.view.view(np.uint8)) if out.view.flags.c_contiguous else True
