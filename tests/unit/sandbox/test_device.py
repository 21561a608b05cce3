"""Slots with a GPU, on any machine: what their walls are, which nodes and folders they are shown, and what they have of a /proc."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from evokern_cpu import compiler

from evokern.sandbox import Limits, Policy, Spawner, gpu, gpu_canary
from evokern.sandbox.calls import MACHINES, rules_of
from evokern.sandbox.filesystem import rights
from evokern.sandbox.landlock import Right
from evokern.sandbox.order import Means, Order
from evokern.sandbox.policy import RUNNERS, VIEWS, Proc

from .conftest import start
from .probing import MAILBOXES, compiled, probe_in, skip_where_calls_are_not_refused
from .test_policy import ALLOW, ERROR, FOR_OTHERS, KILL, NEW_USER, THREAD, answered
from .test_slot import report_of

GIVEN_TO_DEVICES = {"pipe2", "socket", "eventfd2", "ioctl", "unlinkat", "dup"}
"""Of what a kernel may not ask for, what one on a GPU may."""

NVIDIA = (0xC020462A, 0xC00846D6, 37, 0x30000001, 0x30000002)
OTHERS = (0x5401, 0x5412, 0x541B, 0x5421, 0x8912, 0x80086601, 0x40049409, 0x30000003, 0x4601_0000)
"""TCGETS, TIOCSTI, FIONREAD, FIONBIO, SIOCGIFCONF, FS_IOC_GETFLAGS, FICLONE, and two that look like NVIDIA's."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("probes"))


@pytest.fixture(scope="module", params=["root", "user"])
def refusing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    with start(request.param, tmp_path_factory.mktemp("scratch")) as made:
        skip_where_calls_are_not_refused(made)
        yield made


@pytest.mark.parametrize("machine", MACHINES)
def test_a_kernel_on_a_gpu_makes_no_process(machine: str) -> None:
    assert answered(Policy.DEVICE, machine, "clone", THREAD) == ALLOW
    assert answered(Policy.DEVICE, machine, "clone", signal.SIGCHLD) == KILL
    assert answered(Policy.DEVICE, machine, "clone", THREAD, one_process=True) == ALLOW
    assert answered(Policy.DEVICE, machine, "execve") == KILL
    assert answered(Policy.DEVICE, machine, "clone3") == ERROR | errno.ENOSYS
    assert answered(Policy.DEVICE_TORCH, machine, "clone", NEW_USER) == ERROR | errno.EPERM


@pytest.mark.parametrize("policy", [Policy.DEVICE, Policy.DEVICE_TORCH])
def test_requests_to_the_driver_and_no_others(policy: Policy) -> None:
    assert {request for request in NVIDIA if answered(policy, "x86_64", "ioctl", 9, request) == ALLOW} == set(NVIDIA)
    allowed = {request for request in OTHERS if answered(policy, "x86_64", "ioctl", 9, request) == ALLOW}
    assert allowed == (set() if policy in RUNNERS else {0x5401, 0x541B, 0x5421})
    assert answered(Policy.KERNEL, "x86_64", "ioctl", 9, NVIDIA[0]) == ERROR | errno.ENOSYS
    assert answered(Policy.TORCH, "x86_64", "ioctl", 9, NVIDIA[0]) == ERROR | errno.EPERM


def test_a_kernel_on_a_gpu_has_what_a_kernel_has_and_the_drivers() -> None:
    """Nothing that a kernel may ask for is wider here, and little is added."""
    plain, device = rules_of(Policy.KERNEL, given=5, own=2), rules_of(Policy.DEVICE, given=5, own=2)
    assert {name for name, rule in plain.items() if device[name] != rule} == {"fcntl", "mmap"}
    known = {name for name in FOR_OTHERS if answered(Policy.DEVICE, "x86_64", name) != ERROR | errno.ENOSYS}
    assert known == GIVEN_TO_DEVICES
    assert answered(Policy.DEVICE, "x86_64", "socket", 1, 5) == ALLOW
    assert {answered(Policy.DEVICE, "x86_64", "socket", family) for family in (2, 10, 16, 17)} == {ERROR | errno.EPERM}  # not the network


def test_the_gpu_that_was_granted_and_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / gpu.LIBRARY).touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f":relative:{tmp_path}")
    granted = gpu.grant(3)
    assert granted == gpu.Grant(("nvidiactl", "nvidia-uvm", "nvidia3"), str(tmp_path))
    shown = rights(VIEWS[Policy.DEVICE], [], granted.nodes)
    on_nodes = int(Right.READ_FILE | Right.WRITE_FILE | Right.IOCTL)
    assert {path: right for path, right in shown.items() if "nvidia" in path} == dict.fromkeys(
        ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3"], on_nodes
    )
    assert granted.environment() == {"TRITON_LIBCUDA_PATH": str(tmp_path)}
    assert gpu.search_path() == str(tmp_path)


