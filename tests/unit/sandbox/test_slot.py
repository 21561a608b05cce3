from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from evokern.evaluation import Tier
from evokern.sandbox import Limits, Policy, Slot, Spawner, process
from evokern.sandbox.drain import KEPT_BYTES

SECONDS = 30.0  # of waiting for what comes in milliseconds; a test that waits so long has failed
SMALL = Limits(memory_bytes=256 << 20, processes=16)


@contextlib.contextmanager
def slot_of(
    spawner: Spawner, entry: str, argument: bytes = b"", *, limits: Limits = SMALL, descriptors: Sequence[int] = (), **more: Any
) -> Iterator[Slot]:
    more = {"policy": Policy.TORCH, **more}
    slot = spawner.slot(f"sandbox_entries:{entry}", zygote="c", descriptors=descriptors, argument=argument, limits=limits, **more)
    slot.socket.settimeout(SECONDS)
    try:
        yield slot
    finally:
        slot.kill()


def report_of(spawner: Spawner, entry: str, argument: object, **more: Any) -> dict[str, Any]:
    with slot_of(spawner, entry, json.dumps(argument).encode(), **more) as slot:
        answer = slot.socket.recv(1 << 16)
        assert answer, slot.kill()
        report: dict[str, Any] = json.loads(answer)
        return report


def ended(slot: Slot) -> int:
    """Status of a runner that ends by itself."""
    deadline = time.monotonic() + SECONDS
    while (status := slot.status()) is None:
        assert time.monotonic() < deadline, "the runner did not end"
        time.sleep(1e-3)
    return status


def assert_nothing_left(spawner: Spawner, slot: Slot, pids: set[int]) -> None:
    """Nothing of a dead slot lives, and the next one works as if it had not been there."""
    assert slot.kill().processes_left == 0
    assert not {pid for pid in pids if process.is_alive(pid)}
    if slot.uid is not None:
        assert process.owned_by(range(slot.uid, slot.uid + 1)) == set()
    with slot_of(spawner, "echo", b"next") as following:
        assert following.socket.recv(16) == b"next"
        assert ended(following) == 0


def test_endless_loop(spawner: Spawner) -> None:
    with slot_of(spawner, "spin") as slot:
        assert slot.socket.recv(16) == b"spinning"
        pids = slot.processes()

        death = slot.kill()

        assert (death.status, death.flooded, death.out_of_memory, len(pids)) == (-signal.SIGKILL, False, False, 1)
        assert_nothing_left(spawner, slot, pids)


def test_segmentation_fault(spawner: Spawner) -> None:
    with slot_of(spawner, "crash") as slot:
        assert slot.socket.recv(16) == b""
        assert ended(slot) == -signal.SIGSEGV
        assert_nothing_left(spawner, slot, set())


@pytest.mark.parametrize("status", [0, 3])
def test_exit(spawner: Spawner, status: int) -> None:
    with slot_of(spawner, "leave", str(status).encode()) as slot:
        assert slot.socket.recv(16) == b""
        assert ended(slot) == status
        assert_nothing_left(spawner, slot, set())


def test_error_is_told_in_the_output(spawner: Spawner) -> None:
    with slot_of(spawner, "raise_error") as slot:
        assert ended(slot) == 1
        assert "RuntimeError: told on standard error" in slot.kill().output


def test_memory(spawner: Spawner) -> None:
    with slot_of(spawner, "grab", limits=Limits(memory_bytes=128 << 20)) as slot:
        assert slot.socket.recv(16) == b""  # stopped long before the end

        death = slot.kill()

        if slot.limits_memory:
            assert (death.out_of_memory, death.status) == (True, -signal.SIGKILL)
        else:
            assert (death.out_of_memory, death.status) == (False, 1)
            assert "Error" in death.output
        assert_nothing_left(spawner, slot, set())


def test_memory_that_a_runner_wrote_is_counted_page_by_page(spawner: Spawner) -> None:
    each, records = 64 << 10, 8
    with slot_of(spawner, "hoard", str(each).encode()) as slot:
        assert slot.socket.recv(16) == b"ready"
        seen = []
        for _ in range(records):
            slot.socket.send(b"1")
            assert slot.socket.recv(16) == b"kept"
            seen.append(slot.written_bytes())

        assert seen[-1] - seen[0] == pytest.approx((records - 1) * each, abs=16 * mmap.PAGESIZE)

        slot.kill()
        assert slot.written_bytes() == 0


def test_forks_beyond_the_limit(spawner: Spawner) -> None:
    with slot_of(spawner, "fork_many", b"40") as slot:
        made = json.loads(slot.socket.recv(1 << 10))["made"]
        pids = slot.processes()

        death = slot.kill()

        assert death.strays == made
        if spawner.tier is not Tier.UNSANDBOXED:
            assert made == SMALL.processes - 1  # the runner is one
        assert death.too_many_processes == slot.limits_processes
        assert_nothing_left(spawner, slot, pids)


