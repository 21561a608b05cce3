"""What a run says of itself: its status while it is on, and the summary that the closing table is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evokern import record
from evokern.evaluation import BASELINE, Elite, Score
from evokern.evaluator.statement import Closing, ClosingRow, Preparation
from evokern.event import RunSettings, Spent
from evokern.statistics import combine


@dataclass(frozen=True, slots=True)
class About:
    """What a run is.

    Attributes:
        run: Its id.
        task: Name of the task.
        settings: Those that hold now.
        preparation: What the judge found; None until it has.
    """

    run: str
    task: str
    settings: RunSettings
    preparation: Preparation | None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands.

    Attributes:
        spent: What was used.
        verdicts: Counts by verdict.
        champion: The best, or None.
        calls: Model calls.
        external: Verdicts that no judge of this home signed.
        withdrawn: Elites that failed when they were judged again.
        epoch: Held-out sets that were retired before the present one.
        bits: Answers of the gate spent on the present one.
    """

    spent: Spent
    verdicts: dict[str, int]
    champion: Elite | None
    calls: int = 0
    external: int = 0
    withdrawn: int = 0
    epoch: int = 0
    bits: int = 0


def info_document(about: About) -> dict[str, Any]:
    """What runs where; the device and the sandbox's tier once they are known."""
    settings, preparation = about.settings, about.preparation
    info = {
        "run": about.run, "task": about.task, "dtype": str(settings.dtype), "backend": settings.backend, "model": settings.model
    }  # fmt: skip
    if preparation is None:
        return info
    return info | {"device": preparation.fingerprint.device, "tier": str(preparation.tier), "degenerate": list(preparation.degenerate)}


def status_document(about: About, standing: Standing, state: str, islands: list[dict[str, Any]]) -> dict[str, Any]:
    """The fields of `evokern.status/1`."""
    settings, spent = about.settings, standing.spent
    limits = record.to_json(settings.budget)
    used = record.to_json(spent)
    left = {name: None if limit is None else max(limit - used[name], 0) for name, limit in limits.items()}
    model = None
    if settings.model:
        usd = None if spent.usd_unknown_calls else spent.usd
        model = {"name": settings.model, "calls": standing.calls, "tokens": spent.tokens, "usd": usd}
    return {
        "run": about.run,
        "state": state,
        "evaluated": spent.evaluations,
        "best": _best(standing.champion),
        "budget": {"limits": limits, "spent": used, "left": left},
        "verdicts": standing.verdicts,
        "islands": islands,
        "rate": spent.evaluations * 60 / spent.seconds if spent.seconds > 0 else None,
        "model": model,
    }


def summary_document(about: About, standing: Standing, reason: str) -> dict[str, Any]:
    """The fields of `evokern.run/1`, without those of a closing measurement (`closing_facts`)."""
    summary: dict[str, Any] = {
        "run": about.run,
        "state": "ended",
        "reason": reason,
        "task": about.task,
        "dtype": str(about.settings.dtype),
        "evaluated": standing.spent.evaluations,
        "verdicts": standing.verdicts,
        "external": standing.external,
        "withdrawn": standing.withdrawn,
        "gate": {"epoch": standing.epoch, "bits": standing.bits},
        "spent": record.to_json(standing.spent),
        "kernel": None,
        "resume": f"evokern resume {about.run}",
    }
    preparation = about.preparation
    if preparation is None:
        return summary
    fingerprint = preparation.fingerprint
    return summary | {
        "tier": str(preparation.tier),
        "device": fingerprint.device,
        "fingerprint": record.to_json(fingerprint),
        "degenerate": list(preparation.degenerate),
    }


def island_document(index: int, elites: int, best: Elite | None) -> dict[str, Any]:
    """One island within the status."""
    return {"index": index, "elites": elites, "ratio": None if best is None else score_json(best.score)}


def closing_facts(closing: Closing, champion: Elite) -> dict[str, Any]:
    """What the closing table shows of the champion."""
    rows = [row for row in closing.rows if not row.held_out]
    ratios = [row.versus[row.best] for row in rows]
    seeds = [row.versus["seed"] for row in rows if "seed" in row.versus]
    return {
        "kernel": champion.candidate.id,
        "edits": list(champion.candidate.edits),
        "ratio": score_json(combine(ratios) if ratios else champion.score),
        "workloads": [_closing_workload(row) for row in rows],
        "held_out": {
            "correct": closing.held_out_passed,
            "speed_kept": closing.speed_kept,
            "checked": list(closing.held_out_checked),
            "workloads": [_closing_workload(row) for row in closing.rows if row.held_out],
        },
        "gain_over_seed": score_json(combine(seeds)) if seeds else None,
        "detail": closing.detail,
    }


def score_json(score: Score) -> dict[str, float]:
    """A mean over workloads as a ratio with its interval."""
    ratio = score.ratio
    return {"estimate": ratio.estimate, "low": ratio.low, "high": ratio.high}


def _closing_workload(row: ClosingRow) -> dict[str, Any]:
    times = {f"{name}_us": value for name, value in row.times_us.items()}
    ratio = record.to_json(row.versus[row.best])
    return {"name": row.workload, "best_us": row.time_us, **times, "fastest_baseline": row.best, "ratio": ratio, "share": row.share}


def _best(champion: Elite | None) -> dict[str, Any] | None:
    if champion is None:
        return None
    workloads = {
        m.workload: {"time_us": m.time_us, "ratio": record.to_json(m.versus[BASELINE])}
        for m in champion.evaluation.measurements
        if BASELINE in m.versus
    }
    return {"kernel": champion.candidate.id, "ratio": score_json(champion.score), "workloads": workloads}