def test_a_driver_apart_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where the driver lies in a folder that the linker's cache does not know; the slot's environment stays literal."""
    if gpu.search_path():
        pytest.skip("there is such a driver")
    (folder := tmp_path / "driver").mkdir()
    for name in (gpu.LIBRARY, "libnvidia-compiler.so.1"):
        command = [compiler.find().path, "-shared", "-fPIC", "-x", "c++", "-o", str(folder / name), "-"]
        subprocess.run(command, input=b'extern "C" int cuInit(int) { return 7; }', check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    with start("root" if os.geteuid() == 0 else "user", tmp_path / "scratch") as made:
        for policy in (Policy.DEVICE, Policy.DEVICE_TORCH):
            seen = report_of(made, "load", ["libcuda.so.1", "libnvidia-compiler.so.1"], policy=policy)
            assert seen["loaded"] == [7, 7]
            assert "LD_LIBRARY_PATH" not in seen["environment"]
            assert seen["environment"]["TRITON_LIBCUDA_PATH"] == str(folder)
        assert report_of(made, "load", ["libcuda.so.1"], policy=Policy.KERNEL)["loaded"] == [None]


def test_orders_carry_the_gpu() -> None:
    grant = gpu.Grant(("nvidiactl", "nvidia1"), "/usr/lib")
    for given in (grant, None):
        order = Order("m:f", b"", Policy.DEVICE, Means.ROOT, 5, Limits(), gpu=given)
        assert Order.from_descriptor(order.to_descriptor()) == order


def test_a_kernel_on_a_gpu_sees_its_own_folder_of_a_proc(refusing: Spawner) -> None:
    def refused(name: str, *arguments: object) -> int:
        number: int = report_of(refusing, "attempt", {"name": name, "with": arguments}, policy=Policy.DEVICE)["errno"]
        return number

    assert refused("read", "/proc/self/status") == refused("read", "/proc/2/status") == 0
    assert refused("write", "/proc/self/comm", 0) == 0  # where the driver names its threads
    assert refused("read", "/proc/1/environ") in (errno.EACCES, errno.EPERM)
    machine = ["/proc/meminfo", "/proc/loadavg", "/proc/stat", "/proc/modules", "/proc/sys/kernel/hostname", "/sys/kernel"]
    assert {refused("read", path) for path in machine} <= {errno.ENOENT, errno.EACCES}
    assert refused("read", str(Path.home())) == refused("read", "/etc/passwd") == errno.ENOENT
    assert refused("read", f"/proc/{os.getpid()}/status") in (errno.ENOENT, errno.EACCES)
    places = ["/new", "/usr/lib/new", "/dev/new", "/dev/shm/new", "/tmp/new", "/proc/self/new", "/proc/sys/kernel/core_pattern"]
    assert 0 not in {refused("write", path, 0) for path in places}


def test_a_kernel_on_a_gpu_leaves_no_message(refusing: Spawner, library: Path) -> None:
    names = [name for name in MAILBOXES if name != "shared_page_of_library"]  # the driver needs such pages of its nodes
    leave, look = [[name, 1] for name in names], [[name, 0] for name in names]
    with probe_in(refusing, library, Policy.DEVICE) as second:
        with probe_in(refusing, library, Policy.DEVICE) as first:
            left = {name for name, answer in zip(names, first.ask(*leave), strict=True) if answer}
            assert left <= {"abstract_socket"}  # of its own network
            assert not any(second.ask(*look))
        assert not any(second.ask(*look))


@pytest.mark.parametrize("name", ["fork", "execve"])
def test_a_kernel_on_a_gpu_that_makes_a_process_is_ended(refusing: Spawner, library: Path, name: str) -> None:
    with probe_in(refusing, library, Policy.DEVICE) as probe:
        number = {"fork": 57, "execve": 59} if os.uname().machine == "x86_64" else {"fork": 220, "execve": 221}
        probe.slot.socket.send(json.dumps([["ask", number[name], int(signal.SIGCHLD) if name == "fork" else 0, 0, 0, 0, 0, 0]]).encode())
        assert probe.slot.socket.recv(16) == b""
        assert probe.slot.kill().status == -signal.SIGSYS


@pytest.mark.parametrize("policy", [Policy.DEVICE, Policy.DEVICE_TORCH])
def test_addresses_are_not_what_is_limited(refusing: Spawner, library: Path, policy: Policy) -> None:
    """A driver reserves hundreds of gigabytes; what is written is limited all the same."""
    with probe_in(refusing, library, policy, limits=Limits(memory_bytes=256 << 20, processes=16)) as probe:
        limits = probe.fact("limits")
        assert limits["RLIMIT_AS"] == -1
        assert limits["RLIMIT_CORE"] == 1
        assert probe.slot.limits_memory or limits["RLIMIT_DATA"] < 1 << 30


@pytest.mark.parametrize("policy", [Policy.TORCH, Policy.DEVICE_TORCH])
def test_task_code_has_a_users_name(spawner: Spawner, policy: Policy) -> None:
    """Which torch.compile asks for, and no system file knows the user id of a slot."""
    assert report_of(spawner, "user_name", "", policy=policy) == {"name": "evokern"}


def test_views_hold_to_what_they_are_for() -> None:
    assert {policy for policy, view in VIEWS.items() if view.gpu} == {Policy.DEVICE, Policy.DEVICE_TORCH}
    assert {policy: VIEWS[policy].proc for policy in RUNNERS} == {Policy.KERNEL: Proc.NONE, Policy.DEVICE: Proc.SELF}


def test_a_canary_without_a_driver_says_so(tmp_path: Path) -> None:
    if gpu.driver_folder():
        pytest.skip("there is a driver")
    with Spawner.start({"gpu": [gpu_canary.__name__]}, scratch=tmp_path) as made:
        found = gpu_canary.try_gpu(
            lambda entry: made.slot(entry, zygote="gpu", descriptors=[], argument=b"", limits=Limits(), policy=Policy.DEVICE)
        )
    assert (found.name, found.held) == ("gpu", False)
    assert gpu.LIBRARY in found.detail
    assert "nvidia-smi" in found.fix
