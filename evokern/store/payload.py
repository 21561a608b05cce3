"""The typed form of every event's payload: what the engine writes, and what islands and projections read back.

Each maker fixes the event's key, on which "exactly once" rests: the same proposal, verdict or move is the same event however
often it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evokern import record
from evokern.evaluation import Evaluation, Verdict
from evokern.event import Event, EventKind, ModelCall, Placement, Proposal, Refusal, RunSettings, Spent
from evokern.kernel import Candidate


@dataclass(frozen=True, slots=True)
class Proposed:
    """A kernel that is to be evaluated.

    Attributes:
        number: Running number of the request that it answers; -1 for a seed.
        candidate: The kernel and its lineage.
        seconds: Wall time that the operator took.
        prompt: Exactly what a model was shown.
        response: Exactly what it answered.
        calls: Every model call made for it.
    """

    number: int
    candidate: Candidate
    seconds: float = 0.0
    prompt: str = ""
    response: str = ""
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that gave no kernel.

    Attributes:
        number: Running number of the request.
        island: Index of the island that asked.
        operator: Who refused.
        parents: Ids of the parents shown, the main one first.
        refusal: Why.
        seconds: Wall time that the operator took.
        prompt: Exactly what a model was shown.
        response: Exactly what it answered.
        calls: Every model call made for it.
    """

    number: int
    island: int
    operator: str
    parents: tuple[str, ...]
    refusal: Refusal
    seconds: float = 0.0
    prompt: str = ""
    response: str = ""
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A verdict.

    Attributes:
        evaluation: The verdict.
        island: Index of the island whose candidate it is.
        reused: Id of the run that the evaluation was taken from, or empty where it was made for this one.
        external: Whether no judge of this home signed it: it is shown, and counts for nothing.
        bits: Answers of the gate that were spent on it.
    """

    evaluation: Evaluation
    island: int
    reused: str = ""
    external: bool = False
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Rejudged:
    """A kernel that had passed, judged again: measured anew, or withdrawn.

    Attributes:
        evaluation: What holds from now on.
        why: "schedule", "end", "opponent" or "rotated".
        external: As in `Evaluated`.
        bits: As in `Evaluated`.
    """

    evaluation: Evaluation
    why: str
    external: bool = False
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Rotated:
    """The held-out set was retired because its answers could have told what is in it.

    Attributes:
        epoch: Index of the new set.
        bits: Answers that were spent on the old one.
    """

    epoch: int
    bits: int


@dataclass(frozen=True, slots=True)
class Placed:
    """What an archive did; written for people and figures, a replay computes it again."""

    island: int
    kernel_id: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class Migrated:
    """An elite that visited a neighbour."""

    kernel_id: str
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a run ended and what it had used."""

    reason: str
    spent: Spent


def run_started(run: str, settings: RunSettings) -> Event:
    """The first event of a run."""
    return Event(run, EventKind.RUN_STARTED, "start", {"settings": record.to_json(settings)})


def run_resumed(run: str, settings: RunSettings, time: int, changes: Sequence[str] = ()) -> Event:
    """A resume: the settings that hold from now on, and what of them was changed.

    Args:
        run: Id of the run.
        settings: All settings, after the changes.
        time: The how-manyth resume it is, from 1.
        changes: One line per change.
    """
    return Event(run, EventKind.RUN_RESUMED, str(time), {"settings": record.to_json(settings), "changes": list(changes)})


def baselines(run: str, digest: str, values: dict[str, Any]) -> Event:
    """Baselines as measured; keyed by what they depend on."""
    return Event(run, EventKind.BASELINES, digest, values)


def proposed(run: str, number: int, candidate: Candidate, proposal: Proposal | None = None, *, seconds: float = 0.0) -> Event:
    """A proposal that became a candidate; keyed by the kernel, so one content is one candidate of a run."""
    made = proposal or Proposal(candidate.kernel)
    body = Proposed(number, candidate, seconds, made.prompt, made.response, made.calls)
    return Event(run, EventKind.PROPOSED, candidate.id, record.to_json(body))


def refused(run: str, body: Refused) -> Event:
    """A request that gave no kernel; keyed by its number."""
    return Event(run, EventKind.REFUSED, str(body.number), record.to_json(body))


def model_called(run: str, number: int, index: int, call: ModelCall) -> Event:
    """One model call of a request, written as soon as it is paid for."""
    return Event(run, EventKind.MODEL_CALLED, f"{number}:{index}", record.to_json(call))


