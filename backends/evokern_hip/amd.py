"""How clang builds a HIP kernel for AMD GPUs: which clang, commands, and what its remarks say of a kernel's needs.

Of ROCm where it is, else a distribution's clang with AMD's device libraries (Debian: `hipcc` brings clang-15 and the libraries). A
newer clang knows GPUs that those libraries do not: their file for one GPU of a family differs from the next one's by a number, so it
is made from that in the build's own folder. Such a build is a gate, and no proof that the code is right on that GPU.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from evokern_gpu.building import IMAGE, OBJECT, Compiled, Recipe
from evokern_gpu.resources import level

from evokern.building import DATELESS, linkage, product
from evokern.errors import Unavailable, UsageError

DEVICE = Path("/dev/kfd")
"""Where the driver of AMD's GPUs is reached."""

ARCH_SETTING = "EVOKERN_HIP_ARCH"
"""Environment variable that names the AMD architecture to build for, such as gfx942."""

DEFAULT_ARCH = "gfx942"

FIXED = ("-O3", "-std=c++17", "-D__HIP_PLATFORM_AMD__=1", *DATELESS)
"""Flags of every build; clang's HIP contracts products and sums and keeps denormals, division and square root as IEEE has them."""

WAVES: dict[str, int] = {"gfx90a": 8, "gfx940": 8, "gfx942": 8, "gfx950": 8, "gfx1100": 16}
"""Waves that one SIMD of a known architecture keeps, as clang counts them."""

LDS_BYTES: dict[str, int] = {"gfx90a": 65536, "gfx940": 65536, "gfx942": 65536, "gfx950": 163840, "gfx1100": 65536}
"""Local data share of a block."""

SIBLINGS: dict[str, str] = {"gfx942": "gfx940"}
"""Architecture whose device library another one's is made from."""

_MEND = "Install ROCm, or on Debian: apt install --no-install-recommends hipcc (gfx90a), and clang-19 lld-19 llvm-19 for gfx942"
_BITCODE = "libraries"
_WRAPPED = "image.hipfb"
_REGISTRATION = 1
"""clang's own function, which registers the code object when the library is loaded."""
_QUIET = ("-w", "-ferror-limit=20", "-fno-color-diagnostics", "-fno-caret-diagnostics", "-Rpass-analysis=kernel-resource-usage")
_LIBRARIES = ("amdgcn/bitcode", "lib/*/amdgcn/bitcode", "lib/llvm/lib/clang/*/lib/amdgcn/bitcode")
_OLDEST_FOR: dict[str, int] = {"gfx942": 17, "gfx950": 20}
"""First clang that knows an architecture."""

_ARCH = re.compile(r"gfx[0-9a-f]{3,5}\Z")
_VERSION = re.compile(r"clang version (\d+)")


@dataclass(frozen=True)
class Clang:
    """One clang for AMD GPUs.

    Attributes:
        path: Absolute path of the driver.
        version: What it calls itself.
        major: Of its version.
        root: Folder that holds HIP's headers and libraries.
        libraries: Folder of the device libraries.
        tools: Folder of llvm's other programs.
    """

    path: Path
    version: str
    major: int
    root: Path
    libraries: Path
    tools: Path

    @cached_property
    def identity(self) -> str:
        """sha256 over what makes a product, hex."""
        found = hashlib.sha256(f"{self.version}\0{self.root}\0".encode())
        for file in (self.path.resolve(), *sorted(self.libraries.glob("*.bc"))):
            with open(file, "rb") as stream:
                found.update(hashlib.file_digest(stream, "sha256").digest())
        return found.hexdigest()

    @property
    def readable(self) -> tuple[Path, ...]:
        """What a sandbox must show beside the system's own folders."""
        folders = {self.root, self.libraries, self.tools, self.path.parent, self.path.resolve().parent.parent}
        return tuple(sorted(folder for folder in folders if not folder.is_relative_to("/usr")))

    def builds_for(self, arch: str) -> bool:
        """Whether it can build for an architecture."""
        return self.major >= _OLDEST_FOR.get(arch, 0) and (self._library(arch).is_file() or self.library_to_make(arch) is not None)

    def library_to_make(self, arch: str) -> Path | None:
        """The device library from which that of an architecture is made; None where there is no need, or nothing to make it from."""
        sibling = self._library(SIBLINGS.get(arch, ""))
        able = all((self.tools / name).is_file() for name in ("llvm-dis", "llvm-as"))
        return sibling if able and sibling.is_file() and not self._library(arch).is_file() else None

    def _library(self, arch: str) -> Path:
        return self.libraries / f"oclc_isa_version_{arch.removeprefix('gfx')}.bc"


