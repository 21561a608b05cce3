"""Seals kept beside the journal, and the check of a run's whole record: chain, seals, signatures, rankings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evokern import record
from evokern.errors import Unavailable, UsageError
from evokern.evaluation import Verdict
from evokern.evaluator.signing import Judges, Seal, genuine
from evokern.event import EventKind, RunSettings
from evokern.store import Journal
from evokern.store import payload as events
from evokern.store.chain import Link, breaks
from evokern.store.lease import is_worked


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a run's record that is not as it was written.

    Attributes:
        row: Number of the row in the journal; 0 where it is missing.
        position: Number of the event within its run, from 0; -1 where it is about the run.
        what: In words.
    """

    row: int
    position: int
    what: str


@dataclass(slots=True)
class Audit:
    """What the check of one run found.

    Attributes:
        run: Its id.
        events: How many it has.
        sealed: How many of them, from the first, a judge of this home has sealed: none of these can be changed or removed unseen.
        unsealed: Those after them but for seals. What is cut off the end of these cannot be told until the next seal.
        signed: Verdicts of judges of this home.
        external: Verdicts of others, or of nobody.
        findings: What is wrong; empty where the record is whole.
    """

    run: str
    events: int = 0
    sealed: int = 0
    unsealed: int = 0
    signed: int = 0
    external: int = 0
    findings: list[Finding] = field(default_factory=list)


def keep_seal(home: Path, seal: Seal) -> None:
    """Write a run's last seal beside the journal, where a cut of the journal does not reach.

    Raises:
        Unavailable: It cannot be written.
    """
    path = _seal_path(home, seal.run)
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(record.to_json(seal)))
        os.replace(partial, path)
    except OSError as error:
        raise Unavailable(f"the run's seal cannot be written: {error.strerror}", where=str(path)) from error


def recorded_runs(journal: Journal) -> list[str]:
    """Ids of all runs that a home knows of, sorted: those of the journal, and those of which only a seal or a key is left."""
    home = journal.path.parent
    beside = [path.stem for folder, ending in (("runs", "seal"), ("keys", "key")) for path in (home / folder).glob(f"*.{ending}")]
    return sorted({*journal.run_ids(), *beside})


def audit(journal: Journal, run: str) -> Audit:
    """Check a run's record.

    Args:
        journal: Where it is kept.
        run: Full id.
    """
    home = journal.path.parent
    # Both first: a run that is being worked may be sealed anew, or end, at any moment.
    worked, kept = is_worked(home, run), _kept_seal(home, run)
    judges, written = Judges.of_home(home), journal.written(run)
    links = written.links
    found = Audit(run, len(links))
    found.findings += [Finding(broken.sequence, broken.position, broken.what) for broken in breaks(links)]
    broken_rows = {finding.row for finding in found.findings}
    for link in links:
        found.findings += _verdict_findings(link, judges, found, written.verdicts)
        found.findings += _seal_findings(link, judges, found, links)
        # Of an event that was changed itself nothing more is said.
        found.findings += [one for one in _candidate_findings(link, written.candidates) if one.row not in broken_rows]
    found.findings += [Finding(row, -1, "ranks a verdict that no event holds") for row in sorted(written.verdicts)]
    found.findings += [Finding(0, -1, f"lists {kernel[:12]}, which no event proposed") for kernel in sorted(written.candidates)]
    found.findings += _run_findings(run, links, written.run)
    found.findings += _tail_findings(kept, run, judges, found, links) if kept is not None else []
    found.findings += _unsealed_findings(kept, found, links) if links and not worked else []
    found.findings += _source_findings(journal, links)
    found.findings.sort(key=lambda finding: (finding.position, finding.row))
    found.unsealed = sum(link.position >= found.sealed and link.kind != EventKind.SEALED for link in links)
    return found


def _candidate_findings(link: Link, candidates: dict[str, dict[str, Any]]) -> Iterator[Finding]:
    """A candidate's row says what its proposal says: operator, island, parents, edits."""
    from evokern.store.writer import stored_candidate_row

    if link.kind != EventKind.PROPOSED:
        return
    held = candidates.pop(_named_kernel(link.payload), None)
    try:
        wanted = stored_candidate_row(link.run, record.fields(link.payload), link.at)
    except UsageError:
        yield Finding(link.sequence, link.position, "holds no proposal that can be read")
        return
    if held != wanted:
        yield Finding(link.sequence, link.position, f"is listed otherwise than its proposal of {wanted['kernel_id'][:12]} says")


def _run_findings(run: str, links: list[Link], held: dict[str, Any] | None) -> Iterator[Finding]:
    """The run's own row is what its events make of it, in their order."""
    from evokern.store.writer import run_values

    if not links:
        left = "its row in the journal" if held is not None else "its seal or its key, beside the journal,"
        yield Finding(0, -1, f"has no event, although {left} is there: all of them were removed, or the journal was")
        return
    wanted: dict[str, Any] = {"id": run}
    for link in links:
        try:
            wanted |= run_values(link.kind, link.payload, link.at)
        except (ValueError, AttributeError):
            yield Finding(link.sequence, link.position, "cannot be read")
            return
    if held is None:
        yield Finding(0, -1, "has events, and no row")
    elif held != wanted:
        differing = sorted(name for name in {*held, *wanted} if held.get(name) != wanted.get(name))
        yield Finding(0, -1, f"is listed otherwise than its events say: {', '.join(differing)}")


