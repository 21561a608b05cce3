"""The judge's process: answers the engine, holds the keys, gives the verdicts.

One thread listens, a few threads build, and one thread holds the lease: whatever runs or times a kernel runs there, one at a
time. When the engine hangs up the judge ends, and everything under it with it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from evokern import record
from evokern.errors import EvokernError, Unavailable
from evokern.evaluation import Evaluation, Reason, Rung, Verdict
from evokern.evaluator.session import Session
from evokern.evaluator.statement import Assignment, Finish, Opening

DIED = 75
"""Exit status of a judge that lost a process it cannot do without (EX_TEMPFAIL of sysexits.h)."""


class Judge:
    """Serves one engine over a socket.

    Args:
        connection: Stream socket to the engine.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._lines = connection.makefile("rb")
        self._connection = connection
        self._writing = threading.Lock()
        self._lease = ThreadPoolExecutor(1, "lease")
        self._builders: ThreadPoolExecutor | None = None
        self._session: Session | None = None

    def serve(self) -> None:
        """Answer until the engine hangs up."""
        try:
            for line in self._lines:
                message = json.loads(line)
                self._dispatch(int(message["id"]), str(message["op"]), message["body"])
        finally:
            if self._session is not None:
                self._session.close()

    def _dispatch(self, number: int, op: str, body: Any) -> None:
        if op == "open":
            self._answer(number, self._lease.submit(self._open, record.from_json(Opening, body)))
        elif op in ("evaluate", "confirm"):
            assert self._builders is not None
            assignment = record.from_json(Assignment, body)
            self._answer(number, self._builders.submit(self._judged, assignment))
        elif op == "finish":
            self._answer(number, self._lease.submit(self._finish, record.from_json(Finish, body)))
        else:
            self._send({"id": number, "error": EvokernError(f"the judge knows no '{op}'").to_json()})

    def _open(self, opening: Opening) -> Any:
        # One more than may build at a time: those that wait for the lease hold a thread too.
        self._builders = ThreadPoolExecutor(opening.builds + 4, "builder")
        self._session = Session(opening, self._say)
        return record.to_json(self._session.preparation)

    def _judged(self, assignment: Assignment) -> Any:
        """Build here, then wait for the lease."""
        session = self._session
        assert session is not None
        try:
            built = session.build(assignment.kernel)
            run: Callable[[], Evaluation]
            if assignment.previous is not None:
                previous = assignment.previous
                run = lambda: session.ladder.confirm(assignment.kernel, built, previous)  # noqa: E731 - two shapes of one call
            else:
                incumbent = assignment.incumbent
                opponent = None if incumbent is None else (incumbent, session.build(incumbent))
                run = lambda: session.ladder.judge(assignment.kernel, built, opponent)  # noqa: E731
            evaluation = self._lease.submit(run).result()
        except Unavailable as error:
            # The oracle, a baseline or the compiler is gone: a fresh judge starts them anew, or says why it cannot.
            sys.stderr.write(f"{error.line}\n")
            os._exit(DIED)
        except Exception:  # a fault of the judge's own is no verdict on the kernel; it is told and kept
            evaluation = self._own_fault(assignment)
        return record.to_json(evaluation)

    def _own_fault(self, assignment: Assignment) -> Evaluation:
        session = self._session
        assert session is not None
        text = traceback.format_exc()
        sys.stderr.write(text)
        blank = assignment.previous or Evaluation(
            assignment.kernel.id,
            session.task.digest,
            str(session.dtype),
            Verdict.INFRASTRUCTURE,
            rung=Rung.BUILD,
            fingerprint=session.ladder.fingerprint,
        )
        detail = text.strip().splitlines()[-1][:300]
        return replace(blank, verdict=Verdict.INFRASTRUCTURE, reason=Reason.HOST_ERROR, detail=detail, confirmed=False)

    def _finish(self, finish: Finish) -> Any:
        session = self._session
        assert session is not None
        return record.to_json(session.finish(finish.champion, finish.seed))

    def _answer(self, number: int, future: Future[Any]) -> None:
        def done(result: Future[Any]) -> None:
            error = result.exception()
            if error is None:
                self._send({"id": number, "body": result.result()})
                return
            if not isinstance(error, EvokernError):
                traceback.print_exception(error)
                error = EvokernError(f"the judge failed: {type(error).__name__}: {error}")
            self._send({"id": number, "error": error.to_json()})

        future.add_done_callback(done)

    def _say(self, text: str) -> None:
        self._send({"say": text})

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        with self._writing:
            try:
                self._connection.sendall(data)
            except OSError:
                return  # the engine is gone; the listening thread ends the judge


def main() -> None:
    """Serve the engine on the inherited socket whose number is the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(connection.fileno(), False)
    Judge(connection).serve()
    # Threads that still build or measure hold nothing that matters: their slots died with the session.
    os._exit(0)


if __name__ == "__main__":
    main()
