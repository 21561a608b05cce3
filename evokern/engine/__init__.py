"""The engine: THE loop over all islands, and what it tells of a run.

Members:
    Engine: One run, from its first event to its closing measurement.
    Display, Silent: Who shows a run.
    judge_once: One kernel up the whole ladder, without a run.
"""

from evokern.engine.display import Display, Silent
from evokern.engine.engine import Engine
from evokern.engine.single import judge_once

__all__ = ["Display", "Engine", "Silent", "judge_once"]
