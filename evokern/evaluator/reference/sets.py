"""Sets: draws of inputs with their expected outputs, kept in the judge's private memory (EVALUATOR section 3).

A set comes from the key, the workload and its index only, so its expected values are computed once. Timed calls take one of
the base sets of a workload under a secret permutation of its rows; no runner sees one twice, for each allocation has a
runner of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import numpy as np

from evokern.errors import UsageError
from evokern.evaluator.reference import edges
from evokern.evaluator.reference.oracle import InputSet, Oracle
from evokern.evaluator.rule.correctness import FLOAT32_ROUNDOFF, Floats
from evokern.evaluator.secrecy import Secret
from evokern.task import Task, Workload

BASE_SETS = 16
"""Base sets of a timed workload, half of them for each of two measurements of a kernel: a warm call, two blocks of two pairs, and
samples that are taken again, each on another set."""

FEWEST_SETS = 12
BASE_BYTES = 1 << 30
"""Memory for the base sets of one workload; where sixteen need more there are fewer.

Twelve are as few as a measurement can do with: half of them go to each of two, and of six one is for the warm call, four for two blocks
of two pairs, and one for a sample that is taken again. A process then sees none twice. Rows lie in another secret order in every call,
where the task's rows are independent, so that a kernel which keeps what it saw in its own memory has rows to look for and not sets.
"""

KEPT_BYTES, KEPT_BYTES_OF_DEVICES = 2 << 30, 8 << 30
"""Memory for sets that are not base sets; the least recently used go first. A device's workloads are larger, and of theirs the inputs
alone are here."""

LEAST_FACTOR, MOST_FACTOR = 2.0, 8.0
"""By which scalars of fixed value are multiplied, all of one draw by the same: a lower bound stays below the upper one."""

Key = tuple[tuple[tuple[str, int], ...], str, int]


class Shelf:
    """Draws sets from the oracle and keeps them.

    Args:
        task: Whose inputs.
        oracle: Where expected values come from.
        secret: Key and context of all draws.
    """

    def __init__(self, task: Task, oracle: Oracle, secret: Secret) -> None:
        self.task, self.oracle, self.secret = task, oracle, secret
        self._base: dict[tuple[str, int], InputSet] = {}
        self._kept: OrderedDict[Key, InputSet] = OrderedDict()

    def count(self, workload: Workload) -> int:
        """How many base sets a timed workload has."""
        return max(FEWEST_SETS, min(BASE_SETS, BASE_BYTES // self.timed(workload, 0).nbytes))

    def timed(self, workload: Workload, index: int) -> InputSet:
        """A base set, `index` in [0, count)."""
        key = (workload.name, index)
        if key not in self._base:
            distribution = self.task.distributions[index % len(self.task.distributions)]
            self._base[key] = self.oracle.draw(dict(workload.axes), distribution, self.secret.seed("timed", workload.name, index))
        return self._base[key]

    def half(self, workload: Workload, secret: Secret, *, second: bool) -> list[int]:
        """The base sets that a kernel meets in one of its two measurements.

        What leaks of them is of no use in the other, nor to a kernel that meets others.

        Args:
            workload: Of which.
            secret: The kernel's own.
            second: Whether it is the second measurement.
        """
        order = [int(i) for i in secret.stream("half", workload.name).permutation(self.count(workload))]
        middle = len(order) // 2
        return order[middle:] if second else order[:middle]

    def checked(self, axes: Mapping[str, int], distribution: str, index: int) -> InputSet:
        """A set for check or gate."""
        key = (tuple(sorted(axes.items())), distribution, index)
        if key not in self._kept:
            seed = self.secret.seed("checked", *key)
            self._kept[key] = (
                self._with_other_scalars(axes, seed) if distribution == edges.SCALARS else self.oracle.draw(axes, distribution, seed)
            )
            most = KEPT_BYTES_OF_DEVICES if self.oracle.on_device else KEPT_BYTES
            while len(self._kept) > 1 and sum(s.nbytes for s in self._kept.values()) > most:
                self._kept.popitem(last=False)[1].release()
        self._kept.move_to_end(key)
        return self._kept[key]

    def _with_other_scalars(self, axes: Mapping[str, int], seed: int) -> InputSet:
        """A set whose scalars are a secret factor larger, on the values where that tells most; an ordinary one where it tells nothing."""
        factor = LEAST_FACTOR * (MOST_FACTOR / LEAST_FACTOR) ** float(np.random.default_rng(seed).random())
        best, most = self.oracle.draw(axes, self.task.distributions[0], seed), 0.0
        for distribution in self.task.distributions:
            ordinary = self.oracle.draw(axes, distribution, seed)
            try:
                changed = self.oracle.draw(axes, distribution, seed, factor=factor)
            except UsageError:  # a probability above 1, say: the task is left as it is
                ordinary.release()
                continue
            told = _told(changed, ordinary, self.task.tolerance.element, self.oracle.dtype.unit_roundoff)
            ordinary.release()
            if told > most:
                best, changed, most = changed, best, told
            changed.release()
        return best


def _told(changed: InputSet, ordinary: InputSet, element: float, unit: float) -> float:
    """By how much outputs differ, as a share of their rows' RMS; 0 where that is undefined or a reference is not well within the rule."""
    told = 0.0
    for name, values in changed.expected.items():
        scale, eager, before = changed.scale[name], changed.reference_error[name][0], ordinary.expected[name]
        if not np.isfinite(values).all() or not np.isfinite(before).all():
            return 0.0
        rounding = unit * scale.row_rms + FLOAT32_ROUNDOFF * np.sqrt(changed.reduction) * scale.row_scale
        if (np.sqrt(eager.mean_square) > edges.SHARE * element * rounding).any():
            return 0.0
        moved: Floats = np.abs(values - before).reshape(len(scale.row_rms), -1).max(axis=1, initial=0.0)
        told = max(told, float(np.max(moved / np.maximum(scale.row_rms, np.finfo(np.float32).tiny), initial=0.0)))
    return told
