"""Questions to the journal, as the command line and reports ask them; every answer is a plain value."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, literal_column
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session, col, select

from evokern import record
from evokern.errors import Unavailable, UsageError
from evokern.evaluation import Evaluation, Score, Verdict
from evokern.event import Event, EventKind, RunSettings
from evokern.kernel import SHORT, Candidate, Kernel
from evokern.store.chain import Head, Link
from evokern.store.failure import unavailable
from evokern.store.payload import VERDICTS, Evaluated, Proposed, Verdictful
from evokern.store.schema import FIRST_RUN, CandidateRow, EvaluationRow, EventRow, KernelRow, RunRow

PAGE = 500
"""Events read at a time: a replay holds no read transaction open, which would keep the log from being cut back."""

SHOWN_MATCHES = 8

SHOWN_RUNS = 5
"""Runs that are named where none fits."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as its last event left it.

    Attributes:
        id: Full id.
        state: "running" or "ended"; a killed run says "running", and `evokern.store.lease.is_worked` knows better.
        reason: Why it ended.
        started: Seconds since the epoch.
        ended: Likewise, or None.
        settings: Those that hold now.
    """

    id: str
    state: str
    reason: str
    started: float
    ended: float | None
    settings: RunSettings


@dataclass(frozen=True, slots=True)
class Ranked:
    """One passed kernel of a run.

    Attributes:
        kernel_id: Full id.
        number: Running number of the request that it answers.
        operator: Who made it.
        island: For whom.
        parents: Ids.
        edits: Labels of the edits that lead from the main parent to it.
        score: Speed-up over the baseline.
        confirmed: Whether a second measurement agreed.
        at: When it was judged, seconds since the epoch.
    """

    kernel_id: str
    number: int
    operator: str
    island: int
    parents: tuple[str, ...]
    edits: tuple[str, ...]
    score: Score
    confirmed: bool
    at: float


@dataclass(frozen=True, slots=True)
class Charge:
    """What the verdicts of a run cost that were made for it: those taken from another run and the machine's failures cost nothing.

    Attributes:
        evaluations: How many.
        seconds: What their rungs took, the gate's left out as everywhere.
        sequence: The last row that was looked at.
    """

    evaluations: int
    seconds: float
    sequence: int


@dataclass(frozen=True, slots=True)
class Written:
    """Every row about one run, as the file holds it.

    Attributes:
        links: Its events.
        verdicts: Rows of its verdicts by sequence, as rankings read them.
        candidates: Rows of its candidates by kernel id.
        run: The run's own row, or None.
    """

    links: list[Link]
    verdicts: dict[int, dict[str, Any]]
    candidates: dict[str, dict[str, Any]]
    run: dict[str, Any] | None


class Queries:
    """Reads; each is one short transaction.

    Args:
        database: The journal's engine.
        path: Its file, for messages.
    """

    def __init__(self, database: Engine, path: Path) -> None:
        self._database, self._path = database, path

    @contextmanager
    def _session(self) -> Iterator[Session]:
        try:
            with Session(self._database) as session:
                yield session
        except DBAPIError as error:
            raise unavailable(error.orig if isinstance(error.orig, sqlite3.Error) else sqlite3.Error(str(error)), self._path) from error

    def replay(self, run: str) -> Iterator[Event]:
        """Every event of a run, in the order in which they were committed.

        Args:
            run: Full id; an unknown one has no events.
        """
        return self.events(run)

    def events(self, run: str, *kinds: EventKind) -> Iterator[Event]:
        """Events of a run of some kinds, in the order in which they were committed.

        Args:
            run: Full id; an unknown one has no events.
            kinds: Those wanted; every one where none is named.
        """
        wanted = select(EventRow).where(EventRow.run == run).order_by(col(EventRow.sequence)).limit(PAGE)
        if kinds:
            wanted = wanted.where(col(EventRow.kind).in_([kind.value for kind in kinds]))
        last = 0
        while True:
            with self._session() as session:
                page = session.exec(wanted.where(col(EventRow.sequence) > last)).all()
                events = _events(session, page)
            yield from events
            if len(page) < PAGE:
                return
            last = page[-1].sequence or 0

    def head(self, run: str) -> Head:
        """Where a run's chain ends."""
        last = select(EventRow).where(EventRow.run == run).order_by(col(EventRow.sequence).desc()).limit(1)
        with self._session() as session:
            row = session.exec(last).first()
            return Head() if row is None else Head(row.position, row.digest)

    def links(self, run: str) -> Iterator[Link]:
        """Every event of a run as its row says, in the order of the rows."""
        wanted = select(EventRow).where(EventRow.run == run).order_by(col(EventRow.sequence)).limit(PAGE)
        last = 0
        while True:
            with self._session() as session:
                page = session.exec(wanted.where(col(EventRow.sequence) > last)).all()
            yield from map(_link, page)
            if len(page) < PAGE:
                return
            last = page[-1].sequence or 0

    def written(self, run: str) -> Written:
        """Every row about a run as it stood at one moment, whoever writes meanwhile."""
        with self._session() as session:
            connection = session.connection()
            connection.exec_driver_sql("BEGIN")
            try:
                rows = session.exec(select(EventRow).where(EventRow.run == run).order_by(col(EventRow.sequence))).all()
                verdicts = session.exec(select(EvaluationRow).where(EvaluationRow.run == run)).all()
                candidates = session.exec(select(CandidateRow).where(CandidateRow.run == run)).all()
                own = session.get(RunRow, run)
                return Written(
                    [_link(row) for row in rows],
                    {row.sequence: row.model_dump(exclude={"sequence"}) for row in verdicts},
                    {row.kernel_id: row.model_dump() for row in candidates},
                    None if own is None else own.model_dump(),
                )
            finally:
                connection.exec_driver_sql("ROLLBACK")

    def run_ids(self) -> list[str]:
        """Ids of all runs that are named anywhere, sorted: one whose row was removed may still have events, and the other way round."""
        with self._session() as session:
            named = [session.exec(select(column).distinct()).all() for column in (RunRow.id, EventRow.run, EvaluationRow.run)]
            return sorted({run for ids in named for run in ids})

    def last_judged(self, run: str, *, before: float = math.inf) -> float:
        """When the run's last verdict before a moment was written, seconds since the epoch; 0.0 where there is none."""
        with self._session() as session:
            statement = select(func.max(EvaluationRow.at)).where(EvaluationRow.run == run, EvaluationRow.at < before)
            return session.exec(statement).one() or 0.0

    def runs(self) -> list[Run]:
        """All runs of this home, the newest first."""
        with self._session() as session:
            rows = session.exec(select(RunRow).order_by(col(RunRow.started).desc(), col(RunRow.id))).all()
            return [_run(row) for row in rows]

    def run(self, prefix: str = "") -> Run:
        """The run whose id begins so; without a prefix the newest.

        Raises:
            UsageError: No run begins so, or several do.
        """
        with self._session() as session:
            if not prefix:
                newest = session.exec(select(RunRow).order_by(col(RunRow.started).desc()).limit(1)).first()
                if newest is None:
                    raise UsageError("no run has been made here yet", where=str(self._path.parent), mend=FIRST_RUN)
                return _run(newest)
            exact = session.get(RunRow, prefix)
            matches = (
                [exact] if exact else list(session.exec(select(RunRow).where(*_begins(col(RunRow.id), prefix)).limit(SHOWN_MATCHES)).all())
            )
            if not matches:
                newest_first = select(RunRow.id).order_by(col(RunRow.started).desc()).limit(SHOWN_RUNS + 1)
                raise UsageError(f"no run begins with '{prefix}'", mend=_those(list(session.exec(newest_first).all())))
            return _run(_only(matches, "run", prefix, [row.id for row in matches]))

    def kernel(self, prefix: str) -> Kernel:
        """The kernel whose id begins so, over all runs.

        Raises:
            UsageError: No kernel's id begins so, or several do.
        """
        with self._session() as session:
            matches = list(session.exec(select(KernelRow).where(*_begins(col(KernelRow.id), prefix.lower())).limit(SHOWN_MATCHES)).all())
            return _kernel(_only(matches, "kernel", prefix, [row.id[:SHORT] for row in matches]))

    def holds_kernel(self, kernel_id: str) -> bool:
        """Whether the source that an id stands for is here, unchanged."""
        with self._session() as session:
            row = session.get(KernelRow, kernel_id)
            try:
                return row is not None and _kernel(row).id == kernel_id
            except (UnicodeDecodeError, AttributeError):  # no source's bytes
                return False

    def candidate(self, run: str, kernel_id: str) -> Proposed | None:
        """How a kernel came into a run: lineage, prompt and answer; None where it did not."""
        found = self._event(run, EventKind.PROPOSED, kernel_id)
        if found is None:
            return None
        with _readable(f"the proposal of {kernel_id[:SHORT]}", run):
            return record.from_json(Proposed, found.payload)

    def appearances(self, kernel_id: str) -> list[str]:
        """Ids of the runs that proposed a kernel, in the order in which they did."""
        with self._session() as session:
            rows = session.exec(select(CandidateRow.run).where(CandidateRow.kernel_id == kernel_id).order_by(col(CandidateRow.at)))
            return list(rows)

    def evaluations(self, run: str, kernel_id: str) -> list[Evaluation]:
        """A kernel's evaluations in a run, in order."""
        chosen = select(EvaluationRow.sequence).where(EvaluationRow.run == run, EvaluationRow.kernel_id == kernel_id)
        return [body.evaluation for body in self._evaluated(chosen)]

    def evaluation_of(self, key: str) -> tuple[str, Evaluation] | None:
        """The last evaluation of one key and the run that it was made in, whichever run that was.

        Neither the machine's failures count nor verdicts that no judge of this home signed.

        Args:
            key: `evokern.evaluation.evaluation_key`.
        """
        chosen = select(EvaluationRow.sequence).where(
            EvaluationRow.key == key, EvaluationRow.verdict != Verdict.INFRASTRUCTURE.value, col(EvaluationRow.external).is_(False)
        )
        last = select(EventRow).where(col(EventRow.sequence).in_(chosen)).order_by(col(EventRow.sequence).desc()).limit(1)
        with self._session() as session:
            row = session.exec(last).first()
            if row is None:
                return None
            body = _verdict(row)
            return (isinstance(body, Evaluated) and body.reused) or row.run, body.evaluation

    def top(self, run: str, count: int) -> list[Ranked]:
        """The fastest kernels of a run that passed, the fastest first, each once and confirmed before unconfirmed.

        A kernel counts with its last verdict, so one that was withdrawn is not among them.
        """
        last = (
            select(func.max(EvaluationRow.sequence))
            .where(EvaluationRow.run == run, col(EvaluationRow.external).is_(False))
            .group_by(EvaluationRow.kernel_id)
        )
        same = (col(CandidateRow.run) == col(EvaluationRow.run)) & (col(CandidateRow.kernel_id) == col(EvaluationRow.kernel_id))
        ranking = (
            select(EvaluationRow, CandidateRow)
            .join(CandidateRow, same, isouter=True)
            .where(EvaluationRow.run == run, EvaluationRow.verdict == Verdict.PASSED.value, col(EvaluationRow.sequence).in_(last))
            .where(col(EvaluationRow.score_log).is_not(None))
            .order_by(col(EvaluationRow.confirmed).desc(), col(EvaluationRow.score_log).desc())
        )
        with self._session() as session, _readable("a row of its ranking", run):
            return [_ranked(evaluation, candidate) for evaluation, candidate in session.exec(ranking.limit(count)).all()]

    def best(self, run: str) -> Ranked | None:
        """The fastest kernel of a run, or None where none has passed."""
        return next(iter(self.top(run, 1)), None)

    def verdict_counts(self, run: str) -> dict[str, int]:
        """How many candidates of a run ended in each verdict; what was judged again counts once."""
        first = (EvaluationRow.run == run, EvaluationRow.kind == EventKind.EVALUATED.value)
        with self._session() as session:
            statement = select(EvaluationRow.verdict, func.count()).where(*first).group_by(EvaluationRow.verdict)
            return dict(sorted(session.exec(statement).all()))

    def charged(self, run: str, *, after: int = 0) -> Charge:
        """What a run's verdicts cost.

        Args:
            run: Full id.
            after: Rows up to this one are left out, as their cost is known.
        """
        paid = (col(EvaluationRow.verdict) != Verdict.INFRASTRUCTURE.value) & (func.json_extract(EventRow.payload, "$.reused") == "")
        seconds = "(SELECT total(rung.value) FROM json_each(event.payload, '$.evaluation.seconds') AS rung)"
        rows: Any = (
            select(EventRow.sequence, paid, literal_column(seconds))
            .join(EvaluationRow, col(EvaluationRow.sequence) == col(EventRow.sequence))
            .where(EventRow.run == run, EventRow.kind == EventKind.EVALUATED.value, col(EventRow.sequence) > after)
        )
        with self._session() as session:
            found = session.exec(rows).all()
        charged = [float(took) for _, counts, took in found if counts]
        return Charge(len(charged), sum(charged), max((sequence or 0 for sequence, _, _ in found), default=after))

    def count(self, run: str, kind: EventKind) -> int:
        """How many events of a kind a run has."""
        with self._session() as session:
            return session.exec(select(func.count()).select_from(EventRow).where(EventRow.run == run, EventRow.kind == kind.value)).one()

    def unfinished(self, run: str) -> list[Candidate]:
        """Candidates that were proposed and not judged, in order: what a resume judges first."""
        judged = select(EvaluationRow.kernel_id).where(EvaluationRow.run == run)
        with self._session() as session:
            rows = session.exec(
                select(EventRow)
                .where(EventRow.run == run, EventRow.kind == EventKind.PROPOSED.value, col(EventRow.key).not_in(judged))
                .order_by(col(EventRow.sequence))
            ).all()
            return [record.from_json(Proposed, event.payload).candidate for event in _events(session, rows)]

    def _event(self, run: str, kind: EventKind, key: str) -> Event | None:
        with self._session() as session:
            rows = session.exec(select(EventRow).where(EventRow.run == run, EventRow.kind == kind.value, EventRow.key == key)).all()
            return next(iter(_events(session, rows)), None)

    def _evaluated(self, sequences: Any) -> list[Verdictful]:
        with self._session() as session:
            rows = session.exec(select(EventRow).where(col(EventRow.sequence).in_(sequences)).order_by(col(EventRow.sequence))).all()
            return [_verdict(row) for row in rows]


