"""`evokern plugins`: every part that can be chosen by name."""

from __future__ import annotations

from evokern.cli.answer import DONE, JsonFlag, print_answer


def plugins(as_json: JsonFlag = False) -> int:
    """List every installed part. Each can be chosen by name; none is loaded."""
    from dataclasses import asdict

    from evokern.plugins import KINDS, available
    from evokern.report.tables import aligned

    parts = [part for kind in KINDS for part in available(kind)]
    text = aligned(["kind", "name", "target", "from"], [[part.kind, part.name, part.target, part.distribution] for part in parts])
    print_answer("evokern.plugins/1", {"plugins": [asdict(part) for part in parts]}, text, as_json=as_json)
    return DONE
