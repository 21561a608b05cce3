"""`evokern doctor`: what this machine can do, what is missing, and the fix."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict, dataclass

from evokern.cli.answer import DONE, JsonFlag, print_answer

NOT_HERE = 3
OK, WARNING, MISSING = "ok", "warning", "missing"
ENOUGH_BYTES = 1 << 30
"""A run's journal and build products rarely pass a tenth of this."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: What.
        state: "ok", "warning" (a run works, with less) or "missing" (no run works).
        found: What was found, in words.
        mend: What to do; empty where nothing is wrong.
    """

    name: str
    state: str
    found: str
    mend: str = ""


def doctor(as_json: JsonFlag = False) -> int:
    """Say what this machine can do and what is missing, with the fix. Exit code 3 where no run can work."""
    from evokern.evaluation import REASONS

    findings = [_python(), _torch(), *_home(), *_backends(), *_sandbox(), _model()]
    able = all(finding.state != MISSING for finding in findings)
    reasons = {str(reason): meaning for reason, meaning in REASONS.items()}
    document = {"able": able, "findings": [asdict(finding) for finding in findings], "reasons": reasons}
    print_answer("evokern.doctor/1", document, _text(findings, reasons, able=able), as_json=as_json)
    return DONE if able else NOT_HERE


def _text(findings: list[Finding], reasons: dict[str, str], *, able: bool) -> str:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<8} {finding.name:<{width}}  {finding.found}")
        if finding.mend:
            lines.append(f"{'':<8} {'':<{width}}  -> {finding.mend}")
    lines += ["", "a run works here" if able else "no run works here until what is missing is mended"]
    lines += ["", "reasons that a verdict can give:"]
    lines += [f"  {reason:<18} {meaning}" for reason, meaning in reasons.items()]
    return "\n".join(lines)


def _python() -> Finding:
    return Finding("python", OK, sys.version.split()[0])


def _torch() -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Finding("torch", OK, version("torch"))
    except PackageNotFoundError:
        return Finding("torch", MISSING, "not installed; baselines and the oracle need it", "pip install torch")


def _home() -> list[Finding]:
    from evokern.errors import Unavailable
    from evokern.store import find_home, home

    folder = find_home()
    was_there = folder.is_dir()
    try:
        home()
    except Unavailable as error:
        return [Finding("home", MISSING, f"{error.where}: {error.what}", error.mend)]
    free = shutil.disk_usage(folder).free
    if not was_there:
        folder.rmdir()
    space = f"{free / 2**30:.1f} GiB free"
    small = Finding("disk", WARNING, space, "Make room, or set EVOKERN_HOME to another disk")
    return [Finding("home", OK, str(folder)), Finding("disk", OK, space) if free >= ENOUGH_BYTES else small]


def _backends() -> list[Finding]:
    """One finding a backend; without any that works there is no run."""
    from evokern import plugins
    from evokern.errors import EvokernError

    findings = []
    for name in plugins.names("backend"):
        try:
            facts = plugins.load("backend", name)().probe()
        except EvokernError as error:
            findings.append(Finding(f"backend {name}", WARNING, error.what, error.mend))
            continue
        findings.append(Finding(f"backend {name}", OK, f"{facts.device}, {facts.compiler}, {' '.join(facts.flags)}"))
    if not any(finding.state == OK for finding in findings):
        findings.append(Finding("backend", MISSING, "none works here", "Mend one of the above"))
    return findings


def _sandbox() -> list[Finding]:
    """The tier, and every canary that did not hold, with its fix."""
    import tempfile
    from pathlib import Path

    from evokern.errors import EvokernError
    from evokern.evaluation import Tier
    from evokern.sandbox.spawner import Spawner

    try:
        with tempfile.TemporaryDirectory(prefix="evokern-doctor-") as scratch:
            spawner = Spawner.start({}, scratch=Path(scratch))
            spawner.close()
    except EvokernError as error:
        return [Finding("sandbox", MISSING, error.what, error.mend)]
    held = ", ".join(canary.name for canary in spawner.canaries if canary.held) or "nothing"
    shut = spawner.tier is Tier.UNSANDBOXED
    mend = "Nothing that is found at this tier can be promoted, learnt from or exported" if shut else ""
    findings = [Finding("sandbox", WARNING if shut else OK, f"{spawner.tier}: {held}", mend)]
    return findings + [Finding(f"sandbox {c.name}", WARNING, c.detail, c.fix) for c in spawner.canaries if not c.held]


def _model() -> Finding:
    from evokern.errors import UsageError
    from evokern.model.gateway import GatewaySettings

    try:
        settings = GatewaySettings.from_environment()
    except UsageError as error:
        return Finding("model", WARNING, error.line, error.mend)
    if settings is None:
        return Finding("model", OK, "none: LLM-free operators alone", "Set EVOKERN_MODEL, or give --model, to add a language model")
    place = f" at {settings.api_base}" if settings.api_base else ""
    return Finding("model", OK, f"{settings.model}{place}, key {'given' if settings.api_key else 'left to litellm'}")
