"""The sandbox: slots in which untrusted code runs, and the processes that make them.

A slot is one untrusted process tree with a user id, namespaces, file system and limits of its own. Nothing that a
candidate does may outlive its slot, be seen from outside it but through its one socket, or reach what is outside.

Processes, each the parent of the next, each dying with its parent:

    judge      holds `spawner.Spawner` and `slot.Slot`: descriptors and cgroup files, no candidate code
    spawner    `service`: keyless, started before any key is drawn; execs zygotes and renews them every 500 forks
    zygote     `zygote`: one per dialect, with a literal environment, one socket, and the modules it was told to import
    keeper     reaps the slot's init and dies with the zygote
    init       PID 1 of the slot: enters namespaces, cgroups and its own file system, gives up every right, then forks
    runner     closes all but its own descriptors, takes its limits, and calls the entry it was started for

Why a zygote and not an exec: importing takes longer than everything else together, and a fork of a warm zygote needs no
file of Python afterwards. Why PID 1 of a PID namespace: its death is the one kill that no double fork escapes. Why a
cgroup where there is one: limits, clock and freezer then cover the whole tree and not one process.

What a slot is for is its `policy`: a kernel sees libraries and nothing else, writes no file, has no /proc, and is left only system
calls that neither read nor move what all processes of the machine share (`calls`); builders and PyTorch get more. Two walls each:
what is not seen (`filesystem`) is also not allowed (`landlock`), and what is not allowed is not asked for (`seccomp`).

What holds is tried at start (`canaries`), and the tier is what held: `isolated` as root with a user id of its own,
`sandboxed` through a user namespace, `unsandboxed` where neither is allowed. `EVOKERN_SANDBOX` (root, user, off) forces one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evokern.sandbox.canaries import Canary
    from evokern.sandbox.limits import Completed, Limits
    from evokern.sandbox.policy import Policy
    from evokern.sandbox.slot import Death, Slot
    from evokern.sandbox.spawner import SlotError, Spawner

__all__ = ["Canary", "Completed", "Death", "Limits", "Policy", "Slot", "SlotError", "Spawner"]

_HOMES = {
    "Canary": "canaries",
    "Completed": "limits",
    "Death": "slot",
    "Limits": "limits",
    "Policy": "policy",
    "Slot": "slot",
    "SlotError": "spawner",
    "Spawner": "spawner",
}


def __getattr__(name: str) -> object:
    # Late, so that a zygote, which imports parts of this package, does not hold what only the judge needs.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
