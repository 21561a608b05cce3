"""What a model is shown: templates filled from plain values of the visible side of a request.

No template ever receives a Task or an Evaluation. The functions here copy, field by field, what may be shown; held-out ranges,
the held-out epoch, and times on any shape that is not a search workload have no way in. Of the held-out gate a model may learn
the one bit that leaves it, as one of the closed list of reasons.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokern.evaluation import BASELINE, REASONS, Evaluation, Measurement, Ratio, Verdict
from evokern.event import Parent, Request
from evokern.kernel import C_DIALECTS, Candidate
from evokern.lesson import Lesson
from evokern.model.protocol import Message
from evokern.syntax.flags import FLAGS_BY_DIALECT
from evokern.task import DType, Role, Task

if TYPE_CHECKING:
    import jinja2

PROMPTS = Path(__file__).parent / "prompts"
HEADER = Path(__file__).parent.parent / "include" / "evokern.h"

PARENT_HEADING = "## Parent"
"""Heading of the main parent's section in every prompt; its next fenced block is the source."""

LONGEST_LOG = 4000
"""Characters of a compiler's or a process's text that are shown: the first error is what counts."""
MOST_LESSONS = 4

LANGUAGES = {"cpp": "cpp", "cuda": "cuda", "hip": "cpp", "triton": "python"}

ROLE_WORDS = {
    Role.IN: "input, must not be changed",
    Role.OUT: "output, arrives filled with arbitrary values, every element must be written",
    Role.INOUT: "input and output in the same memory",
    Role.PARAMETER: "input (a parameter of the layer), must not be changed",
    Role.WORKSPACE: "scratch memory",
    Role.WORKSPACE_ZEROED: "scratch memory that arrives zero and must be zero again afterwards",
    Role.STATIC: "input that was packed once beforehand",
}


@dataclass(frozen=True, slots=True)
class ArgumentView:
    """An argument as shown."""

    name: str
    dtype: str
    shape: str
    role: str
    value: str


@dataclass(frozen=True, slots=True)
class TimeView:
    """A time on one visible workload as shown."""

    workload: str
    time: str
    ratio: str
    share: str


@dataclass(frozen=True, slots=True)
class KernelView:
    """A kernel with what is known of it, as shown.

    Attributes:
        id: Short id.
        language: Language tag of its fence.
        source: Its text.
        times: On visible workloads.
        failure: Verdict and reason in words; empty if it passed.
        log: Text that came with the failure.
    """

    id: str
    language: str
    source: str
    times: tuple[TimeView, ...]
    failure: str
    log: str


@dataclass(frozen=True, slots=True)
class LessonView:
    """A lesson as shown."""

    title: str
    claim: str
    effect: str
    code: str


def conversation(template: str, request: Request, **words: str) -> list[Message]:
    """The messages for a request.

    Args:
        template: Name of the user's turn, such as "mutate".
        request: What is asked for; only its visible side is used.
        words: Further values of the template.

    Returns:
        A system message with the contract and the form of the answer, and a user message with the work.
    """
    shown = visible(request)
    return [Message("system", _render("system", shown)), Message("user", _render(template, {**shown, **words}))]


def contract(task: Task, dtype: DType, dialect: str, entry: str = "run") -> str:
    """What whoever writes a kernel must know of the task and of the form of a kernel: what a model is told, less the kernels.

    Args:
        task: Only its visible side is used.
        dtype: Element type.
        dialect: Of the kernel.
        entry: Name of the function that is called.
    """
    return _render("task", {**_task_values(task, dtype, dialect, entry), "machine": ""})


def ask_again(fault: str, language: str) -> Message:
    """The user's turn after an answer that could not be used."""
    return Message("user", _render("retry", {"fault": fault, "language": language}))


def visible(request: Request) -> dict[str, Any]:
    """The values that templates get: text, numbers and the views above, nothing else."""
    task, kernel = request.task, request.parent.candidate.kernel
    workloads = {w.name for w in task.search}
    parents = [_kernel_view(p.candidate, p.evaluation, workloads) for p in request.parents]
    champion = None
    if request.champion is not None and request.champion.candidate.id not in {p.candidate.id for p in request.parents}:
        champion = _kernel_view(request.champion.candidate, request.champion.evaluation, workloads)
    return {
        **_task_values(task, request.dtype, kernel.dialect, kernel.entry),
        "machine": _machine(request.parents),
        "parents": parents,
        "parent": parents[0],
        "champion": champion,
        "parent_is_champion": request.champion is not None and request.champion.candidate.id == kernel.id,
        "lessons": [_lesson_view(x) for x in request.lessons[:MOST_LESSONS]],
        "parent_heading": PARENT_HEADING,
    }