def _verdict(row: EventRow) -> Verdictful:
    with _readable(f"row {row.sequence} of the journal", row.run):
        body: Verdictful = record.from_json(VERDICTS[_kind(row)], record.parse(row.payload))
    return body


def _events(session: Session, rows: Any) -> list[Event]:
    """Events of rows, with sources put back where a proposal names its kernel by id."""
    events = [_read(row) for row in rows]
    named = [(event, _kernel_named(event)) for event in events if event.kind is EventKind.PROPOSED]
    if named:
        wanted = [kernel for _, kernel in named]
        kernels = {row.id: _kernel(row) for row in session.exec(select(KernelRow).where(col(KernelRow.id).in_(wanted)))}
        for event, kernel in named:
            if kernel not in kernels:
                raise Unavailable(f"the source of {kernel[:12]} is not in the journal", where=event.run, mend=_VERIFY)
            event.payload["candidate"]["kernel"] = record.to_json(kernels[kernel])
    return events


_VERIFY = "`evokern verify` says which rows were changed"


def _read(row: EventRow) -> Event:
    with _readable(f"row {row.sequence} of the journal", row.run):
        return Event(row.run, _kind(row), row.key, record.fields(row.payload), row.at)


def _kind(row: EventRow) -> EventKind:
    try:
        return EventKind(row.kind)
    except ValueError as error:
        raise UsageError(f"its kind '{row.kind}' is unknown") from error


