"""What the sandbox tests run inside slots. Imported by a zygote, so that a fork needs no file of it. Everything is bounded."""

from __future__ import annotations

import ctypes
import fcntl
import getpass
import json
import mmap
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence

_PROCESS_CALLS = {"fork": 57, "clone": 56} if os.uname().machine == "x86_64" else {"clone": 220}  # vfork would share the stack
WAIT_SECONDS = 120  # a process that nobody kills ends by itself


def _say(sock: socket.socket, **report: object) -> None:
    sock.send(json.dumps(report).encode())


def echo(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    sock.send(argument)


def wait(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    sock.send(b"waiting")
    sock.recv(1)


def spin(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    sock.send(b"spinning")
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        pass


def hoard(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Write so many more bytes of memory of its own for every record."""
    kept = []
    sock.send(b"ready")
    while sock.recv(1):
        kept.append(mmap.mmap(-1, int(argument)))
        kept[-1].write(b"x" * int(argument))
        sock.send(b"kept")


def count(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """A child and the runner count in shared memory, eight bytes each."""
    window = mmap.mmap(descriptors[0], 16)
    place = 8 if os.fork() == 0 else 0
    number, end = 0, time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        number += 1
        window[place : place + 8] = number.to_bytes(8, "little")


def burn_in_child(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    child = os.fork()
    if child == 0:
        end = time.process_time() + float(argument)
        while time.process_time() < end:
            pass
        os._exit(0)
    os.waitpid(child, 0)
    sock.send(b"burnt")
    sock.recv(1)


def crash(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    ctypes.string_at(8)


def leave(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    os._exit(int(argument))


def raise_error(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    raise RuntimeError("told on standard error")


def grab(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Touches 40 GB in steps of 16 MB until something stops it."""
    kept = []
    for _ in range(2500):
        block = mmap.mmap(-1, 16 << 20)
        for at in range(0, 16 << 20, mmap.PAGESIZE):
            block[at] = 1
        kept.append(block)
    sock.send(b"touched all")


def fork_many(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    made = 0
    for _ in range(int(argument)):
        try:
            if os.fork() == 0:
                time.sleep(WAIT_SECONDS)
                os._exit(0)
        except OSError:
            break
        made += 1
    _say(sock, made=made)
    sock.recv(1)


def make_everything(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Starts a thread, then a child in each way there is; reports what worked."""
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    libc = ctypes.CDLL(None, use_errno=True)
    made = ["thread"]
    for name, number in _PROCESS_CALLS.items():
        child = libc.syscall(number, 17, 0, 0, 0, 0)  # 17 is SIGCHLD
        if child == 0:
            os._exit(0)
        made += [name] if child > 0 else []
    try:
        if os.fork() == 0:
            os._exit(0)
        made.append("os.fork")
    except PermissionError:
        pass
    _say(sock, made=made)


def survive(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Leaves a daemon of its own session whose parents are gone, then ends."""
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            sock.send(b"daemon")
            time.sleep(WAIT_SECONDS)
        os._exit(0)
    os.wait()


def flood(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    block = b"x" * 65536
    for _ in range((10 << 20) // len(block)):
        os.write(1, block)
    sock.send(b"all printed")


def print_some(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    sys.stdout.write("out ")
    sys.stdout.flush()
    sys.stderr.write("err")


def look_around(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Reports what it has and sees."""
    with open("/proc/self/status", encoding="utf-8") as stream:
        status = dict(line.split(":\t", 1) for line in stream.read().splitlines() if ":\t" in line)
    _say(
        sock,
        descriptors=sorted(int(name) for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")),
        own=[sock.fileno(), *descriptors],
        environment=dict(os.environ),
        initial_environment=_initial_environment(),
        uid=os.getuid(),
        gids=sorted({os.getgid(), *os.getgroups()}),
        capabilities={name: status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
        no_new_privileges=status["NoNewPrivs"].strip(),
        cwd=os.getcwd(),
        root=sorted(os.listdir("/")),
        work=sorted(os.listdir(".")),
        stdin=os.read(0, 1).decode(),
        processes=sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        hostname=os.uname().nodename,
        cpus=sorted(os.sched_getaffinity(0)),
        exists={path: os.path.exists(path) for path in json.loads(argument)},
    )


def _initial_environment() -> list[str]:
    # Not readable where the process cannot be dumped, which is as good.
    try:
        with open("/proc/self/environ", "rb") as stream:
            return [entry.decode() for entry in stream.read().split(b"\0") if entry]
    except OSError:
        return []


def attempt(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Runs one of the attempts below; reports the error's number, 0 for success."""
    wish = json.loads(argument)
    try:
        _ATTEMPTS[wish["name"]](*wish["with"])
    except OSError as error:
        _say(sock, errno=error.errno)
    else:
        _say(sock, errno=0)


def load(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Loads libraries by their names; what each one's `cuInit` says, None where there is none."""

    def said(name: str) -> int | None:
        try:
            return int(ctypes.CDLL(name).cuInit(0))
        except OSError:
            return None

    _say(sock, loaded=[said(name) for name in json.loads(argument)], environment=dict(os.environ))


def user_name(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Who it is, as Python's library says."""
    _say(sock, name=getpass.getuser())


def probe(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Loads the library of probes that it was given, as a kernel is loaded, and answers requests until the judge hangs up.

    A request is JSON [[function, argument, ...], ...], an answer the list of what they returned.
    """
    path = f"/dev/fd/{descriptors[0]}"
    if os.path.exists("/tmp"):  # where there are files, it may as well be one
        path = "./probes.so"
        with open(descriptors[0], "rb", closefd=False) as given, open(path, "wb") as copy:
            copy.write(given.read())
    library = ctypes.CDLL(path)
    library.ask.restype = ctypes.c_long
    while request := sock.recv(1 << 16):
        sock.send(json.dumps([_probed(library, *wish) for wish in json.loads(request)]).encode())


def _probed(library: ctypes.CDLL, name: str, *arguments: int) -> object:
    if name in _FACTS:
        return _FACTS[name]()
    return getattr(library, name)(*(ctypes.c_long(one) for one in arguments))


def _resource_limits() -> dict[str, int]:
    return {name: resource.getrlimit(getattr(resource, name))[1] for name in dir(resource) if name.startswith("RLIMIT_")}


def _strings_in_memory() -> list[str]:
    """Which of the words that a judge's process holds can be found in what this one keeps as Python objects."""
    import gc

    seen = " ".join(repr(one) for one in gc.get_objects() if isinstance(one, (dict, list, tuple)) and len(one) < 1000)
    return [word for word in ("not for " + "candidates", "EVOKERN_TEST" + "_SECRET") if word in seen]


def _is_open(number: int) -> bool:
    try:
        fcntl.fcntl(number, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def _a_thread() -> int:
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(threading.get_native_id()))
    thread.start()
    thread.join()
    return seen[0]


# What a process knows of itself without a /proc.
_FACTS: dict[str, Callable[[], object]] = {
    "environment": lambda: dict(os.environ),
    "descriptors": lambda: [number for number in range(1024) if _is_open(number)],
    "signals": lambda: {
        "blocked": sorted(int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "handled": sorted(int(one) for one in signal.valid_signals() if callable(signal.getsignal(one))),
    },
    "ids": lambda: [os.getpid(), threading.get_native_id(), os.getuid(), os.getgid()],
    "host": lambda: os.uname().nodename,
    "modules": lambda: sorted(sys.modules),
    "words": _strings_in_memory,
    "limits": _resource_limits,
    "thread": _a_thread,
}


def _write_file(path: str, size: int) -> None:
    with open(path, "wb") as stream:
        for _ in range(size >> 16):
            stream.write(bytes(65536))


def _read_file(path: str) -> None:
    with open(path, "rb") as stream:
        stream.read(1)


def _trace_init() -> None:
    if os.path.exists("/proc/1/mem"):
        _read_file("/proc/1/mem")


def _become_root() -> None:
    os.setuid(0)


def _widen(cpus: Sequence[int]) -> None:
    os.sched_setaffinity(0, cpus)
    if set(os.sched_getaffinity(0)) != set(cpus):
        raise PermissionError(1, "not widened")


def _mount() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None):
        raise OSError(ctypes.get_errno(), "mount")


_ATTEMPTS = {
    "write": _write_file,
    "read": _read_file,
    "trace init": _trace_init,
    "become root": _become_root,
    "widen": _widen,
    "mount": _mount,
}
