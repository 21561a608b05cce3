"""`evokern eval --batch`: many kernels in one session. Several are under way at a time; answers leave in the order of the lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokern.cli.answer import DID_NOT_HOLD, DONE, INTERRUPTED, say
from evokern.cli.lines import Line, read_lines
from evokern.errors import DiskFull, EvokernError, Unavailable, UsageError
from evokern.printable import line as one_line
from evokern.record import finite

if TYPE_CHECKING:
    from evokern.event import RunSettings
    from evokern.kernel import Kernel
    from evokern.serve.bench import Answer, Bench
    from evokern.serve.turn import Turn
    from evokern.store import Journal

SESSION = "batch"

AHEAD = 16
"""Lines that are read, and may be under way, before the first of them is answered."""

OPEN = 3
"""Tasks whose judges are kept; the one that waited longest makes room."""

MOST_BUILDS = 8

LONGEST_LINE = 2000

Key = tuple[str, str, str]
"""Task, backend and element type, as named; empty for a default."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a line asks for.

    Attributes:
        line: Which.
        key: Whose bench judges it.
        kernel: What it judges; None where the line is wrong.
        fault: Why it is.
    """

    line: Line
    key: Key
    kernel: Kernel | None = None
    fault: EvokernError | None = None


@dataclass(slots=True)
class Tally:
    """What came of a batch.

    Attributes:
        lines: How many there were.
        verdicts: Counts by verdict.
        errors: Counts by name.
        reused: Answers taken from the journal.
        missing: Whether something was needed that is not here.
    """

    lines: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    reused: int = 0
    missing: bool = False

    @property
    def code(self) -> int:
        """The exit code: all passed, some did not, or something needed is not here."""
        if self.missing:
            return Unavailable.exit_code
        return DONE if self.verdicts["passed"] == self.lines else DID_NOT_HOLD


def evaluate_batch(batch: Path, *, task: str | None, backend: str, dtype: str | None, threads: int, as_json: bool) -> int:
    """Judge every kernel of a batch.

    Args:
        batch: See `read_lines`.
        task: What a line that names none is for.
        backend: Likewise.
        dtype: Likewise; None for the task's default.
        threads: Threads granted to a kernel.
        as_json: Whether each answer is a document on a line of its own, `evokern.eval/1` or `evokern.error/1`, with a last one
            `evokern.eval_batch/1`.

    Returns:
        The exit code.

    Raises:
        UsageError: The batch cannot be read.
        DiskFull: The journal cannot be written any more; what was answered is kept.
    """
    lines = read_lines(batch)
    return asyncio.run(_until_interrupted(_judge_all(lines, (task or "", backend, dtype or ""), threads, as_json=as_json)))


def builds_at_once() -> int:
    """Compilers at a time: half of the processors, as kernels and their judge need some too."""
    return min(max(len(os.sched_getaffinity(0)) // 2, 2), MOST_BUILDS)


class Benches:
    """A bench for each task that lines name, some of them kept open.

    Args:
        journal: Of the home.
        turn: Of this process.
        defaults: What a line is for that names none.
        threads: Threads granted to a kernel.
    """

    def __init__(self, journal: Journal, turn: Turn, defaults: Key, threads: int) -> None:
        self._journal, self._turn, self._defaults, self._threads = journal, turn, defaults, threads
        self._settings: dict[Key, RunSettings] = {}
        self._open: dict[Key, Bench] = {}
        self._broken: dict[Key, Unavailable] = {}

    def job(self, line: Line) -> Job:
        """What a line asks for; a wrong one asks for its error."""
        from evokern import plugins
        from evokern.serve.failure import typed

        names = zip(("task", "backend", "dtype"), self._defaults, strict=True)
        task, backend, dtype = (line.fields.get(name, default) for name, default in names)
        key = (task, backend, dtype)
        try:
            if line.fault is not None:
                raise line.fault
            settings = self._settings_of(key)
            return Job(line, key, line.kernel(tuple(plugins.load("backend", settings.backend).dialects)))
        except Exception as error:  # a line may say anything
            return Job(line, key, fault=typed(error))

    def _settings_of(self, key: Key) -> RunSettings:
        from evokern.cli.run import settings_for
        from evokern.config import load_config
        from evokern.event import Budget
        from evokern.serve.bench import in_session

        if key not in self._settings:
            task, backend, dtype = key
            if not task:
                raise UsageError("no task is named", mend='Give --task, or "task" in the line')
            flags = {"task": task, "backend": backend, "dtype": dtype or None, "threads": self._threads, "builds": builds_at_once()}
            chosen = load_config(None, flags)
            self._settings[key] = in_session(settings_for(chosen), SESSION, Budget())
        return self._settings[key]

    async def make_room(self, key: Key) -> None:
        """Have a bench for a key; nothing may be under way in the others."""
        from evokern.serve.bench import Bench

        bench = self._open.pop(key, None) or Bench(self._settings_of(key), journal=self._journal, turn=self._turn, say=say)
        self._open[key] = bench
        while len(self._open) > OPEN:
            await self._open.pop(next(iter(self._open))).close()

    async def evaluate(self, job: Job) -> Answer:
        """A job's verdict. What could not be had for a key is not tried again.

        Raises:
            EvokernError: The line is wrong, or the task or the machine does not allow it.
        """
        from evokern.serve.bench import Origin

        if job.fault is not None:
            raise job.fault
        if job.key in self._broken:
            raise self._broken[job.key]
        assert job.kernel is not None
        try:
            return await self._open[job.key].evaluate(job.kernel, Origin(SESSION))
        except Unavailable as error:
            self._broken[job.key] = error
            raise

    async def close(self, reason: str) -> None:
        """Close all of them."""
        for bench in self._open.values():
            await bench.close(reason)


class Printer:
    """Prints answers as they leave.

    Args:
        home: Whose judges count.
        as_json: Whether as documents.
    """

    def __init__(self, home: Path, *, as_json: bool) -> None:
        self.tally = Tally()
        self._home, self._as_json = home, as_json
        self._start = time.monotonic()

    def answer(self, job: Job, answer: Answer) -> None:
        """A verdict."""
        from evokern.evaluator.signing import Judges
        from evokern.report.documents import evaluation_document

        self._count(job, answer.evaluation.verdict.value)
        self.tally.reused += answer.reused
        document = evaluation_document(answer.evaluation, task=job.key[0], judges=Judges.of_home(self._home))
        document |= {"run": answer.run, "reused": answer.reused}
        self._print("evokern.eval/1", job, document, _verdict_text(answer))

    def error(self, job: Job, error: EvokernError) -> None:
        """What kept a line from a verdict."""
        self._count(job, "")
        self.tally.errors[type(error).__name__] += 1
        self.tally.missing = self.tally.missing or isinstance(error, Unavailable)
        self._print("evokern.error/1", job, error.to_json(), f"{type(error).__name__}: {error.line}")

    def end(self) -> None:
        """The counts."""
        from evokern.report.tables import counted, counts_text, span_text

        tally, seconds = self.tally, time.monotonic() - self._start
        if self._as_json:
            counts = {"lines": tally.lines, "verdicts": dict(tally.verdicts), "errors": dict(tally.errors), "reused": tally.reused}
            _print_line({"schema": "evokern.eval_batch/1", **counts, "seconds": seconds, "exit_code": tally.code})
            return
        counts_of = counts_text({**tally.verdicts, **tally.errors})
        say(f"{counted(tally.lines, 'kernel')} in {span_text(seconds)}: {counts_of}; {tally.reused} answered from the journal")

    def _count(self, job: Job, verdict: str) -> None:
        self.tally.lines += 1
        if verdict:
            self.tally.verdicts[verdict] += 1

    def _print(self, schema: str, job: Job, document: dict[str, Any], text: str) -> None:
        name = job.line.fields.get("id", "")
        if self._as_json:
            _print_line({"schema": schema, "line": job.line.number, "id": name, **document})
            return
        words = (one_line(word, LONGEST_LINE) for word in (name or job.line.fields.get("path", ""), text))
        sys.stdout.write("  ".join([f"{job.line.number:>5}", *filter(None, words)]) + "\n")
        sys.stdout.flush()


def _verdict_text(answer: Answer) -> str:
    from evokern.report.status import ratio_document
    from evokern.report.tables import ratio_text, short
    from evokern.statistics import score_of

    evaluation = answer.evaluation
    score = score_of(evaluation)
    reason = "" if evaluation.passed else f": {evaluation.reason}"
    detail = f" ({evaluation.detail})" if evaluation.detail and not evaluation.passed else ""
    ratio = f" {ratio_text(ratio_document(score))}" if score else ""
    reused = "; judged before" if answer.reused else ""
    return f"{evaluation.verdict}{reason}{detail}{ratio}, kernel {short(evaluation.kernel_id)}{reused}"


def _print_line(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(finite(document), allow_nan=False, default=str) + "\n")
    sys.stdout.flush()


async def _judge_all(lines: Iterator[Line], defaults: Key, threads: int, *, as_json: bool) -> int:
    from evokern.serve.turn import Turn
    from evokern.store import Journal
    from evokern.store import home as open_home

    home = open_home()
    with Journal(home) as journal:
        benches, printer, reason = Benches(journal, Turn(home), defaults, threads), Printer(home, as_json=as_json), "interrupted"
        try:
            await _in_order(lines, benches, printer)
            reason = "done"
        finally:
            await benches.close(reason)
    printer.end()
    return printer.tally.code


async def _in_order(lines: Iterator[Line], benches: Benches, printer: Printer) -> None:
    """Answer every line, in order."""
    from evokern.serve.failure import typed

    waiting: asyncio.Queue[tuple[Job, asyncio.Task[Answer]] | None] = asyncio.Queue(AHEAD)

    async def start_all() -> None:
        key: Key | None = None
        under_way: set[asyncio.Task[Answer]] = set()
        async for line in _fed(lines):
            job = benches.job(line)
            if job.fault is None and job.key != key:
                if under_way:
                    # Judges of two tasks would measure each other.
                    await asyncio.wait(under_way)
                await benches.make_room(job.key)
                key = job.key
            work = asyncio.ensure_future(benches.evaluate(job))
            under_way.add(work)
            work.add_done_callback(under_way.discard)
            await waiting.put((job, work))
        await waiting.put(None)

    async def print_all() -> None:
        while (item := await waiting.get()) is not None:
            job, work = item
            try:
                answer = await work
            except Exception as error:
                known = typed(error)
                if isinstance(known, DiskFull):
                    raise known from error
                printer.error(job, known)
            else:
                printer.answer(job, answer)

    async with asyncio.TaskGroup() as group:
        group.create_task(start_all())
        group.create_task(print_all())


async def _fed(lines: Iterator[Line]) -> AsyncIterator[Line]:
    """Lines from a thread of their own: the next one may be long in coming.

    Raises:
        UsageError: They cannot be read to the end.
    """
    loop, read = asyncio.get_running_loop(), asyncio.Queue[Line | UsageError | None](AHEAD)

    def put(item: Line | UsageError | None) -> None:
        asyncio.run_coroutine_threadsafe(read.put(item), loop).result()

    def feed() -> None:
        # Where the loop has ended, nobody wants more lines.
        with contextlib.suppress(RuntimeError):
            try:
                for line in lines:
                    put(line)
            except OSError as error:
                put(UsageError(f"the batch cannot be read on: {error.strerror}"))
            put(None)

    threading.Thread(target=feed, name="lines", daemon=True).start()
    while (item := await read.get()) is not None:
        if isinstance(item, UsageError):
            raise item
        yield item


async def _until_interrupted(work: Coroutine[Any, Any, int]) -> int:
    """Ctrl-C or SIGTERM ends the batch in order; the same batch again goes on from there."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        say("interrupted; what was judged is kept, and the same batch again goes on from there")
        return INTERRUPTED
