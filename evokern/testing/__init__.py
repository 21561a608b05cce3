"""What makers of parts test them with, and stand-ins for what costs time or money.

Contracts are classes of tests: subclass one, give its fixture, and pytest runs every test on your part.

Modules:
    archive_contract: `ArchiveContract`.
    store_contract: `StoreContract`.
    operator_contract: `OperatorContract`.
    requests: Tasks, kernels and requests to try operators on.
    scripted_model: `ScriptedModel`, a language model that answers what it was told to.
    sim_executor: `SimExecutor`, evaluations computed from a landscape.
    served: An OpenAI-compatible endpoint in a process of its own.

Import the module you need: contracts need pytest, stand-ins do not.
"""

from __future__ import annotations

__all__: list[str] = []
