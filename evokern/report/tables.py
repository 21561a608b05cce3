"""Tables as plain text, from the documents that `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evokern.kernel import SHORT
from evokern.printable import block, line
from evokern.report.standing import standing_of

NOTHING = "-"
LOG_LINES = 30
MINUTE, HOUR = 60, 3600
LARGE_US = 1000.0


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is flush left and whose others are flush right.

    Args:
        header: Names of the columns.
        rows: As many cells each.
    """
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = []
    for row in (header, ["-" * width for width in widths], *rows):
        first = row[0].ljust(widths[0])
        lines.append("  ".join([first, *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]).rstrip())
    return "\n".join(lines)


def ratio_text(ratio: Mapping[str, Any] | None) -> str:
    """A speed-up with its 95 % interval, such as `1.42x [1.38, 1.47]`."""
    if not ratio:
        return NOTHING
    return f"{_number(ratio['estimate'])}x [{_number(ratio['low'])}, {_number(ratio['high'])}]"


def time_text(microseconds: float | None) -> str:
    """A time in microseconds, with as many digits as it deserves."""
    if microseconds is None:
        return NOTHING
    return f"{microseconds:,.0f}" if microseconds >= LARGE_US else f"{microseconds:.4g}"


def span_text(seconds: float | None) -> str:
    """A span of time, such as `1 h 02 min`, `4 min 10 s` or `8 s`."""
    if seconds is None:
        return NOTHING
    whole = max(0, round(seconds))
    if whole >= HOUR:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02d} min"
    if whole >= MINUTE:
        return f"{whole // MINUTE} min {whole % MINUTE:02d} s"
    return f"{whole} s"


def budget_text(budget: Mapping[str, Any]) -> str:
    """What is left of each limit, such as `1 min 40 s and 12 evaluations left`."""
    left = budget.get("left") or {}
    parts = []
    if left.get("seconds") is not None:
        parts.append(span_text(left["seconds"]))
    for name in ("evaluations", "tokens"):
        if left.get(name) is not None:
            parts.append(counted(left[name], name.removesuffix("s")))
    if left.get("usd") is not None:
        parts.append(f"{left['usd']:.2f} usd")
    return " and ".join(parts) + " left" if parts else "no limit"


def counts_text(counts: Mapping[str, int]) -> str:
    """Counts by name, the largest first, such as `passed 31, wrong 2`."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count}" for name, count in ordered if count) or "none yet"


def best_rows(best: Mapping[str, Any] | None) -> list[list[str]]:
    """One row a workload of a run's best kernel: name, time, ratio to the faster baseline."""
    workloads = (best or {}).get("workloads") or {}
    return [[name, time_text(w.get("time_us")), ratio_text(w.get("ratio"))] for name, w in sorted(workloads.items())]


def status_text(status: Mapping[str, Any]) -> str:
    """A run's status: head, best per workload, budget, verdicts, islands."""
    lines = [f"run {status['run']}  {status['state']}  {status['evaluated']} evaluated, {rate_text(status.get('rate'))}"]
    best = status.get("best")
    if best:
        # A figure that does not count is never a headline; its rows are shown below, under the reason.
        headline = standing_line(best) or f"{ratio_text(best.get('ratio'))} over the faster baseline, geometric mean"
        lines += ["", f"best {short(best['kernel'])}  {headline}"]
        closing = status.get("closing")
        if closing and not standing_line(best):
            whose = "" if closing["kernel"] == best["kernel"] else f" ({short(closing['kernel'])})"
            wrong = "" if closing["held_out_correct"] else "; WRONG on held-out shapes"
            lines.append(f"measured once more at the end{whose}: {ratio_text(closing['ratio'])}{wrong}")
        lines += ["", aligned(["workload", "us", "ratio"], best_rows(best))] if best_rows(best) else []
    lines += ["", f"budget    {budget_text(status['budget'])}", f"verdicts  {counts_text(status['verdicts'])}"]
    lines += [f"island {text}" for text in island_lines(status.get("islands") or [])]
    lines.append(f"model     {model_text(status.get('model'))}")
    return "\n".join(lines)


