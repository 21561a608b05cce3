"""Static screening: what a built kernel asks of the system, and whose code it is; evidence for auditors, seldom a verdict.

It looks at symbols of the library (the reader's descriptors) and not at text, so that macros and aliases hide nothing, and nothing
rests on it: whatever a library asks for, the sandbox decides what it gets. Alone it refuses only what no kernel needs and no
sandbox gives: starting programs, other processes' memory, the network, the machine's administration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evokern.errors import UsageError
from evokern.evaluation import Evidence
from evokern.kernel import Kernel, dialect_of
from evokern.printable import line as one_line

FORBIDDEN = "forbidden"
"""Code of the evidence that is a verdict by itself."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of evidence.

    Attributes:
        weight: How much of an auditor's time it deserves, from 1; what lists are ordered by.
        says: What it means, with `{}` for what was found.
        names: Imports that are it: exact names, and regular expressions where they hold anything but word characters.
    """

    weight: int
    says: str
    names: str = ""


_FORBIDDEN = """
    ptrace process_vm_readv process_vm_writev userfaultfd
    execl execle execlp execv execve execveat execvp execvpe fexecve posix_spawn posix_spawnp system popen
    socket connect bind listen accept accept4 getaddrinfo gethostbyname
    mount umount umount2 pivot_root chroot unshare setns reboot kexec_load init_module finit_module delete_module bpf
    swapon swapoff iopl ioperm acct settimeofday clock_settime adjtimex ntp_adjtime sethostname setdomainname fanotify_init
    keyctl add_key request_key shmget shmat semget semop msgget msgsnd msgrcv mq_open mq_send mq_receive
    setuid setgid setreuid setregid setresuid setresgid seteuid setegid setgroups
"""
_INTERPRETER = r"_?Py[A-Z]\w*\Z _?Py_\w+\Z"
_LOOKUP = "dlopen dlmopen dlsym dlvsym dladdr dladdr1 dlinfo dl_iterate_phdr _dl_find_object _r_debug __libc_dlopen_mode __libc_dlsym"
_PROCESS = """
    fork vfork _Fork clone clone3 daemon kill tgkill tkill killpg pthread_kill wait waitpid waitid wait3 wait4 setsid setpgid prctl
    personality pidfd_open pidfd_send_signal pthread_atfork
"""
_DESCRIPTOR = """
    read write pread pwrite pread64 pwrite64 readv writev preadv pwritev send sendto sendmsg sendmmsg recv recvfrom recvmsg recvmmsg
    dup dup2 dup3 fcntl fcntl64 ioctl close close_range closefrom poll ppoll select pselect epoll_create epoll_create1 epoll_wait
    shutdown sendfile sendfile64 splice fdopen ftruncate lseek
"""
_CHANNEL = (
    "pipe pipe2 socketpair eventfd inotify_init inotify_init1 timerfd_create signalfd shm_open shm_unlink sem_open flock lockf mkfifo mknod"
)
_IDENTITY = "getpid getppid gettid getuid geteuid getgid getegid getpgid getpgrp getsid"
_CLOCK = r"""
    clock_gettime clock_getres clock gettimeofday time times ftime timespec_get getrusage clock_nanosleep nanosleep usleep sleep
    omp_get_wtime omp_get_wtick clock_getcpuclockid pthread_getcpuclockid thrd_sleep
    _ZNSt6chrono3_V2\w+_clock3nowEv _ZNSt6chrono\w*now\w* _ZNSt11this_thread11__sleep_for\w+
"""
_ENVIRONMENT = """
    getenv secure_getenv environ __environ setenv putenv unsetenv uname gethostname sysinfo sched_getcpu getcpu sched_getaffinity
    sched_setaffinity pthread_setaffinity_np pthread_getaffinity_np getloadavg getrlimit setrlimit getrlimit64 setrlimit64 prlimit
    prlimit64 setpriority getpriority nice mallinfo mallinfo2 mincore get_nprocs get_nprocs_conf program_invocation_name getauxval
