"""System calls by policy: what is allowed, with which arguments, and how everything else is refused.

What is not named here fails with ENOSYS, as if this kernel did not know it, which every C library has an answer to; a call that is
named but not with these arguments fails with EPERM. A kernel that makes a process or starts a program is killed with SIGSYS
instead, so that it is seen as what it is and not as a kernel that took a refusal well.

Left out for a kernel on purpose: whatever makes a descriptor whose inode number is counted for the whole machine (pipe, socket,
memfd, eventfd, shared anonymous memory), reads a count of the whole machine (sysinfo, statfs, statx with its mount ids, times), tells
which pages of a file are in memory, which every process can read in (getrusage and wait4 by their faults, mincore, cachestat, preadv2),
leaves something behind for the next slot (locks, leases, extended attributes, keys, queues), or looks at another process.

A kernel on a GPU is given what the driver was seen not to do without (benchmarks/results/gpu-look.json): pipes, eventfds and a local
socket, which do make such numbers, a name that it tries to remove, and ioctl with the requests of NVIDIA's driver. What the driver
does with these is the driver's; no process, no program, no network, no file comes with them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum

from evokern.sandbox.policy import Policy


class Is(StrEnum):
    """How one argument, an unsigned 32-bit number but for `NULL`, is tested."""

    AMONG = "among"
    AT_LEAST = "at least"
    WITH = "with"
    WITHOUT = "without"
    PART = "part"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Test:
    """One test of one argument.

    Attributes:
        argument: Position, from 0.
        how: The test.
        values: Numbers for AMONG, one number for AT_LEAST, one mask for WITH (any of its bits) and WITHOUT (none of them); for PART a
            mask, then what may be left of the argument below it.
    """

    argument: int
    how: Is
    values: tuple[int, ...] = ()


class Refusal(StrEnum):
    """What happens to a call that a rule does not allow."""

    ERROR = "error"
    KILL = "kill"


@dataclass(frozen=True, slots=True)
class Rule:
    """When a call is allowed.

    Attributes:
        ways: Alternatives; in one of them every test must hold. An empty one always does, none at all never does.
        otherwise: What happens if none holds.
    """

    ways: tuple[tuple[Test, ...], ...] = ((),)
    otherwise: Refusal = Refusal.ERROR


_ALWAYS = Rule()

# Constants of include/uapi: linux/{sched,fcntl,prctl}.h, asm-generic/{mman,mman-common,fcntl}.h.
_CLONE_THREAD = 0x00010000
_CLONE_NEW = 0x7E020000 | 0x00000080
_MAP_SHARED, _MAP_ANONYMOUS, _MAP_HUGETLB, _PROT_WRITE = 0x1, 0x20, 0x40000, 0x2
_O_PATH = 0x200000
_F_OF_OWN = (1, 2, 3, 4, 1034)  # GETFD, SETFD, GETFL, SETFL, GET_SEALS
_F_GENERAL = (0, *_F_OF_OWN, 1030)  # DUPFD, DUPFD_CLOEXEC
_F_LOCKS = (5, 6, 7, 36, 37, 38)  # POSIX locks and those of open files
_F_ADD_SEALS = 1033
_PR_NAMES = (15, 16, 0x53564D41)  # SET_NAME, GET_NAME, SET_VMA
_PR_CHILD = (1, 2, 23)  # SET_PDEATHSIG, GET_PDEATHSIG, CAPBSET_READ
# Not MERGEABLE: merged pages are shared between slots. Not RANDOM, SEQUENTIAL, WILLNEED, POPULATE, PAGEOUT, COLD, REMOVE: they reach the
# page cache. NORMAL, DONTNEED, FREE, (NO)HUGEPAGE, DONTDUMP, DODUMP, WIPEONFORK, KEEPONFORK are about own memory.
_ADVICE = (0, 4, 8, 14, 15, 16, 17, 18, 19)
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX

PROCESSES = ("fork", "vfork", "execve", "execveat")
"""Calls that make a process or start a program, besides clone without CLONE_THREAD."""

_KERNEL = """
    read write readv writev pread64 pwrite64 close lseek stat lstat access faccessat faccessat2
    munmap mprotect mremap brk futex set_robust_list rseq set_tid_address arch_prctl membarrier
    exit exit_group sched_yield sched_getaffinity sched_setaffinity gettid getpid getuid geteuid getgid getegid
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time getcpu restart_syscall getrlimit
    rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack pause getrandom uname poll ppoll recvmsg sendmsg recvfrom sendto
""".split()
_BUILD = """
    open openat fstat newfstatat mmap madvise prlimit64 tgkill kill
    creat statx getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat
    symlink symlinkat readlink readlinkat chmod fchmod fchmodat utimensat ftruncate truncate fallocate fadvise64 fsync fdatasync
    sendfile copy_file_range dup dup2 dup3 pipe pipe2 select pselect6 umask memfd_create wait4 waitid setsid setpgid getpgrp
    getpgid getsid getppid getresuid getresgid getgroups setrlimit times sysinfo setitimer getitimer alarm
    getrusage timer_create timer_settime timer_gettime timer_delete rt_sigtimedwait rt_sigsuspend rt_sigpending capget
    sched_getparam sched_getscheduler getpriority
