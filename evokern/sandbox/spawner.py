"""Spawner: the judge's hold on the processes that make slots."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from evokern.errors import EvokernError, Unavailable, UsageError
from evokern.evaluation import Tier
from evokern.sandbox import canaries, cgroup, command, process
from evokern.sandbox.canaries import Canary, canary
from evokern.sandbox.drain import Drain
from evokern.sandbox.filesystem import Bind
from evokern.sandbox.gpu import Grant, grant, search_path
from evokern.sandbox.limits import Completed, Limits
from evokern.sandbox.order import Means, Order, memory_file, read_all
from evokern.sandbox.policy import VIEWS, Policy
from evokern.sandbox.service import ENVIRONMENT, Settings
from evokern.sandbox.slot import Death, Slot
from evokern.sandbox.zygote import MAX_DESCRIPTORS

SWITCH = "EVOKERN_SANDBOX"
"""Environment variable that forces the means: root, user or off."""

COMMAND_ZYGOTE = "command"
"""The zygote that every spawner has, for `Spawner.run`."""

_START_SECONDS = 120.0
"""Longest wait for a slot; the first one of a zygote waits for its imports too."""

_DESCRIPTOR = struct.Struct("i")
_CREDENTIALS = struct.Struct("3i")  # struct ucred: process, user and group id

_BLUR = 256
_UIDS = 4096
_FIRST_UID = 1 << 30


class SlotError(EvokernError):
    """A slot could not be made, or the spawner has died: a fault of the machine, never of a candidate."""


class Spawner:
    """Makes slots. Every method may be called from several threads at once.

    Attributes:
        tier: What the canaries found.
        canaries: What was tried.
    """

    tier: Tier
    canaries: tuple[Canary, ...]

    def __init__(self, zygotes: Mapping[str, Sequence[str]], *, scratch: Path, renew_after: Mapping[str, int] | None = None) -> None:
        """Start the spawner process; `start` also tries the canaries and is what to use."""
        scratch.mkdir(parents=True, exist_ok=True)
        self._scratch, self._log = scratch.resolve(), scratch.resolve() / "spawner.log"
        _forced_means()
        self._hierarchy = cgroup.find()
        self._first_uid = _unused_uids()
        self._renew_after = renew_after or {}
        self._free_uids: list[int] = []
        self._taken_uids: set[int | None] = set()
        self._lock = threading.Lock()
        self._slots: set[Slot] = set()
        self._closed = False
        self._means = Means.OFF
        self._drain = Drain()
        try:
            modules = {**zygotes, COMMAND_ZYGOTE: [command.__name__, canaries.__name__]}
            self._names = frozenset(modules)
            self._control, self._process = self._start_process(modules)
        except BaseException:
            self._drain.close()
            raise

    @classmethod
    def start(cls, zygotes: Mapping[str, Sequence[str]], *, scratch: Path, renew_after: Mapping[str, int] | None = None) -> Spawner:
        """Start the processes and find out what holds.

        Args:
            zygotes: Modules that each zygote imports, by name.
            scratch: Folder for the processes' log.
            renew_after: Slots after which a zygote is started afresh, by name, where that is not `FORKS`.

        Raises:
            UsageError: `EVOKERN_SANDBOX` has an unknown value.
            Unavailable: `EVOKERN_SANDBOX` forces what this machine does not give.
            SlotError: The processes do not come up.
        """
        spawner = cls(zygotes, scratch=scratch, renew_after=renew_after)
        try:
            spawner.canaries = tuple(spawner._settle())
        except BaseException:
            spawner.close()
            raise
        spawner.tier = _tier(spawner._means, spawner.canaries)
        return spawner

    def slot(
        self,
        entry: str,
        *,
        zygote: str,
        descriptors: Sequence[int],
        argument: bytes,
        limits: Limits,
        policy: Policy = Policy.KERNEL,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        timed: bool = False,
        gpu: int = 0,
    ) -> Slot:
        """Start `entry` in a slot of its own.

        Args:
            entry: `module:function`, called inside as function(socket, descriptors, argument).
            zygote: Name of the zygote to fork from.
            descriptors: Open files that it receives, besides its socket.
            argument: For the entry.
            limits: What it may use.
            policy: What it is for; the strictest where nothing is said.
            readable: Files or folders that it sees, read-only, at their own paths, beside the toolchain.
            writable: The same, with writing.
            environment: Added to the literal environment of all slots.
            timed: Whether a verdict rests on its `cpu_ns`. Where that clock does not cover children, it may then have none.
            gpu: With a policy that has a GPU, which one: the number of its node, /dev/nvidia<number>.

        Returns:
            The running slot; the caller kills it.

        Raises:
            SlotError: It could not be made, with the cause.
            ValueError: No such zygote, or too many descriptors.
        """
        binds = [*_binds(readable, writable=False), *_binds(writable, writable=True)]
        granted = grant(gpu) if VIEWS[policy].gpu else None
        return self._slot(entry, zygote, descriptors, argument, limits, policy, binds, environment or {}, timed=timed, gpu=granted)

    def run(
        self, argv: Sequence[str], *, files: Mapping[str, bytes], want: Sequence[str], limits: Limits, readable: Sequence[Path] = ()
    ) -> Completed:
        """Run a command in an empty folder that holds `files` (`evokern.backend.Sandbox`).

        Args:
            argv: Command; relative names are those of `files`.
            files: Content by relative name.
            want: Names to read back afterwards; names that are not there, or are no plain files, are left out.
            limits: What it may use.
            readable: Further files or folders it may read, at their own paths.

        Raises:
            SlotError: No slot could be made.
            ValueError: A name of `files` leads out of the folder.
        """
        start = time.monotonic()
        names = [[_inside(name), len(content)] for name, content in files.items()]
        argument = json.dumps({"argv": list(argv), "files": names, "want": list(want)}).encode()
        given = memory_file(b"".join(files.values()))
        try:
            slot = self.slot(
                f"{command.__name__}:execute",
                zygote=COMMAND_ZYGOTE,
                descriptors=[given],
                argument=argument,
                limits=limits,
                policy=Policy.BUILD,
                readable=readable,
            )
        finally:
            os.close(given)
        answer, timed_out = b"", False
        found: list[int] = []
        try:
            slot.socket.settimeout(limits.seconds)
            answer, found, _, _ = socket.recv_fds(slot.socket, 1 << 16, 1)
        except TimeoutError:
            timed_out = True
        finally:
            death = slot.kill()
        if death.processes_left:
            _close(found)
            raise SlotError(f"{death.processes_left} processes of a slot outlive it", mend="Restart the machine if they stay")
        return _completed(death, answer, found, seconds=time.monotonic() - start, timed_out=timed_out, most=limits.scratch_bytes)

    def processes(self) -> set[int]:
        """Processes in its slots and, as root, all that run under one of its user ids, wherever they hide."""
        with self._lock:
            slots = list(self._slots)
        uids = range(self._first_uid, self._first_uid + _UIDS) if self._first_uid else range(0)
        return process.owned_by(uids).union(*(slot.processes() for slot in slots))

    def close(self) -> None:
        """Kill every slot, end the processes, remove the cgroups. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            slots = list(self._slots)
        for slot in slots:
            slot.kill()
        self._control.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._hierarchy is not None:
            self._hierarchy.close()
        self._drain.close()

    def __enter__(self) -> Spawner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_process(self, zygotes: Mapping[str, Sequence[str]]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = [entry or os.getcwd() for entry in sys.path]
        folders = [str(folder) for folder in self._hierarchy.folders] if self._hierarchy else []
        uids = (self._first_uid, self._first_uid + _UIDS) if self._first_uid else (0, 0)
        settings = Settings(
            socket=theirs.fileno(), judge=os.getpid(), path=path, zygotes=zygotes, folders=folders, uids=uids, forks=self._renew_after,
            libraries=search_path(),
        )  # fmt: skip
        try:
            with theirs, open(self._log, "ab") as log:
                process = subprocess.Popen(
                    settings.command(),
                    env=ENVIRONMENT,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C on a terminal is for the engine
                )
        except OSError as error:
            ours.close()
            raise SlotError(f"the spawner cannot be started: {error}", where=str(self._log)) from error
        return ours, process

    def _settle(self) -> list[Canary]:
        """Take the strongest means that works, and try the canaries with it."""
        forced = _forced_means()
        tried: list[Canary] = []
        for means in [forced] if forced else [Means.ROOT, Means.USER, Means.OFF] if os.geteuid() == 0 else [Means.USER, Means.OFF]:
            self._means = means
            try:
                found = canaries.try_all(self._canary_slot)
            except SlotError as error:
                if self._hierarchy is not None and "cgroup" in error.what:
                    self._give_up_groups()
                    return self._settle()
                if forced:
                    raise Unavailable(
                        f"{SWITCH}={means} does not work here: {error.what}", mend=canaries.FIXES[canaries.NAMESPACES]
                    ) from error
                tried.append(Canary(f"{canaries.NAMESPACES} ({means})", False, error.what, canaries.FIXES[canaries.NAMESPACES]))
            else:
                own = means is Means.ROOT
                identity = canary(canaries.IDENTITY, own, "a user id for every slot" if own else "the judge's own user id")
                return [*tried, identity, *found]
        raise SlotError(
            "no slot can be made, not even a plain process", where=str(self._log), mend="; ".join(canary.detail for canary in tried)
        )

    def _give_up_groups(self) -> None:
        assert self._hierarchy is not None
        self._hierarchy.close()
        self._hierarchy = None

    def _canary_slot(self, entry: str, argument: bytes, limits: Limits, policy: Policy) -> Slot:
        return self._slot(entry, COMMAND_ZYGOTE, [], argument, limits, policy, [], {})

    def _slot(
        self,
        entry: str,
        zygote: str,
        descriptors: Sequence[int],
        argument: bytes,
        limits: Limits,
        policy: Policy,
        binds: Sequence[Bind],
        environment: Mapping[str, str],
        *,
        timed: bool = False,
        gpu: Grant | None = None,
    ) -> Slot:
        if zygote not in self._names:
            raise ValueError(f"no zygote {zygote!r}; there are {', '.join(sorted(self._names))}")
        if len(descriptors) > MAX_DESCRIPTORS - 4:
            raise ValueError(f"{len(descriptors)} descriptors; a slot takes {MAX_DESCRIPTORS - 4}")
        group = self._new_group(limits)
        uid = self._take_uid() if self._means is Means.ROOT else None
        folder = tempfile.mkdtemp(prefix="slot-", dir=self._scratch) if self._means is Means.OFF else "/tmp"
        order = Order(
            entry=entry,
            argument=argument,
            policy=policy,
            means=self._means,
            uid=uid,
            limits=limits,
            binds=(*binds, *_binds([Path(gpu.folder)] if gpu and gpu.folder else [], writable=False)),
            environment=dict(environment),
            folder=folder,
            groups=group.procs if group else (),
            limits_memory=group is not None and group.limits_memory,
            limits_processes=self._wants_process_rlimit(group),
            one_process=timed and not (group and group.has_clock),
            gpu=gpu,
        )
        try:
            return self._ask(order, zygote, descriptors, group)
        except BaseException:
            if group is not None:
                group.kill()
                group.remove()
            self._give_back(order)
            raise

    def _take_uid(self) -> int | None:
        """A user id that no slot has, None where there is no range; in secret order, for a count would tell one slot of the others."""
        if not self._first_uid:
            return None
        with self._lock:
            if not self._free_uids:
                self._free_uids = [uid for uid in range(self._first_uid, self._first_uid + _UIDS) if uid not in self._taken_uids]
                secrets.SystemRandom().shuffle(self._free_uids)
            uid = self._free_uids.pop()
            self._taken_uids.add(uid)
        return uid

    def _wants_process_rlimit(self, group: cgroup.Group | None) -> bool:
        # The rlimit refuses a fork without leaving a trace of it, so it serves only where no cgroup does, and only where it
        # counts the slot's own processes: with a user id, or a user namespace, that nothing else is in.
        if group is not None and group.limits_processes:
            return False
        return self._means is Means.ROOT or (self._means is Means.USER and _counts_per_namespace())

    def _new_group(self, limits: Limits) -> cgroup.Group | None:
        # Below root by choice, a slot's init is nobody and may not join what belongs to root.
        if self._hierarchy is None or (self._means is not Means.ROOT and os.geteuid() == 0):
            return None
        try:
            # No count: its runner has the name in memory.
            return self._hierarchy.group(f"slot-{secrets.token_hex(8)}", limits)
        except OSError as error:
            raise SlotError(f"no cgroup for a slot: {error}") from error

    def _ask(self, order: Order, zygote: str, descriptors: Sequence[int], group: cgroup.Group | None) -> Slot:
        _blur_inode_numbers()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reply, answer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reply.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        output, printed = os.pipe()
        received: list[int] = []
        try:
            with reply:
                with theirs, answer:
                    self._send(zygote, order, [answer.fileno(), theirs.fileno(), printed, *descriptors])
                init, runner = self._introduced(reply, received)
        except BaseException:
            ours.close()
            _close((output, *received))
            raise
        finally:
            os.close(printed)
        slot = Slot(
            sock=ours,
            init=init,
            runner=runner,
            pidfd=received[0],
            status=received[1],
            output=output,
            output_bytes=order.limits.output_bytes,
            group=group,
            uid=order.uid,
            contained=order.means is not Means.OFF,
            end=lambda slot: self._forget(slot, order),
        )
        with self._lock:
            self._slots.add(slot)
        self._drain.add(slot.stream)
        return slot

    def _send(self, zygote: str, order: Order, descriptors: Sequence[int]) -> None:
        wish = order.to_descriptor()
        try:
            socket.send_fds(self._control, [zygote.encode()], [wish, *descriptors])
        except OSError as error:
            raise SlotError("the spawner has died", where=str(self._log)) from error
        finally:
            os.close(wish)

    def _introduced(self, reply: socket.socket, received: list[int]) -> tuple[int, int]:
        """Process ids of the slot's init and runner, once both have spoken, in either order.

        Args:
            reply: Socket to the slot in the making.
            received: Takes the descriptors that come along, also where this fails.
        """
        reply.settimeout(_START_SECONDS)
        init = runner = 0
        while not (init and runner):
            try:
                said, descriptors, sender = _receive(reply)
            except TimeoutError as error:
                raise SlotError(f"no slot within {_START_SECONDS:.0f} s", where=str(self._log)) from error
            received += descriptors
            if not said:
                raise SlotError("the slot ended while it was being made", where=str(self._log))
            message = json.loads(said)
            if "error" in message:
                raise SlotError(f"no slot: {message['error']}", where=str(self._log))
            init = message.get("init", init)
            runner = sender if "ready" in message else runner
        return init, runner

    def _forget(self, slot: Slot, order: Order) -> None:
        self._give_back(order)
        with self._lock:
            self._slots.discard(slot)

    def _give_back(self, order: Order) -> None:
        if order.means is Means.OFF:
            shutil.rmtree(order.folder, ignore_errors=True)
        with self._lock:
            self._taken_uids.discard(order.uid)


def _blur_inode_numbers() -> None:
    # Pipes, sockets and memfds are numbered by one count of the machine. A slot cannot move it, and cannot ask for the numbers of
    # what it was started with; those of windows that come later would tell how many slots there were since another one looked.
    for _ in range(secrets.randbelow(_BLUR)):
        os.close(os.memfd_create("blur"))


def _receive(reply: socket.socket) -> tuple[bytes, list[int], int]:
    """One datagram, its descriptors, and the sender's process id as it is known here: a slot's own ids mean nothing outside."""
    room = socket.CMSG_SPACE(2 * _DESCRIPTOR.size) + socket.CMSG_SPACE(_CREDENTIALS.size)
    said, ancillary, _, _ = reply.recvmsg(1 << 15, room, socket.MSG_CMSG_CLOEXEC)
    descriptors, sender = list[int](), 0
    for _, kind, data in ancillary:
        if kind == socket.SCM_RIGHTS:
            descriptors += [number for (number,) in _DESCRIPTOR.iter_unpack(data[: len(data) - len(data) % _DESCRIPTOR.size])]
        elif kind == socket.SCM_CREDENTIALS:
            sender = _CREDENTIALS.unpack(data)[0]
    return said, descriptors, sender


def _forced_means() -> Means | None:
    value = os.environ.get(SWITCH, "")
    if not value:
        return None
    try:
        means = Means(value)
    except ValueError:
        raise UsageError(f"no such sandbox: {value!r}", where=SWITCH, mend="Known: root, user, off") from None
    if means is Means.ROOT and os.geteuid() != 0:
        raise Unavailable("only root can have this sandbox", where=f"{SWITCH}={value}", mend="Run as root, or use user")
    return means


def _unused_uids() -> int:
    """First of a range of user ids that nothing else has; 0 where there is none."""
    if os.geteuid() != 0:
        return 0
    with open("/proc/self/uid_map", encoding="ascii") as stream:
        ranges = [tuple(int(field) for field in line.split()) for line in stream]
    top = max(inside + count for inside, _, count in ranges)
    # The high half of what is mapped, so that no login and no service lies in it.
    low = min(_FIRST_UID, top // 2)
    places = (min(top, 1 << 31) - low) // _UIDS
    return low + secrets.randbelow(places) * _UIDS if places > 0 else 0


def _counts_per_namespace() -> bool:
    # Since Linux 5.14 RLIMIT_NPROC counts within the user namespace; before, it counted all that the user runs.
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int("".join(itertools.takewhile(str.isdigit, minor)))) >= (5, 14)


def _tier(means: Means, found: Iterable[Canary]) -> Tier:
    held = {canary.name for canary in found if canary.held}
    walls = {canaries.NETWORK, canaries.HOME, canaries.PROCESSES, canaries.KILL, canaries.FILES}
    if means is Means.OFF or not walls <= held:
        return Tier.UNSANDBOXED
    return Tier.ISOLATED if set(canaries.FIXES) - {canaries.NAMESPACES} <= held else Tier.SANDBOXED


def _binds(paths: Iterable[Path], *, writable: bool) -> list[Bind]:
    return [Bind(os.path.realpath(path), os.path.abspath(path), writable) for path in paths]


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"the name of a file leads out of its folder: {name}")
    return name


def _completed(death: Death, answer: bytes, found: Sequence[int], *, seconds: float, timed_out: bool, most: int) -> Completed:
    status, files = death.status, dict[str, bytes]()
    try:
        if answer and found:
            status, files = _told(answer, read_all(found[0], most))
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        pass  # nonsense is as good as no answer
    finally:
        _close(found)
    return Completed(status, death.output, seconds, timed_out, death.out_of_memory, files)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _told(answer: bytes, content: bytes) -> tuple[int, dict[str, bytes]]:
    """Status and files that a command left.

    Raises:
        ValueError, TypeError, KeyError, RecursionError, OverflowError: The answer is not of the form that the slot's own part writes.
    """
    told, files, at = json.loads(answer), dict[str, bytes](), 0
    for name, size in told["files"]:
        files[str(name)] = content[at : at + int(size)]
        at += int(size)
    return int(told["status"]), files
