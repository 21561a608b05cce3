"""`evokern verify`: whether the record of a run is as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from evokern.cli.answer import DID_NOT_HOLD, DONE, JsonFlag, print_answer

if TYPE_CHECKING:
    from evokern.engine.sealing import Audit


def verify(
    run: Annotated[str, typer.Argument(help="Id of a run or a unique prefix; every run if not given.")] = "",
    as_json: JsonFlag = False,
) -> int:
    """Check that no event was changed or taken out, and that judges of this home signed the verdicts. Exit code 1 where not."""
    from evokern.cli.runs import open_journal
    from evokern.engine.sealing import audit

    with open_journal() as journal:
        wanted = [journal.run(run).id] if run else sorted(found.id for found in journal.runs())
        audits = [audit(journal, name) for name in wanted]
    whole = not any(found.findings for found in audits)
    document = {"whole": whole, "runs": [_document(found) for found in audits]}
    print_answer("evokern.verify/1", document, "\n".join(line for found in audits for line in _lines(found)), as_json=as_json)
    return DONE if whole else DID_NOT_HOLD


def _document(found: Audit) -> dict[str, Any]:
    return {
        "run": found.run,
        "whole": not found.findings,
        "events": found.events,
        "sealed": found.sealed,
        "signed": found.signed,
        "external": found.external,
        "findings": [{"row": one.row, "position": one.position, "what": one.what} for one in found.findings],
    }


def _lines(found: Audit) -> list[str]:
    counts = f"{found.events} events, {found.sealed} of them sealed; {found.signed} verdicts signed, {found.external} external"
    lines = [f"{found.run}: {'whole' if not found.findings else 'NOT as it was written'}: {counts}"]
    for one in found.findings:
        event = f"event {one.position}" if one.position >= 0 else "the run"
        row = f" (row {one.row})" if one.row else ""
        lines.append(f"  {event}{row} {one.what}")
    return lines