""".split()
_TORCH = """
    socket socketpair connect bind listen accept accept4 shutdown getsockname getpeername getsockopt setsockopt
    eventfd2 epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 flock statfs fstatfs
    mlock munlock mincore msync get_mempolicy set_mempolicy mbind fchown timerfd_create timerfd_settime timerfd_gettime
    close_range get_robust_list
""".split()
_DEVICE = "dup pipe2 eventfd2 bind listen unlink unlinkat".split()
_AF_UNIX = 1
# What NVIDIA's nodes are asked for: type F of linux/ioctl.h, and for memory plain numbers and the two that open and close it.
_NVIDIA_IOCTLS = (
    (Test(1, Is.PART, (0xFF00, ord("F") << 8)),),
    (Test(1, Is.PART, (0xFFFFFF00, 0)),),
    (Test(1, Is.AMONG, (0x30000001, 0x30000002)),),
)


def _among(argument: int, *values: int) -> Rule:
    return Rule(((Test(argument, Is.AMONG, values),),))


def _kernel_rules(given: int, own: int) -> dict[str, Rule]:
    # What is on its pipes, its socket and the files that it was given: their inode numbers are the machine's count.
    after_given = Rule(((Test(0, Is.AT_LEAST, (given,)),),))
    no_huge = Test(3, Is.WITHOUT, (_MAP_HUGETLB,))
    rules = dict.fromkeys(_KERNEL, _ALWAYS)
    rules.update(
        fstat=after_given,
        newfstatat=after_given,
        open=Rule(((Test(1, Is.WITHOUT, (_O_PATH,)),),)),
        openat=Rule(((Test(2, Is.WITHOUT, (_O_PATH,)),),)),
        # Shared memory is windows: what is shared read-only is a library's page, on which slots could wait for each other.
        mmap=Rule(
            (
                (no_huge, Test(3, Is.WITHOUT, (_MAP_SHARED,))),
                (no_huge, Test(3, Is.WITHOUT, (_MAP_ANONYMOUS,)), Test(2, Is.WITH, (_PROT_WRITE,))),
            )
        ),
        madvise=_among(2, *_ADVICE),
        prlimit64=Rule(((Test(0, Is.AMONG, (0, own)), Test(2, Is.NULL)),)),
        fcntl=_among(1, *_F_OF_OWN),
        prctl=_among(0, *_PR_NAMES),
        kill=_among(0, own),
        tgkill=_among(0, own),
        clone=Rule(((Test(0, Is.WITH, (_CLONE_THREAD,)),),), Refusal.KILL),
    )
    return rules | dict.fromkeys(PROCESSES, Rule((), Refusal.KILL))


def _device_rules(given: int, own: int) -> dict[str, Rule]:
    return {
        **_kernel_rules(given, own),
        **dict.fromkeys(_DEVICE, _ALWAYS),
        "socket": _among(0, _AF_UNIX),
        # Of its nodes the driver also maps what can only be read, and of its memory what threads and the device share.
        "mmap": Rule(((Test(3, Is.WITHOUT, (_MAP_HUGETLB,)),),)),
        "fcntl": _among(1, *_F_GENERAL),
        "ioctl": Rule(_NVIDIA_IOCTLS),
    }


def _general_rules(policy: Policy, one_process: bool) -> dict[str, Rule]:
    torch = policy is not Policy.BUILD
    device = policy is Policy.DEVICE_TORCH
    names = [*_KERNEL, *_BUILD, *(_TORCH if torch else ()), *(_DEVICE if device else ())]
    locks = _F_LOCKS if torch else ()
    rules = dict.fromkeys(names, _ALWAYS)
    rules.update(
        fcntl=_among(1, *_F_GENERAL, *locks, _F_ADD_SEALS),
        prctl=_among(0, *_PR_NAMES, *_PR_CHILD),
        ioctl=Rule((*_among(1, *_IOCTLS).ways, *(_NVIDIA_IOCTLS if device else ()))),
        clone=Rule(((Test(0, Is.WITH, (_CLONE_THREAD,)),),)) if one_process else Rule(((Test(0, Is.WITHOUT, (_CLONE_NEW,)),),)),
    )
    return rules | dict.fromkeys(PROCESSES, Rule((), Refusal.ERROR) if one_process else _ALWAYS)


def rules_of(policy: Policy, *, given: int, own: int, one_process: bool = False) -> dict[str, Rule]:
    """What a process may ask for, by name of the call.

    Args:
        policy: Of the slot.
        given: The first descriptor's number that is neither a standard stream, nor the socket, nor a given file.
        own: Its process id, as it sees it.
        one_process: Whether it may make threads only, for a policy that may make processes otherwise.
    """
    if policy is Policy.KERNEL:
        return _kernel_rules(given, own)
    return _device_rules(given, own) if policy is Policy.DEVICE else _general_rules(policy, one_process)


MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Audit architecture, and column of `NUMBERS`, by machine."""