def rate_text(per_minute: float | None) -> str:
    """Evaluations a minute."""
    return "no rate yet" if per_minute is None else f"{per_minute:.1f} a minute"


def island_lines(islands: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line an island: its index, cells filled, best ratio."""
    return [f"{island['index']}  {counted(island['elites'], 'elite')}, best {ratio_text(island.get('ratio'))}" for island in islands]


def model_text(model: Mapping[str, Any] | str | None) -> str:
    """The language model and what it used."""
    if not model:
        return "none: LLM-free operators alone"
    if isinstance(model, str):
        return model
    spent = f"{counted(model.get('calls', 0), 'call')}, {counted(model.get('tokens', 0), 'token')}"
    usd = "money unknown" if model.get("usd") is None else f"{model['usd']:.4f} usd"
    return f"{model.get('name', '')}  {spent}, {usd}"


def evaluation_text(document: Mapping[str, Any]) -> str:
    """An evaluation as `evokern eval` shows it on a terminal."""
    reason = "" if document["reason"] == "none" else f": {document['reason']}"
    lines = [f"{document['verdict']}{reason}  kernel {short(document['kernel'])}  at rung {document['rung']}"]
    if standing_line(document):
        lines.append(standing_line(document))
    if document["verdict"] != "passed":
        lines += [f"what happened: {document['happened']}", f"what to do:    {document['next']}"]
    if document.get("detail"):
        lines.append(f"detail:        {line(document['detail'])}" if document["verdict"] != "passed" else line(document["detail"]))
    if document.get("workloads"):
        header = ["workload", "us", "over the baseline", "clock", "claimed us"]
        rows = [
            [w["name"], time_text(w["time_us"]), ratio_text(w.get("ratio")), w["clock"], time_text(w.get("claimed_us"))]
            for w in document["workloads"]
        ]
        lines += ["", aligned(header, rows), ""]
    lines.append(
        f"held-out shapes: {document['held_out']}   confirmed: {'yes' if document['confirmed'] else 'no'}   tier: {document['tier']}"
    )
    if document.get("evidence"):
        lines += [f"for an auditor: {counted(len(document['evidence']), 'remark')}", *map(evidence_line, document["evidence"])]
    if document.get("log") and document["verdict"] != "passed":
        lines += ["", "end of its log:", tail_text(document["log"])]
    return "\n".join(lines)


def evidence_line(piece: Mapping[str, Any]) -> str:
    """One piece of evidence: its weight, its code, what was seen, and where in the source."""
    place = f" (line {piece['line']})" if piece["line"] else ""
    return f"  {piece['weight']:>2}  {line(piece['code']):<12} {line(piece['detail'])}{place}"


def counted(count: int, noun: str) -> str:
    """A number with its noun, such as `1 remark` or `2 remarks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def tail_text(log: str) -> str:
    """The end of a log, where processes say why they ended; of a compiler's, whose first error brings the others, the beginning."""
    lines = block(log).rstrip().splitlines()
    if len(lines) <= LOG_LINES:
        return "\n".join(lines)
    left = f"[{counted(len(lines) - LOG_LINES, 'more line')}; `--json` has all]"
    if any("error:" in text for text in lines[:LOG_LINES]):
        return "\n".join([*lines[:LOG_LINES], left])
    return "\n".join([left, *lines[-LOG_LINES:]])


def standing_line(document: Mapping[str, Any]) -> str:
    """Why a figure does not count, in one loud line; empty for an official one."""
    lacks = (document.get("standing") or {}).get("lacks") or {}
    return f"NOT OFFICIAL: {'; '.join(lacks.values())}" if lacks else ""


def standing_mark(document: Mapping[str, Any]) -> str:
    """The same for a cell."""
    lacks = (document.get("standing") or {}).get("lacks") or {}
    return f"NOT OFFICIAL ({', '.join(lacks)})" if lacks else "official"


def top_text(document: Mapping[str, Any]) -> str:
    """The fastest kernels of a run."""
    if not document["kernels"]:
        return f"run {document['run']}: no kernel has passed yet"
    rows = [
        [
            short(k["kernel"]),
            ratio_text(k["ratio"]),
            "yes" if k["confirmed"] else "no",
            str(k["island"]),
            line(k["operator"]),
            line(", ".join(k["edits"])),
            standing_mark(k),
        ]
        for k in document["kernels"]
    ]
    return aligned(["kernel", "over the baseline", "confirmed", "island", "operator", "edits", "standing"], rows)


def kernel_text(document: Mapping[str, Any]) -> str:
    """A kernel with its lineage and verdicts, the source last."""
    from evokern.operators.author import readable

    lines = [f"kernel {document['kernel']}  {document['dialect']}, entry {document['entry']}"]
    for run in document["runs"]:
        if "operator" not in run:
            continue
        parents = ", ".join(short(parent) for parent in run["parents"]) or "nothing"
        edits = f" by {', '.join(run['edits'])}" if run["edits"] else ""
        lines += ["", line(f"run {run['run']}, island {run['island']}: {run['operator']} from {parents}{edits}")]
        lines += [evaluation_text(evaluation) for evaluation in run["evaluations"]]
        if run.get("prompt"):
            lines += ["", "asked:", block(readable(run["prompt"])), "", "answered:", block(run["response"])]
    return "\n".join([*lines, "", block(document["source"].rstrip("\n"))])


def closing_text(summary: Mapping[str, Any]) -> str:
    """The table at the end of a run, and where the kernel is.

    Args:
        summary: `run`, `state`, `evaluated`; `kernel` and `path` of the best, or None; `workloads`, each with `name`, `best_us`,
            `eager_us`, `compile_us`, `copy_us` and `ratio`; `ratio`, `held_out` (`correct`, `speed_kept`), `gain_over_seed`, `tier`,
            `device`, `resume`.
    """
    head = f"run {summary['run']} {summary['state']}: {counted(summary.get('evaluated', 0), 'kernel')} evaluated"
    if not summary.get("kernel"):
        return f"{head}. No kernel passed and was confirmed; `evokern status {summary['run']}` counts the verdicts"
    header = ["workload", "best us", "eager us", "compile us", "copy us", "ratio, 95 % interval"]
    rows = [
        [w["name"], *(time_text(w.get(name)) for name in ("best_us", "eager_us", "compile_us", "copy_us")), ratio_text(w.get("ratio"))]
        for w in summary.get("workloads") or []
    ]
    loud = standing_of(summary).line
    if summary.get("ratio") and not loud:
        rows.append(["geometric mean", "", "", "", "", ratio_text(summary["ratio"])])
    lines = [head, *([loud] if loud else []), "", aligned(header, rows), ""]
    lines.append("ratio: the faster of eager and torch.compile over the kernel, both on mapped memory")
    lines.append(held_out_text(summary.get("held_out")))
    if summary.get("gain_over_seed"):
        lines.append(f"gain over the seed: {ratio_text(summary['gain_over_seed'])}")
    lines.append(f"tier {summary.get('tier', NOTHING)}, {summary.get('device', NOTHING)}")
    if summary.get("path"):
        lines.append(f"kernel {short(summary['kernel'])}: {summary['path']}")
    return "\n".join(lines)


def held_out_text(held_out: Mapping[str, Any] | None) -> str:
    """What the held-out shapes said of the best kernel."""
    if not held_out or held_out.get("correct") is None:
        return "held-out shapes: not reached"
    correct = "correct" if held_out["correct"] else "WRONG"
    kept = held_out.get("speed_kept")
    return f"held-out shapes: {correct}, speed kept {NOTHING if kept is None else _number(kept)}"


def short(kernel_id: str) -> str:
    """An id as people are shown it."""
    return kernel_id[:SHORT]


def _number(value: float | str) -> str:
    return f"{float(value):.2f}"
