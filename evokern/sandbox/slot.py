"""Slot: the judge's hold on one untrusted process tree."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from evokern.sandbox import process
from evokern.sandbox.cgroup import FREEZE_SECONDS, Group
from evokern.sandbox.drain import Stream
from evokern.sandbox.zygote import STATUS

_DEATH_SECONDS = 10.0
_STATUS_SECONDS = 1.0  # for the status of a runner that has hung up; one that lives on only costs this wait


@dataclass(frozen=True, slots=True)
class Death:
    """How a slot ended.

    Attributes:
        status: Exit status of the runner, or minus the signal's number; -9 where it was alive until it was killed.
        out_of_memory: Whether the memory limit killed something in it. Known with a memory cgroup only.
        too_many_processes: Whether the process limit refused a fork. Known with a pids cgroup only.
        flooded: Whether it printed more than allowed.
        strays: Processes found beside the runner when the slot was killed.
        processes_left: Processes still there afterwards; anything but 0 is a fault of the machine.
        output: What it printed, capped.
    """

    status: int
    out_of_memory: bool
    too_many_processes: bool
    flooded: bool
    strays: int
    processes_left: int
    output: str


class Slot:
    """One slot. Every method may be called from any thread; `kill` as often as one likes.

    Attributes:
        socket: Sequenced socket to the entry that runs inside.
        uid: User id that nothing else has, or None.
        clock_covers_children: Whether `cpu_ns` counts all processes, the dead ones included; else it is the runner's alone.
        limits_memory: Whether the memory limit counts what is resident in all its processes and is told of at the end; else each
            process has one of its own on what it maps.
        limits_processes: Whether a refused fork is told of at the end.
        limits_cpus: Whether it cannot widen the processors that it is tied to.
        stream: What it prints.
    """

    def __init__(
        self,
        *,
        sock: socket.socket,
        init: int,
        runner: int,
        pidfd: int,
        status: int,
        output: int,
        output_bytes: int,
        group: Group | None,
        uid: int | None,
        contained: bool,
        end: Callable[[Slot], None],
    ) -> None:
        self.socket, self.uid = sock, uid
        self.stream = Stream(output, output_bytes, self._kill_soon)
        self._init, self._pidfd, self._status_pipe, self._group, self._contained, self._end = init, pidfd, status, group, contained, end
        self._status: int | None = None
        self._death: Death | None = None
        self._lock = threading.RLock()
        self._runner = runner
        self._freezes_group = group is not None and group.has_freezer
        self.clock_covers_children = group is not None and group.has_clock
        self.limits_memory = group is not None and group.limits_memory
        self.limits_processes = group is not None and group.limits_processes
        self.limits_cpus = group is not None and group.limits_cpus
        self._last_cpu_ns = 0

    @property
    def flooded(self) -> bool:
        """Whether it printed more than its limit; it is then killed."""
        return self.stream.flooded

    def output(self) -> str:
        """What it printed so far, the first 64 KiB."""
        return self.stream.text()

    def cpu_ns(self) -> int:
        """CPU time so far, nanoseconds. After death, the last value read."""
        with self._lock, contextlib.suppress(OSError):
            if self._death is not None:
                pass
            elif self.clock_covers_children:
                assert self._group is not None
                self._last_cpu_ns = self._group.cpu_ns()
            else:
                # The CPU clock of another process: MAKE_PROCESS_CPUCLOCK of the kernel's posix-timers.h, CPUCLOCK_SCHED.
                self._last_cpu_ns = time.clock_gettime_ns((~self._runner << 3) | 2)
        return self._last_cpu_ns

    def tie(self, cpus: Collection[int]) -> None:
        """Have the runner's threads run on these processors alone, of those that it may use at all."""
        with contextlib.suppress(OSError):  # it may be gone; whoever waits for it finds out
            for task in os.listdir(f"/proc/{self._runner}/task"):
                os.sched_setaffinity(int(task), cpus)

    def queued_ns(self) -> int:
        """How long the runner's main thread has been ready but without a processor, nanoseconds; 0 where the kernel does not say.

        This is what a busy machine adds to wall time, and what a sleeping thread does not have.
        """
        try:
            with open(f"/proc/{self._runner}/schedstat", encoding="ascii") as stream:
                return int(stream.read().split()[1])
        except (OSError, IndexError):
            return 0

    def memory_bytes(self) -> int:
        """Private memory of the runner now, bytes, what it shares with others left out; 0 where the kernel does not say.

        Costs some microseconds. Many kernels count each processor's part by itself and are tens of pages off; `written_bytes` is exact.
        """
        try:
            with open(f"/proc/{self._runner}/statm", encoding="ascii") as stream:
                fields = stream.read().split()
            return (int(fields[1]) - int(fields[2])) * mmap.PAGESIZE
        except (OSError, IndexError, ValueError):
            return 0

    def written_bytes(self) -> int:
        """Private memory that the runner has written, bytes, counted page by page; 0 where the kernel does not say.

        Costs some 50 ns per page that is mapped. Of files, such as code, pages that were only read are left out.
        """
        try:
            with open(f"/proc/{self._runner}/smaps_rollup", encoding="ascii") as stream:
                sizes = [int(line.split()[1]) for line in stream if line.startswith(("Private_Dirty:", "Swap:"))]
            return sum(sizes) << 10
        except (OSError, IndexError, ValueError):
            return 0

    def freeze(self) -> None:
        """Stop everything in the slot; returns when nothing in it runs any more.

        Raises:
            TimeoutError: Something did not stop, such as a task in an uninterruptible call.
        """
        with self._lock:
            if self._death is None:
                if self._freezes_group:
                    assert self._group is not None
                    self._group.freeze()
                else:
                    self._stop_all()

    def thaw(self) -> None:
        """Let everything in the slot go on."""
        with self._lock:
            if self._death is None:
                if self._freezes_group:
                    assert self._group is not None
                    self._group.thaw()
                else:
                    self._signal_all(signal.SIGCONT)

    def status(self) -> int | None:
        """Exit status of the runner, or minus the signal's number; None while it runs."""
        with self._lock:
            if self._status is None and self._death is None and _readable(self._status_pipe, 0):
                written = os.read(self._status_pipe, STATUS.size)
                # Nothing written means that init was killed, and the runner with it.
                self._status = STATUS.unpack(written)[0] if len(written) == STATUS.size else -signal.SIGKILL
            return self._status

    def processes(self) -> set[int]:
        """Processes of the slot, its init left out."""
        with self._lock:
            if self._death is not None:
                return set()
            found = process.descendants(self._init)
            if self._group is not None:
                found |= self._group.pids()
            return {pid for pid in found - {self._init} if process.is_alive(pid)}

    def kill(self) -> Death:
        """End everything in the slot: PID 1, then the cgroup, then a sweep by user id; returns when it is gone."""
        with self._lock:
            if self._death is None:
                status = self._final_status()
                strays = len(self.processes() - {self._runner})
                left = self._kill_all()
                self.stream.wait(_DEATH_SECONDS if not left else 0)
                self._death = self._certify(status, strays, left)
                self._status = self._death.status
                self._release()
            return self._death

    def _final_status(self) -> int | None:
        # A runner that ends closes its socket a moment before init can tell how it ended.
        if self.socket.fileno() >= 0 and _hung_up(self.socket.fileno()):
            _readable(self._status_pipe, _STATUS_SECONDS)
        return self.status()

    def _certify(self, status: int | None, strays: int, left: int) -> Death:
        out_of_memory = too_many = False
        if self._group is not None:
            out_of_memory, too_many = self._group.out_of_memory(), self._group.too_many_processes()
            self.cpu_ns()
        ended = -signal.SIGKILL if status is None else status
        return Death(ended, out_of_memory, too_many, self.stream.flooded, strays, left, self.stream.text())

    def _kill_all(self) -> int:
        deadline = time.monotonic() + _DEATH_SECONDS
        if not self._contained:
            # Orphans leave the tree once its root is dead, so first nothing may fork any more.
            with contextlib.suppress(TimeoutError):
                self._stop_all()
        known = process.descendants(self._init)
        self._kill_init(known)
        while True:
            left = {pid for pid in known if process.is_alive(pid)}
            if self._group is not None:
                left |= {pid for pid in self._group.pids() if process.is_alive(pid)}
            if self.uid is not None:
                left |= {pid for pid in process.owned_by(range(self.uid, self.uid + 1)) if process.is_alive(pid)}
            if not left or time.monotonic() > deadline:
                return len(left)
            if self._group is not None:
                self._group.kill()
            process.kill_all(left)
            time.sleep(5e-4)

    def _kill_init(self, known: set[int]) -> None:
        if not self._contained:
            process.kill_all(known)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        if self._group is not None:
            self._group.kill()
        # Its end means, in a PID namespace, that all the others have ended before.
        _readable(self._pidfd, _DEATH_SECONDS)

    def _release(self) -> None:
        for descriptor in (self._pidfd, self._status_pipe):
            os.close(descriptor)
        self.stream.close()
        self.socket.close()
        if self._group is not None:
            self._group.remove()
        self._end(self)

    def _kill_soon(self) -> None:
        # In the thread that drains output, which must not wait; `kill` still has to be called.
        with contextlib.suppress(OSError):
            if self._contained:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            else:
                os.kill(self._runner, signal.SIGKILL)

    def _stop_all(self) -> None:
        # What is not stopped yet may still fork, so until a round finds nothing new and everything stopped.
        deadline = time.monotonic() + FREEZE_SECONDS
        stopped: set[int] = set()
        while True:
            present = process.descendants(self._init)
            for pid in present - stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            if present <= stopped and all(process.is_stopped(pid) for pid in present):
                return
            stopped |= present
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing stopped within {FREEZE_SECONDS} s")

    def _signal_all(self, number: int) -> None:
        for pid in process.descendants(self._init):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)  # POLLHUP and POLLERR are always told
    return bool(poll.poll(0))


def _readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()  # select.select refuses descriptors from 1024 on
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
