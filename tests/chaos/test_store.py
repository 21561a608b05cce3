"""The journal when processes are killed and disks fail."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evokern.errors import Unavailable
from evokern.event import Event, EventKind
from evokern.store import Journal, home
from evokern.store.lease import RunLease, is_worked

pytestmark = pytest.mark.chaos

WRITER = """
import asyncio, sys
from pathlib import Path
from evokern.event import Event, EventKind
from evokern.store import Journal

async def main(home, run, count):
    journal = Journal(Path(home))
    async def one(number):
        await journal.append([Event(run, EventKind.BASELINES, f"{number}", {"text": "x" * 200})])
        print(number, flush=True)
    for start in range(0, count, 8):
        await asyncio.gather(*(one(start + k) for k in range(8)))
    journal.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


HOLDER = """
import sys
from pathlib import Path
from evokern.store import RunLease

lease = RunLease(Path(sys.argv[1]), "run")
print("held", flush=True)
sys.stdin.read()
"""


def start_writer(home: Path, run: str, count: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", WRITER, str(home), run, str(count)], stdout=subprocess.PIPE, text=True, env=environment)


def text_event(key: str, length: int) -> Event:
    return Event("run", EventKind.BASELINES, key, {"text": "x" * length})


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)], check=False).returncode:
        pytest.skip("this machine lets no file system be mounted")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    chance = random.Random(3)
    for attempt in range(3):
        run = f"run-{attempt}"
        writer = start_writer(tmp_path, run, 100_000)
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(chance.randrange(20, 200))]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.communicate()[0].splitlines() if line]
        with Journal(tmp_path) as journal:
            kept = [int(event.key) for event in journal.replay(run)]
        assert set(acknowledged) <= set(kept)
        assert len(kept) == len(set(kept)) <= len(acknowledged) + 16


def test_two_processes_write_and_a_third_reads_one_home(tmp_path: Path) -> None:
    writers = [start_writer(tmp_path, f"run-{n}", 80) for n in range(2)]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        if (tmp_path / "evokern.db").is_file():
            try:
                with Journal(tmp_path, read_only=True) as journal:
                    now = journal.count("run-0", EventKind.BASELINES)
            except Unavailable:
                assert seen == 0, "a journal that was readable stays so"
                continue
            assert now >= seen
            seen = now
    assert [writer.wait() for writer in writers] == [0, 0]
    for writer in writers:
        writer.communicate()
    with Journal(tmp_path, read_only=True) as journal:
        assert [journal.count(f"run-{n}", EventKind.BASELINES) for n in range(2)] == [80, 80]


def test_a_full_disk_is_told_nothing_is_lost_and_space_heals_it(small_disk: Path) -> None:
    async def scene() -> tuple[list[str], list[str]]:
        with Journal(small_disk) as journal:
            await journal.append([text_event("before", 1000)])
            ballast = small_disk / "ballast"
            with ballast.open("wb") as file, pytest.raises(OSError, match="No space"):
                while True:
                    file.write(b"\0" * 65536)
                    file.flush()
            with pytest.raises(Unavailable, match="the disk is full"):
                await journal.append([text_event("during", 500_000)])
            during = [event.key for event in journal.replay("run")]
            ballast.unlink()
            await journal.append([text_event("during", 500_000)])
            return during, [event.key for event in journal.replay("run")]

    during, after = asyncio.run(scene())
    assert during == ["before"]
    assert after == ["before", "during"]


def test_a_home_on_a_full_disk_is_told(small_disk: Path) -> None:
    with (small_disk / "ballast").open("wb") as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"\0" * 65536)
            file.flush()
    with pytest.raises(Unavailable, match=r"disk is full|No space left"):
        Journal(home(small_disk, {"EVOKERN_HOME": str(small_disk / "home")}))


def test_a_read_only_mount_cannot_be_written_but_can_be_looked_at(small_disk: Path) -> None:
    with Journal(small_disk) as journal:
        asyncio.run(journal.append([text_event("kept", 10)]))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(Unavailable, match="Read-only file system") as caught:
        Journal(small_disk)
    assert caught.value.exit_code == 3
    with Journal(small_disk, read_only=True) as journal:
        assert [event.key for event in journal.replay("run")] == ["kept"]


def test_a_mount_that_turns_read_only_under_a_run_is_told(small_disk: Path) -> None:
    with Journal(small_disk) as journal:
        asyncio.run(journal.append([text_event("before", 10)]))
        held = [
            descriptor
            for descriptor in Path("/proc/self/fd").iterdir()
            if descriptor.exists() and descriptor.resolve().parent == small_disk
        ]
        assert held, "the journal's own files are open, so the mount has to be forced"
        done = subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=False, capture_output=True)
        assert done.returncode != 0, "a mount with files open for writing stays writable"
        asyncio.run(journal.append([text_event("after", 10)]))
        assert [event.key for event in journal.replay("run")] == ["before", "after"]


def test_a_lease_ends_with_the_process_that_holds_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert is_worked(tmp_path, "run")
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert not is_worked(tmp_path, "run")
    RunLease(tmp_path, "run").release()
