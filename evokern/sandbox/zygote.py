"""The zygote, and what becomes of its forks: keeper, init, runner (package docstring).

Runs in processes that are started for it (`service`). Imports nothing of evokern beyond this package, and nothing lazily:
a fork may find no file of Python any more.
"""

from __future__ import annotations

import array  # noqa: F401  socket.recv_fds imports it when called
import codecs
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import linecache  # noqa: F401  a traceback imports it when printed
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from evokern.sandbox import calls, filesystem, landlock, linux, seccomp
from evokern.sandbox.limits import Limits
from evokern.sandbox.order import Means, Order
from evokern.sandbox.policy import RUNNERS, VIEWS, View

READY = b"ready"
STATUS = struct.Struct("<i")
"""Exit status of the runner, or minus the signal's number, as init writes it to the status pipe."""

SEARCH_PATH = "LD_LIBRARY_PATH"
"""What a zygote may be started with beside the literal environment."""

MAX_DESCRIPTORS = 250
"""What one datagram can carry (SCM_MAX_FD is 253)."""

_SCORE_WHEN_MEMORY_IS_SHORT = "500"
_NAMESPACES = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
_NOBODY = 65534
_NONE_OF = (resource.RLIMIT_MSGQUEUE, resource.RLIMIT_NICE, resource.RLIMIT_RTPRIO)
_NO_CORE = 1  # for what may be dumped: 0 does not hold back a program that core_pattern names, 1 does, and is too little for a file
_ALL_MAPPED, _DATA = 0, 5  # columns of statm: all that is mapped; what is private and can be written
_SOCKET = 3  # of every runner, its given files follow: numbers are the same in every slot
_ABOVE_ALL = 256  # where descriptors wait while they are given their numbers
# What kernels are linked with, so that a slot finds it in memory; those that are not here are left out. No OpenMP: it reads its
# environment when it is loaded, and that is the slot's.
_LIBRARIES = ("libstdc++.so.6", "libm.so.6", "libmvec.so.1", "libgcc_s.so.1", "libatomic.so.1")
_MORE_STACK = 2 << 20
_RUNNER = 2  # process id of a runner in its namespace, after init
_IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}
_SIGNALS_OF_LIBC = (32, 33)
_SIGNAL_ACTION_BYTES, _SIGNAL_SET_BYTES = 32, 8
_CODECS = ("ascii", "latin-1", "idna")  # looked up by name, hence imported, when first used


def main(descriptor: int, parent: int, modules: Sequence[str]) -> None:
    """Import, then fork a slot for every order until the socket is closed.

    Args:
        descriptor: Sequenced socket to the spawner.
        parent: Process id of the spawner.
        modules: Modules to import.
    """
    _die_with(parent)
    _reset_signals()
    os.environ.pop(SEARCH_PATH, None)  # the linker has read it, and no slot needs to
    sock = socket.socket(fileno=descriptor)
    try:
        for module in modules:
            importlib.import_module(module)
        for codec in _CODECS:
            codecs.lookup(codec)
        _make_ready()
    except BaseException:
        sock.send(traceback.format_exc().encode()[-8000:])
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are reaped by the kernel
    gc.collect()
    gc.freeze()
    sock.send(READY)
    while True:
        data, descriptors, _, _ = socket.recv_fds(sock, 64, MAX_DESCRIPTORS)
        if not data:
            break
        _fork_slot(sock, descriptors)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, 0)  # with SIGCHLD ignored this returns when the last slot has ended


def _make_ready() -> None:
    """Have in memory what every slot needs: libraries, and what the walls are made of."""
    for library in _LIBRARIES:
        with contextlib.suppress(OSError):
            ctypes.CDLL(library)
    seccomp.available()
    for policy, view in VIEWS.items():
        filesystem.rights(view, [])
        for given in (0, 1):
            with contextlib.suppress(OSError):
                seccomp.code_for(policy, _SOCKET + 1 + given, _RUNNER, False)