def _task_values(task: Task, dtype: DType, dialect: str, entry: str) -> dict[str, Any]:
    return {
        "task_name": task.name,
        "description": task.description,
        "dtype": str(dtype),
        "policy": task.policy,
        "reference": task.reference,
        "arguments": _argument_views(task, dtype),
        "axes": ", ".join(task.axes),
        "constraints": task.constraints,
        "workloads": [f"{w.name} ({w.residency})" for w in task.search],
        "is_c": dialect in C_DIALECTS,
        "dialect": dialect,
        "language": LANGUAGES[dialect],
        "entry": entry,
        "header": _header() if dialect in C_DIALECTS else "",
        "flags": " ".join(sorted(FLAGS_BY_DIALECT.get(dialect, ()))),
    }


def _argument_views(task: Task, dtype: DType) -> tuple[ArgumentView, ...]:
    return tuple(
        ArgumentView(
            a.name,
            str(a.dtype_for(dtype)),
            "scalar (0-d host tensor)" if a.is_scalar else f"[{', '.join(a.shape)}]",
            ROLE_WORDS[a.role],
            "" if a.value is None else f"{a.value:g}",
        )
        for a in task.arguments
    )


def _kernel_view(candidate: Candidate, evaluation: Evaluation, workloads: set[str]) -> KernelView:
    kernel = candidate.kernel
    times = tuple(_time_view(m) for m in evaluation.measurements if m.workload in workloads)
    failure, log = _failure(evaluation)
    return KernelView(kernel.short, LANGUAGES[kernel.dialect], kernel.source, times, failure, log)


def _failure(evaluation: Evaluation) -> tuple[str, str]:
    if evaluation.passed:
        return "", ""
    words = f"{evaluation.verdict.replace('_', ' ')}: {REASONS[evaluation.reason]}"
    if evaluation.verdict is Verdict.HELD_OUT_FAILED:
        return words, ""  # one bit leaves the gate, so nothing that came with it may
    detail = f" ({evaluation.detail})" if evaluation.detail else ""
    return words + detail, _shortened(evaluation.log)


def _time_view(measurement: Measurement) -> TimeView:
    ratio = measurement.versus.get(BASELINE)
    share = "" if measurement.share is None else f"{measurement.share:.2f}"
    return TimeView(measurement.workload, f"{measurement.time_us:.1f} us", "" if ratio is None else _interval(ratio), share)


def _interval(ratio: Ratio) -> str:
    if math.isinf(ratio.high):
        return f"{ratio.estimate:.3f}x ({ratio.low:.3f} or more)"
    return f"{ratio.estimate:.3f}x ({ratio.low:.3f} to {ratio.high:.3f})"


def _machine(parents: tuple[Parent, ...]) -> str:
    for parent in parents:
        f = parent.evaluation.fingerprint
        if f is not None:
            threads = "one thread" if f.threads == 1 else f"{f.threads} threads"
            return f"{f.device}; {threads}; {f.compiler}; {f.flags}"
    return ""


def _lesson_view(lesson: Lesson) -> LessonView:
    return LessonView(lesson.title, lesson.claim, f"{lesson.effect:.2f}x", lesson.code)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_LOG else f"{text[:LONGEST_LOG]}\n[{len(text) - LONGEST_LOG} more characters]"


@functools.cache
def _header() -> str:
    return HEADER.read_text(encoding="utf-8")


def _fenced(text: str, language: str) -> str:
    """A fenced block that its own content cannot close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PROMPTS),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        autoescape=False,  # the text is for a model, not for a browser
    )
    environment.filters["fenced"] = _fenced
    return environment


def _render(template: str, values: dict[str, Any]) -> str:
    return _environment().get_template(f"{template}.j2").render(values).strip() + "\n"