def _kernel_named(event: Event) -> str:
    try:
        return str(event.payload["candidate"]["kernel"]["id"])
    except (KeyError, TypeError) as error:
        raise Unavailable("the journal holds a proposal that names no kernel", where=event.run, mend=_VERIFY) from error


def _begins(column: Any, prefix: str) -> tuple[Any, Any]:
    """A range that the index serves, as LIKE would not."""
    return column >= prefix, column < prefix + "\x7f"


def _only(matches: list[Any], what: str, prefix: str, names: list[str]) -> Any:
    if not matches:
        raise UsageError(f"no {what} begins with '{prefix}'", mend="`evokern top` lists them")
    if len(matches) > 1:
        more = " ..." if len(matches) == SHOWN_MATCHES else ""
        raise UsageError(f"'{prefix}' fits several {what}s: {', '.join(sorted(names))}{more}", mend="Give more of the id")
    return matches[0]


def _those(runs: list[str]) -> str:
    """Which runs there are, the newest first."""
    if not runs:
        return FIRST_RUN
    return f"There are {', '.join(runs[:SHOWN_RUNS])}{' and older ones' if len(runs) > SHOWN_RUNS else ''}"


def _link(row: EventRow) -> Link:
    return Link(row.sequence or 0, row.run, row.position, row.kind, row.key, row.payload, row.at, row.digest)


