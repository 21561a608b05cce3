"""Coverage-guided fuzzing of everything that parses what a candidate or a user wrote.

`targets/<name>.py` has one function, `once(data)`: it may let nothing out but what it catches itself, which is the typed family of
`EvokernError`, and asserts what holds of every input. `corpus/<name>.txt` keeps inputs that reached something of their own,
`<name>.crashed.txt` those that once crashed, one bytes literal a line; they run with the tests, with or without a fuzzer.

`python -m tests.fuzz.harness [TARGET ...] --seconds N` fuzzes with atheris (libFuzzer), some targets at a time.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGETS = HERE / "targets"
CORPUS = HERE / "corpus"

SEPARATOR = b"\x1e"
"""Between the two texts of targets that take two."""

LONGEST = 2048
"""Bytes of an input."""
HANG_S = 60
ADDRESS_BYTES = 4 << 30
"""Address space of a worker. libFuzzer's own limit counts the peak of whoever started it, which a process keeps across exec."""
MOST_WORDS = 300
ROOM = 10_000
"""Bytes that the committed corpus of a target holds."""
SEED = 1
_WORKER = "from tests.fuzz import harness; harness.worker()"
_START_S = 90

Once = Callable[[bytes], None]


def text_of(data: bytes) -> str:
    """Bytes as text; what is no UTF-8 becomes lone surrogates, which JSON and models can write too."""
    return data.decode("utf-8", "surrogateescape")


def halves(data: bytes) -> tuple[str, str]:
    """Two texts."""
    first, _, second = data.partition(SEPARATOR)
    return text_of(first), text_of(second)


def names() -> list[str]:
    """All targets."""
    return sorted(file.stem for file in TARGETS.glob("*.py"))


