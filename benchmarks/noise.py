"""What noise does to promotions: simulated decisions through the real stopping rules, statistics and archive.

    python benchmarks/noise.py [--decisions 2000] [--seed 0] [--json]     children as fast as their parent, then children 8 % faster
    python benchmarks/noise.py --device [--json]                         the smallest gain seen with 80 % power in two seconds

Nothing is simulated but the times of calls: each is its kernel's true time, times log-normal noise, on two workloads as the tasks of
the core suite have. A decision is one child: screened against the champion, confirmed against the baseline where that may pay,
and offered to an archive that holds the champion; each child meets a champion that was confirmed anew.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist, fmean, stdev
from typing import Any

import numpy as np

from evokern.archive import ArchiveSettings, GridArchive
from evokern.engine.confirming import to_beat, worth_confirming
from evokern.evaluation import BASELINE, INCUMBENT, Elite, Evaluation, Sample, Verdict
from evokern.evaluator.call.contestant import CANDIDATE
from evokern.evaluator.timing.clock import AGAIN_CALM, CALM, ITSELF_CLUSTERS
from evokern.evaluator.timing.series import Series, measurement, merged
from evokern.evaluator.timing.stopping import MOST_CLUSTERS, MOST_UNDECIDED, Stop, allocate_until, decided, never, settled
from evokern.event import PlacementKind
from evokern.kernel import Candidate, Kernel
from evokern.statistics import confidence_multiplier, score_of
from evokern.task import DType, Workload

ROOT = Path(__file__).parents[1]

NOISE = 0.10
"""Spread of one call's time, natural logarithm."""

GAIN = 0.08
FALSE_LIMIT = 0.05
"""Most false promotions, as the upper end of a 95 % interval."""

POWER = 0.80
COST_LIMIT = 1.6
"""Most evaluations, confirmations included, over children."""

CHAMPION = 2.0
"""How many times faster than the baseline the champion truly is."""

WORKLOADS = (Workload((("cols", 4096), ("rows", 1024))), Workload((("cols", 1003), ("rows", 2048))))

BASELINE_NS = 4e6
SECONDS = 2.0
"""Measuring time for which `--device` says what can be seen."""


@dataclass(frozen=True)
class Tally:
    """What came of some decisions.

    Attributes:
        decisions: Children.
        promoted: Of these, taken into the archive.
        confirmed: Of these, confirmed first.
        allocations: Mean allocations of screening and of confirming, over children.
    """

    decisions: int
    promoted: int
    confirmed: int
    allocations: float

    @property
    def share(self) -> float:
        """Share of children that were promoted."""
        return self.promoted / self.decisions

    @property
    def bounds(self) -> tuple[float, float]:
        """95 % interval of the share (Wilson 1927)."""
        z, n, p = 1.96, self.decisions, self.share
        middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)

    @property
    def evaluations(self) -> float:
        """Screenings and confirmations, over children."""
        return 1 + self.confirmed / self.decisions


