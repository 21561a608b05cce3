"""Attacks on the evaluator: a corpus of hostile kernels with honest twins, and what the whole ladder makes of them.

A file of the corpus is one C++ source with a head of comments:

    // T03: a thread finishes the work after `run` has returned
    // task: softmax
    // expect: hacked/early_completion, wrong/sentinel_left

The first line names rows of the list of known attacks (`rows.toml`), or `odd` for an honest kernel that merely looks strange. `expect`
names every verdict and reason that is right; `no_gain` stands for a pass that the clock does not reward. Lines between `// attack:`
and `// honest:` are the attack's alone, those between `// honest:` and `// end` its twin's: the same text with the bad habit taken out,
which must pass. A header of the task or of the corpus that it includes is pasted in, since a kernel is one source.

Kernels for a GPU lie in a folder of their own (`load_device_corpus`), in CUDA, HIP and Triton; in Python the same comments begin with
`#`, and `# include "honest.py"` is what pastes a file in.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import evokern
from evokern.errors import Unavailable, UsageError
from evokern.evaluation import INCUMBENT, Evaluation, Reason, Verdict
from evokern.kernel import SUFFIXES, Candidate, Kernel, dialect_of
from evokern.task import DType

if TYPE_CHECKING:
    from evokern.executor.local import LocalExecutor

NO_GAIN = "no_gain"
"""Expectation of a trick that ends in a fair price: it may pass, but not be faster than its twin."""

GAIN = 1.25
"""Ratio to its twin from which such a kernel has escaped: tricks are after far more, noise on paired calls is far less."""

ATTEMPTS = 2
"""How often a kernel is judged where the machine failed instead of a kernel."""

IN_FLIGHT = 3
"""Kernels asked for at a time and task: one is measured while others are built."""

HELD_OUT = 9
"""Held-out shapes of the small tasks: one of every kind."""

DEVICE_CORPUS = "gpu"
"""Folder of the corpus with kernels for a GPU."""

_HEAD = re.compile(r"^(?://|#) (?P<rows>odd|[A-Z]\d\d(?:, [A-Z]\d\d)*): (?P<what>.+)$")
_FIELD = re.compile(r"^(?://|#) (?P<name>task|expect|twin): (?P<value>.+)$")
_INCLUDE = re.compile(r'^# ?include "(?!evokern\.h)(?P<file>\w+\.(?:h|py))"$', re.MULTILINE)
_MARKER = re.compile(r"(?://|#) (?:(?P<side>attack|honest):|end)")


class Kind(StrEnum):
    """What a kernel of the corpus is."""

    ATTACK = "attack"
    TWIN = "twin"
    ODD = "odd"
    MUTANT = "mutant"


class Finding(StrEnum):
    """What came of one kernel."""

    BLOCKED = "blocked"
    OTHER_REASON = "other_reason"
    ESCAPED = "escaped"
    PASSED = "passed"
    FALSELY_REFUSED = "falsely_refused"
    UNDECIDED = "undecided"


GOOD = frozenset({Finding.BLOCKED, Finding.PASSED})


@dataclass(frozen=True)
class Exhibit:
    """One kernel to judge.

    Attributes:
        name: Unique in the corpus; a twin's ends in `.twin`.
        kind: What it is.
        rows: Rows of the list of known attacks.
        what: What it does, in words.
        task: Name of the task.
        source: One self-contained source.
        expected: `verdict/reason` or `no_gain`, any of which is right; empty for honest kernels, which must pass.
        rival: Its twin's source where it must be no faster than that.
        dialect: Of the source.
    """

    name: str
    kind: Kind
    rows: tuple[str, ...]
    what: str
    task: str
    source: str
    expected: tuple[str, ...] = ()
    rival: str = ""
    dialect: str = "cpp"

    @property
    def kernel(self) -> Kernel:
        """As the evaluator takes it."""
        return Kernel(self.dialect, self.source)

    @property
    def opponent(self) -> Kernel | None:
        """What it must be no faster than, as the evaluator takes it; None for the baseline."""
        return Kernel(self.dialect, self.rival) if self.rival else None

    @property
    def hostile(self) -> bool:
        """Whether it must not pass."""
        return self.kind in (Kind.ATTACK, Kind.MUTANT)


@dataclass(frozen=True)
class Outcome:
    """What the ladder said of an exhibit.

    Attributes:
        exhibit: Which.
        finding: Whether that is right.
        verdict: Last verdict.
        reason: Its reason.
        detail: Its one line.
        rung: The last rung entered.
        gain: How many times faster than its twin; None where that was not asked.
        seconds: Wall time from asking to the answer, waiting for others included.
    """

    exhibit: Exhibit
    finding: Finding
    verdict: Verdict
    reason: Reason
    detail: str = ""
    rung: str = ""
    gain: float | None = None
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether the evaluator did what it should."""
        return self.finding in GOOD

    @property
    def line(self) -> str:
        """In one line: the finding, the name, what was found and what was expected."""
        gain = "" if self.gain is None else f", {self.gain:.2f}x its twin"
        wanted = f" (expected {', '.join(self.exhibit.expected) or 'passed'})" if not self.good else ""
        return f"{self.finding:<15} {self.exhibit.name}: {self.verdict}/{self.reason}{gain}{wanted} {self.detail}".rstrip()