def _reset_signals() -> None:
    """Neither block nor ignore what the judge's parents may have left so, the two signals that the C library keeps to itself included."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.valid_signals() - _IGNORED_BY_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    default = ctypes.create_string_buffer(_SIGNAL_ACTION_BYTES)
    for own in _SIGNALS_OF_LIBC:
        linux.syscall("rt_sigaction", calls.number("rt_sigaction"), own, default, None, _SIGNAL_SET_BYTES)


def _fork_slot(sock: socket.socket, descriptors: Sequence[int]) -> None:
    zygote = os.getpid()
    try:
        if os.fork() == 0:
            sock.close()
            _end_after(lambda: _start_slot(zygote, descriptors))
    except OSError as error:  # no process or memory left: the other slots go on
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptors[1])) as reply:
            reply.send(json.dumps({"error": str(error)}).encode())
    for descriptor in descriptors:
        os.close(descriptor)


def _end_after(body: Callable[[], None]) -> NoReturn:
    """Run the body of a fork; it never returns into the code of the process that it was forked from."""
    try:
        body()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _start_slot(zygote: int, descriptors: Sequence[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored by the spawner and all below it
    _die_with(zygote)
    order = Order.from_descriptor(descriptors[0])
    reply, sock, output, *given = descriptors[1:]
    slot = _Slot(zygote, order, socket.socket(fileno=reply), socket.socket(fileno=sock), output, given)
    with slot.reporting():
        slot.start()


class _Slot:
    """A slot in the making; its methods run in keeper, init and runner, in this order."""

    def __init__(self, zygote: int, order: Order, reply: socket.socket, sock: socket.socket, output: int, given: Sequence[int]) -> None:
        self.zygote = zygote
        self.joins: list[int] = []
        self.order, self.reply, self.sock, self.output, self.given = order, reply, sock, output, given
        self.view = VIEWS[order.policy]
        self.mapped_bytes = 0

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Tell the judge of what goes wrong while the slot is being made."""
        try:
            yield
        except Exception as error:
            with contextlib.suppress(OSError):
                self.reply.send(json.dumps({"error": str(error) or repr(error)}).encode())
            os._exit(1)

    def start(self) -> None:
        """Become the keeper, or init where there is no namespace to keep."""
        status_read, status_write = os.pipe()
        if self.order.means is Means.OFF:
            self._introduce(os.getpid(), status_read)
            self._init(status_write)
        alive_read, alive_write = os.pipe()
        if self.order.means is Means.USER:
            _enter_user_namespace(linux.CLONE_NEWPID)
        else:
            linux.unshare(linux.CLONE_NEWPID)
        _die_with(self.zygote)  # again: a change of user id clears it
        init = os.fork()
        if init == 0:
            os.close(alive_write)
            self._init(status_write, keeper=alive_read)
        self._introduce(init, status_read)
        _close_all_but({2, alive_write})
        os.waitpid(init, 0)

    def _introduce(self, init: int, status_read: int) -> None:
        """Give the judge what it needs to end the slot: a descriptor of its init, which no reuse of ids can confuse."""
        process = os.pidfd_open(init)
        socket.send_fds(self.reply, [json.dumps({"init": init}).encode()], [process, status_read])
        os.close(process)
        os.close(status_read)

    def _init(self, status_write: int, keeper: int | None = None) -> NoReturn:
        with self.reporting():
            if keeper is None:
                linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
            self._confine()
            if keeper is not None:
                _die_with_keeper(keeper)
            runner = os.fork()
        if runner == 0:
            os.close(status_write)
            with self.reporting():
                self._prepare_runner()
            _end_after(self._run)
        _close_all_but({status_write})
        _reap(runner, status_write)

    def _confine(self) -> None:
        order = self.order
        with contextlib.suppress(OSError):
            _write("/proc/self/oom_score_adj", _SCORE_WHEN_MEMORY_IS_SHORT)
        with contextlib.suppress(OSError):
            linux.join_new_keyring()
        self.mapped_bytes = _mapped_bytes(_DATA if self.view.gpu else _ALL_MAPPED)  # there may be no /proc later
        # Joined by the runner, which cannot see these files any more; opened by root, they let it. Init stays outside: a freeze
        # then wakes nothing but what is a candidate's, and lack of memory does not choose init.
        self.joins = [os.open(group, os.O_WRONLY | os.O_CLOEXEC) for group in order.groups]
        os.setsid()
        if order.means is not Means.OFF:
            linux.unshare(_NAMESPACES)
            linux.set_hostname("slot")
            uid = os.getuid() if order.uid is None else order.uid
            given = dict(enumerate(self.given, _SOCKET + 1))
            nodes = order.gpu.nodes if order.gpu else ()
            filesystem.enter(self.view, order.binds, given, scratch_bytes=order.limits.scratch_bytes, uid=uid, nodes=nodes)
            linux.drop_bounding_set()
        if order.uid is not None:
            os.setgroups([])
            os.setresgid(order.uid, order.uid, order.uid)
            os.setresuid(order.uid, order.uid, order.uid)
        if order.means is not Means.OFF:
            linux.drop_capabilities()
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        # A process of the same user id, the runner or what it starts, can then neither trace init nor read its descriptors.
        linux.prctl(linux.PR_SET_DUMPABLE, 0)

    def _prepare_runner(self) -> None:
        for group in self.joins:
            os.write(group, b"0")
        if self.order.means is Means.OFF:
            _die_with(os.getppid())
        os.umask(0o022)
        if self.order.means is Means.OFF:
            os.chdir(self.order.folder)
            os.environ.update(HOME=self.order.folder, TMPDIR=self.order.folder)
        elif self.view.scratch:
            os.chdir("/tmp")
        if self.order.gpu is not None:
            os.environ.update(self.order.gpu.environment())
        os.environ.update(self.order.environment)
        self._take_descriptors()
        _limit(self.order, self.view, self.mapped_bytes)
        if self.view.gpu:
            # The driver names its threads in /proc/self, which belongs to root as long as nobody may look into the process. Nothing
            # else is in the slot but init, which stays as it is.
            linux.prctl(linux.PR_SET_DUMPABLE, 1)
        confine(self.order, self.given)
        self.reply.send(json.dumps({"ready": True}).encode())
        self.reply.close()

    def _take_descriptors(self) -> None:
        """Hold the standard streams, the socket, what was given and the way to reply, each at its number, and nothing else."""
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        held = [null, self.output, self.output, self.sock.detach(), *self.given, self.reply.detach()]
        waiting = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE_ALL) for descriptor in held]
        for number, descriptor in enumerate(waiting):
            os.dup2(descriptor, number, inheritable=number < _SOCKET)
        os.closerange(len(held), os.sysconf("SC_OPEN_MAX"))
        self.sock = socket.socket(fileno=_SOCKET)
        self.given = list(range(_SOCKET + 1, len(held) - 1))
        self.reply = socket.socket(fileno=len(held) - 1)

    def _run(self) -> None:
        module, function = self.order.entry.split(":")
        try:
            getattr(importlib.import_module(module), function)(self.sock, self.given, self.order.argument)
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else 0 if end.code is None else 1)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()