def _run(row: RunRow) -> Run:
    with _readable("the row of the run", row.id):
        settings = record.from_json(RunSettings, record.parse(row.settings))
    return Run(row.id, row.state, row.reason, row.started, row.ended, settings)


@contextmanager
def _readable(what: str, run: str) -> Iterator[None]:
    """Tell in one line what of a run cannot be read, and how to find out more."""
    try:
        yield
    except UsageError as error:
        raise Unavailable(f"{what} cannot be read: {error.what}", where=run, mend=_VERIFY) from error


def _kernel(row: KernelRow) -> Kernel:
    return Kernel(row.dialect, row.source.decode("utf-8", "surrogatepass"), row.entry)


def _ranked(evaluation: EvaluationRow, candidate: CandidateRow | None) -> Ranked:
    score = Score(evaluation.score_log or 0.0, evaluation.score_low or 0.0, evaluation.score_high or 0.0)
    if candidate is None:  # judged without having been proposed, as `evokern eval` does
        return Ranked(evaluation.kernel_id, -1, "", 0, (), (), score, evaluation.confirmed, evaluation.at)
    return Ranked(
        kernel_id=evaluation.kernel_id,
        number=candidate.number,
        operator=candidate.operator,
        island=candidate.island,
        parents=tuple(record.parse(candidate.parents)),
        edits=tuple(record.parse(candidate.edits)),
        score=score,
        confirmed=evaluation.confirmed,
        at=evaluation.at,
    )
