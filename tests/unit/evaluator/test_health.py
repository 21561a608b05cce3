"""The health probe: a copy that is wrong, slow or dead is told as such."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evokern.evaluation import Reason, Verdict
from evokern.evaluator import health
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.protocol import Kind
from evokern.evaluator.secrecy import fresh_secret
from evokern.evaluator.statement import Health
from evokern.task import Role

KNOWN_US = 100.0


def placed(role: Role, values: list[float]) -> Any:
    return SimpleNamespace(argument=SimpleNamespace(role=role), view=np.array(values, np.float32), window=object(), far=lambda: None)


class Copier:
    """Stands for a runner with the copy instrument in it."""

    def __init__(self, *, cpu_us: float = 110.0, wrong: bool = False, fault: Fault | None = None) -> None:
        self.cpu_us, self.wrong, self.fault = cpu_us, wrong, fault

    def call(self, arguments: Any, seconds: float, kind: Any) -> Any:
        if self.fault:
            raise self.fault
        arguments[-1].view[...] = arguments[0].view + self.wrong
        return SimpleNamespace(cpu_ns=round(self.cpu_us * 1000))


def probed(monkeypatch: pytest.MonkeyPatch, copier: Copier) -> Health:
    @contextmanager
    def entered(contestant: Any, workloads: Any) -> Iterator[Any]:
        yield {"w": copier}

    windows = [placed(Role.IN, [1.0, 2.0]), placed(Role.PARAMETER, [3.0]), placed(Role.OUT, [0.0, 0.0])]
    monkeypatch.setattr(health, "entered", entered)
    monkeypatch.setattr(health, "write", lambda *_, **__: SimpleNamespace(placed=windows))
    shelf: Any = SimpleNamespace(timed=lambda *_: None, count=lambda _: 12)
    anything: Any = None
    clock: Any = SimpleNamespace(
        task=None, null_ns=0.0, taking=lambda _: nullcontext(), kind=lambda *_, **__: Kind.GO, time_ns=lambda call: call.cpu_ns
    )
    workload: Any = SimpleNamespace(name="w", axes=())
    return health.probe(clock, anything, workload, shelf, fresh_secret(), known_us=KNOWN_US)


def test_a_sound_machine_is_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert probed(monkeypatch, Copier()).ok


@pytest.mark.parametrize(
    ("copier", "told"),
    [
        (Copier(wrong=True), "other bytes"),
        (Copier(cpu_us=5 * KNOWN_US), "takes 500 us where it took 100"),
        (Copier(fault=Fault(Verdict.CRASHED, Reason.SIGNAL, "signal 9")), "a plain copy fails: signal 9"),
    ],
)
def test_an_unsound_one_is_told_in_words(monkeypatch: pytest.MonkeyPatch, copier: Copier, told: str) -> None:
    found = probed(monkeypatch, copier)
    assert not found.ok
    assert told in found.detail


def test_a_reduction_has_nothing_that_was_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = [placed(Role.IN, [1.0, 2.0]), placed(Role.OUT, [7.0])]
    assert health._copied(windows)
