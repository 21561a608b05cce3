"""What code is made for, and what one block of a kernel may use there.

Imports nothing that is not in a bare Python: the build slot reads it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture with its limits.

    Attributes:
        platform: "cuda" or "hip".
        arch: Triton's name: 90 for sm_90, "gfx942".
        warp_size: Threads of a warp, or of a wavefront.
        shared_bytes: Shared memory that one block may have.
        registers: Of one block, 32 bits each.
        threads: Of one block.
        multiprocessors: That the model of a device has which is named beside it; a kernel's host code may ask.
        registers_a_multiprocessor: 32 bits each.
        threads_a_multiprocessor: Resident at once.
        shared_a_multiprocessor: Shared memory of one multiprocessor, bytes.
    """

    platform: str
    arch: int | str
    warp_size: int
    shared_bytes: int
    registers: int
    threads: int
    multiprocessors: int
    registers_a_multiprocessor: int
    threads_a_multiprocessor: int
    shared_a_multiprocessor: int
    facts: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As in `TARGETS`: "cuda:90"."""
        return f"{self.platform}:{self.arch}"

    @property
    def capability(self) -> tuple[int, int]:
        """What PyTorch calls the device's capability; (9, 4) for gfx942."""
        if isinstance(self.arch, int):
            return self.arch // 10, self.arch % 10
        digits = self.arch.removeprefix("gfx")
        return int(digits[:-2]), int(digits[-2], 16)

    def properties(self) -> dict[str, int]:
        """The device's properties under Triton's names, as `driver.active.utils.get_device_properties` gives them."""
        return {
            "max_shared_mem": self.shared_bytes,
            "max_num_regs": self.registers_a_multiprocessor,
            "multiprocessor_count": self.multiprocessors,
            "warpSize": self.warp_size,
            "max_threads_per_sm": self.threads_a_multiprocessor,
            **self.facts,
        }


def _cuda(arch: int, shared_kib: int, multiprocessors: int, shared_a_multiprocessor_kib: int) -> Target:
    return Target("cuda", arch, 32, shared_kib << 10, 65536, 1024, multiprocessors, 65536, 2048, shared_a_multiprocessor_kib << 10)


def _hip(arch: str, warp_size: int, shared_kib: int, multiprocessors: int, registers_kib: int, threads: int) -> Target:
    registers = (registers_kib << 10) // 4
    return Target("hip", arch, warp_size, shared_kib << 10, registers, 1024, multiprocessors, registers, threads, shared_kib << 10)


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        # A100, H100 and H200, B200: CUDA C++ programming guide, table of technical specifications by compute capability.
        _cuda(80, 163, 108, 164),
        _cuda(90, 227, 132, 228),
        _cuda(100, 227, 148, 228),
        # MI250X (one die), MI300X, MI355X, RX 7900 XTX: AMD's hardware specification tables of ROCm's documentation.
        _hip("gfx90a", 64, 64, 110, 512, 2048),
        _hip("gfx942", 64, 64, 304, 512, 2048),
        _hip("gfx950", 64, 160, 256, 512, 2048),
        _hip("gfx1100", 32, 64, 96, 768, 2048),
    )
}
"""By name: "cuda:90", "hip:gfx942". From vendors' documents, not measured."""

DEFAULT = "cuda:90"


def target_for(name: str, **facts: int) -> Target:
    """The target of a name.

    Args:
        name: Such as "cuda:90". An NVIDIA architecture that is not listed has the limits of the nearest listed one below it.
        facts: What is known better about the device that is here, under Triton's names.

    Raises:
        ValueError: There is none.
    """
    from dataclasses import replace

    if name in TARGETS:
        return replace(TARGETS[name], facts=facts)
    platform, _, arch = name.partition(":")
    below = [target for target in TARGETS.values() if isinstance(target.arch, int) and arch.isdigit() and target.arch <= int(arch)]
    if platform != "cuda" or not below:
        raise ValueError(f"no target '{name}'; known: {', '.join(TARGETS)}")
    nearest = max(below, key=lambda target: int(target.arch))
    return replace(nearest, arch=int(arch), facts=facts)