def test_daemon_of_its_own_session(spawner: Spawner) -> None:
    with slot_of(spawner, "survive") as slot:
        assert slot.socket.recv(16) == b"daemon"
        assert ended(slot) == 0
        pids = slot.processes()
        assert len(pids) == 1

        death = slot.kill()

        assert (death.status, death.strays) == (0, 1)
        assert_nothing_left(spawner, slot, pids)


def test_ten_megabytes_of_output(spawner: Spawner) -> None:
    with slot_of(spawner, "flood") as slot:
        assert slot.socket.recv(16) == b""

        death = slot.kill()

        assert (death.flooded, slot.flooded, death.output) == (True, True, "x" * KEPT_BYTES)
        assert_nothing_left(spawner, slot, set())


def test_output_within_the_limit_is_drained(spawner: Spawner) -> None:
    with slot_of(spawner, "flood", limits=Limits(output_bytes=16 << 20)) as slot:
        assert slot.socket.recv(16) == b"all printed"
        assert ended(slot) == 0
        assert not slot.kill().flooded


def test_both_streams_are_kept(spawner: Spawner) -> None:
    with slot_of(spawner, "print_some") as slot:
        assert ended(slot) == 0
        assert slot.kill().output == "out err"


def test_kill_twice_says_the_same(spawner: Spawner) -> None:
    with slot_of(spawner, "wait") as slot:
        assert slot.kill() is slot.kill()
        assert slot.status() == slot.kill().status


def test_inherits_nothing(spawner: Spawner) -> None:
    open_before = os.memfd_create("judge", 0)
    os.set_inheritable(open_before, True)
    given = os.memfd_create("given", 0)
    try:
        seen = report_of(spawner, "look_around", [], descriptors=[given], environment={"GIVEN": "yes"})
    finally:
        os.close(open_before)
        os.close(given)
    assert seen["descriptors"] == sorted([0, 1, 2, *seen["own"]])
    assert len(seen["own"]) == 2
    assert seen["stdin"] == ""
    assert seen["work"] == []
    assert seen["environment"]["GIVEN"] == "yes"
    assert set(seen["environment"]) - {"LC_CTYPE"} == {
        "PATH", "LANG", "HOME", "TMPDIR", "LOGNAME", "USER", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GIVEN",
    }  # fmt: skip
    assert not any("SECRET" in entry for entry in seen["initial_environment"])


def test_sees_only_the_toolchain(walled: Spawner) -> None:
    paths = [str(Path.home()), "/usr/bin", "/etc/passwd", "/sys", "/dev/null", "/dev/mem", "/var", __file__]
    seen = report_of(walled, "look_around", paths)
    assert [path for path in paths if seen["exists"][path]] == ["/usr/bin", "/dev/null"]
    assert set(seen["root"]) <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr"}
    assert (seen["cwd"], seen["hostname"], seen["processes"]) == ("/tmp", "slot", [1, 2])


def test_has_no_rights(walled: Spawner) -> None:
    seen = report_of(walled, "look_around", [])
    assert set(seen["capabilities"].values()) == {"0" * 16}
    assert seen["no_new_privileges"] == "1"


def test_every_slot_has_a_user_id_of_its_own(walled: Spawner) -> None:
    if walled.tier is not Tier.ISOLATED:
        pytest.skip("needs root")
    first, second = report_of(walled, "look_around", []), report_of(walled, "look_around", [])
    assert first["uid"] != second["uid"]
    assert os.geteuid() not in (first["uid"], second["uid"])
    assert first["gids"] == [first["uid"]]


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("write", ["/usr/evokern", 65536]),
        ("write", ["/evokern", 65536]),
        ("write", ["/proc/sys/kernel/core_pattern", 65536]),
        ("read", ["/proc/1/environ"]),
        ("trace init", []),
        ("become root", []),
        ("mount", []),
    ],
)
def test_refuses(walled: Spawner, name: str, arguments: list[object]) -> None:
    assert report_of(walled, "attempt", {"name": name, "with": arguments})["errno"] != 0


def test_scratch_is_sized(walled: Spawner) -> None:
    limits = Limits(scratch_bytes=1 << 20)
    assert report_of(walled, "attempt", {"name": "write", "with": ["/tmp/fits", 1 << 19]}, limits=limits)["errno"] == 0
    assert report_of(walled, "attempt", {"name": "write", "with": ["/tmp/large", 1 << 22]}, limits=limits)["errno"] == 28  # ENOSPC


def test_files_are_sized(spawner: Spawner) -> None:
    limits = Limits(file_bytes=1 << 18)
    assert report_of(spawner, "attempt", {"name": "write", "with": ["large", 1 << 20]}, limits=limits)["errno"] == 27  # EFBIG


