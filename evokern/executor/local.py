"""Evaluations on this machine: one judge process, replaced when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import evokern.errors
from evokern import record
from evokern.errors import EvokernError, Unavailable, UsageError
from evokern.evaluation import Evaluation, Reason, Verdict
from evokern.evaluator.signing import Seal
from evokern.evaluator.statement import Assignment, Closing, Finish, Health, Opening, Preparation, Rotation
from evokern.kernel import Candidate, Kernel

LINE_BYTES = 64 << 20
"""Longest line: an evaluation with all its samples is some hundred kilobytes."""

OPENINGS = 2
"""How often a judge is started before the machine is blamed: the first may have been killed from outside."""

INSISTED = 2
"""Likewise for a question that nothing else asks again."""

CLOSE_SECONDS = 3.0
"""How long a judge that was hung up on may take to end everything under it."""


class JudgeDied(Exception):
    """The judge process ended with requests in flight."""


class LocalExecutor:
    """Keeps one judge process.

    Args:
        opening: What the judge is told first, again after every replacement.
        in_flight: Evaluations at a time: one is measured while others build or wait.
    """

    def __init__(self, opening: Opening, *, in_flight: int = 4) -> None:
        self.opening = opening
        self.deaths = 0
        self._in_flight = in_flight
        self._judge: _Judge | None = None
        self._preparation: Preparation | None = None
        self._say: Callable[[str], None] = lambda _: None
        self._starting = asyncio.Lock()
        self._reached: dict[str, Evaluation] = {}

    async def open(self, say: Callable[[str], None]) -> Preparation:
        """See `Executor.open`."""
        self._say = say
        await self._running()
        assert self._preparation is not None
        return self._preparation

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        """See `Executor.evaluate`. A kernel under which the judge dies gets the verdict `infrastructure`, and may be asked for again."""
        return await self._judged("evaluate", Assignment(candidate.kernel, incumbent))

    async def confirm(self, candidate: Candidate, evaluation: Evaluation, to_beat: float | None = None) -> Evaluation:
        """See `Executor.confirm`."""
        return await self._judged("confirm", Assignment(candidate.kernel, None, evaluation, to_beat=to_beat))

    async def remeasure(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """See `Executor.remeasure`."""
        return await self._judged("confirm", Assignment(candidate.kernel, None, evaluation, anew=True))

    async def profile(self, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """See `Executor.profile`.

        Raises:
            Unavailable: The judge dies of it again and again.
        """
        return record.from_json(Evaluation, await self._insisted("profile", Assignment(candidate.kernel, None, evaluation)))

    async def charge(self, evaluation: Evaluation) -> Evaluation:
        """See `Executor.charge`."""
        return record.from_json(Evaluation, await self._insisted("charge", evaluation))

    async def probe(self) -> Health:
        """See `Executor.probe`."""
        try:
            return record.from_json(Health, await self._ask("probe", None))
        except JudgeDied:
            return Health(False, "the judge dies of a plain copy")

    async def restart(self) -> None:
        """See `Executor.restart`."""
        if self._judge is not None:
            await self._judge.close()
        await self._running()

    async def rotate(self, epoch: int) -> Preparation:
        """See `Executor.rotate`."""
        # A judge that replaces this one is told of the new epoch as well.
        self.opening = replace(self.opening, epoch=epoch)
        self._preparation = record.from_json(Preparation, await self._insisted("rotate", Rotation(epoch)))
        return self._preparation

    def is_worn(self) -> bool:
        """See `Executor.is_worn`. A judge that replaced another counts from nothing; the engine's own count goes on."""
        return self._judge is not None and self._judge.worn == self.opening.epoch

    async def seal(self, head: Seal) -> Seal:
        """See `Executor.seal`."""
        return record.from_json(Seal, await self._insisted("seal", head))

    async def finish(self, champion: Kernel, seed: Kernel | None) -> Closing:
        """See `Executor.finish`.

        Raises:
            Unavailable: The judge dies of it again and again.
        """
        return record.from_json(Closing, await self._insisted("finish", Finish(champion, seed)))

    def capacity(self) -> int:
        """See `Executor.capacity`."""
        return self._in_flight

    async def close(self) -> None:
        """End the judge and everything under it."""
        if self._judge is not None:
            await self._judge.close()

    async def _judged(self, op: str, assignment: Assignment) -> Evaluation:
        try:
            return record.from_json(Evaluation, await self._ask(op, record.to_json(assignment)))
        except JudgeDied:
            return self._infrastructure(assignment)
        finally:
            self._reached.pop(assignment.kernel.id, None)

    def _infrastructure(self, assignment: Assignment) -> Evaluation:
        detail = "the judge died while it judged this kernel"
        known = assignment.previous or self._reached.get(assignment.kernel.id)
        if known is not None:
            return replace(known, verdict=Verdict.INFRASTRUCTURE, reason=Reason.HOST_ERROR, detail=detail, confirmed=False)
        fingerprint = self._preparation.fingerprint if self._preparation else None
        return Evaluation(
            assignment.kernel.id, "", str(self.opening.dtype), Verdict.INFRASTRUCTURE, Reason.HOST_ERROR, detail, fingerprint=fingerprint
        )

    async def _insisted(self, op: str, body: Any) -> Any:
        """What nothing else would ask for again, asked again where the judge died."""
        for _ in range(INSISTED):
            with contextlib.suppress(JudgeDied):
                return await self._ask(op, record.to_json(body))
        raise Unavailable(f"the judge died again and again when it was asked to {op}", mend="`evokern resume` goes on from here")

    async def _ask(self, op: str, body: Any) -> Any:
        judge = await self._running()
        try:
            return await judge.ask(op, body)
        except JudgeDied:
            self.deaths += 1
            raise

    async def _running(self) -> _Judge:
        """The judge, started and opened; a dead one is replaced first."""
        async with self._starting:
            for _ in range(OPENINGS):
                if self._judge is not None and not self._judge.dead:
                    return self._judge
                if self._judge is not None:
                    self._say("the judge died; starting another")
                    await self._judge.close()
                with contextlib.suppress(JudgeDied):
                    self._judge = await self._opened()
            if self._judge is not None and not self._judge.dead:
                return self._judge
        raise Unavailable("the judge died while it made ready", mend="`evokern doctor` says what is missing")

    async def _opened(self) -> _Judge:
        """A new judge that is ready; one that cannot be made ready is ended."""
        judge = await _Judge.start(self._say, Path(self.opening.home) / "judge.log", self._reached)
        try:
            answer = await judge.ask("open", record.to_json(self.opening))
            self._preparation = record.from_json(Preparation, answer)
        except BaseException:
            await judge.close()
            raise
        return judge