def _verdict_findings(link: Link, judges: Judges, found: Audit, projections: dict[int, dict[str, Any]]) -> Iterator[Finding]:
    from evokern.store.writer import evaluation_row

    if link.kind not in events.VERDICTS:
        return
    kind = EventKind(link.kind)
    projection = projections.pop(link.sequence, None)
    try:
        body = record.from_json(events.VERDICTS[kind], record.parse(link.payload))
    except UsageError:
        yield Finding(link.sequence, link.position, "holds no verdict that can be read")
        return
    evaluation = body.evaluation
    if judges.accept(evaluation):
        found.signed += 1
    elif evaluation.signature and not genuine(evaluation):
        yield Finding(link.sequence, link.position, f"its signature is not that of its verdict on {evaluation.kernel_id[:12]}")
    elif evaluation.verdict is not Verdict.INFRASTRUCTURE:
        found.external += 1
        if not body.external:
            yield Finding(
                link.sequence, link.position, f"counts a verdict on {evaluation.kernel_id[:12]} that no judge of this home signed"
            )
    if projection != evaluation_row(link.run, kind, body, link.at):
        yield Finding(link.sequence, link.position, f"is ranked otherwise than its verdict on {evaluation.kernel_id[:12]} says")


def _seal_findings(link: Link, judges: Judges, found: Audit, links: list[Link]) -> Iterator[Finding]:
    if link.kind != EventKind.SEALED:
        return
    seal = _seal(link.payload)
    if seal is None or not judges.accept(seal):
        yield Finding(link.sequence, link.position, "is a seal that no judge of this home made")
    elif not _holds(seal, link.run, links):
        yield Finding(link.sequence, link.position, f"seals other events than the {seal.position + 1} before it")
    else:
        found.sealed = max(found.sealed, seal.position + 1)


def _kept_seal(home: Path, run: str) -> str | None:
    try:
        return _seal_path(home, run).read_text()
    except OSError:
        return None


def _unsealed_findings(kept: str | None, found: Audit, links: list[Link]) -> Iterator[Finding]:
    """Where a run was sealed or closed, a seal lies beside the journal; else somebody took it away to cut off an end."""
    if kept is None and any(link.kind in (EventKind.SEALED, EventKind.CLOSED) for link in links):
        yield Finding(0, -1, "was sealed, and its seal beside the journal is missing")
    elif kept is not None and any(link.kind == EventKind.CLOSED and link.position >= found.sealed for link in links):
        yield Finding(0, -1, "was closed, and no seal covers its end")


def _tail_findings(kept: str, run: str, judges: Judges, found: Audit, links: list[Link]) -> Iterator[Finding]:
    """The last seal is kept outside the journal too: what it covers must be there."""
    seal = _seal(kept)
    if seal is None or not judges.accept(seal) or seal.run != run:
        yield Finding(0, -1, "the seal beside the journal is not a judge's of this home")
    elif not _holds(seal, run, links):
        last = max((link.position for link in links), default=-1)
        if last < seal.position:
            yield Finding(0, last + 1, f"is missing: {seal.position - last} events were cut off the end")
        else:
            yield Finding(0, seal.position, "is not the event that was sealed")
    else:
        found.sealed = max(found.sealed, seal.position + 1)


def _source_findings(journal: Journal, links: list[Link]) -> Iterator[Finding]:
    """Sources stand outside the chain; it holds their ids, which are their hashes."""
    for link in links:
        if link.kind == EventKind.PROPOSED:
            wanted = _named_kernel(link.payload)
            if wanted and not journal.holds_kernel(wanted):
                yield Finding(link.sequence, link.position, f"the source of {wanted[:12]} is missing or was changed")
        elif link.kind == EventKind.RUN_STARTED and _settings(link.payload) is None:
            yield Finding(link.sequence, link.position, "holds no settings that can be read")


def _named_kernel(payload: str) -> str:
    try:
        return str(record.parse(payload)["candidate"]["kernel"]["id"])
    except (UsageError, KeyError, TypeError):
        return ""


def _settings(payload: str) -> RunSettings | None:
    try:
        return record.from_json(RunSettings, record.parse(payload)["settings"])
    except (UsageError, KeyError, TypeError):
        return None


def _seal(text: str) -> Seal | None:
    try:
        return record.from_json(Seal, record.parse(text))
    except UsageError:
        return None


def _holds(seal: Seal, run: str, links: list[Link]) -> bool:
    return seal.run == run and any(link.position == seal.position and link.digest == seal.digest for link in links)


def _seal_path(home: Path, run: str) -> Path:
    return home / "runs" / f"{run}.seal"