@dataclass(frozen=True)
class Corpus:
    """All exhibits of a folder.

    Attributes:
        folder: Where they were read from.
        exhibits: Attacks, each followed by its twin, then the odd kernels; by name.
    """

    folder: Path
    exhibits: tuple[Exhibit, ...]

    def of_kind(self, *kinds: Kind) -> list[Exhibit]:
        """Exhibits of some kinds."""
        return [exhibit for exhibit in self.exhibits if exhibit.kind in kinds]

    def only(self, text: str) -> Corpus:
        """Exhibits whose name holds any of some texts, separated by commas; all for an empty text."""
        parts = [part for part in text.split(",") if part]
        return replace(self, exhibits=tuple(e for e in self.exhibits if not parts or any(part in e.name for part in parts)))

    def sample(self, count: int, seed: str) -> Corpus:
        """At most so many exhibits, drawn by a seed: every seventh an odd kernel, and a twin for every third attack."""
        rng = random.Random(f"evokern.attacks/1 {seed}")
        attacks, twins, odd = self.of_kind(Kind.ATTACK), {e.name: e for e in self.of_kind(Kind.TWIN)}, self.of_kind(Kind.ODD)
        rng.shuffle(attacks)
        rng.shuffle(odd)
        chosen: list[Exhibit] = []
        for number, attack in enumerate(attacks):
            chosen.append(attack)
            if number % 3 == 0 and f"{attack.name}.twin" in twins:
                chosen.append(twins[f"{attack.name}.twin"])
            if number % 7 == 0 and odd:
                chosen.append(odd.pop())
        return replace(self, exhibits=tuple(chosen[:count]))


def corpus_folder() -> Path:
    """The corpus of the checkout, else the one that is packaged.

    Raises:
        Unavailable: Neither is there.
    """
    package = Path(evokern.__file__).parent
    for folder in (package.parent / "tests" / "attacks", package / "_data" / "attacks"):
        if (folder / "rows.toml").is_file():
            return folder
    raise Unavailable("the attack corpus is not installed", where=str(package), mend="Install evokern from its wheel or a checkout")


def load_corpus(folder: Path | None = None) -> Corpus:
    """Read every source of a folder and of its `odd/`.

    Args:
        folder: The installed corpus when None.

    Raises:
        UsageError: A head or a marker is wrong; the message names the file.
        Unavailable: There is no corpus.
    """
    where = corpus_folder() if folder is None else folder
    exhibits: list[Exhibit] = []
    for path in [*sorted(where.glob("*.cpp")), *sorted((where / "odd").glob("*.cpp"))]:
        exhibits += _exhibits(path, where)
    return Corpus(where, tuple(exhibits))


def load_device_corpus(folder: Path | None = None) -> Corpus:
    """Read every source for a GPU.

    Args:
        folder: That of the installed corpus when None.

    Raises:
        UsageError: A head or a marker is wrong; the message names the file.
        Unavailable: There is no corpus.
    """
    where = corpus_folder() / DEVICE_CORPUS if folder is None else folder
    endings = tuple(suffix for dialect, suffix in SUFFIXES.items() if dialect != "cpp")
    exhibits: list[Exhibit] = []
    for path in sorted(where.iterdir()):
        if path.name.endswith(endings):
            exhibits += _exhibits(path, where)
    return Corpus(where, tuple(exhibits))


def _exhibits(path: Path, folder: Path) -> Iterator[Exhibit]:
    """An attack and its twin, or an odd kernel."""
    dialect = dialect_of(path.name)
    text = path.read_text()
    fields = _head(text, path)
    rows = tuple(fields["rows"].split(", "))
    source = _inlined(text, fields["task"], folder, path)
    name = path.relative_to(folder).as_posix().removesuffix(SUFFIXES[dialect])
    if rows == ("odd",):
        yield Exhibit(name, Kind.ODD, rows, fields["what"], fields["task"], source, dialect=dialect)
        return
    expected = tuple(part.strip() for part in fields.get("expect", "").split(","))
    for part in expected:
        _check_expectation(part, path)
    honest = _twin(source, fields.get("twin", ""), fields["task"], folder, path)
    rival = honest if NO_GAIN in expected else ""
    yield Exhibit(name, Kind.ATTACK, rows, fields["what"], fields["task"], region(source, "attack"), expected, rival, dialect)
    yield Exhibit(f"{name}.twin", Kind.TWIN, rows, f"honest twin of {name}", fields["task"], honest, dialect=dialect)


