"""`evokern doctor`: what this machine can do, what is missing, and the fix."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from evokern.cli.answer import DONE, JsonFlag, print_answer

NOT_HERE = 3
OK, WARNING, MISSING = "ok", "warning", "missing"
ENOUGH_BYTES = 1 << 30
"""A run's journal and build products rarely pass a tenth of this."""

READERS = ("readelf", "objdump")

SMI_SECONDS = 20.0
_SMI_FIELDS = "index,name,driver_version,memory.total,uuid"

FINGERPRINT_DIGITS = 32
"""Hexadecimal digits of a judge's key that are shown: 128 bits, too many to be met by another key on purpose."""


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


def doctor(
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Print every reason that a verdict can give, and what to do about it.")
    ] = False,
    attacks: Annotated[bool, typer.Option("--attacks", help="Judge the known attacks and their honest twins on this machine.")] = False,
    sample: Annotated[
        int | None, typer.Option(min=0, help="With --attacks: at most so many kernels, drawn by --seed; all if not given.")
    ] = None,
    seed: Annotated[str | None, typer.Option(help="With --attacks: of the sample and the mutants; 0 if not given.")] = None,
    only: Annotated[
        str | None, typer.Option(help="With --attacks: kernels whose names hold any of these texts, separated by commas.")
    ] = None,
    mutants: Annotated[int | None, typer.Option(min=0, help="With --attacks: so many disguised attacks beside them.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Say what this machine can do and what is missing, with the fix. Exit code 3 where no run can work.

    With --attacks exit code 1 where an attack escaped or an honest kernel was refused.
    """
    if reasons:
        return _tell_reasons(as_json=as_json)
    if attacks:
        from evokern.cli.attacks import judge_attacks

        return judge_attacks(sample=sample or 0, seed=seed or "0", only=only or "", mutants=mutants or 0, as_json=as_json)
    _refuse_without_attacks({"--sample": sample, "--seed": seed, "--only": only, "--mutants": mutants})
    findings = [_python(), _torch(), *_home(), *_backends(), _readers(), *_sandbox(), *_gpus(), *_judges(), _model()]
    able = all(finding.state != MISSING for finding in findings)
    meanings = _meanings()
    document = {"able": able, "findings": [asdict(finding) for finding in findings], "reasons": meanings}
    print_answer("evokern.doctor/1", document, _text(findings, able=able), as_json=as_json)
    return DONE if able else NOT_HERE


def _refuse_without_attacks(flags: Mapping[str, object]) -> None:
    """Flags that say which attacks are judged mean nothing where none is."""
    from evokern.errors import UsageError

    for flag, value in flags.items():
        if value is not None:
            raise UsageError("says which attacks are judged, and none are", where=flag, mend="Give --attacks too")


def _meanings() -> dict[str, str]:
    from evokern.evaluation import REASONS

    return {str(reason): meaning for reason, meaning in REASONS.items()}


def _tell_reasons(*, as_json: bool) -> int:
    """The closed list of reasons with advice, and what verdicts and tiers say."""
    from evokern.report.words import NEXT, TIERS, VERDICTS

    meanings = _meanings()
    document = {
        "reasons": {str(reason): {"meaning": meanings[reason], "next": told} for reason, told in NEXT.items()},
        "verdicts": {str(verdict): told for verdict, told in VERDICTS.items()},
        "tiers": {str(tier): told for tier, told in TIERS.items()},
    }
    lines = [line for reason, told in NEXT.items() for line in (f"{reason:<18} {meanings[reason]}", f"{'':<18} -> {told}")]
    lines += ["", *(f"{verdict:<18} {told}" for verdict, told in VERDICTS.items())]
    lines += ["", *(f"{tier:<18} {told}" for tier, told in TIERS.items())]
    print_answer("evokern.reasons/1", document, "\n".join(lines), as_json=as_json)
    return DONE


def _text(findings: list[Finding], *, able: bool) -> str:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<8} {finding.name:<{width}}  {finding.found}")
        if finding.mend:
            lines.append(f"{'':<8} {'':<{width}}  -> {finding.mend}")
    lines += ["", "a run works here" if able else "no run works here until what is missing is mended"]
    lines.append("`evokern doctor --reasons` lists the reasons that a verdict can give, and what to do about each")
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
    from evokern.report.words import TIERS
    from evokern.sandbox.spawner import Spawner

    try:
        with tempfile.TemporaryDirectory(prefix="evokern-doctor-") as scratch:
            spawner = Spawner.start({}, scratch=Path(scratch))
            spawner.close()
    except EvokernError as error:
        return [Finding("sandbox", MISSING, error.what, error.mend)]
    held = ", ".join(canary.name for canary in spawner.canaries if canary.held) or "nothing"
    broken = [canary for canary in spawner.canaries if not canary.held]
    shut = spawner.tier is Tier.UNSANDBOXED
    below = f"For a better tier mend: {', '.join(canary.name for canary in broken)}" if broken and not shut else ""
    mend = "Nothing that is found at this tier can be promoted, learnt from or exported" if shut else below
    findings = [Finding("sandbox", WARNING if shut else OK, f"{spawner.tier}: {TIERS[spawner.tier]}", mend)]
    findings.append(Finding("sandbox holds", WARNING if shut else OK, held))
    return findings + [Finding(f"sandbox {c.name}", WARNING, c.detail, c.fix) for c in broken]


def _gpus() -> list[Finding]:
    """GPUs of NVIDIA, what compiles for them, and whether slots work with them. Without one nothing is wrong."""
    from evokern.sandbox import gpu

    numbers = gpu.present()
    if not numbers:
        return [Finding("gpu", OK, "no GPU")]
    findings = [_smi(), _nvcc(), _triton()]
    if not gpu.driver_folder():
        where = f"no {gpu.LIBRARY} where the linker looks"
        return [*findings, Finding("gpu driver", WARNING, where, "Install NVIDIA's driver, or set LD_LIBRARY_PATH to its folder")]
    return [*findings, Finding("gpu driver", OK, gpu.driver_folder()), *_gpu_slots(numbers)]


def _smi() -> Finding:
    """Names, memory and driver of the GPUs, as the driver's own tool says."""
    import subprocess

    command = ["nvidia-smi", f"--query-gpu={_SMI_FIELDS}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(
            "gpu", WARNING, f"nodes are there, but nvidia-smi does not answer: {error}", "Install NVIDIA's driver with its tools"
        )
    if done.returncode:
        return Finding("gpu", WARNING, f"nvidia-smi: {(done.stderr or done.stdout).strip()[-200:]}", "See to the driver, `dmesg` says more")
    rows = [[field.strip() for field in line.split(",")] for line in done.stdout.strip().splitlines()]
    return Finding("gpu", OK, "; ".join(f"{index} {name}, {memory}, driver {driver}" for index, name, driver, memory, *_ in rows))


def _nvcc() -> Finding:
    import glob
    import subprocess

    found = shutil.which("nvcc") or next(iter(sorted(glob.glob("/usr/local/cuda*/bin/nvcc"))), None)
    if found is None:
        mend = "Install the CUDA toolkit, or put its bin folder on PATH"
        return Finding("nvcc", WARNING, "not found: no CUDA kernel can be built, nor HIP on NVIDIA", mend)
    try:
        done = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=SMI_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("nvcc", WARNING, f"{found}: {error}", "Install the CUDA toolkit again")
    release = next((line.partition("release ")[2].split(",")[0] for line in done.stdout.splitlines() if "release " in line), "?")
    return Finding("nvcc", OK, f"{release}, {found}")


def _triton() -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Finding("triton", OK, version("triton"))
    except PackageNotFoundError:
        return Finding("triton", WARNING, "not installed: no Triton kernel can be built", "pip install triton")


def _gpu_slots(numbers: list[int]) -> list[Finding]:
    """Whether a candidate's slot can use each of the GPUs, tried."""
    import tempfile
    from functools import partial
    from pathlib import Path

    from evokern.errors import EvokernError
    from evokern.sandbox import Limits, Policy, gpu_canary
    from evokern.sandbox.spawner import Spawner

    zygote = gpu_canary.GPU
    try:
        with (
            tempfile.TemporaryDirectory(prefix="evokern-doctor-") as scratch,
            Spawner.start({zygote: [gpu_canary.__name__]}, scratch=Path(scratch)) as spawner,
        ):
            make = partial(spawner.slot, zygote=zygote, descriptors=[], argument=b"", limits=Limits(), policy=Policy.DEVICE)
            tried = {number: gpu_canary.try_gpu(partial(make, gpu=number)) for number in numbers}
    except EvokernError as error:
        return [Finding("slots with a gpu", WARNING, error.what, error.mend)]
    return [Finding(f"slot with gpu {number}", OK if found.held else WARNING, found.detail, found.fix) for number, found in tried.items()]


def _readers() -> Finding:
    """Without readers of libraries kernels are judged, and nobody is told what they ask of the system."""
    missing = [name for name in READERS if shutil.which(name) is None]
    if not missing:
        return Finding("readers", OK, ", ".join(READERS))
    return Finding("readers", WARNING, f"no {' and no '.join(missing)}: kernels are not screened", "Install binutils")


def _judges() -> list[Finding]:
    """The home's own judge and all whose verdicts count here, by the first digits of their keys."""
    from evokern.errors import Unavailable
    from evokern.evaluator.signing import Judges
    from evokern.store import find_home

    try:
        keys = sorted(Judges.of_home(find_home()).keys)
    except Unavailable as error:
        return [Finding("judges", WARNING, error.what, error.mend)]
    if not keys:
        return [Finding("judges", OK, "none enrolled yet: the first run enrols this machine's")]
    return [Finding("judge", OK, " ".join(key[at : at + 4] for at in range(0, FINGERPRINT_DIGITS, 4))) for key in keys]


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
