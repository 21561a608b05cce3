"""Whose word counts: external verdicts, verdicts of earlier runs, and a record that was tampered with."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evokern.archive import GridArchive
from evokern.engine.sealing import Audit, audit, recorded_runs
from evokern.errors import EvokernError
from evokern.evaluation import Evaluation, Reason, Verdict
from evokern.evaluator.signing import ENROLLED, SEED_BYTES, Signer
from evokern.event import Budget, EventKind, Proposal, RefusalReason, Request, RunSettings
from evokern.kernel import Candidate, Kernel
from evokern.store import DATABASE, Journal
from evokern.task import DType
from evokern.testing.requests import row_task
from evokern.testing.sim_executor import Landed, SimExecutor
from tests.unit.test_engine import Step, begin, journal_of, landscape, of, replayed, resume, run, source_of, states

STRANGER = Signer(b"x" * SEED_BYTES)


class Forged(SimExecutor):
    """Some kernels come back with a great result that no judge of the home signed."""

    def __init__(self, forge: Any) -> None:
        super().__init__(landscape)
        self.forge = forge

    async def evaluate(self, candidate: Candidate, incumbent: Kernel | None) -> Evaluation:
        found = await super().evaluate(candidate, incumbent)
        if candidate.operator == "seed":
            return found
        faster = await self.confirm(candidate, found)
        ratio = {name: replace(value, estimate=90.0, low=80.0, high=99.0) for name, value in faster.measurements[0].versus.items()}
        evaluation: Evaluation = self.forge(replace(faster, measurements=(replace(faster.measurements[0], versus=ratio),)))
        return evaluation


@pytest.mark.parametrize(
    "forge", [lambda e: e, STRANGER.sign, lambda e: replace(e, judge="", signature="")], ids=["edited", "stranger", "bare"]
)
def test_a_verdict_that_no_judge_of_this_home_signed_is_shown_and_counts_for_nothing(settings: RunSettings, home: Path, forge: Any) -> None:
    engine = begin(replace(settings, budget=Budget(evaluations=8)), home, Forged(forge))
    summary = run(engine)
    (seed,) = [body.candidate for body in of(engine, EventKind.PROPOSED) if body.candidate.operator == "seed"]
    assert summary["kernel"] == seed.id
    assert summary["external"] == summary["evaluated"] - 1 > 0
    assert {body.external for body in of(engine, EventKind.EVALUATED)} == {False, True}
    assert [len(island.archive) for island in engine.islands] == [1] * settings.islands
    assert states(engine) == replayed(engine)
    with Journal(home, read_only=True) as journal:
        assert [entry.kernel_id for entry in journal.top(engine.run_id, 10)] == [seed.id]
    again = resume(engine, budget=Budget(evaluations=9))
    run(again)
    assert again._ledger.external == summary["external"]


def test_a_resume_forgets_what_a_judge_signed_that_is_no_longer_enrolled(settings: RunSettings, home: Path) -> None:
    engine = begin(settings, home)
    run(engine)
    (home / ENROLLED).write_text(STRANGER.public + "\n")
    with pytest.raises(EvokernError, match="no seed kernel passed"):
        run(resume(engine, budget=Budget(evaluations=25)))


def test_a_verdict_that_was_forged_in_the_journal_is_neither_placed_on_resume_nor_found_whole(settings: RunSettings, home: Path) -> None:
    engine = begin(settings, home)
    run(engine)
    best = engine._champion()
    assert best is not None
    with closing(sqlite3.connect(home / DATABASE)) as raw, raw:
        raw.execute("DROP TRIGGER event_no_update")
        raw.execute(
            "UPDATE event SET payload = replace(payload, '\"clusters\":8', '\"clusters\":9')"
            " WHERE kind = 'evaluated' AND payload LIKE ?", (f"%{best.candidate.id}%",)
        )  # fmt: skip
    again = resume(engine, budget=Budget(evaluations=21))
    run(again)
    assert all(best.candidate.id not in island.archive for island in again.islands)
    assert any("signature" in one.what for one in checked(engine.home, engine.run_id).findings)


# Twins: equal in every normal form, different programs


class Ladder(Step):
    """Proposes given sources, in order."""

    sources: tuple[str, ...] = ()

    async def propose(self, request: Request) -> Proposal:
        fresh = [Kernel("cpp", source) for source in self.sources if Kernel("cpp", source).id not in request.tried]
        return Proposal(fresh[0]) if fresh else Proposal.refused(RefusalReason.NOT_APPLICABLE)


TWINS = {
    "operator": ("y = a + b;", "y = a - b;"),
    "literal": ("y = 1.0f * x;", "y = 1.5f * x;"),
    "line": ("int run() { return __LINE__ == 1; }", "\nint run() { return __LINE__ == 1; }"),
    "comment": ("/* one */ y = x;", "/* two */ y = x;"),
    "docstring": (
        'def run(x, out):\n    """a"""\n    copy(x, out, run.__doc__)',
        'def run(x, out):\n    """b"""\n    copy(x, out, run.__doc__)',
    ),
    "indentation": ("if x:\n    f()\ng()", "if x:\n    f()\n    g()"),
}


def right_or_wrong(kernel: Kernel) -> Landed:
    """The first of every pair of twins is right."""
    if kernel.source in {right for right, _ in TWINS.values()}:
        return Landed(0.2)
    if kernel.source in {wrong for _, wrong in TWINS.values()}:
        return Landed(0.0, Verdict.WRONG, Reason.TOLERANCE)
    return Landed(0.0)


@pytest.mark.parametrize("wrong_first", [False, True])
def test_twins_get_their_own_verdicts_in_a_run_and_in_the_next_one_in_both_orders(
    settings: RunSettings, home: Path, *, wrong_first: bool
) -> None:
    executors = []
    for turn in range(2):
        operator = Ladder()
        order = -1 if wrong_first ^ bool(turn) else 1
        operator.sources = tuple(source for pair in TWINS.values() for source in pair[::order])
        executor = SimExecutor(right_or_wrong, task_digest=settings.task_digest, capacity=1)
        engine = begin(replace(settings, budget=Budget(evaluations=1 + 2 * len(TWINS)), islands=1), home, executor, [operator])
        run(engine)
        executors.append(executor)
        verdicts = {body.evaluation.kernel_id: body.evaluation.verdict for body in of(engine, EventKind.EVALUATED)}
        for right, wrong in TWINS.values():
            assert verdicts[Kernel("cpp", right).id] is Verdict.PASSED
            assert verdicts[Kernel("cpp", wrong).id] is Verdict.WRONG
            assert Kernel("cpp", wrong).id not in engine.islands[0].archive
    wrongs = {Kernel("cpp", wrong).id for _, wrong in TWINS.values()}
    assert wrongs <= set(executors[0].evaluated)
    assert not wrongs & set(executors[1].evaluated), "the second run knows them"
    assert "" not in {body.reused for body in of(engine, EventKind.EVALUATED) if body.evaluation.verdict is Verdict.WRONG}


def test_a_poisoned_verdict_of_an_earlier_run_is_not_taken(settings: RunSettings, home: Path) -> None:
    def executor() -> SimExecutor:
        return SimExecutor(landscape, task_digest=settings.task_digest)

    first = begin(replace(settings, budget=Budget(evaluations=6)), home, executor())
    run(first)
    with closing(sqlite3.connect(home / DATABASE)) as raw, raw:
        raw.execute("DROP TRIGGER event_no_update")
        raw.execute("UPDATE event SET payload = replace(payload, '\"estimate\":', '\"estimate\":1') WHERE kind = 'evaluated'")
    second = executor()
    engine = begin(replace(settings, budget=Budget(evaluations=6)), home, second)
    run(engine)
    assert len(second.evaluated) == 6
    assert {body.reused for body in of(engine, EventKind.EVALUATED)} == {""}


def test_a_kernel_that_only_passed_its_screening_is_judged_anew_in_the_next_run(settings: RunSettings, home: Path) -> None:
    def executor() -> SimExecutor:
        return SimExecutor(landscape, task_digest=settings.task_digest)

    first = begin(settings, home, executor())
    run(first)
    hasty = {b.evaluation.kernel_id for b in of(first, EventKind.EVALUATED) if not b.evaluation.confirmed}
    assert hasty
    second = executor()
    run(begin(settings, home, second))
    known = {b.evaluation.kernel_id for b in of(first, EventKind.EVALUATED)} - hasty
    assert not known & set(second.evaluated)


# The record


def checked(home: Path, run_id: str) -> Audit:
    with Journal(home, read_only=True) as journal:
        return audit(journal, run_id)


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("row_sum")
    task = row_task(folder)
    settings = RunSettings(str(folder), task.digest, DType.FLOAT32, "cpu", 1, Budget(evaluations=8), 7, seeds=(("cpp", source_of(0, 0)),))
    engine = begin(settings, folder / "home")
    run(engine)
    return folder / "home", engine.run_id


@pytest.fixture
def closed(one_run: tuple[Path, str], home: Path) -> str:
    """The id of a run that was closed, in a home of the test's own."""
    shutil.copytree(one_run[0], home)
    return one_run[1]


