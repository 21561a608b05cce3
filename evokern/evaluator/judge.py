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
from pathlib import Path
from typing import Any

from evokern import printable, record
from evokern.errors import EvokernError, Unavailable, UsageError, disk_full
from evokern.evaluation import Evaluation, Reason, Rung, Verdict
from evokern.evaluator.session import Session
from evokern.evaluator.signing import Judges, Seal, Signable, Signer
from evokern.evaluator.statement import Assignment, Finish, Opening, Rotation, charged

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
        self._signer: Signer | None = None

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
        elif op in LEASED:
            kind, work = LEASED[op]
            self._answer(number, self._lease.submit(work, self, record.from_json(kind, body) if kind else None))
        elif op == "profile":
            assert self._builders is not None
            self._answer(number, self._builders.submit(self._profiled, record.from_json(Assignment, body)))
        elif op == "charge":
            self._answer(number, self._lease.submit(self._signed, charged(record.from_json(Evaluation, body))))
        elif op == "seal":
            self._answer(number, self._lease.submit(self._signed, record.from_json(Seal, body)))
        else:
            self._send({"id": number, "error": EvokernError(f"the judge knows no '{op}'").to_json()})

    def _open(self, opening: Opening) -> Any:
        # One more than may build at a time: those that wait for the lease hold a thread too.
        self._builders = ThreadPoolExecutor(opening.builds + 4, "builder")
        self._session = Session(opening, self._say)
        self._session.ladder.reached = lambda evaluation: self._send({"reached": record.to_json(evaluation)})
        # Only now: what the session's zygotes inherit must hold no key.
        self._signer = Signer.of_home(Path(opening.home))
        return self._signed(self._session.preparation)

    def _signed(self, noun: Signable) -> Any:
        assert self._signer is not None
        return record.to_json(self._signer.sign(noun))

    def _judged(self, assignment: Assignment) -> Any:
        """Build here, then wait for the lease."""
        session = self._session
        assert session is not None
        previous = self._own(assignment)
        try:
            built = session.build(assignment.kernel)
            run: Callable[[], Evaluation]
            if previous is not None:
                to_beat = assignment.to_beat
                run = lambda: session.ladder.confirm(assignment.kernel, built, previous, to_beat=to_beat)  # noqa: E731 - two shapes of one call
            else:
                incumbent = assignment.incumbent
                opponent = None if incumbent is None else (incumbent, session.build(incumbent))
                run = lambda: session.ladder.judge(assignment.kernel, built, opponent)  # noqa: E731
            evaluation = self._lease.submit(run).result()
            if previous is None and assignment.previous is not None and evaluation.passed:
                found = evaluation
                evaluation = self._lease.submit(lambda: session.ladder.confirm(assignment.kernel, built, found)).result()
        except Exception as error:
            full = disk_full(error)
            if full is not None:
                # A fresh judge would meet the same disk.
                raise full from error
            if isinstance(error, Unavailable):
                # The oracle, a baseline or the compiler is gone: a fresh judge starts them anew, or says why it cannot.
                sys.stderr.write(f"{error.line}\n")
                os._exit(DIED)
            # A fault of the judge's own is no verdict on the kernel; it is told and kept.
            evaluation = self._own_fault(assignment)
        if evaluation.confirmed:
            evaluation = session.profiled(assignment.kernel, evaluation, counted=False)
        if session.gate_is_worn:
            # How much was told in all, and by whose late answers, is the judge's alone.
            self._send({"worn": session.ladder.fingerprint.held_out_epoch})
        return self._signed(evaluation)

    def _own(self, assignment: Assignment) -> Evaluation | None:
        """The evaluation to build on, which is this judge's and says what it would say of this kernel now.

        Returns:
            None where the kernel is to be judged from the first rung: it is new, or measured again where the machine became another.

        Raises:
            UsageError: It is another judge's, or nobody's, or about something else: to build on it would lend it our name.
        """
        assert self._signer is not None and self._session is not None
        previous, kernel = assignment.previous, assignment.kernel
        if previous is None:
            return None
        ladder = self._session.ladder
        if not Judges([self._signer.public]).accept(previous):
            raise UsageError("an evaluation that this judge did not sign cannot be confirmed", where=kernel.id)
        if objection := ladder.objection(kernel, previous):
            raise UsageError(f"an evaluation that {objection} cannot be confirmed", where=kernel.id, mend="Have the kernel evaluated first")
        if ladder.holds_here(previous):
            return replace(previous, measurements=(), confirmed=False) if assignment.anew else previous
        if assignment.anew:
            return None
        raise UsageError("an evaluation from another machine cannot be confirmed", where=kernel.id, mend="Have the kernel evaluated first")

    def _own_fault(self, assignment: Assignment) -> Evaluation:
        session = self._session
        assert session is not None
        text = printable.block(traceback.format_exc())
        sys.stderr.write(text)
        blank = assignment.previous or Evaluation(
            assignment.kernel.id,
            session.task.digest,
            str(session.dtype),
            Verdict.INFRASTRUCTURE,
            rung=Rung.BUILD,
            fingerprint=session.ladder.fingerprint,
        )
        detail = printable.line(text.strip().splitlines()[-1])
        return replace(blank, verdict=Verdict.INFRASTRUCTURE, reason=Reason.HOST_ERROR, detail=detail, confirmed=False)

    def _profiled(self, assignment: Assignment) -> Any:
        """This judge's own evaluation with all that the device counts."""
        session, previous = self._session, assignment.previous
        assert session is not None and self._signer is not None
        if previous is None or not Judges([self._signer.public]).accept(previous):
            raise UsageError("an evaluation that this judge did not sign cannot be profiled", where=assignment.kernel.id)
        if objection := session.ladder.objection(assignment.kernel, previous):
            raise UsageError(f"an evaluation that {objection} cannot be profiled", where=assignment.kernel.id)
        work = self._lease.submit(session.profiled, assignment.kernel, previous, counted=True)
        return self._signed(work.result())

    def _finish(self, finish: Finish) -> Any:
        assert self._session is not None
        return self._signed(self._session.finish(finish.champion, finish.seed))

    def _probe(self, _: None) -> Any:
        assert self._session is not None
        return record.to_json(self._session.probe())

    def _rotate(self, rotation: Rotation) -> Any:
        assert self._session is not None
        return self._signed(self._session.rotate(rotation.epoch))

    def _answer(self, number: int, future: Future[Any]) -> None:
        def done(result: Future[Any]) -> None:
            error = result.exception()
            if error is None:
                self._send({"id": number, "body": result.result()})
                return
            if not isinstance(error, EvokernError):
                traceback.print_exception(error)
                error = disk_full(error) or EvokernError(f"the judge failed: {type(error).__name__}: {error}")
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


LEASED: dict[str, tuple[type[Any] | None, Callable[[Judge, Any], Any]]] = {
    "finish": (Finish, Judge._finish),
    "probe": (None, Judge._probe),
    "rotate": (Rotation, Judge._rotate),
}
"""What holds the lease beside evaluations, with the kind of its body."""


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