def load(target: str) -> Once:
    """A target's function, by its name or the path of its file."""
    file = Path(target) if target.endswith(".py") else TARGETS / f"{target}.py"
    spec = importlib.util.spec_from_file_location(f"fuzz_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    once: Once = module.once
    return once


def corpus(target: str) -> list[bytes]:
    """Inputs that are kept, those that once crashed included."""
    return [held for file in (_reaching(target), _crashing(target)) for held in _read(file)]


def _reaching(target: str) -> Path:
    return CORPUS / f"{Path(target).stem}.txt"


def _crashing(target: str) -> Path:
    return CORPUS / f"{Path(target).stem}.crashed.txt"


def _read(file: Path) -> list[bytes]:
    return [ast.literal_eval(line) for line in file.read_text(encoding="ascii").splitlines()] if file.exists() else []


def keep(file: Path, inputs: Iterable[bytes]) -> None:
    """Write inputs, the longest first, as many as there is room for: of a least set, the longest reach the most."""
    chosen, room = [], ROOM
    for held in sorted(set(inputs), key=lambda held: (-len(held), held)):
        if len(held) <= room:
            chosen.append(held)
            room -= len(held)
    file.write_text("".join(f"{held!r}\n" for held in chosen), encoding="ascii")


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """What came of fuzzing one target.

    Attributes:
        target: Its name.
        seconds: Wall time.
        executions: Inputs tried.
        edges: Edges of evokern's code that were reached.
        corpus: Inputs that reached something of their own.
        crash: End of what was said of the crash; empty where there was none.
        input: What crashed it, as a bytes literal.
        date: When it began.
    """

    target: str
    seconds: float
    executions: int
    edges: int
    corpus: int
    crash: str = ""
    input: str = ""
    date: str = ""

    @property
    def held(self) -> bool:
        """Whether it ran and nothing crashed."""
        return not self.crash and self.executions > 0


def fuzz(target: str, seconds: int, *, seed: int = SEED, grow: bool = False) -> Fuzzed:
    """Fuzz one target in a process of its own.

    Args:
        target: Name, or path of a file.
        seconds: How long.
        seed: Of libFuzzer.
        grow: Whether the committed corpus takes up what was found.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "corpus").mkdir()
        for held in corpus(target):
            (folder / "corpus" / hashlib.sha256(held).hexdigest()[:16]).write_bytes(held)
        (folder / "words").write_text(_words(target), encoding="ascii")
        began, date = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
        code, said = _work(target, folder, [f"-max_total_time={seconds}", f"-seed={seed}", "-dict=words", "corpus"], seconds)
        took = time.monotonic() - began
        crashed = [file.read_bytes() for file in folder.glob("crash-*")] or [file.read_bytes() for file in folder.glob("*-*")]
        found = Fuzzed(
            target,
            round(took, 1),
            _last(r"stat::number_of_executed_units:\s+(\d+)|^#(\d+)\s", said),
            _last(r"cov: (\d+)", said),
            _last(r"corp: (\d+)", said),
            "" if code == 0 and not crashed else _crash(said) or f"exit status {code}",
            repr(crashed[0]) if crashed else "",
            date,
        )
        if grow and found.held:
            (folder / "least").mkdir()
            _work(target, folder, ["-set_cover_merge=1", "least", "corpus"], seconds)
            keep(_reaching(target), [file.read_bytes() for file in (folder / "least").iterdir()])
        if grow and crashed:
            keep(_crashing(target), [*_read(_crashing(target)), *crashed])
    return found


def _words(target: str) -> str:
    """Words of the corpus as a dictionary of libFuzzer: names of fields and the like, which chance does not spell."""
    found = {word for held in corpus(target) for word in re.findall(rb"[A-Za-z_]{3,20}", held)}
    # A dictionary without a word is refused.
    return "".join(f'"{word.decode("ascii")}"\n' for word in sorted(found)[:MOST_WORDS] or [b"word"])


def _work(target: str, folder: Path, options: Sequence[str], seconds: int) -> tuple[int, str]:
    limits = [f"-max_len={LONGEST}", f"-timeout={HANG_S}", "-rss_limit_mb=0", "-print_final_stats=1", "-artifact_prefix=./"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    command = [sys.executable, "-c", _WORKER, target, *limits, *options]
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=seconds + _START_S + 2 * HANG_S, check=False)
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


def worker() -> None:
    """One target under libFuzzer: arguments are the target, then libFuzzer's own."""
    import atheris

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    with atheris.instrument_imports(include=["evokern", "evokern_cpu", "evokern_gpu"]):
        once = atheris.instrument_func(load(sys.argv[1]))
        for held in (b"", *corpus(sys.argv[1])):  # imports where they are used come now, so that they are instrumented
            once(held)
    # The first argument is what libFuzzer starts again, by a shell, in order to merge.
    atheris.Setup([f"{sys.executable} -c '{_WORKER}' {sys.argv[1]}", *sys.argv[2:]], once)
    atheris.Fuzz()


def _last(pattern: str, said: str) -> int:
    found = re.findall(pattern, said, re.MULTILINE)
    if not found:
        return 0
    return int("".join(found[-1]))


def _crash(said: str) -> str:
    at = said.find("Uncaught Python exception")
    text = said[at:] if at >= 0 else said
    end = text.find("INFO:") if at >= 0 else -1
    return (text[:end] if end > 0 else text).replace(f"{ROOT}{os.sep}", "")[-1500:].strip()


def fuzz_all(
    targets: Sequence[str], seconds: int, *, at_a_time: int, grow: bool = False, tell: Callable[[Fuzzed], None] = lambda _: None
) -> list[Fuzzed]:
    """Fuzz several targets."""

    def one(target: str) -> Fuzzed:
        found = fuzz(target, seconds, grow=grow)
        tell(found)
        return found

    with ThreadPoolExecutor(at_a_time) as pool:
        return list(pool.map(one, targets))


def main() -> int:
    """Fuzz, tell, and write down what ran; 1 where something crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="names; all where none is given")
    parser.add_argument("--seconds", type=int, default=600, help="for each target")
    parser.add_argument("--at-a-time", type=int, default=2)
    parser.add_argument("--grow", action="store_true", help="take new inputs into the committed corpus")
    parser.add_argument("--out", type=Path, help="file for the results, rewritten after every target")
    arguments = parser.parse_args()
    chosen = arguments.targets or names()
    rows: list[Fuzzed] = []

    def tell(found: Fuzzed) -> None:
        rows.append(found)
        sys.stdout.write(
            f"{found.target:14} {found.executions:>10} runs {found.edges:>6} edges {found.seconds:>7.1f} s  {found.crash[-300:]}\n"
        )
        sys.stdout.flush()
        if arguments.out is not None:
            arguments.out.write_text(json.dumps(_results(rows, arguments), indent=1) + "\n")

    found = fuzz_all(chosen, arguments.seconds, at_a_time=arguments.at_a_time, grow=arguments.grow, tell=tell)
    return 0 if all(row.held for row in found) else 1


def _results(rows: Sequence[Fuzzed], arguments: argparse.Namespace) -> dict[str, object]:
    """What ran, with what the file already says of other targets and of crashes that were mended."""
    before = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    ran = {row["target"]: row for row in before.get("targets", [])} | {row.target: asdict(row) for row in rows}
    return {
        "schema": "evokern.fuzz/1",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": {"machine": platform.machine(), "cores": os.cpu_count(), "kernel": platform.release()},
        "versions": {"python": platform.python_version(), "atheris": metadata.version("atheris")},
        "command": f"python -m tests.fuzz.harness --seconds {arguments.seconds} --at-a-time {arguments.at_a_time}",
        "seed": SEED,
        "wanted_seconds": arguments.seconds,
        "targets": [ran[name] for name in names() if name in ran],
        "not_run": [name for name in names() if name not in ran],
        "mended": before.get("mended", []),
    }


if __name__ == "__main__":
    sys.exit(main())