def evaluated(
    run: str, evaluation: Evaluation, island: int, *, reused: str = "", attempt: int = 0, external: bool = False, bits: int = 0
) -> Event:
    """A verdict; keyed by the evaluation's key, as one of a key is made once.

    Args:
        run: Id of the run.
        evaluation: The verdict.
        island: Index of the island whose candidate it is.
        reused: Id of the run that it was taken from, if any.
        attempt: Which try it was; only a verdict `infrastructure` may be tried again, and only there it counts.
        external: Whether no judge of this home signed it.
        bits: Answers of the gate that were spent on it.
    """
    key = evaluation.key or evaluation.kernel_id
    if evaluation.verdict is Verdict.INFRASTRUCTURE:
        key = f"{key}:{attempt}"
    return Event(run, EventKind.EVALUATED, key, record.to_json(Evaluated(evaluation, island, reused, external, bits)))


def rejudged(run: str, number: int, body: Rejudged) -> Event:
    """A kernel judged again; withdrawn where it no longer passes.

    Args:
        run: Id of the run.
        number: Running number of such events.
        body: What came of it.
    """
    kind = EventKind.REMEASURED if body.evaluation.passed else EventKind.WITHDRAWN
    return Event(run, kind, f"{number}:{body.evaluation.kernel_id}", record.to_json(body))


def rotated(run: str, body: Rotated) -> Event:
    """A new held-out set; keyed by its epoch."""
    return Event(run, EventKind.ROTATED, str(body.epoch), record.to_json(body))


def sealed(run: str, position: int, seal: dict[str, Any]) -> Event:
    """A judge's signature over the chain up to an event; keyed by that event's number."""
    return Event(run, EventKind.SEALED, str(position), seal)


def placed(run: str, island: int, kernel_id: str, placement: Placement) -> Event:
    """What an archive did with an elite; keyed by both."""
    return Event(run, EventKind.PLACED, f"{island}:{kernel_id}", record.to_json(Placed(island, kernel_id, placement)))


def migrated(run: str, body: Migrated) -> Event:
    """A visit; keyed by kernel and target, where it arrives once."""
    return Event(run, EventKind.MIGRATED, f"{body.target}:{body.kernel_id}", record.to_json(body))


def run_ended(run: str, time: int, reason: str, spent: Spent) -> Event:
    """The end of a run, or of one leg of it.

    Args:
        run: Id of the run.
        time: How many times the run was resumed before.
        reason: Name of the budget that was reached, or why else.
        spent: What was used in all.
    """
    return Event(run, EventKind.RUN_ENDED, str(time), record.to_json(Ended(reason, spent)))


def closed(run: str, time: int, values: dict[str, Any]) -> Event:
    """The last measurement of a leg's champion, which retired the held-out set.

    Args:
        run: Id of the run.
        time: How many times the run was resumed before.
        values: Free.
    """
    return Event(run, EventKind.CLOSED, str(time), values)


def read(event: Event) -> Proposed | Refused | Evaluated | Rejudged | Rotated | Placed | Migrated | Ended | ModelCall | RunSettings | None:
    """The typed payload of an event; None for kinds whose payload is free (baselines, seals).

    Raises:
        UsageError: The payload does not have the fields of its kind.
    """
    if event.kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED):
        held: Any = event.payload
        return record.from_json(RunSettings, held.get("settings") if isinstance(held, dict) else held)
    body = _BODIES.get(event.kind)
    return None if body is None else record.from_json(body, event.payload)


_BODIES: dict[EventKind, type[Any]] = {
    EventKind.PROPOSED: Proposed,
    EventKind.REFUSED: Refused,
    EventKind.EVALUATED: Evaluated,
    EventKind.REMEASURED: Rejudged,
    EventKind.WITHDRAWN: Rejudged,
    EventKind.ROTATED: Rotated,
    EventKind.PLACED: Placed,
    EventKind.MIGRATED: Migrated,
    EventKind.RUN_ENDED: Ended,
    EventKind.MODEL_CALLED: ModelCall,
}

Verdictful = Evaluated | Rejudged
"""Payloads that hold an evaluation."""

VERDICTS: dict[EventKind, type[Any]] = {
    EventKind.EVALUATED: Evaluated,
    EventKind.REMEASURED: Rejudged,
    EventKind.WITHDRAWN: Rejudged,
}
"""Kinds of events whose payload holds an evaluation."""
