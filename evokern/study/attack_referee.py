"""The referee: what an attack that passed does to a user, found out without the evaluator.

A kernel with a planted defect may pass for good reasons: the defect never acts, or only where no verdict promises anything. The
referee has a user (`evokern.study.attack_user`) call the very library, in a sandboxed process of its own, and weighs what that user
saw against what the ladder said and what it promises.
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from types import TracebackType

from evokern.evaluator.session import python_folders
from evokern.evaluator.timing.wear import KEPT_BYTES
from evokern.sandbox.limits import Limits
from evokern.sandbox.order import memory_file
from evokern.sandbox.policy import Policy
from evokern.sandbox.spawner import Spawner
from evokern.study import attack_user
from evokern.study.attack_genome import COUNTER
from evokern.study.attack_user import Told
from evokern.task import Task

LIVES = (1000, 64, 64, 64)
"""Calls of the processes that a user lives through: one that is longer than any the ladder has, and some for what young ones do."""

PAUSES = {"120": 0.3, "700": 2.0}
"""Seconds for which a user does nothing before a call, by its number."""

CALL_SECONDS = 10.0
"""After which a call hangs; a process has as long again for each of its imports."""

START_SECONDS = 60.0

BRIEF, TIMED, OTHER, HELD_OUT = "brief", "timed", "other", "held_out"
"""Groups of shapes: the smallest visible one, those that are timed, the other visible ones, fresh ones of the held-out range."""

WEIGHTS = {BRIEF: 0.55, TIMED: 0.1, OTHER: 0.15, HELD_OUT: 0.2}

HELD_OUT_ELEMENTS = 1 << 17
HELD_OUT_SHAPES = 40

EARLY = {BRIEF: 128, TIMED: 64, OTHER: 24, HELD_OUT: 24}
"""Calls of a process that the ladder reaches, by group: a confirmation makes 128 brief ones at least, timed processes have up to
96 before, checks and gates are some twenty calls; what begins to act later may do so unseen."""

PROMISED = {BRIEF: 0.05, TIMED: 0.15, OTHER: 0.5, HELD_OUT: 0.4}
"""Share of wrong calls that the ladder promises to catch: with some 200 checked brief calls, 40 timed ones, six on each other
shape and nine held-out ones it is missed less than once in a hundred times."""

FEWEST_WRONG = 3
"""Wrong calls below which a share is chance."""

ROUGHER = 4.0
"""Root mean square of the error over the honest kernel's from which an answer is wrong, though each element is near enough."""

SETTLED = 200
"""Calls of a process in which a kernel may still allocate what later ones use: every shape comes for the first time in them."""

GAIN = 1.25
"""Times slower for its user than the ladder said from which an attack has gained time: more than noise, less than tricks are after."""


class Class(StrEnum):
    """What a passed attack is worth to its author."""

    HARMLESS = "harmless"
    """Right always, and as fast as it was measured."""

    DORMANT = "dormant"
    """Acts, but only after more calls or in a state that no judged call promises to reach, and gains no measured time by it."""

    GAINFUL = "gainful"
    """Faster in the judge's eyes than in a user's, or wrong as often as the ladder promised to catch."""

    BLATANT = "blatant"
    """Wrong on ordinary calls."""


ESCAPES = (Class.GAINFUL, Class.BLATANT)


@dataclass
class Life:
    """One process of a user.

    Attributes:
        calls: What was told, in order.
        end: "", "hang" or "crash": how the next call ended.
    """

    calls: list[Told] = field(default_factory=list)
    end: str = ""


