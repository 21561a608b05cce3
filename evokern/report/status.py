"""A run's status, read from the journal: the document of `evokern status --json`, and what the live view shows."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evokern import record
from evokern.archive import ArchiveSettings, GridArchive
from evokern.evaluation import BASELINE, Evaluation, Score
from evokern.evaluator.signing import Judges
from evokern.evaluator.statement import Closing
from evokern.event import SESSION, Budget, Event, EventKind, ModelCall, Spent
from evokern.island import Island, replay
from evokern.report.standing import UNSIGNED, Standing, standing
from evokern.statistics import combine

if TYPE_CHECKING:
    from evokern.store import Journal
    from evokern.store.queries import Ranked, Run

LIMITS = ("seconds", "evaluations", "tokens", "usd")
CLOCK_EVENTS = (EventKind.RUN_RESUMED, EventKind.BASELINES, EventKind.RUN_ENDED)
"""What starts and stops a run's clock; preparation before the baselines does not count."""

EVERY = 1 << 31


def status_of(journal: Journal, run: Run, *, worked: bool) -> dict[str, Any]:
    """How a run stands.

    Args:
        journal: Where it is kept.
        run: Which one.
        worked: Whether some process works it now.

    Returns:
        `run`, `task`, `dtype`, `backend`, `state` ("running", "ended", "interrupted"), `reason`, `evaluated`, `best`, `budget`, `verdicts`,
        `islands`, `rate` (evaluations a minute of search), `model`, `closing` (the champion measured once more when the run ended).
    """
    counts = journal.verdict_counts(run.id)
    evaluated = sum(counts.values())
    ranked = journal.top(run.id, EVERY)
    spent = spent_of(journal, run, evaluated=evaluated, worked=worked)
    judges = Judges.of_home(journal.path.parent)
    best, found = _best(journal, run, ranked, judges)
    closing = None if worked else _closing(journal, run, judges)
    return {
        "run": run.id,
        "task": run.settings.task,
        "dtype": str(run.settings.dtype),
        "backend": run.settings.backend,
        "state": "running" if worked else "ended" if run.state == "ended" and run.reason != "interrupted" else "interrupted",
        "reason": run.reason,
        "evaluated": evaluated,
        "best": best_document(best, found, judges) if best else None,
        "closing": closing,
        "budget": budget_document(run.settings.budget, spent),
        "verdicts": counts,
        "islands": [_island(island) for island in _islands(journal, run)],
        "rate": evaluated / spent.seconds * 60 if spent.seconds > 0 else None,
        "model": {
            "name": run.settings.model,
            "calls": journal.count(run.id, EventKind.MODEL_CALLED),
            "tokens": spent.tokens,
            "usd": None if spent.usd_unknown_calls else spent.usd,
        }
        if run.settings.model
        else None,
    }


def by_lower_bound(ranked: Iterable[Ranked]) -> list[Ranked]:
    """Confirmed kernels first, then by lower bound, as the engine ranks its elites."""
    return sorted(ranked, key=lambda entry: (entry.confirmed, entry.score.low, entry.score.log, entry.kernel_id), reverse=True)


def champion(ranked: Iterable[Ranked]) -> Ranked | None:
    """The confirmed kernel with the highest lower bound, or None."""
    return next((entry for entry in by_lower_bound(ranked) if entry.confirmed), None)


def spent_of(journal: Journal, run: Run, *, evaluated: int, worked: bool) -> Spent:
    """What a run has used so far: as its last end says, and since then as its events say.

    Args:
        journal: Where it is kept.
        run: Which one.
        evaluated: Kernels judged.
        worked: Whether its clock is running now; else it stopped at its last verdict.
    """
    if SESSION in run.settings.options:
        # Whoever hands in kernels thinks at their own expense: what counts is the time of judging.
        charge = journal.charged(run.id)
        return Spent(charge.seconds, charge.evaluations)
    calls = [record.from_json(ModelCall, event.payload) for event in journal.events(run.id, EventKind.MODEL_CALLED)]
    seconds, began = 0.0, None
    for event in journal.events(run.id, *CLOCK_EVENTS):
        if event.kind is EventKind.RUN_ENDED:
            seconds, began = record.from_json(Spent, event.payload["spent"]).seconds, None
            continue
        if began is not None:
            # A leg that was killed wrote no end: what it spent reaches to its last verdict.
            seconds += max(0.0, journal.last_judged(run.id, before=event.at) - began)
        began = event.at
    if began is not None:
        seconds += max(0.0, (time.time() if worked else journal.last_judged(run.id)) - began)
    return Spent(
        seconds=seconds,
        evaluations=evaluated,
        tokens=sum(call.prompt_tokens + call.completion_tokens for call in calls),
        usd=sum(call.usd or 0.0 for call in calls),
        usd_unknown_calls=sum(call.usd is None for call in calls),
    )


