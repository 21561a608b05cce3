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
        sealed: How many of them a judge of this home has sealed.
        signed: Verdicts of judges of this home.
        external: Verdicts of others, or of nobody.
        findings: What is wrong; empty where the record is whole.
    """

    run: str
    events: int = 0
    sealed: int = 0
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


def audit(journal: Journal, run: str) -> Audit:
    """Check a run's record.

    Args:
        journal: Where it is kept.
        run: Full id.
    """
    # The seal first: a run that is being worked may be sealed anew at any moment.
    kept = _kept_seal(journal.path.parent, run)
    judges, links = Judges.of_home(journal.path.parent), list(journal.links(run))
    found = Audit(run, len(links))
    found.findings += [Finding(broken.sequence, broken.position, broken.what) for broken in breaks(links)]
    projections = journal.projections(run)
    for link in links:
        found.findings += _verdict_findings(link, judges, found, projections)
        found.findings += _seal_findings(link, judges, found, links)
    found.findings += [Finding(row, -1, "ranks a verdict that no event holds") for row in sorted(projections)]
    found.findings += _tail_findings(kept, run, judges, links) if kept is not None else []
    found.findings += _source_findings(journal, links)
    found.findings.sort(key=lambda finding: (finding.position, finding.row))
    return found


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


def _tail_findings(kept: str, run: str, judges: Judges, links: list[Link]) -> Iterator[Finding]:
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