def find(arch: str) -> Clang:
    """A clang that builds for an architecture.

    Raises:
        Unavailable: None is here.
    """
    found = clangs()
    able = next((clang for clang in found if clang.builds_for(arch)), None)
    if able is not None:
        return able
    if not found:
        raise Unavailable("no compiler for AMD GPUs found", where=arch, mend=_MEND)
    raise Unavailable(f"{found[0].version} does not build for {arch}", where=str(found[0].path), mend=_MEND)


def clangs() -> list[Clang]:
    """Every clang for AMD GPUs, the preferred one first."""
    return [clang for path, root in _candidates() if (clang := _examined(path, root)) is not None]


def target() -> str:
    """The architecture to build for: what `EVOKERN_HIP_ARCH` says, else `DEFAULT_ARCH`.

    Raises:
        UsageError: The variable names no architecture.
    """
    return checked(os.environ.get(ARCH_SETTING, "") or DEFAULT_ARCH)


def checked(arch: str) -> str:
    """The same, where it is the name of an architecture.

    Raises:
        UsageError: It is not.
    """
    if not _ARCH.match(arch):
        raise UsageError("is no AMD architecture", where=arch[:80], mend="Such as gfx942")
    return arch


def recipe(source: str, flags: Sequence[str], arch: str, *, is_gate: bool = False) -> Recipe:
    """How clang builds a code object and the library that holds it: the device half first, then the host half around that very file.

    Args:
        source: Name of the source's file, `kernel` with an ending.
        flags: The kernel's own.
        arch: What is built for.
        is_gate: Whether the code object is all that is asked for.

    Raises:
        Unavailable: No compiler for this architecture, or nothing that wraps a code object for the host half.
    """
    clang = find(arch)
    chosen = (*FIXED, *flags)
    made = clang.library_to_make(arch)
    libraries = _BITCODE if made else str(clang.libraries)
    places = (f"--rocm-path={clang.root}", f"--rocm-device-lib-path={libraries}")
    both = (str(clang.path), "-x", "hip", f"--offload-arch={arch}", *places, *chosen, *_QUIET, "-I.")
    device = (*both, "--cuda-device-only", "--no-gpu-bundle-output", "-o", IMAGE, source)
    host = () if is_gate else _host_steps(clang, both, arch, source)
    return Recipe(
        source=source,
        steps=(*(_made(clang, made, arch) if made else ()), device, *host),
        compiler=clang.identity,
        flags=chosen,
        arch=arch,
        host=str(clang.path),
        readable=clang.readable,
        own_loads=linkage.COMPILERS_OWN + _REGISTRATION,
        products=(IMAGE,) if is_gate else (product.LIBRARY, IMAGE),
    )


def _host_steps(clang: Clang, compiling: Sequence[str], arch: str, source: str) -> tuple[tuple[str, ...], ...]:
    """Commands that compile the host half around the code object, as clang's own driver gives them, and link it."""
    bundler = next((tool for folder in (clang.tools, *_llvm_folders()) if (tool := folder / "clang-offload-bundler").is_file()), None)
    if bundler is None:
        raise Unavailable("no clang-offload-bundler found, which puts a code object into a library", where=clang.version, mend=_MEND)
    targets = f"-targets=host-{platform.machine()}-unknown-linux,hipv4-amdgcn-amd-amdhsa--{arch}"
    wrapped = (str(bundler), "-type=o", "-bundle-align=4096", targets, "-input=/dev/null", f"-input={IMAGE}", f"-output={_WRAPPED}")
    holding = ("-Xclang", "-fcuda-include-gpubinary", "-Xclang", _WRAPPED)
    compiled = (*compiling, "--cuda-host-only", "-c", "-fPIC", *holding, "-o", OBJECT, source)
    linked = (str(clang.path), "-shared", "-o", product.LIBRARY, OBJECT, f"-L{clang.root / 'lib'}", "-lamdhip64")
    return wrapped, compiled, linked


def _made(clang: Clang, sibling: Path, arch: str) -> Iterator[tuple[str, ...]]:
    """Commands that lay the device libraries beside the source, with the one that is not among them."""
    numbers = [re.sub(r"\D", "", name) for name in (SIBLINGS[arch], arch)]
    # gfx942 is version 9402 in there: one digit, one, two.
    before, after = (f"i32 {number[:-1]}0{number[-1]}" for number in numbers)
    yield ("mkdir", _BITCODE)
    yield ("sh", "-c", f"cp {clang.libraries}/*.bc {_BITCODE}/")
    text = f"{clang.tools}/llvm-dis {sibling} -o - | sed 's/{before}/{after}/' | {clang.tools}/llvm-as - -o"
    yield ("sh", "-c", f"{text} {_BITCODE}/oclc_isa_version_{arch.removeprefix('gfx')}.bc")