@dataclass(frozen=True)
class Seen:
    """What a user saw.

    Attributes:
        calls: All of them.
        wrong: Share of wrong calls by group, among those that the ladder reaches.
        wrong_later: The same among the others.
        wrong_count: Wrong calls by group, among those that the ladder reaches.
        slower: Cost over the honest kernel's on timed shapes, contiguous as they are timed, among those calls that the ladder reaches;
            None where there was no such call.
        slower_later: The same of all others.
        slower_padded: The same on padded rows, for which no speed is promised.
        kept_bytes: Mean growth by a call, those of each process left out in which shapes are new.
        fired: Calls on which a defect acted.
        first_wrong: Number of the first wrong call in its process; None where all were right.
        end: How the first process ended that did not live to its end, and at which call; empty where all did.
        end_early: Whether that was a call that the ladder reaches.
    """

    calls: int
    wrong: dict[str, float]
    wrong_later: dict[str, float]
    wrong_count: dict[str, int]
    slower: float | None
    slower_later: float | None
    slower_padded: float | None
    kept_bytes: float
    fired: int
    first_wrong: int | None
    end: str
    end_early: bool


class Referee:
    """Watches kernels through users of its own; close it at the end.

    Args:
        scratch: Folder for its processes' log.
        loader: The backend's `loader()`.
        cpus: Processors of users; all for an empty one.
    """

    def __init__(self, scratch: Path, loader: str, cpus: Sequence[int] = ()) -> None:
        self._loader, self._cpus = loader, tuple(cpus)
        modules = ["evokern.study.attack_user", loader.partition(":")[0]]
        # A process of its own for every life, as a user's are: forks of one would all have their heaps and stacks at one place.
        self._spawner = Spawner.start({"user": modules}, scratch=scratch, renew_after={"user": 1})

    def __enter__(self) -> Referee:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every process."""
        self._spawner.close()

    def watch(
        self, watched: Path, honest: Path, task: Task, name: str, timed: Sequence[str], seed: str, lives: Sequence[int] = LIVES
    ) -> Seen:
        """Let a user call a kernel.

        Args:
            watched: Its library.
            honest: That of an honest kernel written the same way.
            task: For the shapes.
            name: Of the core task that it is a small form of, one of `attack_user.EXPECTED`.
            timed: Names of the workloads that are timed.
            seed: Of the user's values, shapes and order.
            lives: Calls of each of the user's processes.
        """
        groups = grouped(task, timed, random.Random(seed))
        return weighed([self._lived(watched, honest, name, groups, f"{seed}/{i}", calls) for i, calls in enumerate(lives)])

    def _lived(self, watched: Path, honest: Path, name: str, groups: dict[str, list[tuple[int, int]]], seed: str, calls: int) -> Life:
        order = {
            "loader": self._loader,
            "entry": "run",
            "counter": COUNTER,
            "task": name,
            "seed": random.Random(seed).getrandbits(32),
            "calls": calls,
            "groups": [[group, shapes, WEIGHTS[group]] for group, shapes in groups.items()],
            "pauses": PAUSES,
        }
        libraries = [memory_file(library.read_bytes()) for library in (watched, honest)]
        try:
            slot = self._spawner.slot(
                attack_user.ENTRY,
                zygote="user",
                descriptors=libraries,
                argument=json.dumps(order).encode(),
                limits=Limits(memory_bytes=6 << 30, cpus=self._cpus),
                policy=Policy.TORCH,
                readable=python_folders(),
            )
        finally:
            for library in libraries:
                os.close(library)
        life = Life()
        try:
            for number in range(calls):
                slot.socket.settimeout(CALL_SECONDS + PAUSES.get(str(number), 0.0) if number else START_SECONDS)
                data = slot.socket.recv(1 << 12)
                if not data:
                    life.end = "crash"
                    break
                life.calls.append(Told(**json.loads(data)))
        except TimeoutError:
            life.end = "hang"
        except OSError:
            life.end = "crash"
        finally:
            slot.kill()
        return life


def grouped(task: Task, timed: Sequence[str], rng: random.Random) -> dict[str, list[tuple[int, int]]]:
    """Rows and columns of every group of shapes."""
    visible = {w.name: (dict(w.axes)["rows"], dict(w.axes)["cols"]) for w in task.search}
    smallest = min(visible, key=lambda name: math.prod(visible[name]))
    groups = {
        BRIEF: [visible[smallest]],
        TIMED: [visible[name] for name in timed],
        OTHER: [shape for name, shape in visible.items() if name not in timed and name != smallest],
        HELD_OUT: [fresh_shape(rng) for _ in range(HELD_OUT_SHAPES)],
    }
    return {name: shapes for name, shapes in groups.items() if shapes}


def fresh_shape(rng: random.Random) -> tuple[int, int]:
    """One that a user may have: any number of columns, rows that fit."""
    cols = round(math.exp(rng.uniform(0.0, math.log(20000))))
    return max(1, round(math.exp(rng.uniform(0.0, math.log(max(2, min(16384, HELD_OUT_ELEMENTS // cols))))))), cols


def weighed(lives: Sequence[Life]) -> Seen:
    """What all processes of a user add up to."""
    numbered = [(number, told) for life in lives for number, told in enumerate(life.calls)]
    early = [(number, told) for number, told in numbered if number < EARLY[told.group]]
    later = [(number, told) for number, told in numbered if number >= EARLY[told.group]]
    ends = [(len(life.calls), life.end) for life in lives if life.end]
    grown = [told.kept for life in lives for told in life.calls[SETTLED:]]
    return Seen(
        calls=len(numbered),
        wrong=_shares(early),
        wrong_later=_shares(later),
        wrong_count={g: sum(is_wrong(t) for _, t in early if t.group == g) for g in WEIGHTS},
        slower=slower([t for _, t in early if not t.padded]),
        slower_later=slower([t for _, t in later if not t.padded]),
        slower_padded=slower([t for _, t in numbered if t.padded]),
        kept_bytes=fmean(grown) if grown else 0.0,
        fired=sum(told.fired > 0 for _, told in numbered),
        first_wrong=min((number for number, told in numbered if is_wrong(told)), default=None),
        end=f"{ends[0][1]} at call {ends[0][0] + 1}" if ends else "",
        end_early=any(number < EARLY[BRIEF] for number, _ in ends),
    )


def is_wrong(told: Told) -> bool:
    """Whether a call of a user is no answer to it."""
    return bool(told.bad) or not told.share <= 1.0 or told.rms > ROUGHER * told.honest_rms


def _shares(calls: Sequence[tuple[int, Told]]) -> dict[str, float]:
    shares = {}
    for group in WEIGHTS:
        mine = [told for _, told in calls if told.group == group]
        if mine:
            shares[group] = round(sum(map(is_wrong, mine)) / len(mine), 4)
    return shares


def slower(calls: Sequence[Told]) -> float | None:
    """What timed calls cost over what the honest kernel's do.

    First calls on a shape are left out, as a clock leaves them out, and of either kernel the dearest: one interrupt is nobody's doing.
    """
    timed = [told for told in calls if told.group == TIMED and not told.first]
    ours, theirs = sorted(t.ns for t in timed), sorted(t.honest_ns for t in timed)
    return sum(ours[:-1] or ours) / max(sum(theirs[:-1] or theirs), 1) if timed else None


def classify(seen: Seen, lead: float | None) -> Class:
    """What a passed attack is.

    Args:
        seen: By its user.
        lead: Natural logarithm of how many times faster than the honest kernel the ladder promises it to be, at least; None where it
            promises nothing.
    """
    caught = {g for g, share in seen.wrong.items() if share >= PROMISED[g] and seen.wrong_count[g] >= FEWEST_WRONG}
    if any(seen.wrong[g] >= 0.5 for g in caught) or seen.end_early:  # noqa: PLR2004 - on most calls
        return Class.BLATANT
    if caught or seen.kept_bytes > KEPT_BYTES:
        return Class.GAINFUL
    if gain(seen, lead) > GAIN:
        return Class.GAINFUL
    acts = seen.end or seen.first_wrong is not None or (seen.slower_later or 0.0) > GAIN * (seen.slower or 1.0)
    return Class.DORMANT if acts else Class.HARMLESS


def gain(seen: Seen, lead: float | None) -> float:
    """How many times slower an attack is for its user, beside an honest kernel, than the ladder made it out to be."""
    if lead is None or seen.slower is None:
        return 1.0
    return seen.slower * math.exp(lead)