def _head(text: str, path: Path) -> dict[str, str]:
    lines = text.splitlines()
    first = _HEAD.match(lines[0]) if lines else None
    if first is None:
        raise UsageError("the first line must be '// ROW: what it does' or '// odd: what it does'", where=str(path))
    fields = first.groupdict()
    for line in lines[1:]:
        match = _FIELD.match(line)
        if match is None:
            break
        fields[match["name"]] = match["value"].strip()
    if "task" not in fields or (fields["rows"] != "odd" and "expect" not in fields):
        raise UsageError("the head needs '// task:', and for an attack '// expect:'", where=str(path))
    return fields


def _check_expectation(text: str, path: Path) -> None:
    if text == NO_GAIN:
        return
    verdict, _, reason = text.partition("/")
    if verdict not in list(Verdict) or reason not in list(Reason) or verdict == Verdict.PASSED:
        raise UsageError(f"'{text}' is no verdict/reason that an attack may get", where=str(path), mend=f"Or '{NO_GAIN}'")


def _twin(source: str, named: str, task: str, folder: Path, path: Path) -> str:
    if named:
        return _inlined((folder / named).read_text(), task, folder, path)
    honest = region(source, "honest")
    if honest == region(source, "attack"):
        raise UsageError("has no '// attack:' … '// honest:' … '// end' and names no twin", where=str(path))
    return honest


def region(source: str, side: str) -> str:
    """A source with the lines of one side, "attack" or "honest", and those that both share."""
    kept, current = [], ""
    for line in source.splitlines():
        marker = _MARKER.fullmatch(line.strip())
        if marker:
            current = marker["side"] or ""
        elif current in ("", side):
            kept.append(line)
    return "\n".join(kept) + "\n"


def _inlined(text: str, task: str, folder: Path, path: Path) -> str:
    def content(match: re.Match[str]) -> str:
        of_task, of_all = folder / "tasks" / task / match["file"], folder / match["file"]
        file = of_task if of_task.is_file() else of_all
        if not file.is_file():
            raise UsageError(f"there is neither {of_task} nor {of_all}", where=str(path))
        return _INCLUDE.sub(content, file.read_text()).rstrip()

    return _INCLUDE.sub(content, text)


class Jury:
    """Judges exhibits up the real ladder, one judge process a task, each started when it is first needed.

    Args:
        folder: Scratch: small tasks, build products, keys.
        say: Told what takes time.
        corpus: Folder whose `tasks/<name>/task.toml` go before the catalogue's.
    """

    def __init__(self, folder: Path, say: Callable[[str], None], corpus: Path) -> None:
        self._folder, self._say, self._corpus = folder, say, corpus
        self._executors: dict[str, asyncio.Task[LocalExecutor]] = {}
        self._places: dict[str, asyncio.Semaphore] = {}

    async def judged(self, exhibit: Exhibit) -> Outcome:
        """One exhibit's outcome; evaluations of one task wait for each other."""
        executor = await self._executor(exhibit.task)
        async with self._places[exhibit.task]:
            start = asyncio.get_running_loop().time()
            evaluation = await _evaluated(executor, exhibit)
            return replace(outcome(exhibit, evaluation), seconds=asyncio.get_running_loop().time() - start)

    async def close(self) -> None:
        """End every judge."""
        for task in self._executors.values():
            await (await task).close()

    async def _executor(self, name: str) -> LocalExecutor:
        if name not in self._executors:
            self._places[name] = asyncio.Semaphore(IN_FLIGHT)
            self._executors[name] = asyncio.create_task(self._opened(name))
        # Shielded: whoever asked first may be cancelled, the others still want it.
        return await asyncio.shield(self._executors[name])

    async def _opened(self, name: str) -> LocalExecutor:
        from evokern.evaluator.catalogue import find_task
        from evokern.evaluator.statement import Opening
        from evokern.executor.local import LocalExecutor
        from evokern.study.small import shrunk

        own = self._corpus / "tasks" / name
        task = find_task(own if (own / "task.toml").is_file() else name, home=self._folder / "home")
        folder = shrunk(task, self._folder / "suite", held_out=HELD_OUT)
        opening = Opening(str(folder), DType.FLOAT32, "cpu", 1, str(self._folder / "home"), baselines=("eager",))
        executor = LocalExecutor(opening, in_flight=IN_FLIGHT)
        await executor.open(self._say)
        return executor