def tamper(home: Path, *statements: str) -> None:
    with closing(sqlite3.connect(home / DATABASE)) as raw, raw:
        for statement in ("DROP TRIGGER event_no_update", "DROP TRIGGER event_no_delete", *statements):
            raw.execute(statement)


def test_a_closed_run_is_whole_and_sealed_to_its_last_event(home: Path, closed: str) -> None:
    found = checked(home, closed)
    assert (found.findings, found.external) == ([], 0)
    assert found.signed >= 8
    assert found.sealed == found.events - 1, "all but the seal itself"


def test_a_tail_that_was_cut_off_shows_although_the_chain_holds(home: Path, closed: str) -> None:
    tamper(home, "DELETE FROM event WHERE position > (SELECT max(position) FROM event) - 4")
    (cut,) = [one for one in checked(home, closed).findings if "cut off" in one.what]
    assert cut.row == 0


def test_a_chain_that_was_made_anew_does_not_fit_its_seals(home: Path, closed: str) -> None:
    from evokern.store.chain import ORIGIN, digest_of

    with Journal(home, read_only=True) as journal:
        links = list(journal.links(closed))
    previous, statements = ORIGIN, []
    for link in links:
        at = link.at + (1 if link.position == 3 else 0)
        previous = digest_of(previous, link.run, link.position, link.kind, link.key, link.payload, at)
        statements.append(f"UPDATE event SET at = {at!r}, digest = '{previous}' WHERE sequence = {link.sequence}")
    tamper(home, *statements)
    found = checked(home, closed)
    assert any("seals other events" in one.what for one in found.findings)
    assert not any("was changed" in one.what for one in found.findings), "the chain itself holds"


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE evaluation SET score_low = 9, score_log = 9 WHERE confirmed = 1", "is ranked otherwise"),
        ("UPDATE kernel SET source = source || ' '", "was changed"),
        ("DELETE FROM kernel", "is missing or was changed"),
        ("INSERT INTO evaluation SELECT 999999, run, kernel_id, kind, external, key, verdict, reason, confirmed, score_log, score_low,"
         " score_high, score_name, at FROM evaluation LIMIT 1", "no event holds"),
        ("UPDATE event SET payload = replace(payload, '\"position\":', '\"position\":1') WHERE kind = 'sealed'", "seal that no judge"),
    ],
)  # fmt: skip
def test_tables_beside_the_chain_are_checked_too(home: Path, closed: str, statement: str, told: str) -> None:
    tamper(home, statement)
    assert any(told in one.what for one in checked(home, closed).findings)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE candidate SET operator = 'mutate'", "is listed otherwise than its proposal"),
        ("UPDATE candidate SET parents = '[]', edits = '[\"other\"]' WHERE operator <> 'seed'", "is listed otherwise than its proposal"),
        ("DELETE FROM candidate", "is listed otherwise than its proposal"),
        ("INSERT INTO candidate SELECT run, 'ff' || kernel_id, number, operator, island, parents, edits, at FROM candidate LIMIT 1",
         "which no event proposed"),
        ("UPDATE run SET state = 'running'", "than its events say: state"),
        ("UPDATE run SET settings = replace(settings, '\"seed\": 7', '\"seed\": 8')", "than its events say: settings"),
        ("UPDATE run SET reason = 'x', started = 0, ended = NULL", "than its events say: ended, reason, started"),
        ("DELETE FROM run", "has events, and no row"),
    ],
)  # fmt: skip
def test_what_lists_show_is_compared_with_the_events(home: Path, closed: str, statement: str, told: str) -> None:
    tamper(home, statement)
    assert any(told in one.what for one in checked(home, closed).findings)


