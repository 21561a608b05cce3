"""Nothing that one slot does can be found by another, whether both live or one after the other, and none reads what is the machine's."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from evokern.sandbox import Policy, Spawner
from tests.unit.sandbox.conftest import start
from tests.unit.sandbox.probing import COUNTS, MAILBOXES, Probe, asked_outside, compiled, probe_in, skip_where_calls_are_not_refused

LEAVE = [[name, 1] for name in MAILBOXES]
LOOK = [[name, 0] for name in MAILBOXES]
TASK_CODE = tuple(name for name in MAILBOXES if name not in ("flock_on_library", "read_lock_on_library", "shared_page_of_library"))
"""What task code may not share either; it is trusted not to signal by locks."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("probes"))


@pytest.fixture(scope="module", params=["root", "user"])
def spawner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    with start(request.param, tmp_path_factory.mktemp("scratch")) as made:
        skip_where_calls_are_not_refused(made)
        yield made


def found(names: tuple[str, ...], answers: list[int]) -> list[str]:
    return [name for name, answer in zip(names, answers, strict=True) if answer]


def test_the_probes_work_where_nothing_stops_them(library: Path, tmp_path: Path) -> None:
    # Those that end with their process, or lie in a folder of the test's own.
    wishes = ["file_in_home", "file_in_work", "abstract_socket", "flock_on_library", "read_lock_on_library", "shared_page_of_library"]
    left, seen = asked_outside(library, [[name, 1] for name in wishes], [[name, 0] for name in wishes], folder=tmp_path)
    assert [name for name, one, other in zip(wishes, left, seen, strict=True) if not (one and other)] == []
    (counts,) = asked_outside(library, [[name, 0] for name in COUNTS], folder=tmp_path)
    assert {"inode_of_pipe", "inode_of_memfd", "inode_of_held", "load_of_machine", "mount_id", "file_of_process"} <= set(
        found(COUNTS, counts)
    )


def test_a_kernel_leaves_no_message(spawner: Spawner, library: Path) -> None:
    with probe_in(spawner, library) as second:
        with probe_in(spawner, library) as first:
            assert found(MAILBOXES, first.ask(*LEAVE)) == []
            assert found(MAILBOXES, second.ask(*LOOK)) == []  # while the first lives
        assert found(MAILBOXES, second.ask(*LOOK)) == []
    with probe_in(spawner, library) as third:
        assert found(MAILBOXES, third.ask(*LOOK)) == []


@pytest.mark.parametrize("policy", [Policy.BUILD, Policy.TORCH])
def test_what_others_leave_is_not_found(spawner: Spawner, library: Path, policy: Policy) -> None:
    """A builder and task code have files and sockets, each its own."""
    leave, look = [[name, 1] for name in TASK_CODE], [[name, 0] for name in TASK_CODE]
    with probe_in(spawner, library, policy) as second:
        with probe_in(spawner, library, policy) as first:
            assert "file_in_tmp" in found(TASK_CODE, first.ask(*leave))
            assert found(TASK_CODE, second.ask(*look)) == []
        assert found(TASK_CODE, second.ask(*look)) == []


def test_a_kernel_reads_no_count_of_the_machine(spawner: Spawner, library: Path) -> None:
    with probe_in(spawner, library) as probe:
        assert found(COUNTS, probe.ask(*([name, 0] for name in COUNTS))) == []


def test_numbers_of_processes_and_threads_tell_nothing(spawner: Spawner, library: Path) -> None:
    def numbers(probe: Probe) -> list[int]:
        process, thread, *_ = probe.fact("ids")
        return [process, thread, probe.fact("thread")]

    with probe_in(spawner, library) as first:
        seen = numbers(first)
        for _ in range(20):
            first.fact("thread")
        with probe_in(spawner, library) as second:
            assert numbers(second) == seen
    with probe_in(spawner, library) as third:
        assert numbers(third) == seen


def test_user_ids_come_in_no_order(spawner: Spawner, library: Path) -> None:
    taken = [spawner._take_uid() for _ in range(64)]
    if taken[0] is None:
        pytest.skip("slots have no user ids of their own")
    numbers = [uid for uid in taken if uid is not None]
    assert len(set(numbers)) == 64
    steps = {later - earlier for earlier, later in itertools.pairwise(numbers)}
    assert len(steps) > 32
    assert os.geteuid() not in numbers


def test_a_user_id_is_not_given_while_a_slot_has_it(spawner: Spawner, library: Path) -> None:
    with probe_in(spawner, library) as resident:
        if resident.slot.uid is None:
            pytest.skip("slots have no user ids of their own")
        spawner._free_uids.clear()  # as after thousands of slots
        assert resident.slot.uid not in {spawner._take_uid(), *spawner._free_uids}