"""
_FILE = r"""
    open open64 openat openat64 creat creat64 fopen fopen64 freopen freopen64 opendir readdir stat stat64 lstat fstatat access faccessat
    unlink unlinkat rename remove mkdir rmdir link symlink readlink truncate tmpfile tmpnam mkstemp __open_2 __open64_2 __openat_2 __xstat
    name_to_handle_at open_by_handle_at realpath nftw chdir fchdir getcwd
    _ZNSt13basic_filebuf\w+ _ZNSt14basic_[io]fstream\w+ _ZNSt13basic_fstream\w+ _ZNSt10filesystem\w+
"""
_SIGNAL = """
    signal sigaction __sysv_signal sigaltstack sigprocmask pthread_sigmask sigsuspend sigwait setitimer timer_create timer_settime alarm
    ualarm setjmp _setjmp __sigsetjmp longjmp siglongjmp __longjmp_chk makecontext swapcontext setcontext getcontext raise
"""
_MEMORY = "mmap mmap64 munmap mremap madvise posix_madvise mlock mlockall brk sbrk mbind"
_RANDOM = r"rand random srand srandom rand_r drand48 getrandom getentropy _ZNSt13random_device\w+"
_THREADS = r"pthread_create thrd_create _ZNSt6thread15_M_start_thread\w+ GOMP_parallel\w* GOMP_task\w* __kmpc_fork_call\w*"
_PRINTS = r"""
    printf puts putchar putc fputs fputc fwrite fprintf vprintf vfprintf dprintf perror __printf_chk __fprintf_chk
    _ZSt4cout\Z _ZSt4cerr\Z _ZSt4clog\Z
"""

KINDS: dict[str, Kind] = {
    FORBIDDEN: Kind(10, "asks for {}, which no kernel needs and no sandbox gives", _FORBIDDEN),
    "vendored": Kind(7, "calls or holds {}: somebody else's mathematics"),
    "interpreter": Kind(7, "calls the runner's Python: {}", _INTERPRETER),
    "lookup": Kind(6, "looks functions up as it runs ({}), so that what it calls cannot be told", _LOOKUP),
    "syscall": Kind(6, "reaches the system past the C library: {}", "syscall"),
    "code": Kind(6, "can make or change code as it runs: {}", "mprotect pkey_mprotect __clear_cache memfd_create memfd_secret"),
    "process": Kind(5, "starts or signals processes: {}", _PROCESS),
    "descriptor": Kind(5, "works on descriptors that it did not open: {}", _DESCRIPTOR),
    "channel": Kind(5, "opens what two processes can share: {}", _CHANNEL),
    "identity": Kind(4, "asks which process this is: {}", _IDENTITY),
    "clock": Kind(4, "reads a clock or waits on one: {}", _CLOCK),
    "environment": Kind(4, "looks at the machine around it: {}", _ENVIRONMENT),
    "file": Kind(4, "opens files: {}", _FILE),
    "library": Kind(4, "needs a library that no kernel is expected to: {}"),
    "signal": Kind(3, "handles signals or timers: {}", _SIGNAL),
    "load": Kind(3, "runs code when it is loaded or unloaded: {} functions of its own"),
    "exit": Kind(3, "can end the process: {}", "exit _exit _Exit quick_exit atexit on_exit at_quick_exit"),
    "detached": Kind(3, "lets threads outlive the call: {}", "pthread_detach thrd_detach _ZNSt6thread6detachEv"),
    "memory": Kind(2, "maps memory by itself: {}", _MEMORY),
    "random": Kind(2, "draws random numbers: {}", _RANDOM),
    "unread": Kind(2, "{}"),
    "threads": Kind(1, "starts threads: {}", _THREADS),
    "prints": Kind(1, "prints: {}", _PRINTS),
    "copied": Kind(1, "{} of its code is the task's own seed"),
    "state": Kind(1, "keeps thread-local variables: {}"),
}
"""Every kind of evidence, the heaviest first: the closed list of codes in `Evidence.code`."""

USUAL_LIBRARIES = re.compile(
    r"(?:libc|libm|libmvec|libstdc\+\+|libgcc_s|libgomp|libomp|libiomp5|libc\+\+|libc\+\+abi|libunwind|libatomic|libpthread|librt|ld-linux[\w-]*)"
    r"\.so(?:\.\d+)*\Z"
)

_PREFIXES = r"cblas_|LAPACKE_|mkl_|dnnl_|zendnn|openblas_|xnn_|Sleef_|ggml_|llama_|fbgemm|cutlass|at::native|Eigen::|c10::|torch::"
_VENDORED = re.compile(rf"(?:{_PREFIXES})\w*|[sdcz](?:gemm|gemv|axpy|dot|scal)_?\Z|_ZN(?:2at|3c10|5torch|5Eigen|7cutlass)\w+")
"""Imports from libraries that hold kernels ready made."""

_PASTED = re.compile(rf"\b(?:{_PREFIXES})(?=\w)")
"""What such libraries' names begin with, in sources that paste them."""

