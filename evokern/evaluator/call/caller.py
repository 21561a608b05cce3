"""One call of one runner, as the judge sees it (EVALUATOR section 3).

A slot is frozen whenever it is not its turn. The judge thaws it, sends GO, waits for DONE and freezes it again: DONE is only
a hint, what counts is the memory of a frozen process and the CPU time of its whole slot up to that moment. Work that a
candidate leaves for later therefore neither reaches the outputs nor escapes the clock, and cannot disturb anybody else.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from evokern.backend import Limits
from evokern.evaluation import Reason, Verdict
from evokern.evaluator.call import protocol
from evokern.evaluator.call.runner import DEVICE_ERROR, OUTRAN, REFUSED_TO_LOAD
from evokern.evaluator.call.window import Frame, Placed
from evokern.evaluator.timing.contention import idle_ns
from evokern.sandbox.policy import Policy
from evokern.sandbox.slot import Slot
from evokern.sandbox.spawner import Spawner

Answer = TypeVar("Answer")

START_SECONDS = 20.0
"""How long a runner may take to load and to map its windows."""

END_SECONDS = 2.0
"""How long the status of a process that hung up is waited for."""


class Fault(Exception):
    """A kernel failed a rung; carries what the evaluation will say.

    Args:
        verdict: How it ended.
        reason: Why.
        detail: One line for the author; must hold nothing of a held-out workload.
        log: What the process printed.
    """

    def __init__(self, verdict: Verdict, reason: Reason, detail: str = "", log: str = "") -> None:
        super().__init__(f"{verdict}: {reason}: {detail}")
        self.verdict, self.reason, self.detail, self.log = verdict, reason, detail, log


@dataclass(frozen=True, slots=True)
class Call:
    """What a call took; nanoseconds.

    Attributes:
        cpu_ns: CPU time of the slot.
        wall_ns: From GO to DONE.
        queued_ns: Of that, time for which the slot, or the judge to hear it, was ready but had no processor: the machine's doing.
        claimed_ns: The runner's claim.
        span_ns: From the moment the slot was thawed until it was frozen again: whatever it does, it does in that time.
        idle_ns: For how long the slot's processors had nothing to do meanwhile, summed up over them; told in ticks of the kernel.
        memory_bytes: The runner's private memory afterwards; 0 where the kernel does not say.
        position: Which call of its process it was, from 0.
        judged_ns: From GO until the device has done what the call asked for, as the judge sees it; as `wall_ns` where there is no device.
        stream_ns: Time by the device's own events, where no code of a candidate's runs in the process that tells it; else 0.
        outran: Whether enqueuing the call took longer than the device was kept busy for, so that its events tell nothing.
    """

    cpu_ns: int
    wall_ns: int
    queued_ns: int
    claimed_ns: int
    span_ns: int = 0
    idle_ns: int = 0
    memory_bytes: int = 0
    position: int = 0
    judged_ns: int = 0
    stream_ns: int = 0
    outran: bool = False


class Caller:
    """A runner in its slot with its windows.

    Args:
        spawner: Where slots come from.
        entry: `module:function` that runs inside.
        zygote: Name of the zygote to fork.
        argument: What the entry is started with.
        frame: Its windows.
        limits: Of the slot.
        artefacts: Descriptors of the built kernel, and of what serves it.
        readable: What it may read beside the toolchain.
        writable: What it may write.
        environment: Literal environment.
        policy: What it may see and ask for.
        timed: Whether its work must not escape the clock by moving to another process.
        sealed: Whether no code of a candidate's runs in the process, so that its events are believed.
        moves: On how many of its processors it runs at a time, where `move` has others; 0 for all.
    """

    def __init__(
        self,
        spawner: Spawner,
        *,
        entry: str,
        zygote: str,
        argument: bytes,
        limits: Limits,
        artefacts: Sequence[int] = (),
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        policy: Policy = Policy.KERNEL,
        timed: bool = False,
        sealed: bool = False,
        moves: int = 0,
    ) -> None:
        self._sealed = sealed
        self.slot: Slot = spawner.slot(
            entry,
            zygote=zygote,
            descriptors=artefacts,
            argument=argument,
            limits=limits,
            policy=policy,
            readable=readable,
            writable=writable,
            environment=environment or {},
            timed=timed,
        )
        self.frame: Frame | None = None
        self._cpus, self._moves = limits.cpus, moves
        self._seq = 0
        self._loaded = False
        self._calls = 0

    def bind(self, frame: Frame) -> None:
        """Share the windows; returns when they are mapped and the kernel is loaded.

        Raises:
            Fault: It crashed, timed out or broke the protocol.
        """
        self.frame = frame
        record, descriptors = frame.bind(self._next())
        self._send(record, descriptors)
        self._done(START_SECONDS)
        self._loaded = True
        self.slot.freeze()

    def workspace_sizes(self, calls: Sequence[Sequence[Placed]]) -> list[int]:
        """Bytes of workspace that the kernel asks for each of these calls, all of it within `START_SECONDS`; it is frozen afterwards.

        Raises:
            Fault: As `bind`.
        """
        self.slot.thaw()
        end = time.monotonic() + START_SECONDS
        sizes = [self._workspace_size(placed, max(end - time.monotonic(), 0.001)) for placed in calls]
        self.slot.freeze()
        return sizes

    def _workspace_size(self, placed: Sequence[Placed], deadline_s: float) -> int:
        self._send(protocol.encode_go(protocol.Go(self._next(), tuple(p.place for p in placed), kind=protocol.Kind.SIZE)))
        try:
            return protocol.decode_bytes(self._receive(deadline_s), self._seq)
        except protocol.ProtocolViolation as violation:
            raise Fault(Verdict.HACKED, Reason.PROTOCOL, str(violation)) from None

    def asked(self, placed: Sequence[Placed], ask: Callable[[protocol.Go], Answer]) -> Answer:
        """What a trusted process answers about a call, outside the clock; the slot is frozen before and after.

        Args:
            placed: All arguments, inputs written.
            ask: Asks over the slot's socket and waits, such as `Baseline.prepare`.
        """
        assert self.frame is not None
        self.frame.memory.publish(self.frame, placed)
        self.slot.thaw()
        answer = ask(protocol.Go(self._next(), tuple(p.place for p in placed)))
        self.slot.freeze()
        return answer

    def move(self, rng: np.random.Generator) -> None:
        """Have a runner that moves work on processors of secret choice from now on: a kernel must be right on any."""
        if self._moves:
            self.slot.tie([int(cpu) for cpu in rng.choice(self._cpus, min(self._moves, len(self._cpus)), replace=False)])

    def captured(self, placed: Sequence[Placed]) -> bytes:
        """What a kernel says that it would launch for a call; nothing is done. It is frozen afterwards.

        Raises:
            Fault: As `call`.
        """
        frame = self.frame
        assert frame is not None
        frame.memory.publish(frame, placed)
        workspace = frame.workspace_offset, frame.workspace_bytes
        self.slot.thaw()
        self._send(protocol.encode_go(protocol.Go(self._next(), tuple(p.place for p in placed), *workspace, protocol.Kind.CAPTURE)))
        said = self._receive(START_SECONDS)
        self.slot.freeze()
        return said

    def call(self, placed: Sequence[Placed], deadline_s: float, kind: protocol.Kind = protocol.Kind.GO) -> Call:
        """One call on inputs that are already written. The slot is frozen before and after.

        Args:
            placed: All arguments.
            deadline_s: Wall time after which the kernel has timed out.
            kind: GO, or how a device's events are to time it, which is asked of sealed runners alone.

        Raises:
            Fault: It crashed, refused, timed out, or broke the protocol.
        """
        frame = self.frame
        assert frame is not None
        self._refuse_records("a record before the call")
        frame.memory.publish(frame, placed)
        workspace = frame.workspace_offset, frame.workspace_bytes
        record = protocol.encode_go(protocol.Go(self._next(), tuple(p.place for p in placed), *workspace, kind))
        idle, before, queued = idle_ns(self._cpus), self.slot.cpu_ns(), self.slot.queued_ns() + queued_ns()
        start = time.monotonic_ns()
        self.slot.thaw()
        sent = time.monotonic_ns()
        self._send(record)
        done = self._done(deadline_s)
        wall = time.monotonic_ns() - sent
        frame.memory.retire(frame, placed)
        judged = time.monotonic_ns() - sent
        listened = queued_ns()
        self.slot.freeze()
        span = time.monotonic_ns() - start
        cpu, queued = self.slot.cpu_ns() - before, self.slot.queued_ns() + listened - queued
        idle = idle_ns(self._cpus) - idle
        self._refuse_records("a second record for one call")
        outran = self._sealed and done.status == OUTRAN
        if done.status and not outran:
            raise Fault(Verdict.CRASHED, Reason.REFUSED, f"the kernel returned {done.status}", self.slot.output())
        frame.memory.collect(frame, placed)
        self._calls += 1
        memory, stream = self.slot.memory_bytes(), done.claimed_ns if self._sealed else 0
        return Call(cpu, wall, queued, done.claimed_ns, span, idle, memory, self._calls - 1, judged, stream, outran)

    def close(self) -> int:
        """End the slot and give its windows back; nothing of it is left afterwards.

        Returns:
            Processes found beside the runner.

        Raises:
            Fault: Something of it cannot be ended: a fault of the machine, whatever else went wrong.
        """
        death = self.slot.kill()
        if self.frame is not None:
            self.frame.close()
            self.frame = None
        if death.processes_left:
            raise Fault(Verdict.INFRASTRUCTURE, Reason.HOST_ERROR, f"{death.processes_left} processes of a slot outlive it")
        return death.strays

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _send(self, record: bytes, descriptors: Sequence[int] = ()) -> None:
        try:
            if descriptors:
                socket.send_fds(self.slot.socket, [record], list(descriptors))
            else:
                self.slot.socket.send(record)
        except OSError:
            raise self._death() from None

    def _receive(self, deadline_s: float) -> bytes:
        self.slot.socket.settimeout(deadline_s)
        try:
            data = protocol.receive(self.slot.socket)
        except protocol.ProtocolViolation as violation:
            raise Fault(Verdict.HACKED, Reason.PROTOCOL, str(violation), self.slot.output()) from None
        except TimeoutError:
            self.slot.kill()
            raise Fault(Verdict.TIMED_OUT, Reason.DEADLINE_RUN, f"no answer within {deadline_s:.1f} s", self.slot.output()) from None
        except OSError:
            data = b""
        if not data:
            raise self._death()
        return data

    def _done(self, deadline_s: float) -> protocol.Done:
        try:
            return protocol.decode_done(self._receive(deadline_s), self._seq)
        except protocol.ProtocolViolation as violation:
            raise Fault(Verdict.HACKED, Reason.PROTOCOL, str(violation)) from None

    def _refuse_records(self, what: str) -> None:
        """Charge a frozen runner for a record that nobody asked for."""
        self.slot.socket.setblocking(False)
        try:
            extra = protocol.receive(self.slot.socket)
        except (BlockingIOError, InterruptedError):
            return
        except protocol.ProtocolViolation as violation:
            raise Fault(Verdict.HACKED, Reason.PROTOCOL, str(violation), self.slot.output()) from None
        except OSError:
            raise self._death() from None
        if extra:
            raise Fault(Verdict.HACKED, Reason.PROTOCOL, what, self.slot.output())
        raise self._death()

    def _death(self) -> Fault:
        """What the end of the process means. The socket closes a moment before the status is known, which is worth a wait."""
        end = time.monotonic() + END_SECONDS
        while self.slot.status() is None and time.monotonic() < end:
            time.sleep(0.001)
        death = self.slot.kill()
        if death.flooded:
            return Fault(Verdict.CRASHED, Reason.OUTPUT_FLOOD, "printed more than the limit", death.output)
        if death.out_of_memory:
            return Fault(Verdict.CRASHED, Reason.MEMORY, "used more memory than the limit", death.output)
        if death.status == REFUSED_TO_LOAD and not self._loaded:  # afterwards it is a kernel that says so
            return Fault(Verdict.BUILD_FAILED, Reason.ENTRY, _last_line(death.output), death.output)
        if death.status == DEVICE_ERROR:
            return Fault(Verdict.CRASHED, Reason.DEVICE_ERROR, _last_line(death.output) or "the device refused its work", death.output)
        if death.status == -signal.SIGSYS:  # what a slot does with a kernel that makes a process (`evokern.sandbox.calls`)
            return Fault(Verdict.CRASHED, Reason.PROCESSES, "started a process; a kernel may start threads only", death.output)
        if death.too_many_processes:
            return Fault(Verdict.CRASHED, Reason.PROCESSES, "started more processes than the limit", death.output)
        if death.status is not None and death.status < 0:
            return Fault(Verdict.CRASHED, Reason.SIGNAL, f"ended by signal {-death.status}", death.output)
        return Fault(Verdict.CRASHED, Reason.EXIT, f"the process ended with status {death.status}", death.output)


def queued_ns() -> int:
    """How long this thread has been ready but without a processor, nanoseconds; 0 where the kernel does not say."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as stream:
            return int(stream.read().split()[1])
    except (OSError, IndexError):
        return 0


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else ""
