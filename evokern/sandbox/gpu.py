"""What a slot needs of the machine to use one GPU: the driver's nodes below /dev and the folder of its libraries.

Of NVIDIA's driver. Nodes that are not there are left out, so a slot with a GPU can be made, and refused by the driver, anywhere.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LIBRARY = "libcuda.so.1"

_COMMON_NODES = ("nvidiactl", "nvidia-uvm")
_KNOWN_TO_LINKER = ("/usr/lib/{machine}-linux-gnu", "/usr/lib64", "/usr/lib")
# Where the driver lies in containers, on bare machines and below WSL, after what the judge's own settings say.
_FOLDERS = ("/usr/local/nvidia/lib64", *_KNOWN_TO_LINKER, "/usr/lib/wsl/lib")


@dataclass(frozen=True, slots=True)
class Grant:
    """One GPU for one slot.

    Attributes:
        nodes: Names below /dev, of the driver and of this GPU alone.
        folder: Of the driver's libraries; empty where there is none.
    """

    nodes: tuple[str, ...]
    folder: str

    def environment(self) -> dict[str, str]:
        """What tells Triton, which asks the linker's cache alone, where the driver is."""
        return {"TRITON_LIBCUDA_PATH": self.folder} if self.folder else {}


def grant(number: int) -> Grant:
    """What a slot is given for one GPU.

    Args:
        number: Of its node, /dev/nvidia<number>: the driver's minor number.
    """
    return Grant((*_COMMON_NODES, f"nvidia{number}"), driver_folder())


def driver_folder() -> str:
    """Where the driver's libraries lie on this machine; empty where there are none."""
    return next((folder for folder in _candidates() if os.path.exists(os.path.join(folder, LIBRARY))), "")


def search_path() -> str:
    """Where the linker has to be told to look for the driver's libraries, which load each other by name; empty where it looks by itself."""
    folder = driver_folder()
    return "" if folder in _named(_KNOWN_TO_LINKER) else folder


def present() -> list[int]:
    """Numbers of the GPUs whose nodes are there."""
    with contextlib.suppress(OSError):
        names = [name.removeprefix("nvidia") for name in os.listdir("/dev") if name.startswith("nvidia")]
        return sorted(int(name) for name in names if name.isdecimal())
    return []


def _candidates() -> Iterator[str]:
    yield from filter(os.path.isabs, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    yield from _named(_FOLDERS)


def _named(folders: Sequence[str]) -> list[str]:
    machine = os.uname().machine
    return [folder.format(machine=machine) for folder in folders]
