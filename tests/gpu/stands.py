"""Sessions on small forms of core tasks on a GPU, one a backend and task, opened when a test first asks and kept until all are done."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from evokern.backend import Built
from evokern.errors import Unavailable
from evokern.evaluation import Evaluation, Reason, Verdict
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.contestant import CANDIDATE
from evokern.evaluator.rule.trial import Trial, visible_points
from evokern.evaluator.session import Session
from evokern.evaluator.statement import Opening
from evokern.kernel import Kernel
from evokern.study.small import on_device
from evokern.task import DType, load_task
from tests.gpu.kernels import CORE

SHAPES = ((4096, 4096), (32768, 128), (127, 1021), (9, 33))
"""Rows and columns of visible workloads: two that take longer than a launch, then two that are only checked."""

BUILDS = max(1, min(14, (os.cpu_count() or 2) - 1))
BACKENDS = ("cuda", "hip", "triton")


def missing(backend: str) -> str:
    """What a machine lacks for tests of a backend; empty where it has everything."""
    from evokern_gpu import card, toolkit

    for module in ("torch", *(("triton",) if backend == "triton" else ())):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    try:
        card.find()
        if backend != "triton":
            toolkit.find()
    except Unavailable as error:
        return error.line
    return ""


def said(evaluation: Evaluation) -> str:
    """A verdict with all that is known of its reason, for a failure to print."""
    log = f"\n{evaluation.log[-1500:]}" if evaluation.log else ""
    return f"{evaluation.verdict}/{evaluation.reason} at {evaluation.rung}: {evaluation.detail}{log}"


class Stand:
    """One session and what was judged in it.

    Args:
        backend: Its name.
        task: Of the core suite.
        folder: For the task's small form.
        home: Of the session; several may share one.
    """

    def __init__(self, backend: str, task: str, folder: Path, home: Path) -> None:
        small = on_device(load_task(CORE / task), folder, SHAPES)
        self.backend, self.dialect = backend, backend
        self.said: list[str] = []
        opening = Opening(str(small), DType.BFLOAT16, backend, 1, str(home), builds=BUILDS, baselines=("eager",))
        self.session = Session(opening, self.said.append)
        self._builders = ThreadPoolExecutor(BUILDS, "builder")
        self._built: dict[str, Future[Built]] = {}
        self._calls = 0

    def kernel(self, source: str) -> Kernel:
        """A source in the backend's dialect."""
        return Kernel(self.dialect, source)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Build what was not built yet, as many at a time as there are processors; all is done when this returns, so that nothing is timed
        beside it."""
        for kernel in kernels:
            if kernel.id not in self._built:
                self._built[kernel.id] = self._builders.submit(self.session.build, kernel)
        wait([self._built[kernel.id] for kernel in kernels])

    def built(self, kernel: Kernel) -> Built:
        """The product."""
        self.prepare([kernel])
        return self._built[kernel.id].result()

    def judged(self, kernel: Kernel, incumbent: Kernel | None = None, *, confirm: bool = False) -> Evaluation:
        """Up the whole ladder."""
        ladder, built = self.session.ladder, self.built(kernel)
        found = ladder.judge(kernel, built, None if incumbent is None else (incumbent, self.built(incumbent)))
        return ladder.confirm(kernel, built, found) if confirm and found.passed else found

    def called(self, kernel: Kernel) -> tuple[Verdict, Reason, str] | None:
        """One call of a fresh runner on the largest workload, checked whole: what is wrong, or None."""
        session, self._calls = self.session, self._calls + 1
        ladder, points = session.ladder, visible_points(session.task)
        secret = session.secret.derive("call", kernel.id, self._calls)
        try:
            with ladder.contestant(CANDIDATE, kernel, self.built(kernel)).started([dict(points[0].axes)]) as caller:
                Trial(session.task, session.dtype, caller, ladder.shelf).call(points[self._calls % 2], secret.stream("call"))
        except Fault as fault:
            return fault.verdict, fault.reason, fault.detail
        return None

    def close(self) -> None:
        """End everything."""
        self._builders.shutdown(cancel_futures=True)
        self.session.close()


class Stands:
    """All of them.

    Args:
        folder: Where they live.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[tuple[str, str], Stand] = {}
        self._failed: dict[tuple[str, str], str] = {}
        self._patch = pytest.MonkeyPatch()

    def get(self, backend: str, task: str) -> Stand:
        """The session of a backend and a task; the test is skipped where the machine cannot have it."""
        if lacking := missing(backend):
            pytest.skip(lacking)
        if backend == "hip":
            from evokern_hip import platforms

            self._patch.setenv(platforms.SETTING, "nvidia")
        key = (backend, task)
        if key in self._failed:
            pytest.fail(f"no session of {backend} on {task}: {self._failed[key]}", pytrace=False)
        if key not in self._open:
            try:
                self._open[key] = Stand(backend, task, self._folder / f"{backend}-{task}", self._folder / "home")
            except Exception as error:  # told at once to whoever asks next: every trial takes as long as the first
                self._failed[key] = f"{type(error).__name__}: {error}"
                raise
        return self._open[key]

    def close(self) -> None:
        """End all."""
        for stand in self._open.values():
            stand.close()
        self._patch.undo()


def facts(stand: Stand) -> dict[str, Any]:
    """What a failure's reader wants to know of a session."""
    found = stand.session.preparation
    return {"device": found.fingerprint.device, "tier": str(found.tier), "null_us": found.null_us, "seconds": found.seconds}