@dataclass(frozen=True, slots=True)
class Needs:
    """What one kernel needs of an AMD GPU, as compiled.

    Attributes:
        name: Symbol in the binary.
        vgprs: Vector registers of a lane.
        agprs: Accumulation registers of a lane.
        sgprs: Scalar registers of a wave.
        scratch_bytes: Private memory of a lane.
        spilled: Registers that did not fit, both kinds.
        lds_bytes: Local data share of a block.
        waves: Waves that one SIMD can keep.
    """

    name: str
    vgprs: int
    agprs: int
    sgprs: int
    scratch_bytes: int
    spilled: int
    lds_bytes: int
    waves: int


_REMARK = re.compile(r"remark: (?:[^:\n]*:\d+:\d+:)?\s*([A-Za-z][\w /\[\]]*): (\S+) \[-Rpass-analysis=kernel-resource-usage\]")


def from_remarks(text: str) -> tuple[Needs, ...]:
    """Kernels of a compilation.

    Args:
        text: What clang printed, among anything else; other lines are passed over.
    """
    kernels: list[dict[str, str]] = []
    for name, value in _REMARK.findall(text):
        if name.startswith("Function Name"):
            kernels.append({})
        if kernels:
            kernels[-1][name.partition(" [")[0]] = value
    return tuple(_needs(kernel) for kernel in kernels)


def _needs(told: dict[str, str]) -> Needs:
    def count(*names: str) -> int:
        value = next((told[name] for name in names if name in told), "0")
        return int(value[:18]) if value.isascii() and value.isdigit() else 0

    return Needs(
        told["Function Name"], count("VGPRs"), count("AGPRs"), count("SGPRs", "TotalSGPRs"), count("ScratchSize"),
        count("SGPRs Spill") + count("VGPRs Spill"), count("LDS Size"), count("Occupancy"),
    )  # fmt: skip


def complaint(need: Needs, arch: str) -> str:
    """Why a kernel cannot be launched, in one line; empty where it can, or where the architecture's limits are not known."""
    most = LDS_BYTES.get(arch)
    if most is not None and need.lds_bytes > most:
        return f"{need.name}: {need.lds_bytes} bytes of local data share; a block may have {most}"
    return ""


def describe(recipe: Recipe, compiled: Compiled, listing: str) -> dict[str, str]:
    """Traits of a library that clang built for an AMD GPU, under the names that `evokern_gpu.resources.traits` gives."""
    needs = from_remarks(compiled.log)
    if not needs:
        return {"arch": recipe.arch}
    found = {
        "arch": recipe.arch,
        "kernels": str(len(needs)),
        "registers": str(max(need.vgprs + need.agprs for need in needs)),
        "scalar_registers": str(max(need.sgprs for need in needs)),
        "spill_bytes": str(sum(need.scratch_bytes for need in needs if need.spilled)),
        "shared_bytes": str(max(need.lds_bytes for need in needs)),
    }
    if recipe.arch not in WAVES:
        return found
    share = min(need.waves for need in needs) / WAVES[recipe.arch]
    return found | {"resident": f"{share:.2f}", "occupancy": level(share)}


def _candidates() -> Iterator[tuple[Path, Path]]:
    """Compiler drivers with the folders of their HIP."""
    for root in dict.fromkeys(filter(None, (os.environ.get("ROCM_PATH", ""), "/opt/rocm"))):
        yield from ((Path(root) / place / "clang++", Path(root)) for place in ("llvm/bin", "lib/llvm/bin"))
    yield from ((folder / "clang++", Path("/usr")) for folder in _llvm_folders())


def _llvm_folders() -> list[Path]:
    """A distribution's versions of llvm, the newest first."""
    return sorted(Path("/usr/lib").glob("llvm-*/bin"), key=lambda folder: -int(re.sub(r"\D", "", folder.parent.name) or 0))


def _examined(path: Path, root: Path) -> Clang | None:
    if not path.is_file() or not (root / "include" / "hip" / "hip_runtime.h").is_file():
        return None
    return _known(path, root, path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _known(path: Path, root: Path, changed_ns: int) -> Clang | None:
    try:
        said = subprocess.run((path, "--version"), capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(said)
    libraries = next((folder for place in _LIBRARIES for folder in root.glob(place)), None)
    if version is None or libraries is None or not any((path.parent / name).exists() for name in ("lld", "ld.lld")):
        return None
    return Clang(path, said.partition("\n")[0].strip(), int(version.group(1)), root, libraries, path.parent)