class Simulation:
    """Children of a champion, judged under noise.

    Args:
        seed: Root of all chance.
        noise: Spread of one call's time, natural logarithm.
    """

    def __init__(self, seed: int, noise: float = NOISE) -> None:
        self._rng = np.random.default_rng(seed)
        self._noise = noise
        self._number = 0
        self._allocations = 0
        self._margin = 0.0

    def decide(self, decisions: int, gain: float) -> Tally:
        """So many children that are truly faster than their parent by `gain`, a fraction."""
        promoted = confirmed = self._allocations = 0
        for _ in range(decisions):
            self._margin = self._calibrated()
            archive, champion = self._champion()
            child, truth = self._candidate("rewrite"), CHAMPION * (1 + gain)
            evaluation = self._measured(child, truth, CHAMPION, INCUMBENT, decided, MOST_CLUSTERS)
            if worth_confirming(child, evaluation, champion, archive):
                confirmed += 1
                evaluation = self._confirmed(child, truth, evaluation, to_beat(evaluation, archive))
                score = score_of(evaluation)
                assert score is not None
                placement = archive.place(Elite(child, evaluation, score))
                promoted += placement.kind is not PlacementKind.REJECTED
        return Tally(decisions, promoted, confirmed, self._allocations / decisions)

    def _champion(self) -> tuple[GridArchive, Elite]:
        """An archive with a champion in it, whose own confirmation was as noisy; it was to beat something a fifth slower."""
        before = self._allocations
        champion = self._candidate("seed")
        evaluation = self._confirmed(champion, CHAMPION, self._blank(champion), math.log(CHAMPION / 1.2))
        score = score_of(evaluation)
        assert score is not None
        elite, archive = Elite(champion, evaluation, score), GridArchive(ArchiveSettings(descriptors=("simd",)))
        archive.place(elite)
        self._allocations = before
        return archive, elite

    def _confirmed(self, candidate: Candidate, truth: float, previous: Evaluation, bar: float | None) -> Evaluation:
        fresh = self._measured(candidate, truth, 1.0, BASELINE, settled(bar), MOST_UNDECIDED)
        known = {m.workload: m for m in previous.measurements}
        both = tuple(merged(known[m.workload], m) if m.workload in known else m for m in fresh.measurements)
        return replace(fresh, measurements=both, confirmed=True)

    def _measured(self, candidate: Candidate, truth: float, opponents: float, opponent: str, stop: Stop, most: int) -> Evaluation:
        series = {w.name: Series(0.0, self._margin) for w in WORKLOADS}
        self._allocations += self._timed(series, truth, opponents, opponent, stop, most)
        found = [
            measurement(w, CANDIDATE, series[w.name], opponent, opponent, null_ns=0.0, resolution_ns=0.0, floor_us=None) for w in WORKLOADS
        ]
        return replace(self._blank(candidate), measurements=tuple(m for m in found if m is not None))

    def _calibrated(self) -> float:
        """The margin of a session's clock: a kernel against itself, as `JudgedClock.calibrate_margin` has it."""
        margins = []
        for _ in range(AGAIN_CALM):
            series = {w.name: Series(0.0) for w in WORKLOADS}
            self._timed(series, 1.0, 1.0, INCUMBENT, never, ITSELF_CLUSTERS)
            margins.append(max(s.bias(CANDIDATE, INCUMBENT) for s in series.values()))
            if margins[-1] <= CALM:
                break
        return min(margins)

    def _timed(self, series: Mapping[str, Series], truth: float, opponents: float, opponent: str, stop: Stop, most: int) -> int:
        """Fill series until it is enough; how many allocations that took."""
        taken = 0

        def allocate(cluster: int, blocks: int) -> None:
            nonlocal taken
            taken += 1
            for one in series.values():
                noise = np.exp(self._rng.normal(0, self._noise, (2 * blocks, 2)))
                before = cluster % 2  # so that odd calls are not always first
                for pair, (ours, theirs) in enumerate(noise.tolist()):
                    for who, took in ((CANDIDATE, BASELINE_NS / truth * ours), (opponent, BASELINE_NS / opponents * theirs)):
                        one.samples.append(Sample(who, cluster, pair, round(took), round(took), position=before + pair))

        allocate_until(stop, allocate, lambda: {n: s.ratio(CANDIDATE, opponent) for n, s in series.items()}, clusters=most, blocks=1)
        return taken

    def _candidate(self, operator: str) -> Candidate:
        self._number += 1
        return Candidate(Kernel("cpp", f"// {self._number}\n"), "softmax", DType.FLOAT32, operator=operator)

    def _blank(self, candidate: Candidate) -> Evaluation:
        return Evaluation(candidate.id, "", str(DType.FLOAT32), Verdict.PASSED, descriptors={"simd": "512"})


