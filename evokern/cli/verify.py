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
    """Check that no event was changed or taken out, that every table says what the events say, and that judges of this home signed.

    Exit code 1 where not.
    """
    from evokern.cli.runs import open_journal
    from evokern.engine.sealing import audit, recorded_runs

    with open_journal() as journal:
        wanted = [name for name in recorded_runs(journal) if name.startswith(run)]
        if run in wanted or (run and len(wanted) != 1):
            # A whole id names one run, whatever others begin so; a prefix that fits none or several is refused as everywhere.
            wanted = [run if run in wanted else journal.run(run).id]
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
        "unsealed": found.unsealed,
        "signed": found.signed,
        "external": found.external,
        "findings": [{"row": one.row, "position": one.position, "what": one.what} for one in found.findings],
    }


def _lines(found: Audit) -> list[str]:
    from evokern.report.tables import counted

    sealed = f"{counted(found.events, 'event')}, {found.sealed} of them sealed"
    counts = f"{sealed}; {counted(found.signed, 'verdict')} signed, {found.external} external"
    lines = [f"{found.run}: {'whole' if not found.findings else 'NOT as it was written'}: {counts}"]
    if found.unsealed:
        lines.append(
            f"  {counted(found.unsealed, 'event')} not sealed yet: of these, what is cut off the end cannot be told until the next seal"
        )
    for one in found.findings:
        event = f"event {one.position}" if one.position >= 0 else "the run"
        row = f" (row {one.row})" if one.row else ""
        lines.append(f"  {event}{row} {one.what}")
    return lines
