"""Print evokern's dependencies less the heavy ones, for a Python that runs the unit tests alone (`make unit312`)."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

HEAVY = {"torch", "triton", "chromadb", "sentence-transformers", "optuna"}

project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
sys.stdout.writelines(f"{line}\n" for line in wanted if re.split(r"[^a-z0-9-]", line.lower())[0] not in HEAVY)