MOST_NAMES = 6
"""Symbols that one piece of evidence names."""

COPIED = 0.9
"""Share of a kernel's token runs in one seed from which it counts as copied: an edited line or two do not make it another."""

_SEGMENTS = {
    "executable_stack": ("code", "an executable stack"),
    "writable_code": ("code", "memory that is writable and executable"),
    "text_relocations": ("code", "relocations in its code"),
    "thread_local": ("state", "a thread-local segment"),
}
_INSTRUCTIONS = {"syscall": ("syscall", "a bare system call"), "clock": ("clock", "the processor's counter")}


def evidence(kernel: Kernel, facts: Mapping[str, str], seeds: Sequence[Kernel] = ()) -> tuple[Evidence, ...]:
    """What an auditor should look at, the heaviest first.

    Args:
        kernel: The kernel.
        facts: Descriptors of its library, as the backend's reader gives them: `imports`, `needed`, `loads`, `segments`,
            `instructions`; without `imports` the library was not read.
        seeds: Kernels that the task comes with.
    """
    found = _found(kernel, facts, seeds)
    return tuple(
        Evidence(code, one_line(KINDS[code].says.format(_listed(found[code]))), _line_of(kernel.source, found[code]))
        for code in KINDS
        if code in found
    )


def refusal(evidence: Iterable[Evidence]) -> str:
    """Why a kernel is refused without being run, in one line; empty where it is not."""
    return next((f"{piece.detail}{f' (line {piece.line})' if piece.line else ''}" for piece in evidence if piece.code == FORBIDDEN), "")


def weight(evidence: Iterable[Evidence]) -> int:
    """How much of an auditor's time a kernel deserves: the sum over its evidence; codes that this version lacks weigh 1."""
    return sum(KINDS[piece.code].weight if piece.code in KINDS else 1 for piece in evidence)


def _found(kernel: Kernel, facts: Mapping[str, str], seeds: Sequence[Kernel]) -> dict[str, list[str]]:
    """Names behind each kind of evidence."""
    found: dict[str, list[str]] = {}
    linked = _linked(facts) if "imports" in facts else [("unread", "what its library asks of the system could not be read")]
    for code, name in (*linked, *_authored(kernel, facts, seeds)):
        if name not in found.setdefault(code, []):
            found[code].append(name)
    return found


