"""A whole run whose language model answers badly in every way, through the real client and over a real socket.

A failed call is a typed refusal: counted, kept, never a kernel. The operators that need no model go on, and so does the run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evokern import record
from evokern.event import EventKind, ModelCall, RefusalReason
from evokern.kernel import Candidate, Kernel
from evokern.operators.author import NO_ANSWER
from evokern.store import Journal
from evokern.store.payload import Proposed, Refused
from tests.e2e_cpu.conftest import Shell
from tests.e2e_cpu.openai_server import Mode, OpenAIServer, completion
from tests.e2e_cpu.small_task import CORE

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

ANSWERED_BADLY = (Mode.PROSE, Mode.CUT_OFF, Mode.EMPTY)
FAILED = (Mode.RATE_LIMITED, Mode.SERVER_ERROR, Mode.NEVER)
TOKENS = 168
"""What the server says that an answer cost."""

GOOD = (CORE / "softmax" / "seeds" / "cpp-float32.cpp").read_text().replace("peak", "largest")


class Consistent(OpenAIServer):
    """Asked again for a better answer, it gives the same one; first questions follow the script."""

    def _arrive(self, body: dict[str, Any]) -> Mode:
        answered = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
        return self._again(body, answered[0]) if answered else super()._arrive(body)

    def _again(self, body: dict[str, Any], answered: str) -> Mode:
        self.requests.append(body)
        for mode in ANSWERED_BADLY:
            if (completion(mode, body, self.good_source)["choices"][0]["message"]["content"] or NO_ANSWER) == answered:
                return mode
        return Mode.GOOD


@dataclass
class Run:
    """What one run left."""

    code: int
    summary: dict[str, Any]
    said: str
    status: dict[str, Any]
    requests: list[dict[str, Any]]
    left_of_script: list[Mode]
    calls: list[ModelCall]
    refused: list[Refused]
    proposed: list[Candidate]


@pytest.fixture(scope="module")
def run(eager_shell: Shell, small_task: Path) -> Run:
    with Consistent(script=[*ANSWERED_BADLY, *FAILED], good_source=GOOD) as server:
        address = {"EVOKERN_API_BASE": server.api_base, "EVOKERN_API_TIMEOUT": "4"}
        code, summary, said = eager_shell(
            "run", "--task", str(small_task), "--model", "openai/test", "--evals", "12", "--seed", "1", **address
        )
        left = list(server.script)
    assert code == 0, said  # here, so that a test that is run again is about another run
    _, status, _ = eager_shell("status", summary["run"])
    with Journal(Path(eager_shell.environment["EVOKERN_HOME"]), read_only=True) as journal:
        events = {
            kind: [event.payload for event in journal.events(summary["run"], kind)]
            for kind in (EventKind.MODEL_CALLED, EventKind.REFUSED, EventKind.PROPOSED)
        }
    return Run(
        code, summary, said, status, server.requests, left,
        [record.from_json(ModelCall, payload) for payload in events[EventKind.MODEL_CALLED]],
        [record.from_json(Refused, payload) for payload in events[EventKind.REFUSED]],
        [record.from_json(Proposed, payload).candidate for payload in events[EventKind.PROPOSED]],
    )  # fmt: skip


def test_the_run_goes_on_and_ends_well(run: Run) -> None:
    assert (run.code, run.summary["schema"], run.summary["state"]) == (0, "evokern.run/1", "ended"), run.said
    assert run.left_of_script == [], "every way of failing was met"
    assert "Traceback" not in run.said
    operators = Counter(candidate.operator for candidate in run.proposed)
    assert operators["rewrite"] + operators["retune"] >= 5
    assert run.status["evaluated"] == sum(run.status["verdicts"].values()) >= 12


def test_every_call_is_typed_and_counted(run: Run) -> None:
    outcomes = Counter(call.outcome for call in run.calls)
    assert (outcomes["rate_limited"], outcomes["server_error"]) == (1, 1)
    assert outcomes["timed_out"] == 1
    assert outcomes["ok"] >= 2 * len(ANSWERED_BADLY) + 1
    assert set(outcomes) <= {"ok", "rate_limited", "server_error", "timed_out"}
    # A run that ends with calls in flight gives them up: they were sent, and are not waited for.
    assert len(run.calls) <= len(run.requests) <= len(run.calls) + 4
    model = run.status["model"]
    assert (model["name"], model["calls"], model["tokens"]) == ("openai/test", len(run.calls), TOKENS * outcomes["ok"])
    assert model["usd"] is None, "no price is known for it, which is not the same as free"
    assert run.status["budget"]["spent"]["tokens"] == model["tokens"]
    for outcome in ("rate_limited", "server_error", "timed_out"):
        assert f"model call failed: {outcome}" in run.said


def test_nothing_malformed_is_evaluated_and_why_is_kept(run: Run) -> None:
    by_model = [refused for refused in run.refused if refused.operator in ("mutate", "cross")]
    reasons = Counter(refused.refusal.reason for refused in by_model)
    assert reasons[RefusalReason.NO_BLOCK] == 2
    assert reasons[RefusalReason.CUT_OFF] == 1
    assert all(refused.prompt for refused in by_model)
    (cut_off,) = [refused for refused in by_model if refused.refusal.reason is RefusalReason.CUT_OFF]
    assert cut_off.response.startswith("```cpp")
    assert [call.outcome for call in cut_off.calls].count("ok") == 2, "asked for a whole file once more"
    written = [candidate.id for candidate in run.proposed if candidate.operator in ("mutate", "cross")]
    assert written == [Kernel("cpp", GOOD).id], "the good answer, once"
