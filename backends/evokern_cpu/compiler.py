"""The C++ compiler: which one, and what it is exactly."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from evokern.errors import Unavailable

SETTING = "EVOKERN_CXX"
"""Environment variable that names the compiler."""

_NAMES = ("g++", "clang++", "c++")
_SYSTEM = Path("/usr")


@dataclass(frozen=True, slots=True)
class Compiler:
    """One C++ compiler.

    Attributes:
        path: Absolute path of the driver, as it is called.
        version: First line of `--version`.
        identity: sha256 over driver and compiler proper, hex; what products are keyed by.
        is_clang: Whether it is clang.
        readable: What a sandbox must show beside the system's own folders.
    """

    path: str
    version: str
    identity: str
    is_clang: bool
    readable: tuple[Path, ...]


def find() -> Compiler:
    """The compiler to use.

    Raises:
        Unavailable: None is there, or it does not answer.
    """
    wanted = os.environ.get(SETTING, "")
    for name in (wanted,) if wanted else _NAMES:
        path = shutil.which(name)
        if path:
            return _examined(os.path.abspath(path), os.stat(path).st_mtime_ns)
    if wanted:
        raise Unavailable("no such compiler", where=f"{SETTING}={wanted}", mend="Name an installed g++ or clang++")
    raise Unavailable("no C++ compiler found", mend="Install one: apt install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora)")


@lru_cache(maxsize=8)
def _examined(path: str, changed_ns: int) -> Compiler:
    version = _said(path, "--version").partition("\n")[0].strip()
    if not version:
        raise Unavailable("the C++ compiler does not answer --version", where=path, mend=f"Name a working one in {SETTING}")
    proper = shutil.which(_said(path, "-print-prog-name=cc1plus").strip())
    identity = hashlib.sha256()
    for file in filter(None, (path, proper)):
        with open(file, "rb") as stream:
            identity.update(hashlib.file_digest(stream, "sha256").digest())
    return Compiler(path, version, identity.hexdigest(), "clang" in version, _readable(path))


def _said(*command: str) -> str:
    environment = {"PATH": os.environ.get("PATH", ""), "LANG": "C"}
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=environment).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _readable(path: str) -> tuple[Path, ...]:
    # A compiler that is installed elsewhere brings its headers and libraries below the folder that holds its bin.
    real = Path(path).resolve()
    prefixes = {real.parent.parent, Path(path).parent.parent}
    return tuple(sorted(prefix for prefix in prefixes if not prefix.is_relative_to(_SYSTEM) and prefix != Path("/")))