def _linked(facts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for symbol in facts["imports"].split():
        code = _code_of(symbol)
        if code:
            yield code, symbol
    for library in facts.get("needed", "").split():
        if not USUAL_LIBRARIES.match(library):
            yield "library", library
    for name, (code, words) in _SEGMENTS.items():
        if name in facts.get("segments", "").split():
            yield code, words
    for name, (code, words) in _INSTRUCTIONS.items():
        if name in facts.get("instructions", "").split():
            yield code, words
    if facts.get("loads", "0") != "0":
        yield "load", facts["loads"]


def _authored(kernel: Kernel, facts: Mapping[str, str], seeds: Sequence[Kernel]) -> Iterator[tuple[str, str]]:
    """Whose mathematics it is, as far as that shows."""
    from evokern.syntax import likeness

    for symbol in facts.get("imports", "").split():
        if _VENDORED.match(symbol):
            yield "vendored", symbol
    yield from (("vendored", name) for name in sorted(set(_PASTED.findall(likeness.bare(kernel.source, kernel.dialect)))))
    own = likeness.fingerprint(kernel.source, kernel.dialect)
    alike = [likeness.contained(own, likeness.fingerprint(s.source, s.dialect)) for s in seeds if s.dialect == kernel.dialect]
    share = max(alike, default=0.0)
    if share >= COPIED:
        yield "copied", f"{share:.0%}"


@cache
def _patterns() -> tuple[dict[str, str], tuple[tuple[re.Pattern[str], str], ...]]:
    """Exact names to codes, and patterns with theirs."""
    exact: dict[str, str] = {}
    patterns = []
    for code, kind in KINDS.items():
        for name in kind.names.split():
            if re.fullmatch(r"\w+", name):
                exact.setdefault(name, code)
            else:
                patterns.append((re.compile(name), code))
    return exact, tuple(patterns)


def _code_of(symbol: str) -> str:
    exact, patterns = _patterns()
    # `__isoc23_`, `__GI_` and `_chk` are the same functions under the names that headers and hardening give them.
    plain = re.sub(r"^__(?:isoc\d+_|GI_|libc_)?|(?<=\w)_chk$", "", symbol)
    return exact.get(symbol) or exact.get(plain) or next((code for pattern, code in patterns if pattern.match(symbol)), "")


def _listed(names: Sequence[str]) -> str:
    shown = [readable(name) for name in names[:MOST_NAMES]]
    return ", ".join(dict.fromkeys(shown)) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


_MANGLED = {
    "_ZNSt6chrono": "std::chrono", "_ZNSt6thread6detach": "std::thread::detach", "_ZNSt6thread": "std::thread",
    "_ZNSt11this_thread": "std::this_thread::sleep_for", "_ZNSt13basic_filebuf": "std::fstream", "_ZNSt14basic_": "std::fstream",
    "_ZNSt13basic_fstream": "std::fstream", "_ZNSt10filesystem": "std::filesystem", "_ZNSt13random_device": "std::random_device",
    "_ZSt4cout": "std::cout", "_ZSt4cerr": "std::cerr", "_ZSt4clog": "std::clog",
}  # fmt: skip


def readable(symbol: str) -> str:
    """A symbol as its author wrote it, for those of the C++ library that `KINDS` knows."""
    return next((name for prefix, name in _MANGLED.items() if symbol.startswith(prefix)), symbol)


def _line_of(source: str, names: Sequence[str]) -> int:
    """First line that holds one of the names as a word, from 1; 0 where none does, as behind a macro."""
    words = {part for name in names for part in (name, readable(name).rpartition("::")[2]) if re.fullmatch(r"[A-Za-z_]\w*", part)}
    if not words:
        return 0
    wanted = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words)))})\b")
    lines = enumerate(source.split("\n"), start=1)
    return next((number for number, text in lines if wanted.search(text) and not text.lstrip().startswith("#include")), 0)


def seeds_of(folder: Path) -> list[Kernel]:
    """Kernels that a task's folder comes with; those that cannot be read are left out."""
    found = []
    for file in sorted((folder / "seeds").glob("*")):
        try:
            found.append(Kernel(dialect_of(file.name), file.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, UsageError):
            continue
    return found