def confine(order: Order, given: Sequence[int]) -> None:
    """Last step before candidate code, in the runner: which paths and which system calls are left.

    Raises:
        OSError: This kernel has no seccomp, and the slot has to have one process.
    """
    if order.means is not Means.OFF:
        landlock.restrict(filesystem.rights(VIEWS[order.policy], order.binds, order.gpu.nodes if order.gpu else ()))
    if order.one_process or seccomp.available():  # where it is not, the canaries say so
        seccomp.enter(seccomp.code_for(order.policy, _SOCKET + 1 + len(given), os.getpid(), order.one_process))


def _enter_user_namespace(more: int) -> None:
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:  # asked for by name, as root: be an ordinary user first
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # else the maps below belong to root
        uid = gid = _NOBODY
    linux.unshare(linux.CLONE_NEWUSER | more)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def _limit(order: Order, view: View, mapped_bytes: int) -> None:
    limits: Limits = order.limits
    for kind in _NONE_OF:
        _lower(kind, 0)
    _lower(resource.RLIMIT_CORE, _NO_CORE if view.gpu else 0)
    _lower(resource.RLIMIT_NOFILE, view.descriptors)
    if order.policy in RUNNERS:
        for kind in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_SIGPENDING):
            _lower(kind, 0)
    _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    _allow_more_stack()
    if order.limits_processes:
        # It counts init too, and in a user namespace the keeper, who made it.
        _lower(resource.RLIMIT_NPROC, limits.processes + (2 if order.means is Means.USER else 1))
    if not order.limits_memory:
        # A GPU's driver reserves far more addresses than there is memory; what can be written is counted then.
        _lower(resource.RLIMIT_DATA if view.gpu else resource.RLIMIT_AS, limits.memory_bytes + mapped_bytes)
    if limits.cpus:
        os.sched_setaffinity(0, limits.cpus)


def _allow_more_stack() -> None:
    # An entry may begin deep in its stack (`evokern.evaluator.call.scatter`) without leaving less than usual.
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if soft != resource.RLIM_INFINITY and (hard == resource.RLIM_INFINITY or hard >= soft + _MORE_STACK):
        resource.setrlimit(resource.RLIMIT_STACK, (soft + _MORE_STACK, hard))


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (most, most))


def _mapped_bytes(column: int) -> int:
    with open("/proc/self/statm", encoding="utf-8") as stream:
        return int(stream.read().split()[column]) * os.sysconf("SC_PAGE_SIZE")


def _die_with(parent: int) -> None:
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died before the line above


def _die_with_keeper(alive: int) -> None:
    # After the change of user id, which clears the setting. The keeper's own id cannot be seen from here, so a pipe of
    # which only the keeper holds the other end tells whether it died before.
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if select.select([alive], [], [], 0)[0]:
        os._exit(1)


def _close_all_but(kept: set[int]) -> None:
    start = 0
    for descriptor in [*sorted(kept), os.sysconf("SC_OPEN_MAX")]:
        if descriptor > start:  # closerange(0, 0) closes everything in CPython 3.11
            os.closerange(start, descriptor)
        start = descriptor + 1


def _reap(runner: int, status_write: int) -> NoReturn:
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            os._exit(0)
        if pid == runner:
            os.write(status_write, STATUS.pack(os.waitstatus_to_exitcode(status)))


def _write(file: str, value: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