def test_a_run_that_is_gone_is_told_by_what_is_left_beside_the_journal(home: Path, closed: str) -> None:
    tamper(home, *(f"DELETE FROM {table}" for table in ("event", "run", "candidate", "evaluation", "kernel")))
    with Journal(home, read_only=True) as journal:
        assert recorded_runs(journal) == [closed]
    assert any("has no event" in one.what for one in checked(home, closed).findings)


def test_a_closed_run_without_its_seal_beside_the_journal_is_a_finding(home: Path, closed: str) -> None:
    (home / "runs" / f"{closed}.seal").unlink()
    assert [one.what for one in checked(home, closed).findings] == ["was sealed, and its seal beside the journal is missing"]
    tamper(home, "DELETE FROM event WHERE kind = 'sealed'")
    assert [one.what for one in checked(home, closed).findings] == ["was sealed, and its seal beside the journal is missing"]


def test_events_after_the_last_seal_are_counted(settings: RunSettings, home: Path, closed: str) -> None:
    assert checked(home, closed).unsealed == 0
    engine = begin(settings, home, SimExecutor(lambda _: Landed(0.0, Verdict.WRONG, Reason.TOLERANCE)))
    with pytest.raises(EvokernError):
        run(engine)
    found = checked(home, engine.run_id)
    assert (found.findings, found.unsealed) == ([], found.events)


def test_a_run_that_was_killed_is_whole_and_simply_not_sealed(settings: RunSettings, home: Path) -> None:
    engine = begin(settings, home, SimExecutor(lambda _: Landed(0.0, Verdict.WRONG, Reason.TOLERANCE)))
    with pytest.raises(EvokernError):
        run(engine)
    found = checked(home, engine.run_id)
    assert (found.findings, found.sealed) == ([], 0)


def test_archives_are_what_a_replay_makes_of_the_journal(settings: RunSettings, home: Path) -> None:
    engine = begin(settings, home)
    run(engine)
    assert isinstance(engine.islands[0].archive, GridArchive)
    assert states(engine) == replayed(engine)
    assert journal_of(engine)[-1].kind is EventKind.SEALED
    assert source_of(0, 0)