def test_readable_and_writable(walled: Spawner, tmp_path: Path) -> None:
    (tmp_path / "read").mkdir()
    (tmp_path / "read" / "file").write_text("x")
    (tmp_path / "write").mkdir()
    tmp_path.joinpath("write").chmod(0o777)
    shown = {"readable": [tmp_path / "read"], "writable": [tmp_path / "write"]}

    def errno(name: str, *arguments: object) -> int:
        number: int = report_of(walled, "attempt", {"name": name, "with": arguments}, **shown)["errno"]
        return number

    assert errno("read", str(tmp_path / "read" / "file")) == 0
    assert errno("write", str(tmp_path / "read" / "new"), 65536) == 30  # EROFS
    assert errno("write", str(tmp_path / "write" / "new"), 65536) == 0
    assert (tmp_path / "write" / "new").stat().st_size == 65536
    assert not (tmp_path / "read" / "new").exists()


def test_processors(spawner: Spawner) -> None:
    own = sorted(os.sched_getaffinity(0))
    limits = Limits(cpus=(own[0],))
    assert report_of(spawner, "look_around", [], limits=limits)["cpus"] == [own[0]]
    with slot_of(spawner, "attempt", json.dumps({"name": "widen", "with": [own]}).encode(), limits=limits) as slot:
        widened = json.loads(slot.socket.recv(1 << 10))["errno"] == 0
        assert widened == (len(own) == 1 or not slot.limits_cpus)


def test_frozen_means_nothing_runs(spawner: Spawner) -> None:
    shared = os.memfd_create("count", 0)
    os.ftruncate(shared, 16)

    def numbers() -> tuple[bytes, bytes]:
        return os.pread(shared, 8, 0), os.pread(shared, 8, 8)

    def advanced(before: tuple[bytes, bytes]) -> bool:
        return all(new != old for new, old in zip(numbers(), before, strict=True))

    def wait_for_both(before: tuple[bytes, bytes]) -> None:
        deadline = time.monotonic() + SECONDS
        while not advanced(before):
            assert time.monotonic() < deadline, "it does not run"
            time.sleep(1e-3)

    with slot_of(spawner, "count", descriptors=[shared]) as slot:
        wait_for_both((bytes(8), bytes(8)))
        for _ in range(5):
            slot.freeze()
            before = numbers()
            time.sleep(0.02)
            assert numbers() == before
            slot.thaw()
            wait_for_both(before)
        slot.freeze()
        assert slot.kill().processes_left == 0  # a frozen slot dies too
    os.close(shared)


def test_clock(spawner: Spawner) -> None:
    with slot_of(spawner, "burn_in_child", b"0.05") as slot:
        assert slot.socket.recv(16) == b"burnt"
        spent = slot.cpu_ns()
        assert slot.clock_covers_children == (spawner.tier is Tier.ISOLATED)
        assert (spent > 50_000_000) == slot.clock_covers_children
        slot.kill()
        assert slot.cpu_ns() >= spent


def test_time_that_counts_is_all_seen(spawner: Spawner) -> None:
    """Either the clock covers children, or there are none."""
    made = report_of(spawner, "make_everything", "", timed=True)["made"]
    everything = report_of(spawner, "make_everything", "")["made"]
    assert {"thread", "clone", "os.fork"} <= set(everything)
    assert made == (everything if spawner.tier is Tier.ISOLATED else ["thread"])


def test_builds_go_on_while_a_slot_is_held(spawner: Spawner) -> None:
    failures: list[BaseException] = []

    def build() -> None:
        try:
            for _ in range(5):
                done = spawner.run(["sh", "-c", "cat given; echo > made"], files={"given": b"text"}, want=["made"], limits=SMALL)
                assert (done.status, done.output, dict(done.files)) == (0, "text", {"made": b"\n"})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=build) for _ in range(3)]
    with slot_of(spawner, "wait") as slot:
        assert slot.socket.recv(16) == b"waiting"
        for thread in threads:
            thread.start()
        for _ in range(20):
            slot.freeze()
            slot.cpu_ns()
            slot.thaw()
        for thread in threads:
            thread.join(SECONDS)
        slot.socket.send(b".")
        assert ended(slot) == 0
    assert failures == []


def test_many_descriptors_arrive_in_order(spawner: Spawner) -> None:
    files = [os.memfd_create(str(number), 0) for number in range(64)]
    try:
        assert len(report_of(spawner, "look_around", [], descriptors=files)["own"]) == 65
    finally:
        for file in files:
            os.close(file)


def test_large_argument(spawner: Spawner) -> None:
    argument = os.urandom(1 << 16)
    with slot_of(spawner, "echo", argument) as slot:
        assert slot.socket.recv(1 << 17) == argument


def test_socket_is_sequenced(spawner: Spawner) -> None:
    with slot_of(spawner, "wait") as slot:
        assert slot.socket.type == socket.SOCK_SEQPACKET