class _Judge:
    """One judge process and the requests that wait for it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        say: Callable[[str], None],
        reached: dict[str, Evaluation],
    ):
        self.process, self.dead = process, False
        self.reached = reached
        self.worn: int | None = None
        self._reader, self._writer, self._say = reader, writer, say
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, say: Callable[[str], None], log: Path, reached: dict[str, Evaluation]) -> _Judge:
        ours, theirs = socket.socketpair()
        # What a judge prints is for whoever looks for the cause of its death, not for the terminal of a run.
        with theirs, open_log(log) as printed:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "evokern.evaluator.judge",
                str(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                # A process group of its own: Ctrl-C is the engine's to handle, and the judge ends when the engine hangs up.
                start_new_session=True,
                env=_judge_environment(),
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=LINE_BYTES)
        return cls(process, reader, writer, say, reached)

    async def ask(self, op: str, body: Any) -> Any:
        if self.dead:
            raise JudgeDied
        self._number += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = future
        self._writer.write(json.dumps({"id": self._number, "op": op, "body": body}).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()
        return await future

    async def _listen(self) -> None:
        try:
            # A line that is no message is as good as a dead judge: whoever waits must not wait for ever.
            with contextlib.suppress(ConnectionError, ValueError, KeyError, TypeError, UsageError):
                while line := await self._reader.readline():
                    self._hear(record.parse(line))
        finally:
            self.dead = True
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(JudgeDied())

    def _hear(self, message: dict[str, Any]) -> None:
        if "say" in message:
            self._say(message["say"])
            return
        if "worn" in message:
            self.worn = int(message["worn"])
            return
        if "reached" in message:
            evaluation = record.from_json(Evaluation, message["reached"])
            self.reached[evaluation.kernel_id] = evaluation
            return
        future = self._waiting.pop(message["id"], None)
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(_error(message["error"]))
        else:
            future.set_result(message["body"])

    async def close(self) -> None:
        """Hang up, which ends the judge; kill it where it does not end by itself."""
        self._writer.close()
        try:
            await asyncio.wait_for(self.process.wait(), CLOSE_SECONDS)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        self._listener.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listener


def open_log(path: Path) -> IO[bytes]:
    """The file that a judge prints to, opened to append.

    Raises:
        Unavailable: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab")
    except OSError as error:
        raise Unavailable(f"cannot be written: {error.strerror}", where=str(path), mend="Set EVOKERN_HOME to a folder that can") from error


def _judge_environment() -> dict[str, str]:
    """The judge's environment: the user's, with one thread for numpy, so that checking does not disturb the measured core."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }


def _error(data: Any) -> EvokernError:
    told = {name: str(value) for name, value in data.items()} if isinstance(data, dict) else {}
    kind = getattr(evokern.errors, told.get("error", ""), EvokernError)
    if not (isinstance(kind, type) and issubclass(kind, EvokernError)):
        kind = EvokernError
    return kind(told.get("what", "the judge did not say what is wrong"), where=told.get("where", ""), mend=told.get("mend", ""))
