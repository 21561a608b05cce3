"""A machine with nothing but Python, pip, git, make and a compiler: a clone, an empty HOME, a scrubbed environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from check import ROOT, Measured, command


def make(target: str, *, timeout_s: float) -> Measured:
    """Whether a make target passes alone in a fresh clone of the commit.

    Args:
        target: Name of the target.
        timeout_s: After so many seconds it has failed.
    """
    with tempfile.TemporaryDirectory(prefix="evokern-bare-") as folder:
        clone, home = Path(folder) / "evokern", Path(folder) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        return command(["make", target], timeout_s=timeout_s, environment=scrubbed(home), folder=clone)


def scrubbed(home: Path) -> dict[str, str]:
    """PATH with the interpreter's own folder first, HOME, and nothing else."""
    scripts = Path(sysconfig.get_path("scripts", vars={"base": sys.base_prefix}))
    system = [entry for entry in os.defpath.split(os.pathsep) if entry]
    return {"PATH": os.pathsep.join([str(scripts), "/usr/local/bin", *system]), "HOME": str(home)}
