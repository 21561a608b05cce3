"""A device as the place where a session's kernels run (`evokern.evaluator.machine.Machine`)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evokern.backend import Built, Device
from evokern.errors import Unavailable
from evokern.evaluator.call.caller import Fault
from evokern.evaluator.call.contestant import KernelContestant
from evokern.evaluator.call.window import Memory
from evokern.evaluator.device.clock import DeviceClock, DeviceEvictor
from evokern.evaluator.device.far import Sources
from evokern.evaluator.device.memory import DeviceMemory
from evokern.evaluator.device.sealing import SealedForm, Unsealable, sealed_form
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.timing.clock import JudgedClock
from evokern.kernel import Kernel
from evokern.sandbox.policy import Policy
from evokern.task import Task, Workload

SHORTEST_US = 5.0
"""A workload whose baseline takes less than so many microseconds is checked, not timed: a launch takes two of them."""

SEALED = "sealed"
"""Name of the zygote that sealed runners are forked from."""

FORKS = 500
"""Runners after which a zygote of kernels is started afresh: the addresses that matter here are the device's."""


RUN_MEMORY = 4 << 30
"""Host memory of a kernel's runner: a driver has some hundred megabytes for itself."""


class DeviceMachine:
    """A device.

    Args:
        device: As the judge drives it.
        home: Folder for sealed kernels and for what is measured of the device once.
    """

    kind = "gpu"
    torch_policy = Policy.DEVICE_TORCH
    memory_bytes = RUN_MEMORY
    forks = FORKS

    def __init__(self, device: Device, home: Path) -> None:
        self._device, self._folder = device, home / "sealed"
        self.device_entry = device.resident()
        self.torch_modules: Sequence[str] = [self.device_entry.partition(":")[0]]
        sources = Sources()
        self.memory: Memory = DeviceMemory(device, Policy.DEVICE, sources)
        self.torch_memory: Memory = DeviceMemory(device, Policy.DEVICE_TORCH, sources)
        self.zygotes: Mapping[str, Sequence[str]] = {SEALED: ["evokern.evaluator.call.runner", device.sealed_loader().split(":")[0]]}
        self._shelf: Shelf | None = None
        self._forms: dict[str, tuple[SealedForm, Path] | str] = {}
        self._mark = secrets.token_hex(8)
        self._folder.mkdir(parents=True, exist_ok=True)

    def clock(self, task: Task, threads: int, shelf: Shelf, deadline: Callable[[Workload], float]) -> JudgedClock:
        """See `Machine`."""
        self._shelf = shelf
        read = float(self._device.ceilings()["read"])
        return DeviceClock(task, threads, shelf, DeviceEvictor(self._device, read / 1e9), deadline)

    def timed(self, contestant: KernelContestant, kernel: Kernel, built: Built) -> tuple[KernelContestant, str]:
        """A sealed form: device binaries and captured launches alone; the kernel with its host code where it has none, with the reason."""
        form = self._forms.get(kernel.id)
        if form is None:
            form = self._forms[kernel.id] = self._sealed(contestant, kernel, built)
        if isinstance(form, str):
            return contestant, form
        sealed, path = form
        found = replace(
            contestant, artefact=path, entry="", loader=self._device.sealed_loader(), zygotes=(SEALED,), server=None, sealed=True,
            digest=hashlib.sha256(sealed.content).hexdigest(), workspaces=sealed.workspaces,
        )  # fmt: skip
        return found, ""

    def _sealed(self, contestant: KernelContestant, kernel: Kernel, built: Built) -> tuple[SealedForm, Path] | str:
        shelf = self._shelf
        assert shelf is not None
        try:
            form = sealed_form(self._device, contestant, built, shelf.task, shelf, shelf.secret.derive("sealing", kernel.id))
        except Unsealable as refusal:
            return str(refusal)
        except Fault as fault:
            return f"its launches cannot be noted: {fault.detail or fault.reason}"
        # Of this session alone: another of the home may have sealed it for other shapes.
        path = self._folder / f"{kernel.id}-{self._mark}.sealed"
        path.write_bytes(form.content)
        return form, path

    def ceilings(self) -> dict[str, float]:
        """See `Machine`."""
        return dict(self._device.ceilings())

    def counters(
        self, contestant: KernelContestant, kernel: Kernel, built: Built, workloads: Sequence[Workload]
    ) -> dict[str, dict[str, float]]:
        """See `Machine`: of the sealed form, as none of its host code runs in the process that is looked at."""
        _, reason = self.timed(contestant, kernel, built)
        form = self._forms.get(kernel.id)
        if form is None or isinstance(form, str):
            raise Unavailable(f"what cannot run without its host code is not profiled: it {reason}")
        sealed, found = form[0], dict[str, dict[str, float]]()
        for cold in (True, False):
            names = [w.name for w in workloads if w.name in sealed.calls and sealed.calls[w.name].cold == cold]
            if names:
                found |= zip(names, self._device.profile(sealed.content, [sealed.calls[name] for name in names]), strict=True)
        return found

    def shortest_us(self, clock: JudgedClock) -> float:
        """See `Machine`."""
        return SHORTEST_US

    def kept_bytes(self) -> int:
        """All of the last cache: what was evicted by reading leaves nothing, but of that no device gives a promise."""
        return int(self._device.facts()["l2_bytes"])

    def close(self) -> None:
        """Give the device back."""
        for form in self._forms.values():
            if not isinstance(form, str):
                form[1].unlink(missing_ok=True)
        self._device.close()
