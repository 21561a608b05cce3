"""Hostile C++ kernels, built by the real compiler and run by the real runner: how each ends, that nothing of it is left, and that
the next kernel runs as if it had not been there. Everything is bounded."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from evokern_cpu.backend import CpuBackend

from evokern.backend import Limits
from evokern.evaluator.call import protocol
from evokern.kernel import Kernel
from evokern.sandbox import Death, Slot, Spawner, process
from evokern.sandbox.spawner import SWITCH

SECONDS = 30.0
LIMITS = Limits(memory_bytes=256 << 20, processes=16, output_bytes=1 << 20)

HOSTILE = {
    "honest": "for (int i = 0; i < 16; ++i) out[i] = in[i] + 1;",
    "loop": "for (volatile long i = 0; i >= 0;) { i = i + 1; i = i - 1; }",
    "segfault": "*(volatile int*)8 = 1;",
    "abort": "abort();",
    "throw": "throw 1;",
    "exit": "_exit(0);",
    "quick exit": "exit(0);",
    "memory": """
        const size_t step = 16 << 20;
        for (size_t total = 0; total < (40ull << 30); total += step) {
          char* block = (char*)malloc(step);
          if (!block) abort();
          memset(block, 1, step);
        }
    """,
    "forks": "for (int i = 0; i < 40; ++i) if (fork() == 0) { sleep(100); _exit(0); }",
    "daemon": "if (fork() == 0) { setsid(); if (fork() == 0) { signal(SIGTERM, SIG_IGN); sleep(100); } _exit(0); } wait(nullptr);",
    "spawns": 'if (system("true") != 0) abort();',
    "becomes another program": 'char* argv[] = {nullptr}; execve("/bin/true", argv, argv);',
    "threads": """
        if (omp_get_max_threads() != 2) abort();  // as the slot's environment says, not the zygote's
        float total = 0;
        #pragma omp parallel for num_threads(4) reduction(+ : total)
        for (int i = 0; i < 16; ++i) { out[i] = in[i] + 1; total += in[i]; }
        std::vector<std::thread> some;
        for (int i = 0; i < 4; ++i) some.emplace_back([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
        for (auto& one : some) one.join();
    """,
    "print": "static char text[1 << 16]; memset(text, 'x', sizeof text); for (int i = 0; i < 160; ++i) write(1, text, sizeof text);",
    "stop itself": "raise(SIGSTOP);",
    "kill all": "kill(-1, SIGKILL); for (int i = 0; i < 16; ++i) out[i] = in[i] + 1;",
    "close socket": "for (int i = 3; i < 64; ++i) close(i); sleep(100);",
}

SOURCE = """
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "evokern.h"

extern "C" int run(DLTensor* const* args, int, void*, size_t, void*) {
  const float* in = evokern::data<float>(args[0]);
  float* out = evokern::data<float>(args[1]);
  (void)in;
  (void)out;
  BODY
  return 0;
}
"""


@pytest.fixture(scope="module", params=["root", "user", "off"])
def spawner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    modules = ["evokern.evaluator.call.runner", "evokern_cpu.loader"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, request.param)
        made = Spawner.start({"c": modules}, scratch=tmp_path_factory.mktemp("scratch"))
    with made:
        yield made


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    kernels = [Kernel("cpp", SOURCE.replace("BODY", body)) for body in HOSTILE.values()]
    with Spawner.start({}, scratch=tmp_path_factory.mktemp("build-scratch")) as builder:
        results = CpuBackend().build(kernels, sandbox=builder, cache=tmp_path_factory.mktemp("cache"), limits=Limits(seconds=60.0))
    assert all(built.ok for built in results), [built.log for built in results]
    return {name: built.artefact for name, built in zip(HOSTILE, results, strict=True) if built.artefact is not None}


class Calls:
    """A runner with one input and one output of 16 floats."""

    def __init__(self, spawner: Spawner, artefact: Path) -> None:
        descriptor = os.open(artefact, os.O_RDONLY)
        argument = json.dumps({"loader": "evokern_cpu.loader:load", "entry": "run"}).encode()
        self.slot: Slot = spawner.slot(
            "evokern.evaluator.call.runner:serve",
            zygote="c",
            descriptors=[descriptor],
            argument=argument,
            limits=LIMITS,
            environment={"OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "true"},
        )
        os.close(descriptor)
        self.slot.socket.settimeout(SECONDS)
        windows = [os.memfd_create("window", 0) for _ in range(2)]
        for window in windows:
            os.ftruncate(window, 64)
        spec = protocol.Spec(2, 32, 1, 64)
        socket.send_fds(self.slot.socket, [protocol.encode_bind(protocol.Bind(1, (spec, spec), 0))], windows)
        for window in windows:
            os.close(window)
        protocol.decode_done(self.slot.socket.recv(protocol.MAX_RECORD), 1)

    def call(self, seconds: float = SECONDS) -> bytes:
        """The answer to one call; empty where the runner hung up, or did not answer in time."""
        place = protocol.Place(0, (16,), (1,))
        self.slot.socket.send(protocol.encode_go(protocol.Go(2, (place, place))))
        self.slot.socket.settimeout(seconds)
        try:
            return self.slot.socket.recv(protocol.MAX_RECORD)
        except TimeoutError:
            return b""


def end_of(spawner: Spawner, artefacts: dict[str, Path], name: str, seconds: float = SECONDS) -> tuple[bytes, Death]:
    """What a hostile kernel answers and how it dies; checks that nothing is left and that an honest one works afterwards."""
    calls = Calls(spawner, artefacts[name])
    answer = calls.call(seconds)
    pids = calls.slot.processes()
    death = calls.slot.kill()
    assert death.processes_left == 0
    assert not {pid for pid in pids if process.is_alive(pid)}
    if calls.slot.uid is not None:
        assert not process.owned_by(range(calls.slot.uid, calls.slot.uid + 1))
    honest = Calls(spawner, artefacts["honest"])
    assert protocol.decode_done(honest.call(), 2).status == 0
    assert honest.slot.kill().strays == 0
    return answer, death


@pytest.mark.parametrize(
    "name, status",
    [("segfault", -signal.SIGSEGV), ("abort", -signal.SIGABRT), ("throw", -signal.SIGABRT), ("exit", 0), ("quick exit", 0)],
)
def test_ends_by_itself(spawner: Spawner, artefacts: dict[str, Path], name: str, status: int) -> None:
    answer, death = end_of(spawner, artefacts, name)
    assert (answer, death.status, death.strays) == (b"", status, 0)


@pytest.mark.parametrize("name", ["loop", "stop itself", "close socket"])
def test_never_answers(spawner: Spawner, artefacts: dict[str, Path], name: str) -> None:
    answer, death = end_of(spawner, artefacts, name, seconds=0.3)
    assert (answer, death.status) == (b"", -signal.SIGKILL)


def test_takes_memory(spawner: Spawner, artefacts: dict[str, Path]) -> None:
    answer, death = end_of(spawner, artefacts, "memory")
    assert answer == b""
    # By the cgroup's kill, else by its own abort when the address space is used up.
    assert (death.out_of_memory, death.status) in ((True, -signal.SIGKILL), (False, -signal.SIGABRT))
    assert death.out_of_memory == (spawner.tier == "isolated")


@pytest.mark.parametrize("name", ["forks", "daemon", "spawns", "becomes another program"])
def test_makes_a_process(spawner: Spawner, artefacts: dict[str, Path], name: str) -> None:
    answer, death = end_of(spawner, artefacts, name)
    assert (answer, death.status, death.strays) == (b"", -signal.SIGSYS, 0)


def test_makes_threads(spawner: Spawner, artefacts: dict[str, Path]) -> None:
    answer, death = end_of(spawner, artefacts, "threads")
    assert (protocol.decode_done(answer, 2).status, death.strays) == (0, 0)


def test_prints(spawner: Spawner, artefacts: dict[str, Path]) -> None:
    answer, death = end_of(spawner, artefacts, "print")
    assert (answer, death.flooded, len(death.output)) == (b"", True, 65536)


def test_kills_all_it_can(spawner: Spawner, artefacts: dict[str, Path]) -> None:
    if spawner.tier == "unsandboxed":
        pytest.skip("there is nothing that would stop it")
    answer, death = end_of(spawner, artefacts, "kill all")
    assert protocol.decode_done(answer, 2).status == 0
    assert death.strays == 0
