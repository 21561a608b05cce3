"""The CUDA toolkit: which one, what it is exactly, and the readers of device binaries.

No driver and no device is needed here: compile gates work on any machine that has nvcc.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from evokern.errors import Unavailable

ROOT_SETTINGS = ("CUDA_HOME", "CUDA_PATH")
"""Environment variables that name a toolkit's folder; the first that is set decides."""

HOST_SETTING = "EVOKERN_CXX"
"""Environment variable that names the host compiler."""

_MEND = "Install the CUDA toolkit, or `pip install nvidia-cuda-nvcc nvidia-cuda-runtime`, or name its folder in CUDA_HOME"
_SYSTEM = Path("/usr")
_STATIC_RUNTIME = "libcudart_static.a"
_HERE = re.compile(r"^#\$ _HERE_=(.+)$", re.MULTILINE)
_VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)")


@dataclass(frozen=True)
class Toolkit:
    """One nvcc with what it needs.

    Attributes:
        nvcc: Absolute path of the compiler driver.
        root: Folder that holds its bin.
        runtime: The static CUDA runtime.
        host: Absolute path of the host compiler.
        version: Of nvcc, such as "13.0.88".
        host_version: First line of what the host compiler says.
    """

    nvcc: Path
    root: Path
    runtime: Path
    host: Path
    version: str
    host_version: str

    @property
    def readable(self) -> tuple[Path, ...]:
        """What a sandbox must show beside the system's own folders."""
        folders = {self.root, self.nvcc.parent.parent, self.host.resolve().parent.parent}
        return tuple(sorted(folder for folder in folders if not folder.is_relative_to(_SYSTEM) and folder != Path("/")))

    @property
    def name(self) -> str:
        """Both compilers, in words."""
        return f"nvcc {self.version}, {self.host_version}"

    @cached_property
    def identity(self) -> str:
        """sha256 over all programs and libraries that make a product, hex; what products are keyed by."""
        identity = hashlib.sha256()
        for file in self._parts():
            with open(file, "rb") as stream:
                identity.update(hashlib.file_digest(stream, "sha256").digest())
        return identity.hexdigest()

    def _parts(self) -> Iterator[Path]:
        names = ("nvcc", "cudafe++", "ptxas", "fatbinary", "nvcc.profile")
        yield from filter(Path.is_file, (self.root / "bin" / name for name in names))
        yield from filter(Path.is_file, (self.root / "nvvm" / "bin" / "cicc", self.root / "include" / "cuda_runtime_api.h"))
        yield self.runtime
        yield self.host
        proper = shutil.which(_said(str(self.host), "-print-prog-name=cc1plus").strip())
        if proper:
            yield Path(proper)


def find() -> Toolkit:
    """The toolkit to use: of CUDA_HOME, on PATH, in /usr/local, or of the pip packages, the first that is there.

    Raises:
        Unavailable: None is there, or it lacks something, or there is no host compiler.
    """
    for nvcc in _candidates():
        if nvcc.is_file() and os.access(nvcc, os.X_OK):
            return _examined(nvcc, nvcc.stat().st_mtime_ns, _host())
    raise Unavailable("no nvcc found", mend=_MEND)


def disassembler() -> Path | None:
    """nvdisasm, which reads device binaries: of the toolkit, or the one that comes with Triton; None where neither is here."""
    for folder in (*_bin_folders(), *_triton_folder()):
        if (folder / "nvdisasm").is_file():
            return folder / "nvdisasm"
    return None


def _candidates() -> Iterator[Path]:
    named = next((os.environ[name] for name in ROOT_SETTINGS if os.environ.get(name)), "")
    if named:
        yield Path(named).absolute() / "bin" / "nvcc"
    found = shutil.which("nvcc")
    if found:
        yield Path(found).absolute()
    yield from (folder / "nvcc" for folder in _bin_folders())


def _bin_folders() -> Iterator[Path]:
    found = shutil.which("nvcc")
    if found:
        yield Path(found).resolve().parent
    yield Path("/usr/local/cuda/bin")
    yield from sorted(Path("/usr/local").glob("cuda-*/bin"), key=_age, reverse=True)
    for package in ("cu13", "cuda_nvcc"):
        yield from (folder / package / "bin" for folder in _places("nvidia"))


def _age(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", folder.parent.name))


def _triton_folder() -> list[Path]:
    return [folder / "backends" / "nvidia" / "bin" for folder in _places("triton")]


def _places(package: str) -> list[Path]:
    """Folders of an installed package, which is not imported."""
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    return [Path(place) for place in (found.submodule_search_locations or ())] if found is not None else []


def _host() -> Path:
    wanted = os.environ.get(HOST_SETTING, "")
    for name in (wanted,) if wanted else ("g++", "clang++"):
        found = shutil.which(name)
        if found:
            return Path(found).absolute()
    raise Unavailable("nvcc needs a host C++ compiler and there is none", where=wanted, mend="Install one: apt install g++")


@lru_cache(maxsize=8)
def _examined(nvcc: Path, changed_ns: int, host: Path) -> Toolkit:
    version = _VERSION.search(_said(str(nvcc), "--version"))
    if version is None:
        raise Unavailable("nvcc does not answer --version", where=str(nvcc), mend=_MEND)
    # What is on PATH is often a script; the driver itself knows where it lies.
    here = _HERE.search(_said(str(nvcc), "--dryrun", "-x", "cu", "-c", os.devnull))
    nvcc = Path(here.group(1)) / "nvcc" if here and (Path(here.group(1)) / "nvcc").is_file() else nvcc
    root = nvcc.resolve().parent.parent
    folders = [root / "lib64", root / "lib", *root.glob("targets/*/lib"), *Path("/usr/lib").glob("*-linux-gnu")]
    runtime = next((folder / _STATIC_RUNTIME for folder in folders if (folder / _STATIC_RUNTIME).is_file()), None)
    if runtime is None:
        raise Unavailable(f"the CUDA toolkit has no {_STATIC_RUNTIME}", where=str(root), mend=_MEND)
    return Toolkit(nvcc, root, runtime, host, version.group(1), _said(str(host), "--version").partition("\n")[0].strip())


def _said(*command: str) -> str:
    environment = {"PATH": os.environ.get("PATH", ""), "LANG": "C"}
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=30, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
