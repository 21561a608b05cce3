from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evokern.errors import Unavailable, UsageError
from evokern.evaluation import Tier
from evokern.sandbox import Limits, Policy, Slot, SlotError, Spawner, canaries, process
from evokern.sandbox.order import Means
from evokern.sandbox.spawner import SWITCH, _tier

from .conftest import FOLDER, start

SECONDS = 30.0
TIERS = {"root": Tier.ISOLATED, "user": Tier.SANDBOXED, "off": Tier.UNSANDBOXED}


def wait_until_gone(pids: set[int], folders: list[Path]) -> None:
    deadline = time.monotonic() + SECONDS
    while any(process.is_alive(pid) for pid in pids) or any(folder.exists() for folder in folders):
        assert time.monotonic() < deadline, f"left: {[p for p in pids if process.is_alive(p)]}, {[f for f in folders if f.exists()]}"
        time.sleep(5e-3)


def held_slot(spawner: Spawner, entry: str = "wait") -> Slot:
    slot = spawner.slot(f"sandbox_entries:{entry}", zygote="c", descriptors=[], argument=b"", limits=Limits(), policy=Policy.TORCH)
    slot.socket.settimeout(SECONDS)
    assert slot.socket.recv(16)
    return slot


def cgroups(spawner: Spawner) -> list[Path]:
    return list(spawner._hierarchy.folders) if spawner._hierarchy else []


def test_tier_is_what_the_canaries_found(spawner: Spawner) -> None:
    held = {canary.name: canary.held for canary in spawner.canaries}
    assert spawner.tier is TIERS[str(spawner._means)]
    if spawner.tier is Tier.ISOLATED:
        assert all(held.values())
    assert all(canary.detail and bool(canary.fix) != canary.held for canary in spawner.canaries)
    if spawner.tier is Tier.UNSANDBOXED:
        # A home that was never made is absent in every sandbox and in none.
        walls = (canaries.NETWORK, canaries.PROCESSES, canaries.FORKS)
        assert not any(held[name] for name in walls), held


@pytest.mark.parametrize("missing", [canaries.NETWORK, canaries.HOME, canaries.PROCESSES, canaries.KILL, canaries.FILES])
def test_a_breached_wall_is_no_sandbox(missing: str) -> None:
    found = [canaries.canary(name, name != missing, "") for name in canaries.FIXES]
    assert _tier(Means.ROOT, found) is Tier.UNSANDBOXED


LIMITS = (canaries.MEMORY, canaries.FORKS, canaries.IDENTITY, canaries.FREEZER, canaries.CLOCK)
SECOND_WALLS = (canaries.CALLS, canaries.CHILDREN, canaries.LANDLOCK)


@pytest.mark.parametrize("missing", [*LIMITS, *SECOND_WALLS])
def test_what_is_missing_beside_the_walls_is_not_isolated(missing: str) -> None:
    found = [canaries.canary(name, name != missing, "") for name in canaries.FIXES]
    assert _tier(Means.ROOT, found) is Tier.SANDBOXED


def test_run(spawner: Spawner) -> None:
    script = "read line < folder/in; echo $line > out; ls; echo wrong >&2; exit 3"
    done = spawner.run(["sh", "-c", script], files={"folder/in": b"content"}, want=["out", "absent", "folder"], limits=Limits())
    assert (done.status, done.timed_out, done.out_of_memory) == (3, False, False)
    assert done.files == {"out": b"content\n"}
    assert done.output == "folder\nout\nwrong\n"


def test_run_within_its_time(spawner: Spawner) -> None:
    done = spawner.run(["sleep", "60"], files={}, want=[], limits=Limits(seconds=0.3))
    assert done.timed_out
    assert done.seconds < SECONDS


def test_run_reads_back_no_link(spawner: Spawner) -> None:
    done = spawner.run(["ln", "-s", "/etc/ld.so.cache", "out"], files={}, want=["out"], limits=Limits())
    assert (done.status, done.files) == (0, {})


def test_run_without_such_a_command(spawner: Spawner) -> None:
    done = spawner.run(["no-such-command"], files={}, want=[], limits=Limits())
    assert (done.status, done.output) == (127, "no-such-command: No such file or directory\n")


def test_run_caps_output(spawner: Spawner) -> None:
    done = spawner.run(["sh", "-c", "yes | head -c 4000000"], files={}, want=[], limits=Limits(output_bytes=100_000, seconds=SECONDS))
    assert len(done.output) == 65536


def test_run_ends_what_a_command_leaves(spawner: Spawner) -> None:
    done = spawner.run(["sh", "-c", "setsid sleep 100 > pid 2>&1 & echo $! > pid"], files={}, want=["pid"], limits=Limits())
    assert done.status == 0
    assert done.seconds < SECONDS


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../b"])
def test_run_refuses_names_outside(spawner: Spawner, name: str) -> None:
    with pytest.raises(ValueError, match="leads out"):
        spawner.run(["true"], files={name: b""}, want=[], limits=Limits())