_TABLE = """
    accept 43 202, accept4 288 242, access 21 -, alarm 37 -, arch_prctl 158 -, bind 49 200, brk 12 214, capget 125 90, chdir 80 49
    chmod 90 -, clock_getres 229 114, clock_gettime 228 113, clock_nanosleep 230 115, clone 56 220, clone3 435 435, close 3 57
    close_range 436 436, connect 42 203, copy_file_range 326 285, creat 85 -, dup 32 23, dup2 33 -, dup3 292 24, epoll_create1 291 20
    epoll_ctl 233 21, epoll_pwait 281 22, epoll_pwait2 441 441, epoll_wait 232 -, eventfd2 290 19, execve 59 221, execveat 322 281
    exit 60 93, exit_group 231 94, faccessat 269 48, faccessat2 439 439, fadvise64 221 223, fallocate 285 47, fchdir 81 50
    fchmod 91 52, fchmodat 268 53, fchown 93 55, fcntl 72 25, fdatasync 75 83, flock 73 32, fork 57 -, fstat 5 80, fstatfs 138 44
    fsync 74 82, ftruncate 77 46, futex 202 98, get_mempolicy 239 236, get_robust_list 274 100, getcpu 309 168, getcwd 79 17
    getdents64 217 61, getegid 108 177, geteuid 107 175, getgid 104 176, getgroups 115 158, getitimer 36 102, getpeername 52 205
    getpgid 121 155, getpgrp 111 -, getpid 39 172, getppid 110 173, getpriority 140 141, getrandom 318 278, getresgid 120 150
    getresuid 118 148, getrlimit 97 163, getrusage 98 165, getsid 124 156, getsockname 51 204, getsockopt 55 209, gettid 186 178
    gettimeofday 96 169, getuid 102 174, ioctl 16 29, kill 62 129, link 86 -, linkat 265 37, listen 50 201, lseek 8 62, lstat 6 -
    madvise 28 233, mbind 237 235, membarrier 324 283, memfd_create 319 279, mincore 27 232, mkdir 83 -, mkdirat 258 34
    mlock 149 228, mmap 9 222, mprotect 10 226, mremap 25 216, msync 26 227, munlock 150 229, munmap 11 215, nanosleep 35 101
    newfstatat 262 79, open 2 -, openat 257 56, pause 34 -, pipe 22 -, pipe2 293 59, poll 7 -, ppoll 271 73, prctl 157 167
    pread64 17 67, prlimit64 302 261, process_vm_readv 310 270, pselect6 270 72, pwrite64 18 68, read 0 63, readlink 89 -
    readlinkat 267 78, readv 19 65, recvfrom 45 207, recvmsg 47 212, rename 82 -, renameat 264 38, renameat2 316 276
    restart_syscall 219 128, rmdir 84 -, rseq 334 293, rt_sigaction 13 134, rt_sigpending 127 136, rt_sigprocmask 14 135
    rt_sigreturn 15 139, rt_sigsuspend 130 133, rt_sigtimedwait 128 137, sched_getaffinity 204 123, sched_getparam 143 121
    sched_getscheduler 145 120, sched_setaffinity 203 122, sched_yield 24 124, select 23 -, sendfile 40 71, sendmsg 46 211
    sendto 44 206, set_mempolicy 238 237, set_robust_list 273 99, set_tid_address 218 96, setitimer 38 103, setpgid 109 154
    setrlimit 160 164, setsid 112 157, setsockopt 54 208, shutdown 48 210, sigaltstack 131 132, socket 41 198, socketpair 53 199
    stat 4 -, statfs 137 43, statx 332 291, symlink 88 -, symlinkat 266 36, sysinfo 99 179, tgkill 234 131, time 201 -
    timer_create 222 107, timer_delete 226 111, timer_gettime 224 108, timer_settime 223 110, timerfd_create 283 85
    timerfd_gettime 287 87, timerfd_settime 286 86, times 100 153, truncate 76 45, umask 95 166, uname 63 160, unlink 87 -
    unlinkat 263 35, utimensat 280 88, vfork 58 -, wait4 61 260, waitid 247 95, write 1 64, writev 20 66
"""
NUMBERS = {
    name: tuple(None if number == "-" else int(number) for number in numbers)
    for name, *numbers in (row.split() for row in _TABLE.strip().replace("\n", ",").split(","))
}
"""Number of every call named here on x86_64 and on aarch64 (asm/unistd_64.h, asm-generic/unistd.h); None where there is none."""


def number(name: str) -> int:
    """Number of a call on this machine; -1 where it has none."""
    column = MACHINES.get(os.uname().machine, (0, -1))[1]
    found = NUMBERS[name][column] if column >= 0 else None
    return -1 if found is None else found
