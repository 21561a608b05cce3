"""What the death of a slot means for a verdict."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from evokern.backend import Limits
from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call.caller import Caller, Fault
from evokern.sandbox import Death


class DeadSlot:
    """Stands for a slot that has ended."""

    def __init__(self, death: Death) -> None:
        self.death = death

    def kill(self) -> Death:
        return self.death

    def status(self) -> int:
        return self.death.status


class Spawner:
    def __init__(self, death: Death) -> None:
        self.death = death

    def slot(self, entry: str, **_: Any) -> DeadSlot:
        return DeadSlot(self.death)


def caller(**changed: Any) -> Caller:
    death = Death(
        **{
            "status": 0,
            "out_of_memory": False,
            "too_many_processes": False,
            "flooded": False,
            "strays": 0,
            "processes_left": 0,
            "output": "",
            **changed,
        }
    )
    spawner: Any = Spawner(death)
    return Caller(spawner, entry="module:function", zygote="c", argument=b"", limits=Limits())


def test_what_outlives_its_slot_is_the_machines_fault() -> None:
    with pytest.raises(Fault, match="2 processes of a slot outlive it") as fault:
        caller(processes_left=2).close()
    assert (fault.value.verdict, fault.value.reason) == (Verdict.INFRASTRUCTURE, Reason.HOST_ERROR)


def test_processes_that_were_ended_are_counted() -> None:
    assert caller(strays=3).close() == 3


@pytest.mark.parametrize(
    ("status", "reason"),
    [(-signal.SIGSYS, Reason.PROCESSES), (-signal.SIGSEGV, Reason.SIGNAL), (3, Reason.EXIT)],
)
def test_a_kernel_that_made_a_process_is_told_so(status: int, reason: Reason) -> None:
    fault = caller(status=status)._death()
    assert (fault.verdict, fault.reason) == (Verdict.CRASHED, reason)