@asynccontextmanager
async def jury(folder: Path, say: Callable[[str], None], corpus: Path) -> AsyncIterator[Jury]:
    """A `Jury` for the length of a block; its judges end with it."""
    sworn = Jury(folder, say, corpus)
    try:
        yield sworn
    finally:
        await sworn.close()


async def judge_all(exhibits: Sequence[Exhibit], sworn: Jury, heard: Callable[[Outcome], None]) -> list[Outcome]:
    """Outcomes in the order of the exhibits.

    Args:
        exhibits: What to judge.
        sworn: Who judges.
        heard: Told every outcome as it comes.
    """

    async def one(exhibit: Exhibit) -> Outcome:
        found = await sworn.judged(exhibit)
        heard(found)
        return found

    return list(await asyncio.gather(*(one(exhibit) for exhibit in exhibits)))


async def _evaluated(executor: LocalExecutor, exhibit: Exhibit) -> Evaluation:
    """The last verdict: an exhibit that passes is confirmed like any elite, and one that the machine failed is asked for again."""
    candidate = Candidate(exhibit.kernel, exhibit.task, DType.FLOAT32)
    rival = exhibit.opponent
    for _ in range(ATTEMPTS):
        evaluation = await executor.evaluate(candidate, rival)
        if evaluation.passed and exhibit.hostile and rival is None:
            evaluation = await executor.confirm(candidate, evaluation)
        if evaluation.verdict is not Verdict.INFRASTRUCTURE:
            break
    return evaluation


def outcome(exhibit: Exhibit, evaluation: Evaluation) -> Outcome:
    """Whether an evaluation of an exhibit is what it should be."""
    found, gain = f"{evaluation.verdict}/{evaluation.reason}", _gain(evaluation)
    if found in exhibit.expected:
        finding = Finding.BLOCKED
    elif evaluation.verdict is Verdict.INFRASTRUCTURE:
        finding = Finding.UNDECIDED
    elif not exhibit.hostile:
        finding = Finding.PASSED if evaluation.passed else Finding.FALSELY_REFUSED
    elif not evaluation.passed:
        finding = Finding.OTHER_REASON
    elif NO_GAIN in exhibit.expected and gain is not None and gain < GAIN:
        finding = Finding.BLOCKED
    else:
        finding = Finding.ESCAPED
    return Outcome(exhibit, finding, evaluation.verdict, evaluation.reason, evaluation.detail[:200], str(evaluation.rung), gain)


def _gain(evaluation: Evaluation) -> float | None:
    """The largest ratio to the twin over the timed workloads."""
    ratios = [ratio.estimate for ratio in evaluation.versus(INCUMBENT).values()]
    return max(ratios) if evaluation.passed and ratios else None


@dataclass
class Tally:
    """Outcomes, counted.

    Attributes:
        outcomes: All of them.
    """

    outcomes: list[Outcome] = field(default_factory=list)

    def count(self, finding: Finding) -> int:
        """How many had a finding."""
        return sum(outcome.finding is finding for outcome in self.outcomes)

    @property
    def good(self) -> bool:
        """Whether every attack was blocked for the right reason and every honest kernel passed."""
        return bool(self.outcomes) and all(outcome.good for outcome in self.outcomes)

    @property
    def summary(self) -> str:
        """One line of counts."""
        hostile = sum(outcome.exhibit.hostile for outcome in self.outcomes)
        honest = len(self.outcomes) - hostile
        return (
            f"{self.count(Finding.BLOCKED)} of {hostile} attacks blocked, "
            f"{self.count(Finding.OTHER_REASON)} refused for another reason than expected, "
            f"{self.count(Finding.ESCAPED)} escaped; {self.count(Finding.FALSELY_REFUSED)} of {honest} honest kernels falsely refused; "
            f"{self.count(Finding.UNDECIDED)} undecided"
        )

    def to_json(self) -> dict[str, object]:
        """Counts, and every outcome in words."""
        counts = {str(finding): self.count(finding) for finding in Finding}
        return {"good": self.good, "counts": counts, "outcomes": [_to_json(outcome) for outcome in self.outcomes]}


def _to_json(found: Outcome) -> dict[str, object]:
    return {
        "name": found.exhibit.name,
        "kind": str(found.exhibit.kind),
        "rows": list(found.exhibit.rows),
        "what": found.exhibit.what,
        "task": found.exhibit.task,
        "expected": list(found.exhibit.expected) or ["passed/none"],
        "finding": str(found.finding),
        "verdict": str(found.verdict),
        "reason": str(found.reason),
        "rung": found.rung,
        "gain": found.gain,
        "detail": found.detail,
        "seconds": round(found.seconds, 2),
    }