def _best(journal: Journal, run: Run, ranked: list[Ranked], judges: Judges) -> tuple[Ranked | None, list[Evaluation]]:
    """The champion and its evaluations; one whose evaluation counts before all that do not."""
    first: tuple[Ranked | None, list[Evaluation]] = (None, [])
    for entry in by_lower_bound(ranked):
        if not entry.confirmed:
            break
        evaluations = journal.evaluations(run.id, entry.kernel_id)
        if standing_now(evaluations, judges).official:
            return entry, evaluations
        first = first if first[0] else (entry, evaluations)
    return first


def standing_now(evaluations: list[Evaluation], judges: Judges) -> Standing:
    """The standing of a kernel: that of its last confirmed evaluation, else of its last."""
    confirmed = [evaluation for evaluation in evaluations if evaluation.confirmed] or evaluations
    return standing(confirmed[-1], judges) if confirmed else Standing((UNSIGNED,))


def best_document(best: Ranked, evaluations: list[Evaluation], judges: Judges) -> dict[str, Any]:
    """The best kernel: id, ratio over all workloads, standing, and per workload its time and ratio to the faster baseline."""
    confirmed = [evaluation for evaluation in evaluations if evaluation.confirmed]
    measurements = confirmed[-1].measurements if confirmed else ()
    return {
        "standing": standing_now(evaluations, judges).document(),
        "kernel": best.kernel_id,
        "ratio": ratio_document(best.score),
        "operator": best.operator,
        "workloads": {
            m.workload: {"time_us": m.time_us, "clock": str(m.clock), "ratio": _fields(m.versus[BASELINE])}
            for m in measurements
            if BASELINE in m.versus
        },
    }


def budget_document(budget: Budget, spent: Spent) -> dict[str, Any]:
    """Limits, what is spent, and what is left of each limit."""
    limits = {name: getattr(budget, name) for name in LIMITS}
    used = {name: getattr(spent, name) for name in LIMITS}
    left = {name: None if limit is None else max(0, limit - used[name]) for name, limit in limits.items()}
    return {"limits": limits, "spent": used, "left": left}


def ratio_document(score: Score) -> dict[str, float]:
    """A score as a ratio with its interval."""
    return _fields(score.ratio)


def _fields(ratio: Any) -> dict[str, float]:
    return {"estimate": ratio.estimate, "low": ratio.low, "high": ratio.high}


def _closing(journal: Journal, run: Run, judges: Judges) -> dict[str, Any] | None:
    """The last closing measurement: `kernel`, `ratio`, `held_out_correct`; None where no judge of this home signed it, or it is outdated.

    Its figure differs from the best's: that one was chosen for being the highest of many, this one was measured afresh.
    """
    closings = list(journal.events(run.id, EventKind.CLOSED))
    if not closings or closings[-1].at < journal.last_judged(run.id):
        return None
    last = closings[-1]
    closing = record.from_json(Closing, last.payload["closing"])
    ratios = [row.versus[row.best] for row in closing.rows if not row.held_out]
    if not ratios or not judges.accept(closing):
        return None
    kernel = last.payload["summary"]["kernel"]
    return {"kernel": kernel, "ratio": ratio_document(combine(ratios)), "held_out_correct": closing.held_out_passed}


def _islands(journal: Journal, run: Run) -> list[Island]:
    """The run's islands as its events left them: elites that others took the cell of are gone, and those that visited count."""
    islands = [Island(index, GridArchive(ArchiveSettings()), ()) for index in range(run.settings.islands)]
    replay(islands, map(_slim, journal.events(run.id, *SHAPING)))
    return islands


SHAPING = (EventKind.PROPOSED, EventKind.EVALUATED, EventKind.REMEASURED, EventKind.WITHDRAWN, EventKind.MIGRATED)
"""What archives are made of."""


def _slim(event: Event) -> Event:
    """A verdict without its samples, which no archive needs and which take long to read."""
    evaluation = event.payload.get("evaluation")
    if not evaluation:
        return event
    measurements = [{**measurement, "samples": []} for measurement in evaluation["measurements"]]
    return replace(event, payload={**event.payload, "evaluation": {**evaluation, "measurements": measurements}})


def _island(island: Island) -> dict[str, Any]:
    """One island: how many elites its archive keeps, and the best of them."""
    best = island.archive.best()
    return {
        "index": island.index,
        "elites": len(island.archive),
        "best": best.candidate.id if best else None,
        "ratio": ratio_document(best.score) if best else None,
    }