def test_unknown_entry_ends_the_runner(spawner: Spawner) -> None:
    slot = spawner.slot("sandbox_entries:absent", zygote="c", descriptors=[], argument=b"", limits=Limits(), policy=Policy.TORCH)
    slot.socket.settimeout(SECONDS)
    assert slot.socket.recv(1) == b""
    assert "AttributeError" in slot.kill().output


def test_zygote_that_cannot_import(tmp_path: Path) -> None:
    with Spawner.start({"broken": ["no_such_module"]}, scratch=tmp_path) as spawner:
        for _ in range(2):
            with pytest.raises(SlotError, match="no_such_module"):
                spawner.slot("a:b", zygote="broken", descriptors=[], argument=b"", limits=Limits(), policy=Policy.TORCH)
        assert spawner.run(["true"], files={}, want=[], limits=Limits()).status == 0


def test_unknown_zygote(walled: Spawner) -> None:
    with pytest.raises(ValueError, match="no zygote 'absent'"):
        walled.slot("a:b", zygote="absent", descriptors=[], argument=b"", limits=Limits(), policy=Policy.TORCH)


def test_zygotes_are_renewed(tmp_path: Path) -> None:
    with start("off", tmp_path, renew_after={"c": 3}) as spawner:
        held = held_slot(spawner)
        parents = set()
        for _ in range(7):
            slot = held_slot(spawner)
            parents.add(process.parent(slot._init))
            slot.kill()
        assert len(parents) == 3
        held.socket.send(b".")  # still there, although its zygote is retired
        assert held.kill().processes_left == 0


def test_close_ends_everything(tmp_path: Path) -> None:
    spawner = start("root" if os.geteuid() == 0 else "user", tmp_path)
    folders = cgroups(spawner)
    held_slot(spawner, "spin")
    pids = {spawner._process.pid, *process.descendants(spawner._process.pid)}
    assert len(pids) >= 5
    spawner.close()
    spawner.close()
    assert not any(process.is_alive(pid) for pid in pids)
    assert not any(folder.exists() for folder in folders)


def test_death_of_the_spawner(spawner_to_kill: Spawner) -> None:
    slot = held_slot(spawner_to_kill, "spin")
    pids = process.descendants(spawner_to_kill._process.pid)
    spawner_to_kill._process.kill()
    wait_until_gone(pids, [])
    assert slot.kill().processes_left == 0
    with pytest.raises(SlotError, match="spawner has died"):
        held_slot(spawner_to_kill)


@pytest.fixture
def spawner_to_kill(tmp_path: Path) -> Iterator[Spawner]:
    made = start("root" if os.geteuid() == 0 else "user", tmp_path)
    yield made
    made.close()


_JUDGE = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from evokern.sandbox import Limits, Policy, Spawner, process
spawner = Spawner.start({"c": ["sandbox_entries"]}, scratch=Path(sys.argv[1]))
for entry in ("spin", "survive", "wait"):
    slot = spawner.slot(f"sandbox_entries:{entry}", zygote="c", descriptors=[], argument=b"", limits=Limits(), policy=Policy.TORCH)
    slot.socket.recv(16)
slot.freeze()
folders = spawner._hierarchy.folders if spawner._hierarchy else ()
print(*sorted(process.descendants(os.getpid())), "|", *folders, flush=True)
time.sleep(120)
"""


@pytest.mark.parametrize("means", ["root", "user", "off"])
def test_death_of_the_judge(means: str, tmp_path: Path) -> None:
    start(means, tmp_path).close()  # a skip where there is no such sandbox
    environment = {**os.environ, SWITCH: means, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _JUDGE, str(tmp_path), str(FOLDER)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as judge:
        assert judge.stdout is not None
        told = judge.stdout.readline()
        pids, _, folders = told.partition("|")
        assert sum(process.is_alive(int(pid)) for pid in pids.split()) >= 8
        judge.send_signal(signal.SIGKILL)
        wait_until_gone({int(pid) for pid in pids.split()}, [Path(folder) for folder in folders.split()])


def test_wrong_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(SWITCH, "fort")
    with pytest.raises(UsageError, match="Known: root, user, off"):
        Spawner.start({}, scratch=tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="is root")
def test_root_asked_for_by_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(SWITCH, "root")
    with pytest.raises(Unavailable, match="only root"):
        Spawner.start({}, scratch=tmp_path)


def test_zygotes_load_no_noun(tmp_path: Path) -> None:
    # Whatever a zygote holds, a candidate can read; and numpy would be the dearest part of its start.
    code = "import sys, evokern.sandbox.zygote, evokern.sandbox.command, evokern.sandbox.canaries; print(*sys.modules)"
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=path)
    assert not {"numpy", "evokern.task", "evokern.evaluation", "evokern.sandbox.spawner"} & set(loaded.stdout.split())
