"""Trust: whose verdicts count in a home, and which of earlier runs may stand for new ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from evokern import record
from evokern.evaluation import Evaluation, Fingerprint, Verdict
from evokern.evaluator.signing import Judges, enroll, genuine
from evokern.evaluator.statement import Preparation
from evokern.event import Event
from evokern.store import Journal
from evokern.store import payload as events


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, and the run that it was taken from where it was not made for this one."""

    evaluation: Evaluation
    reused: str = ""


class Trust:
    """Tells verdicts of a home's judges from those of others, which are external: shown, and nothing else.

    Args:
        home: The home folder.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._judges = Judges.of_home(home)

    def admit(self, preparation: Preparation) -> None:
        """Enroll a judge that this engine has started itself."""
        if genuine(preparation):
            self._judges = enroll(self._home, preparation.judge)

    def is_external(self, evaluation: Evaluation) -> bool:
        """Whether no judge of this home signed it. That the machine failed the executor says where no judge is left to."""
        return evaluation.verdict is not Verdict.INFRASTRUCTURE and not self._judges.accept(evaluation)

    def doubted(self, event: Event) -> Event:
        """A past event as it counts now: a verdict is external where its signature says so, whatever its row says."""
        if event.kind not in events.VERDICTS:
            return event
        evaluation = record.from_json(Evaluation, event.payload["evaluation"])
        return replace(event, payload={**event.payload, "external": self.is_external(evaluation)})

    def known(self, journal: Journal, kernel_id: str, key: str, fingerprint: Fingerprint) -> Judged | None:
        """What an earlier run of this home found out about exactly this source under exactly this fingerprint.

        A passed kernel that was never confirmed was only compared with that run's champion, which says nothing here.

        Args:
            journal: Where it may be.
            kernel_id: Hash of the exact source.
            key: `evaluation_key` of the four things that a verdict depends on.
            fingerprint: The present one.
        """
        found = journal.evaluation_of(key)
        if found is None:
            return None
        run, evaluation = found
        same = (evaluation.kernel_id, evaluation.key, evaluation.fingerprint) == (kernel_id, key, fingerprint)
        usable = same and (evaluation.confirmed or not evaluation.passed) and self._judges.accept(evaluation)
        return Judged(evaluation, run) if usable else None
