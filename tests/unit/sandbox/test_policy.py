"""What each policy allows: the filter's instructions on both machines, and the calls themselves in real slots on this one."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from evokern.sandbox import Policy, Spawner, calls, landlock, seccomp
from evokern.sandbox.calls import MACHINES, NUMBERS, Is, Rule
from evokern.sandbox.order import sealed_copy

from .conftest import start
from .probing import compiled, probe_in, skip_where_calls_are_not_refused

ALLOW, ERROR, KILL = 0x7FFF0000, 0x00050000, 0x80000000
THREAD, NEW_USER = 0x00010000, 0x10000000
GIVEN = 5


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("probes"))


@pytest.fixture(scope="module", params=["root", "user"])
def refusing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    with start(request.param, tmp_path_factory.mktemp("scratch")) as made:
        skip_where_calls_are_not_refused(made)
        yield made


def filtered(code: bytes, architecture: int, number: int, arguments: Sequence[int] = ()) -> int:
    """What a filter answers: an interpreter of the instructions that it uses."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *[*arguments, *[0] * 6][:6])
    steps = list(struct.iter_unpack("<HBBI", code))
    at = accumulator = 0
    while True:
        operation, true, false, value = steps[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x06:
            return int(value)
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[operation]
            at += true if holds else false


def answered(policy: Policy, machine: str, name: str, *arguments: int, one_process: bool = False) -> int:
    architecture, column = MACHINES[machine]
    code = seccomp.assembled(calls.rules_of(policy, given=GIVEN, own=2, one_process=one_process), machine)
    number = NUMBERS[name][column]
    assert number is not None
    return filtered(code, architecture, number, arguments)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("policy", Policy)
def test_every_rule_is_assembled_as_it_reads(machine: str, policy: Policy) -> None:
    architecture, column = MACHINES[machine]
    rules = calls.rules_of(policy, given=GIVEN, own=2, one_process=False)
    code = seccomp.assembled(rules, machine)
    assert len(code) // 8 < 4096  # BPF_MAXINSNS
    for name, numbers in NUMBERS.items():
        if (number := numbers[column]) is None:
            continue
        for arguments in samples(rules.get(name)):
            assert filtered(code, architecture, number, arguments) == meant(rules.get(name), arguments), (name, arguments)


def samples(rule: Rule | None) -> Iterator[list[int]]:
    """Arguments that meet and that miss each test of a rule, in every pairing of two tests."""
    yield [0] * 6
    yield [0xFFFFFFFF] * 6
    tests = [test for way in (rule.ways if rule else ()) for test in way]
    values = [(test.argument, value) for test in tests for value in (*test.values, *(v - 1 for v in test.values), 1 << 32)]
    for argument, value in values:
        for other, second in values:
            arguments = [0] * 6
            arguments[argument] = max(value, 0)
            arguments[other] = max(second, 0)
            yield arguments


def meant(rule: Rule | None, arguments: Sequence[int]) -> int:
    if rule is None:
        return ERROR | errno.ENOSYS
    if any(all(holds(test, arguments) for test in way) for way in rule.ways):
        return ALLOW
    return KILL if rule.otherwise is calls.Refusal.KILL else ERROR | errno.EPERM


def holds(test: calls.Test, arguments: Sequence[int]) -> bool:
    whole = arguments[test.argument]
    low = whole & 0xFFFFFFFF
    return {
        Is.AMONG: low in test.values,
        Is.AT_LEAST: bool(test.values) and low >= test.values[0],
        Is.WITH: bool(test.values) and bool(low & test.values[0]),
        Is.WITHOUT: bool(test.values) and not low & test.values[0],
        Is.PART: bool(test.values) and low & test.values[0] in test.values[1:],
        Is.NULL: whole == 0,
    }[test.how]


@pytest.mark.parametrize("machine", MACHINES)
def test_another_machines_calls_are_unknown(machine: str) -> None:
    other = next(architecture for name, (architecture, _) in MACHINES.items() if name != machine)
    code = seccomp.assembled(calls.rules_of(Policy.TORCH, given=GIVEN, own=2, one_process=False), machine)
    assert filtered(code, other, 0) == ERROR | errno.ENOSYS
    assert filtered(code, MACHINES[machine][0], 0x40000000) == ERROR | errno.ENOSYS  # x32
    assert filtered(code, MACHINES[machine][0], 999) == ERROR | errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_who_may_make_processes(machine: str) -> None:
    assert answered(Policy.KERNEL, machine, "clone", THREAD) == ALLOW
    assert answered(Policy.KERNEL, machine, "clone", signal.SIGCHLD) == KILL
    assert answered(Policy.KERNEL, machine, "execve") == KILL
    for policy in (Policy.BUILD, Policy.TORCH):
        assert answered(policy, machine, "clone", signal.SIGCHLD) == ALLOW
        assert answered(policy, machine, "clone", NEW_USER) == ERROR | errno.EPERM
        assert answered(policy, machine, "clone", signal.SIGCHLD, one_process=True) == ERROR | errno.EPERM
        assert answered(policy, machine, "clone3") == ERROR | errno.ENOSYS


# asm/unistd_64.h and asm-generic/unistd.h: what no policy allows, with arguments that would do no harm if it did.
FORBIDDEN: Mapping[str, tuple[int, int]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "setns": (308, 268), "unshare": (272, 97),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "mount_setattr": (442, 442), "statmount": (457, 457),
    "listmount": (458, 458), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "syslog": (103, 116), "kexec_load": (246, 104),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_setup": (206, 0),
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "inotify_init1": (294, 26), "fanotify_init": (300, 262), "signalfd4": (289, 74), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "personality": (135, 92), "setpriority": (141, 140), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
    "sched_getattr": (315, 275), "ioprio_set": (251, 30), "process_madvise": (440, 440), "memfd_secret": (447, 447),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "getxattr": (191, 8), "acct": (163, 89), "swapon": (167, 224),
    "reboot": (169, 142), "init_module": (175, 105), "settimeofday": (170, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "quotactl": (179, 60), "lookup_dcookie": (212, 18), "migrate_pages": (256, 238), "move_pages": (279, 239), "vhangup": (153, 58),
    "seccomp": (317, 277), "landlock_create_ruleset": (444, 444), "setuid": (105, 146), "setgid": (106, 144), "capset": (126, 91),
    "sethostname": (170, 161), "rt_sigqueueinfo": (129, 138), "tkill": (200, 130), "readahead": (187, 213), "remap_file_pages": (216, 234),
    "preadv2": (327, 286), "cachestat": (451, 451), "process_mrelease": (448, 448),
}  # fmt: skip
FOR_OTHERS = (
    "pipe2", "socket", "socketpair", "memfd_create", "eventfd2", "epoll_create1", "timerfd_create", "timer_create", "sysinfo", "statfs",
    "fstatfs", "statx", "times", "flock", "ioctl", "fadvise64", "mincore", "mlock", "mbind", "getdents64", "readlinkat", "mkdirat",
    "unlinkat", "ftruncate", "setrlimit", "setitimer", "wait4", "setsid", "getppid", "umask", "dup", "getsockopt", "sendfile",
    "waitid", "getrusage",
)  # fmt: skip
"""What a builder or task code may ask for, and a kernel not."""


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("policy", Policy)
def test_what_nobody_may_ask_for(machine: str, policy: Policy) -> None:
    architecture, column = MACHINES[machine]
    code = seccomp.assembled(calls.rules_of(policy, given=GIVEN, own=2, one_process=False), machine)
    assert [name for name, row in FORBIDDEN.items() if row[column] and filtered(code, architecture, row[column]) == ALLOW] == []


@pytest.mark.parametrize("name", FOR_OTHERS)
def test_what_a_kernel_may_not_ask_for(name: str) -> None:
    machine = next(machine for machine, (_, column) in MACHINES.items() if NUMBERS[name][column] is not None)
    assert answered(Policy.KERNEL, machine, name) == ERROR | errno.ENOSYS
    assert answered(Policy.TORCH, machine, name) in (ALLOW, ERROR | errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_kernel_gives_no_advice_about_files(machine: str) -> None:
    told = {advice for advice in range(128) if answered(Policy.KERNEL, machine, "madvise", 0, 0, advice) == ALLOW}
    # Of asm-generic/mman-common.h: NORMAL, DONTNEED, FREE, HUGEPAGE, NOHUGEPAGE, DONTDUMP, DODUMP, WIPEONFORK, KEEPONFORK.
    assert told == {0, 4, 8, 14, 15, 16, 17, 18, 19}


@pytest.mark.parametrize("policy", Policy)
def test_forbidden_calls_fail_in_a_slot(refusing: Spawner, library: Path, policy: Policy) -> None:
    column = MACHINES[os.uname().machine][1]
    asked = {name: numbers[column] for name, numbers in FORBIDDEN.items()}
    with probe_in(refusing, library, policy) as probe:
        answers = probe.ask(*(["ask", number, 0, 0, 0, 0, 0, 0] for number in asked.values()))
    assert {name: answer for name, answer in zip(asked, answers, strict=True) if answer not in (-errno.ENOSYS, -errno.EPERM)} == {}


@pytest.mark.parametrize("name", [name for name in ("fork", "vfork", "execve", "clone") if calls.number(name) >= 0])
def test_a_kernel_that_makes_a_process_is_ended(refusing: Spawner, library: Path, name: str) -> None:
    with probe_in(refusing, library) as probe:
        flags = signal.SIGCHLD if name == "clone" else 0
        probe.slot.socket.send(f'[["ask", {calls.number(name)}, {int(flags)}, 0, 0, 0, 0, 0]]'.encode())
        assert hung_up(probe.slot.socket)
        assert probe.slot.kill().status == -signal.SIGSYS


def hung_up(sock: socket.socket) -> bool:
    try:
        return sock.recv(16) == b""
    except ConnectionResetError:
        return True


def test_signals_of_a_kernel_stay_its_own(refusing: Spawner, library: Path) -> None:
    kill = calls.number("kill")
    with probe_in(refusing, library) as probe:
        own = probe.fact("ids")[0]
        others = [["ask", kill, pid, 0, 0, 0, 0, 0] for pid in (1, 0, -1)]
        assert probe.ask(*others, ["ask", kill, own, 0, 0, 0, 0, 0]) == [-errno.EPERM] * 3 + [0]


def test_landlock_refuses_what_can_be_seen(refusing: Spawner, library: Path) -> None:
    if not landlock.version():
        pytest.skip("this kernel has no Landlock")
    with probe_in(refusing, library) as probe:
        assert probe.ask(["opens", 0], ["opens", 1], ["opens", 2]) == [errno.EACCES, 0, errno.EACCES]


def test_a_sealed_copy_is_what_was_hashed(tmp_path: Path) -> None:
    file = tmp_path / "kernel.so"
    file.write_bytes(b"library")
    digest = hashlib.sha256(b"library").hexdigest()
    descriptor = sealed_copy(file, digest)
    try:
        with pytest.raises(PermissionError):
            os.write(descriptor, b"x")
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 1)
        assert os.pread(descriptor, 16, 0) == b"library"
    finally:
        os.close(descriptor)
    file.write_bytes(b"another")
    with pytest.raises(ValueError, match=r"kernel\.so is not what was stored"):
        sealed_copy(file, digest)