def simulated(decisions: int, seed: int) -> dict[str, Any]:
    """Both kinds of children, and whether the three limits hold."""
    simulation = Simulation(seed)
    same, faster = simulation.decide(decisions, 0.0), simulation.decide(decisions // 4, GAIN)
    return {
        "schema": "evokern.noise/1",
        "noise": NOISE,
        "seed": seed,
        "decisions": decisions,
        "false_promotions": {"share": same.share, "bounds": same.bounds, "limit": FALSE_LIMIT},
        "evaluations": {"per_child": same.evaluations, "limit": COST_LIMIT, "allocations": same.allocations},
        "gain": {
            "true": GAIN,
            "admitted": faster.share,
            "bounds": faster.bounds,
            "limit": POWER,
            "per_child": faster.evaluations,
            "allocations": faster.allocations,
        },
        "holds": same.bounds[1] <= FALSE_LIMIT and same.evaluations <= COST_LIMIT and faster.share >= POWER,
    }


def seen_here(clusters: int = 24) -> dict[str, Any]:
    """The smallest gain of one kernel over another that this machine shows with 80 % power in two seconds of measurement.

    A fast softmax is timed against itself under two names; the spread between allocations says what a lower bound above 1 takes.
    """
    from evokern.evaluator.session import Session
    from evokern.evaluator.statement import Opening

    kernel = Kernel("cpp", (ROOT / "benchmarks" / "kernels" / "softmax_fast.cpp").read_text())
    with tempfile.TemporaryDirectory(prefix="evokern-noise-") as home:
        opening = Opening(str(ROOT / "benchmarks" / "tasks" / "core" / "softmax"), DType.FLOAT32, "cpu", 1, home, baselines=("eager",))
        session = Session(opening, lambda _: None)
        try:
            built = session.build(kernel)
            one, same = (session.ladder.contestant(name, kernel, built) for name in (CANDIDATE, INCUMBENT))
            began = time.monotonic()
            found = session.ladder.clock.compare(
                one, same, session.ladder.timed, session.secret.derive("noise"), clusters=clusters, stop=never
            )
            seconds = (time.monotonic() - began) / clusters
            margin = session.ladder.clock.margin
        finally:
            session.close()
    logs = _by_allocation(list(found.values()))
    fits = max(int(SECONDS / seconds), 0)
    spread = stdev(logs)
    reach = (confidence_multiplier(fits) + NormalDist().inv_cdf(POWER)) * spread / math.sqrt(fits) if fits else math.inf
    return {
        "schema": "evokern.noise_device/1",
        "seconds": SECONDS,
        "seconds_per_allocation": seconds,
        "allocations": fits,
        "spread": spread,
        "bias": fmean(logs),
        "margin": margin,
        "smallest_gain": math.expm1(reach + margin),
        "power": POWER,
    }


def _by_allocation(series: list[Series]) -> list[float]:
    """Mean logarithm of the ratio over workloads, by allocation."""
    logs: dict[int, list[float]] = {}
    for one in series:
        ours, theirs = one.by_cluster(CANDIDATE), one.by_cluster(INCUMBENT)
        for cluster in set(ours) & set(theirs):
            logs.setdefault(cluster, []).append(math.log(theirs[cluster] / ours[cluster]))
    return [fmean(values) for values in logs.values() if len(values) == len(series)]


def show(found: Mapping[str, Any]) -> str:
    """The same in words."""
    if "smallest_gain" in found:
        return (
            f"smallest gain seen with {found['power']:.0%} power in {found['seconds']:.0f} s: {found['smallest_gain']:.1%} "
            f"({found['allocations']} allocations of {found['seconds_per_allocation']:.2f} s, spread {found['spread']:.2%}, "
            f"margin {found['margin']:.2%})"
        )
    false, cost, gain = found["false_promotions"], found["evaluations"], found["gain"]
    return "\n".join(
        [
            f"false promotions: {false['share']:.2%} [{false['bounds'][0]:.2%}, {false['bounds'][1]:.2%}], at most {false['limit']:.0%}",
            f"evaluations per child: {cost['per_child']:.2f}, at most {cost['limit']}; {cost['allocations']:.1f} allocations",
            f"children {gain['true']:.0%} faster admitted: {gain['admitted']:.1%}, at least {gain['limit']:.0%}; "
            f"{gain['allocations']:.1f} allocations",
        ]
    )


def main() -> int:
    """Measure and print; 1 where a limit does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", action="store_true", help="on this machine's own processor")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = seen_here() if options.device else simulated(options.decisions, options.seed)
    sys.stdout.write((json.dumps(found) if options.json else show(found)) + "\n")
    return 0 if found.get("holds", True) else 1


if __name__ == "__main__":
    sys.exit(main())
