"""What a kernel's slot has from the processes that made it: nothing but what it was given, and the same in every slot."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from evokern.sandbox import Limits, Spawner
from tests.unit.sandbox.conftest import start
from tests.unit.sandbox.probing import compiled, probe_in, skip_where_calls_are_not_refused

FACTS = ("environment", "descriptors", "signals", "host", "limits", "words", "modules")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("probes"))


@pytest.fixture(scope="module", params=["root", "user"])
def spawner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    # What a judge may hold while it starts its processes: a descriptor that may be inherited, a blocked signal, a variable.
    held = os.memfd_create("secret", 0)
    os.set_inheritable(held, True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        made = start(request.param, tmp_path_factory.mktemp("scratch"))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(held)
    with made:
        skip_where_calls_are_not_refused(made)
        yield made


def test_descriptors(spawner: Spawner, library: Path) -> None:
    with probe_in(spawner, library) as probe:
        assert probe.fact("descriptors") == [0, 1, 2, 3, 4]  # streams, socket, library


def test_environment(spawner: Spawner, library: Path) -> None:
    with probe_in(spawner, library, environment={"OMP_NUM_THREADS": "2"}) as probe:
        seen = probe.fact("environment")
    threads = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
    assert set(seen) <= {"PATH", "LANG", "LC_CTYPE", "HOME", "TMPDIR", "LOGNAME", "USER", *threads}
    assert (seen["HOME"], seen["OMP_NUM_THREADS"]) == ("/tmp", "2")


def test_signals(spawner: Spawner, library: Path) -> None:
    with probe_in(spawner, library) as probe:
        assert probe.fact("signals") == {"blocked": [], "handled": []}


def test_memory_of_the_zygote(spawner: Spawner, library: Path) -> None:
    """No word of the judge's environment, and no module that holds what a run knows, is in what was forked."""
    with probe_in(spawner, library) as probe:
        assert probe.fact("words") == []
        loaded = set(probe.fact("modules"))
    assert not {"evokern.task", "evokern.evaluation", "evokern.evaluator.secrecy", "evokern.sandbox.spawner", "numpy"} & loaded


def test_limits(spawner: Spawner, library: Path) -> None:
    with probe_in(spawner, library, limits=Limits(processes=16)) as probe:
        limits = probe.fact("limits")
    none = ("RLIMIT_CORE", "RLIMIT_MSGQUEUE", "RLIMIT_MEMLOCK", "RLIMIT_SIGPENDING", "RLIMIT_NICE", "RLIMIT_RTPRIO")
    assert [limits[name] for name in none] == [0] * len(none)
    assert limits["RLIMIT_NOFILE"] <= 128


def test_every_slot_is_the_same(spawner: Spawner, library: Path) -> None:
    """All that a kernel can know of its slot is the same in each, so that it cannot tell a phase of its trial by it."""
    seen = []
    for _ in range(3):
        with probe_in(spawner, library) as probe:
            seen.append(probe.ask(*([fact] for fact in FACTS)))
    assert seen[0] == seen[1] == seen[2]
