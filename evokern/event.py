"""Events: what the journal keeps, and the messages that operators and islands pass.

A run is its events in order; every other view of it is computed from them (`evokern.store`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from evokern.evaluation import Elite, Evaluation
from evokern.kernel import Candidate, Kernel
from evokern.lesson import Lesson
from evokern.task import DType, Task


class EventKind(StrEnum):
    """What happened. The journal acts on nothing else."""

    RUN_STARTED = "run_started"
    RUN_RESUMED = "run_resumed"
    BASELINES = "baselines"
    PROPOSED = "proposed"
    REFUSED = "refused"
    MODEL_CALLED = "model_called"
    EVALUATED = "evaluated"
    PLACED = "placed"
    MIGRATED = "migrated"
    REMEASURED = "remeasured"
    WITHDRAWN = "withdrawn"
    ROTATED = "rotated"
    SEALED = "sealed"
    RUN_ENDED = "run_ended"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the journal.

    Attributes:
        run: Id of the run.
        kind: What happened.
        key: Unique within (run, kind): a second event with the same key is the same event and is dropped.
        payload: JSON object; its fields depend on the kind.
        at: Seconds since the epoch when it was written; 0.0 until then.
    """

    run: str
    kind: EventKind
    key: str
    payload: dict[str, Any]
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Parent:
    """A parent as an operator sees it."""

    candidate: Candidate
    evaluation: Evaluation


@dataclass(frozen=True)
class Request:
    """What an operator gets.

    Attributes:
        task: The task.
        dtype: Element type of the run.
        parents: As many as the operator asked for, the main one first.
        champion: The run's best, if there is one.
        lessons: Recalled for the main parent's bottleneck.
        rng: The operator's only source of chance.
        tried: Ids of kernels that the run has proposed already.
        island: Index of the island that asks.
        number: Running number of the request within the run.
    """

    task: Task
    dtype: DType
    parents: tuple[Parent, ...]
    champion: Elite | None
    lessons: tuple[Lesson, ...]
    rng: random.Random
    tried: frozenset[str] | set[str] = frozenset()
    island: int = 0
    number: int = 0

    @property
    def parent(self) -> Parent:
        """The main parent."""
        return self.parents[0]


class RefusalReason(StrEnum):
    """Why an operator made no kernel; none of these is a generation."""

    NOT_APPLICABLE = "not_applicable"
    NO_CHANGE = "no_change"
    ALREADY_TRIED = "already_tried"
    NO_BLOCK = "no_block"
    SEVERAL_BLOCKS = "several_blocks"
    CUT_OFF = "cut_off"
    MALFORMED = "malformed"
    MODEL_FAILED = "model_failed"
    MODEL_PAUSED = "model_paused"
    BUDGET_SPENT = "budget_spent"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An operator's typed "no".

    Attributes:
        reason: From the closed list.
        detail: One line.
    """

    reason: RefusalReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a language model, successful or not; every one of them counts against the budget.

    Attributes:
        model: The provider's name for it.
        outcome: "ok", or the failure's name.
        prompt_tokens: Exact where the provider said so, else 0.
        completion_tokens: Likewise.
        usd: Money, or None where the price is unknown.
        seconds: Wall time, retries included.
    """

    model: str
    outcome: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an operator answers: a kernel or a typed refusal, with what it was made from.

    Attributes:
        kernel: The new kernel, or None.
        refusal: Why there is none, or None.
        edits: Labels of the edits, in order.
        prompt: Exactly what a model was shown; empty for LLM-free operators.
        response: Exactly what it answered.
        calls: Every model call made for it.
    """

    kernel: Kernel | None
    refusal: Refusal | None = None
    edits: tuple[str, ...] = ()
    prompt: str = ""
    response: str = ""
    calls: tuple[ModelCall, ...] = ()

    @classmethod
    def refused(cls, reason: RefusalReason, detail: str = "", **rest: Any) -> Proposal:
        """A proposal without a kernel."""
        return cls(None, Refusal(reason, detail), **rest)


class Operator(Protocol):
    """Turns parents and lessons into a new kernel (DESIGN section 3).

    Attributes:
        name: As in lineage and tables.
        parents_wanted: How many parents a request must hold.
        needs_model: Whether it calls a language model.
    """

    name: str
    parents_wanted: int
    needs_model: bool

    @classmethod
    def for_run(cls, settings: RunSettings, model: Any) -> Operator:
        """The operator as a run uses it.

        Args:
            settings: Of the run.
            model: An `evokern.model` model, or None; operators that need none ignore it.
        """
        ...

    async def propose(self, request: Request) -> Proposal:
        """A kernel or a typed refusal; never raises for a bad answer."""
        ...


class PlacementKind(StrEnum):
    """What an archive did with an elite."""

    NEW_CELL = "new_cell"
    REPLACED = "replaced"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an elite went.

    Attributes:
        kind: What happened.
        cell: The cell's coordinates, as text values of the descriptors.
        replaced: Id of the kernel that left, or empty.
        champion: Whether it is now the best of its island.
    """

    kind: PlacementKind
    cell: tuple[str, ...]
    replaced: str = ""
    champion: bool = False

    @property
    def placed(self) -> bool:
        """Whether the archive keeps it."""
        return self.kind is not PlacementKind.REJECTED


@dataclass(frozen=True, slots=True)
class Budget:
    """When a run ends; None means without limit. At least one of them is set.

    Attributes:
        seconds: Search time, not counting preparation.
        evaluations: Kernels judged.
        tokens: Prompt and completion tokens.
        usd: Money spent on models.
    """

    seconds: float | None = None
    evaluations: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has used, in the budget's units."""

    seconds: float = 0.0
    evaluations: int = 0
    tokens: int = 0
    usd: float = 0.0
    usd_unknown_calls: int = 0

    def exceeds(self, budget: Budget) -> str:
        """Name of the first limit that is reached, or empty."""
        for name in ("seconds", "evaluations", "tokens", "usd"):
            limit = getattr(budget, name)
            if limit is not None and getattr(self, name) >= limit:
                return name
        return ""


SESSION = "session"
"""Option of `RunSettings.options`: name of the session that a run belongs to whose kernels come from outside (`evokern.serve`)."""


@dataclass(frozen=True)
class RunSettings:
    """What a run is, kept in its first event; a resume reads it back.

    Attributes:
        task: Name or path as given.
        task_digest: Digest of the task's bytes at the start.
        dtype: Element type.
        backend: Name of the backend.
        threads: Threads granted to a kernel.
        budget: When it ends.
        seed: Root of all chance in the search (never of held-out sets).
        islands: How many.
        model: Name of the language model, or empty.
        builds: Builds in flight.
        model_calls: Model calls in flight.
        seeds: Extra seed kernels as (dialect, source).
        degenerate: Whether a degenerate task may run.
        options: Anything a part adds, by name.
    """

    task: str
    task_digest: str
    dtype: DType
    backend: str
    threads: int
    budget: Budget
    seed: int
    islands: int = 4
    model: str = ""
    builds: int = 2
    model_calls: int = 4
    seeds: tuple[tuple[str, str], ...] = ()
    degenerate: bool = False
    options: dict[str, str] = field(default_factory=dict)
