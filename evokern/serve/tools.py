"""Tools: what a client may ask, without a transport.

Every answer is a document and the same as text, and says what is left of the budget. What is told of a kernel is the visible side of
its evaluation: nothing of the held-out set but one bit, not even which one it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evokern import plugins, record
from evokern.config import nearest
from evokern.errors import EvokernError, UsageError
from evokern.evaluation import Evaluation
from evokern.evaluator.profile import profile_of
from evokern.evaluator.signing import Judges
from evokern.evaluator.statement import Preparation
from evokern.event import EventKind
from evokern.kernel import C_DIALECTS, Kernel, dialect_of
from evokern.printable import line
from evokern.report.documents import evaluation_document
from evokern.report.profile import profile_document, profile_text
from evokern.report.status import EVERY, budget_document, by_lower_bound, ratio_document, standing_now
from evokern.report.tables import aligned, budget_text, evaluation_text, ratio_text, short, standing_mark
from evokern.serve.arguments import checked
from evokern.serve.bench import Answer, Bench, Origin, Say
from evokern.serve.contract import contract_document
from evokern.serve.failure import typed
from evokern.serve.meter import Session
from evokern.statistics import score_of
from evokern.store import Journal
from evokern.store.queries import Ranked

LONGEST_SOURCE = 1 << 20
LONGEST_CHANGE = 300
MOST_SHOWN = 50

AGENT = "agent"
"""Who hands in kernels over these tools, as lineage names it."""

UNTOLD = ("fingerprint", "key", "judge")
"""Fields of an evaluation's document that name the held-out set, or serve a record and no author."""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer.

    Attributes:
        document: JSON values, with a `schema`.
        text: The same for reading.
        failed: Whether it is an error.
    """

    document: dict[str, Any]
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """What a client may call.

    Attributes:
        name: Of the tool.
        title: For people.
        description: What it does and answers.
        schema: JSON schema of its arguments.
        reads: Whether it changes nothing and costs nothing.
        run: Does it.
    """

    name: str
    title: str
    description: str
    schema: dict[str, Any]
    reads: bool
    run: Callable[[dict[str, Any], Say], Awaitable[Told]]


class Tools:
    """The five tools over one bench.

    Args:
        bench: Judges kernels.
        journal: Of the home.
    """

    def __init__(self, bench: Bench, journal: Journal) -> None:
        self.bench = bench
        self._journal, self._home = journal, journal.path.parent
        self._dialects: tuple[str, ...] = tuple(plugins.load("backend", bench.settings.backend).dialects)
        self.tools = {tool.name: tool for tool in self._tools()}

    async def call(self, name: str, arguments: object, say: Say = lambda _: None) -> Told:
        """A tool's answer; whatever goes wrong is an answer too.

        Args:
            name: Of the tool.
            arguments: What the client sent.
            say: Told what takes time.
        """
        try:
            tool = self.tools.get(name)
            if tool is None:
                raise UsageError(f"no tool is called '{name}'", mend=nearest(name, self.tools))
            told = await tool.run(checked(name, tool.schema, arguments), say)
        except Exception as error:
            return self._with_budget(_error_told(error))
        return self._with_budget(told)

    def _with_budget(self, told: Told) -> Told:
        try:
            budget = self._budget()
        except EvokernError as error:
            return told if told.failed else _error_told(error)
        return Told({**told.document, "budget": budget}, f"{told.text}\n\nbudget: {budget_text(budget)}", told.failed)

    def _budget(self) -> dict[str, Any]:
        whole = budget_document(self.bench.meter.budget, self.bench.meter.spent())
        return {part: {name: values[name] for name in ("evaluations", "seconds")} for part, values in whole.items()}

    # The tools

    async def _evaluate(self, given: dict[str, Any], say: Say) -> Told:
        kernel = Kernel(self._dialect(given), given["source"])
        parents = (self._journal.kernel(given["parent"]).id,) if "parent" in given else ()
        edits = (" ".join(given["change"].split()),) if "change" in given else ()
        answer = await self.bench.evaluate(kernel, Origin(AGENT, parents, edits), say)
        document = {**self._answer_document(answer), "profile": self._profile(answer.evaluation, answer.run)}
        return Told({"schema": "evokern.eval/1", **document}, self._answer_text(answer, document))

    async def _show(self, given: dict[str, Any], say: Say) -> Told:
        kernel = self._journal.kernel(given["kernel"])
        appearances = [self._appearance(run, kernel.id) for run in self._comparable(kernel.id)]
        document = {"kernel": kernel.id, "dialect": kernel.dialect, "entry": kernel.entry, "source": kernel.source, "runs": appearances}
        lines = [f"kernel {kernel.id}  {kernel.dialect}, entry {kernel.entry}"]
        for run in appearances:
            parents = ", ".join(short(parent) for parent in run["parents"]) or "nothing"
            lines += ["", f"run {run['run']}: {run['operator']} from {parents}" + "".join(f"; {edit}" for edit in run["edits"])]
            lines += [evaluation_text(evaluation) for evaluation in run["evaluations"]]
        return Told({"schema": "evokern.kernel/1", **document}, "\n".join([*lines, "", kernel.source.rstrip("\n")]))

    async def _show_profile(self, given: dict[str, Any], say: Say) -> Told:
        kernel = self._journal.kernel(given["kernel"])
        found = [(run, e) for run in self._comparable(kernel.id) for e in self._journal.evaluations(run, kernel.id)]
        if not found:
            raise UsageError("no kernel of this task and element type", where=kernel.short, mend="`top` lists those that are here")
        timed = [(run, e) for run, e in found if e.measurements]
        if not timed:
            verdict = f"{found[-1][1].verdict}: {found[-1][1].reason}"
            raise UsageError(f"it was not timed, as its verdict is {verdict}", where=kernel.short, mend="`show` says more")
        run, evaluation = timed[-1]
        document = self._profile(evaluation, run)
        assert document is not None
        return Told({"schema": "evokern.profile/1", "kernel": kernel.id, "run": run, **document}, profile_text(document))

    async def _top(self, given: dict[str, Any], say: Say) -> Told:
        if "run" in given:
            found = self._journal.run(given["run"])
            if not self._is_comparable(found.id):
                raise UsageError("that run is of another task or element type", where=found.id)
            runs = [found.id]
        else:
            runs = [run.id for run in self.bench.meter.runs()]
        kernels = self._ranked(runs)[: given.get("count", 10)]
        text = aligned(TOP, [_top_row(kernel) for kernel in kernels]) if kernels else "no kernel has passed yet"
        return Told({"schema": "evokern.top/1", "runs": runs, "kernels": kernels}, text)

    async def _task(self, given: dict[str, Any], say: Say) -> Told:
        dialect = given.get("dialect", self._dialects[0])
        document = contract_document(self.bench.task, self.bench.settings, dialect)
        text = document["contract"].rstrip("\n")
        if document["example"] is not None:
            text += f"\n\n# An example: the task's own seed\n\n{document['example'].rstrip()}"
        return Told({"schema": "evokern.contract/1", **document, "dialects": list(self._dialects)}, text)

    # What they are made of

    def _dialect(self, given: Mapping[str, Any]) -> str:
        named = dialect_of(given["file"]) if "file" in given else None
        asked = given.get("dialect", named)
        if asked is None and len(self._dialects) == 1:
            return self._dialects[0]
        mend = f"This backend takes {', '.join(self._dialects)}"
        if asked is None:
            raise UsageError("neither 'dialect' nor 'file' says which language the source is in", where="evaluate", mend=mend)
        if named not in (None, asked):
            raise UsageError(f"'file' is {named}, 'dialect' is {asked}", where="evaluate", mend="Keep one of them")
        if asked not in self._dialects:
            raise UsageError(f"backend {self.bench.settings.backend} takes no {asked}", where="evaluate", mend=mend)
        return str(asked)

    def _answer_document(self, answer: Answer) -> dict[str, Any]:
        score = score_of(answer.evaluation)
        return {
            **self._told(answer.evaluation),
            "ratio": ratio_document(score) if score else None,
            "run": answer.run,
            "reused": answer.reused,
        }

    def _told(self, evaluation: Evaluation) -> dict[str, Any]:
        """The visible side of an evaluation."""
        document = evaluation_document(evaluation, task=self.bench.task.name, judges=Judges.of_home(self._home))
        fingerprint = evaluation.fingerprint
        machine = {} if fingerprint is None else {name: getattr(fingerprint, name) for name in ("device", "compiler", "flags", "threads")}
        return {**{name: value for name, value in document.items() if name not in UNTOLD}, "machine": machine}

    def _answer_text(self, answer: Answer, document: Mapping[str, Any]) -> str:
        lines = [evaluation_text(document)]
        if document["ratio"]:
            lines.append(f"over the faster baseline, geometric mean: {ratio_text(document['ratio'])}")
        if answer.reused:
            lines.append(f"answered from the journal: it was judged before, in run {answer.run}, and cost nothing")
        if document["profile"]:
            lines += ["", profile_text(document["profile"])]
        return "\n".join(lines)

    def _profile(self, evaluation: Evaluation, run: str) -> dict[str, Any] | None:
        profile = evaluation.profile
        if profile is None:
            found = list(self._journal.events(run, EventKind.BASELINES))
            preparation = record.from_json(Preparation, found[-1].payload) if found else None
            profile = profile_of(evaluation, self.bench.task, preparation)
        return None if profile is None else profile_document(evaluation, profile)

    def _ranked(self, runs: Iterable[str]) -> list[dict[str, Any]]:
        """Kernels of some runs that passed, each once, the best first."""
        judges, found = Judges.of_home(self._home), dict[str, tuple[str, Ranked]]()
        for run in runs:
            for entry in self._journal.top(run, EVERY):
                found.setdefault(entry.kernel_id, (run, entry))
        return [
            {
                "kernel": entry.kernel_id,
                "run": found[entry.kernel_id][0],
                "ratio": ratio_document(entry.score),
                "confirmed": entry.confirmed,
                "operator": entry.operator,
                "parents": list(entry.parents),
                "edits": list(entry.edits),
                "standing": standing_now(self._journal.evaluations(found[entry.kernel_id][0], entry.kernel_id), judges).document(),
            }
            for entry in by_lower_bound(entry for _, entry in found.values())[:MOST_SHOWN]
        ]

    def _comparable(self, kernel_id: str) -> list[str]:
        """Runs of this task and element type that proposed a kernel."""
        return [run for run in self._journal.appearances(kernel_id) if self._is_comparable(run)]

    def _is_comparable(self, run: str) -> bool:
        there, here = Session.of(self._journal.run(run).settings), self.bench.meter.session
        return (there.task_digest, there.dtype) == (here.task_digest, here.dtype)

    def _appearance(self, run: str, kernel_id: str) -> dict[str, Any]:
        proposed = self._journal.candidate(run, kernel_id)
        assert proposed is not None
        candidate = proposed.candidate
        return {
            "run": run,
            "operator": candidate.operator,
            "parents": list(candidate.parents),
            "edits": list(candidate.edits),
            "evaluations": [self._told(evaluation) for evaluation in self._journal.evaluations(run, kernel_id)],
        }

    def _tools(self) -> list[Tool]:
        dialect = {"type": "string", "enum": list(self._dialects), "description": "Language of the source."}
        kernel = {"type": "string", "maxLength": 64, "description": "Id of a kernel; the first characters are enough where they fit one."}
        comment = "//" if self._dialects[0] in C_DIALECTS else "#"
        return [
            Tool(
                "task", "The task and the form of a kernel",
                "What the kernel must compute, on which shapes, how exactly; how a source must look; an example. Call it first.",
                _schema({"dialect": dialect}), True, self._task,
            ),
            Tool(
                "evaluate", "Judge a kernel",
                "Judge one kernel: build, check, secret shapes (one bit), timing against PyTorch, confirmation. Answers a verdict with its "
                "reason and what to do about it, times and speed-ups with 95 % intervals, and a profile. Costs one evaluation of the "
                "budget; a source that was judged before costs nothing. Takes seconds; the first one up to a minute more.",
                _schema(
                    {
                        "source": {
                            "type": "string", "maxLength": LONGEST_SOURCE,
                            "description": f"The whole source file, such as `{comment} a kernel ...`; see `task`.",
                        },
                        "dialect": dialect,
                        "file": {"type": "string", "maxLength": 4096, "description": "A file name instead; its ending names the dialect."},
                        "parent": {**kernel, "description": "Id of the kernel that this one was made from."},
                        "change": {"type": "string", "maxLength": LONGEST_CHANGE, "description": "What was changed and why, in one line."},
                    },
                    required=["source"],
                ),
                False, self._evaluate,
            ),
            Tool(
                "profile", "Where a kernel's time goes",
                "What is known of a timed kernel's bottleneck: bytes and operations a second, its share of a plain copy's speed, what was "
                "read from the built product. The rung says what it was found by.",
                _schema({"kernel": kernel}, required=["kernel"]), True, self._show_profile,
            ),
            Tool(
                "top", "The best kernels",
                "The fastest kernels of this session, or of a run on the same task, confirmed ones first, by the lower bound of the gain.",
                _schema(
                    {
                        "count": {"type": "integer", "minimum": 1, "maximum": MOST_SHOWN, "description": "How many; 10 if not given."},
                        "run": {"type": "string", "maxLength": 200, "description": "Id of a run, instead of this session."},
                    }
                ),
                True, self._top,
            ),
            Tool(
                "show", "A kernel and its verdicts", "A kernel's exact source, where it came from, and how it was judged.",
                _schema({"kernel": kernel}, required=["kernel"]), True, self._show,
            ),
        ]  # fmt: skip


TOP = ["kernel", "over the baseline", "confirmed", "by", "change", "standing"]


def _top_row(kernel: Mapping[str, Any]) -> list[str]:
    confirmed = "yes" if kernel["confirmed"] else "no"
    return [
        short(kernel["kernel"]), ratio_text(kernel["ratio"]), confirmed, kernel["operator"], line("; ".join(kernel["edits"])),
        standing_mark(kernel),
    ]  # fmt: skip


def _schema(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or [], "additionalProperties": False}


def _error_told(error: Exception) -> Told:
    known = typed(error)
    return Told({"schema": "evokern.error/1", **known.to_json()}, f"{type(known).__name__}: {known.line}", failed=True)
