from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evokern.sandbox import Limits, cgroup, process

SECONDS = 30.0
_SPIN = "import sys; sys.stdin.readline()\nimport time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"


def hierarchies() -> dict[str, cgroup.Hierarchy | None]:
    mounts = cgroup._mounts()
    return {"one": cgroup._VersionOne.find(mounts), "two": cgroup._VersionTwo.find(mounts)}


@pytest.fixture(params=["one", "two"])
def hierarchy(request: pytest.FixtureRequest) -> Iterator[cgroup.Hierarchy]:
    found = hierarchies()
    other = found.pop("two" if request.param == "one" else "one")
    if other is not None:
        other.close()
    made = found[request.param]
    if made is None:
        pytest.skip(f"no writable cgroup of version {request.param}")
    yield made
    made.close()


def joined(group: cgroup.Group) -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, "-c", _SPIN], stdin=subprocess.PIPE, text=True)
    for file in group.procs:
        Path(file).write_text(str(child.pid))
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()
    return child


def test_clock_freezer_and_kill(hierarchy: cgroup.Hierarchy) -> None:
    group = hierarchy.group("slot", Limits())
    if not (group.has_clock and group.has_freezer):
        group.remove()
        pytest.skip("no clock or no freezer here")
    with joined(group) as child:
        try:
            assert group.pids() == {child.pid}
            deadline = time.monotonic() + SECONDS
            while group.cpu_ns() < 20_000_000:
                assert time.monotonic() < deadline
                time.sleep(1e-3)
            group.freeze()
            before = group.cpu_ns()
            time.sleep(0.05)
            assert group.cpu_ns() - before < 10_000_000
            group.thaw()
            while group.cpu_ns() < before + 20_000_000:
                assert time.monotonic() < deadline
                time.sleep(1e-3)
            group.freeze()
            group.kill()
            assert child.wait(SECONDS) == -9
            assert (group.out_of_memory(), group.too_many_processes()) == (False, False)
        finally:
            child.kill()
    group.remove()
    assert not any(Path(file).exists() for file in group.procs)


def test_kill_tree_reaches_frozen_groups(hierarchy: cgroup.Hierarchy) -> None:
    group = hierarchy.group("slot", Limits())
    with joined(group) as child:
        try:
            if group.has_freezer:
                group.freeze()
            assert sum(cgroup.kill_tree(folder) for folder in hierarchy.folders) >= 1
            assert child.wait(SECONDS) == -9
        finally:
            child.kill()
    group.remove()


def test_folders_of_the_dead_are_removed(hierarchy: cgroup.Hierarchy) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    stale = [folder.parent / f"evokern-{gone.pid}-1-00000000" for folder in hierarchy.folders]
    for folder in stale:
        folder.mkdir()
    for found in hierarchies().values():
        if found is not None:
            found.close()
    assert not any(folder.exists() for folder in stale)
    assert all(folder.exists() for folder in hierarchy.folders)


@pytest.fixture
def second_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of version 2 that passes one controller on, with `cgroup` wanting that one: which one is all the same for the rules."""
    roots = [folder for controllers, folder in cgroup._mounts() if not controllers and os.access(folder, os.W_OK)]
    offered = [name for root in roots for name in (root / "cgroup.controllers").read_text().split() if name not in ("cpu", "cpuset")]
    if not offered:
        pytest.skip("no writable cgroup of version 2 with a controller")
    monkeypatch.setattr(cgroup, "_V2_WANTED", (offered[0],))
    monkeypatch.setattr(cgroup, "_V2_LIMITS", {offered[0]})
    root = roots[0]
    before = (root / "cgroup.subtree_control").read_text()
    if not cgroup._passed_on(root):
        pytest.skip("the processes in the folder hold it back")
    folder = root / f"crowd-{os.getpid()}"
    folder.mkdir()
    yield folder
    cgroup.remove_tree(folder)
    if offered[0] not in before:
        with contextlib.suppress(OSError):
            (root / "cgroup.subtree_control").write_text(f"-{offered[0]}")


def test_room_is_made_in_a_folder_that_holds_processes(second_version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container, whose processes lie in the root that it sees."""
    monkeypatch.setattr(cgroup, "_upwards", lambda own: iter([own]))
    with subprocess.Popen(["sleep", "60"]) as resident:
        (second_version / "cgroup.procs").write_text(str(resident.pid))
        assert cgroup._passed_on(second_version) == set()

        found = cgroup._VersionTwo.find([("", second_version)])

        assert found is not None
        assert found.folders[0].parent == second_version
        assert found._controllers == cgroup._V2_LIMITS
        assert cgroup._read_pids(second_version / "evokern.others/cgroup.procs") == {resident.pid}
        found.close()
        assert cgroup._read_pids(second_version / "cgroup.procs") == {resident.pid}
        assert [entry for entry in second_version.iterdir() if entry.is_dir()] == []
        resident.kill()


def test_the_folder_that_passes_on_most_is_taken(second_version: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as resident:
        (second_version / "cgroup.procs").write_text(str(resident.pid))
        found = cgroup._VersionTwo.find([("", second_version)])
        assert found is not None
        assert found.folders[0].parent == second_version.parent
        found.close()
        resident.kill()


def test_processes_below_one() -> None:
    script = "sleep 60 & sleep 60 & wait"
    with subprocess.Popen(["sh", "-c", script]) as shell:
        deadline = time.monotonic() + SECONDS
        while len(found := process.descendants(shell.pid)) < 2:
            assert time.monotonic() < deadline
        assert all(process.is_alive(pid) and process.parent(pid) == shell.pid for pid in found)
        assert not any(process.is_stopped(pid) for pid in found)
        assert found <= process.owned_by(range(os.getuid(), os.getuid() + 1))
        assert process.kill_all(found) == 2
        shell.wait(SECONDS)
        assert process.kill_all(found) == 0
        assert process.start_time(shell.pid) == ""
