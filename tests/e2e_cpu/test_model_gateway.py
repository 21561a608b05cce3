"""The gateway through the real litellm against a real local endpoint that misbehaves in every way endpoints do.

CASES 6, 8, 20, 22 to 26. Waits between tries and the breaker's clock are given by the tests, so none of them sleeps or
depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from evokern.errors import Unavailable
from evokern.event import ModelCall, RefusalReason
from evokern.model import BreakerSettings, CallError, Completion, Failure, Finish, GatewaySettings, LiteLLMModel, Message
from evokern.operators.author import AuthorSettings
from evokern.operators.cross import Cross
from evokern.operators.mutate import Mutate
from evokern.testing.requests import SOURCE, evaluated, request_for, row_task
from tests.e2e_cpu.openai_server import ONE_MEGABYTE, Mode, OpenAIServer

FASTER = SOURCE.replace("LANES 4", "LANES 8")
ASK = [Message("user", "Make it faster.")]
NEVER_OPENS = BreakerSettings(failures_to_open=1000)

pytestmark = [pytest.mark.e2e_cpu, pytest.mark.timeout(120)]


@dataclass
class Time:
    """A clock that the waits between tries move forward."""

    now: float = 1000.0
    waits: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@dataclass
class Gateway:
    """A model under test with what it did."""

    model: LiteLLMModel
    time: Time
    recorded: list[ModelCall]

    async def ask(self) -> Completion:
        return await self.model.complete(ASK, max_tokens=50, temperature=0.5)

    async def failure(self) -> CallError:
        with pytest.raises(CallError) as caught:
            await self.ask()
        return caught.value


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's own keys, addresses and proxies."""
    for name in ("OPENAI_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL", "EVOKERN_MODEL", "EVOKERN_API_BASE", "EVOKERN_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(good_source=FASTER) as running:
        yield running


@pytest_asyncio.fixture
async def gateway(server: OpenAIServer) -> AsyncIterator[Callable[..., Gateway]]:
    """Makes gateways to the server, and closes their connections."""
    async with AsyncExitStack() as stack:

        def make(model: str = "local", **fields: Any) -> Gateway:
            time, recorded = Time(), list[ModelCall]()
            settings = GatewaySettings(
                model, **{"api_base": server.api_base, "timeout_s": 60.0, "retries": 2, "breaker": NEVER_OPENS, **fields}
            )
            made = LiteLLMModel(settings, record=recorded.append, clock=time, sleep=time.sleep)
            stack.push_async_callback(made.aclose)
            return Gateway(made, time, recorded)

        yield make


@pytest.mark.asyncio
async def test_a_good_answer_with_exact_tokens_and_unknown_money(server: OpenAIServer, gateway: Callable[..., Gateway]) -> None:
    g = gateway()
    await g.model.probe()
    assert server.requests == [], "probing sends nothing"
    completion = await g.ask()
    assert FASTER in completion.text
    assert completion.finish is Finish.STOP
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens, completion.usage.usd) == (123, 45, None)
    assert [(c.model, c.outcome, c.prompt_tokens, c.completion_tokens, c.usd) for c in g.recorded] == [("local", "ok", 123, 45, None)]
    sent = server.requests[0]
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("local", 50, 0.5)
    assert sent["messages"] == [{"role": "user", "content": "Make it faster."}]
    spend = g.model.meter.spend()
    assert (spend.calls, spend.answered, spend.in_flight, spend.tokens, spend.usd) == (1, 1, 0, 168, None)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("mode", "failure", "requests"),
    [
        (Mode.RATE_LIMITED, Failure.RATE_LIMITED, 3),
        (Mode.SERVER_ERROR, Failure.SERVER_ERROR, 3),
        (Mode.HANG_UP, Failure.UNREACHABLE, 3),
        (Mode.INVALID_JSON, Failure.BAD_ANSWER, 1),
        (Mode.NO_CHOICES, Failure.BAD_ANSWER, 1),
        (Mode.UNAUTHORISED, Failure.UNAUTHORISED, 1),
        (Mode.BAD_REQUEST, Failure.REJECTED, 1),
        (Mode.NOT_FOUND, Failure.NOT_FOUND, 1),
    ],
)
async def test_failures_are_typed_counted_and_tried_again_within_bounds(
    mode: Mode, failure: Failure, requests: int, server: OpenAIServer, gateway: Callable[..., Gateway]
) -> None:
    server.mode = mode
    g = gateway()
    error = await g.failure()
    assert error.failure is failure
    assert "\n" not in error.line
    assert len(server.requests) == requests
    assert [c.outcome for c in error.calls] == [failure] * requests
    assert list(error.calls) == g.recorded
    spend = g.model.meter.spend()
    assert (spend.calls, spend.answered, spend.in_flight, spend.failures) == (requests, 0, 0, {failure: requests})
    assert spend.tokens == (168 if mode is Mode.NO_CHOICES else 0), "a useless answer that reports its use is paid for"
    assert len(g.time.waits) == requests - 1


@pytest.mark.asyncio
async def test_the_library_prints_nothing(
    server: OpenAIServer, gateway: Callable[..., Gateway], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    server.script.extend([Mode.SERVER_ERROR, Mode.INVALID_JSON])
    g = gateway()
    await g.failure()
    await g.ask()
    assert capfd.readouterr() == ("", "")
    assert [r for r in caplog.records if r.name.startswith("LiteLLM")] == []


@pytest.mark.asyncio
async def test_waits_grow_within_bounds(server: OpenAIServer, gateway: Callable[..., Gateway]) -> None:
    server.mode = Mode.SERVER_ERROR
    g = gateway(retries=5, first_wait_s=1.0, longest_wait_s=4.0)
    await g.failure()
    assert len(g.time.waits) == 5
    for wait, bound in zip(g.time.waits, (1.0, 2.0, 4.0, 4.0, 4.0), strict=True):
        assert bound / 2 <= wait <= bound


@pytest.mark.asyncio
async def test_retry_after_is_honoured(server: OpenAIServer, gateway: Callable[..., Gateway]) -> None:
    server.script.extend([Mode.RATE_LIMITED_RETRY_AFTER, Mode.SERVER_ERROR])
    server.retry_after_s = 7
    g = gateway()
    completion = await g.ask()
    assert g.time.waits[0] == 7.0
    assert [c.outcome for c in completion.calls] == ["rate_limited", "server_error", "ok"]
    assert g.model.meter.spend().calls == 3


@pytest.mark.asyncio
async def test_a_long_retry_after_rests_the_endpoint_instead_of_holding_the_call(
    server: OpenAIServer, gateway: Callable[..., Gateway]
) -> None:
    server.mode = Mode.RATE_LIMITED_RETRY_AFTER
    server.retry_after_s = 900
    g = gateway(longest_wait_s=30.0)
    assert (await g.failure()).retry_after_s == 900.0
    assert g.time.waits == []
    assert g.model.pause_s() == 900.0
    assert (await g.failure()).failure is Failure.PAUSED
    assert len(server.requests) == 1


@pytest.mark.asyncio
async def test_a_call_that_is_never_answered_ends(server: OpenAIServer, gateway: Callable[..., Gateway]) -> None:
    server.mode = Mode.NEVER
    g = gateway(timeout_s=0.3)
    error = await g.failure()
    assert error.failure is Failure.TIMED_OUT
    assert [c.outcome for c in g.recorded] == ["timed_out"]
    spend = g.model.meter.spend()
    assert (spend.calls, spend.in_flight, spend.tokens, spend.unreported_calls) == (1, 0, 0, 1)
    assert spend.committed_tokens > 50, "it may have been billed, so its bound stands"
    server.mode = Mode.GOOD
    assert FASTER in (await g.ask()).text, "the next call is not disturbed"


@pytest.mark.asyncio
async def test_calls_in_flight_and_given_up_are_counted(server: OpenAIServer, gateway: Callable[..., Gateway]) -> None:
    server.mode = Mode.NEVER
    g = gateway()
    call = asyncio.create_task(g.ask())
    assert await asyncio.to_thread(server.arrived.wait, 30.0)
    spend = g.model.meter.spend()
    assert (spend.calls, spend.in_flight) == (1, 1)
    assert spend.reserved_tokens >= 50
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    spend = g.model.meter.spend()
    assert (spend.calls, spend.in_flight, spend.failures) == (1, 0, {Failure.CANCELLED: 1})
    assert [c.outcome for c in g.recorded] == ["cancelled"]


@pytest.mark.asyncio
async def test_as_many_calls_at_once_as_the_settings_say(server: OpenAIServer, gateway: Callable[..., Gateway]) -> None:
    server.wait_for_company(3)
    g = gateway(in_flight=3)
    await asyncio.gather(*(g.ask() for _ in range(9)))
    assert server.most_in_flight == 3
    assert g.model.meter.spend().answered == 9


@pytest.mark.asyncio
async def test_a_dead_endpoint_costs_nothing_and_is_found_again(gateway: Callable[..., Gateway]) -> None:
    """CASES 6 and 8: growing pauses, said in the status; a failed call is never a generation; it resumes when it is back."""
    with OpenAIServer(good_source=FASTER) as first:
        g = gateway(
            api_base=first.api_base, retries=0, breaker=BreakerSettings(failures_to_open=3, first_pause_s=5.0, longest_pause_s=60.0)
        )
        await g.ask()
        port = first.port
    for _ in range(3):
        assert (await g.failure()).failure is Failure.UNREACHABLE
    for _ in range(200):
        assert (await g.failure()).failure is Failure.PAUSED
    assert g.model.meter.spend().calls == 4, "200 further calls sent nothing"
    assert g.model.status().state == "open"
    assert "paused, next try in 5 s after unreachable" in g.model.status().line
    pauses = []
    for _ in range(5):
        pauses.append(g.model.pause_s())
        g.time.now += g.model.pause_s()
        assert (await g.failure()).failure is Failure.UNREACHABLE
        assert (await g.failure()).failure is Failure.PAUSED
    assert pauses == [5.0, 10.0, 20.0, 40.0, 60.0]
    assert g.model.meter.spend().calls == 9, "one trial after each pause"
    with OpenAIServer(good_source=FASTER, port=port) as back:
        g.time.now += g.model.pause_s()
        assert FASTER in (await g.ask()).text
        assert g.model.pause_s() == 0.0
        assert g.model.status().state == "closed"
        assert len(back.requests) == 1


@pytest.mark.asyncio
async def test_a_wrong_key_opens_the_breaker_at_once_and_is_never_told(
    server: OpenAIServer, gateway: Callable[..., Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.mode = Mode.UNAUTHORISED
    for key, fields in (("sk-of-the-settings", {"api_key": "sk-of-the-settings"}), ("sk-of-the-process", {})):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-process")
        g = gateway(breaker=BreakerSettings(failures_to_open=50), **fields)
        error = await g.failure()
        assert "Incorrect API key provided: ***" in error.line
        assert key not in error.line + g.model.status().line
        assert "EVOKERN_API_KEY" in error.mend
        assert (await g.failure()).failure is Failure.PAUSED


@pytest.mark.asyncio
async def test_a_token_budget_is_held_before_a_call_is_sent(server: OpenAIServer, gateway: Callable[..., Gateway]) -> None:
    g = gateway(token_limit=240)
    await g.ask()
    error = await g.failure()
    assert error.failure is Failure.BUDGET
    assert error.calls == ()
    assert len(server.requests) == 1
    assert g.model.pause_s() == float("inf")
    assert g.model.meter.spend().calls == 1


@pytest.mark.asyncio
async def test_an_answer_without_usage_is_not_taken_for_free(server: OpenAIServer, gateway: Callable[..., Gateway]) -> None:
    server.mode = Mode.NO_USAGE
    g = gateway()
    assert (await g.ask()).usage.prompt_tokens is None
    assert g.model.meter.spend().unreported_calls == 1


@pytest.mark.asyncio
async def test_what_makes_every_call_fail_is_said_before_the_run(gateway: Callable[..., Gateway], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable) as missing_key:
        await gateway("openai/gpt-4o", api_base=None).model.probe()
    assert "OPENAI_API_KEY" in missing_key.value.line
    assert "export" in missing_key.value.mend
    with pytest.raises(Unavailable) as no_provider:
        await gateway("some-model", api_base=None).model.probe()
    assert "EVOKERN_API_BASE" in no_provider.value.mend
    with pytest.raises(Unavailable) as no_price:
        await gateway("openai/local", usd_limit=1.0).model.probe()
    assert "--tokens" in no_price.value.mend
    monkeypatch.setenv("OPENAI_API_KEY", "sk-anything")
    await gateway("openai/gpt-4o", api_base=None, usd_limit=1.0).model.probe()


REFUSALS = [
    (Mode.PROSE, RefusalReason.NO_BLOCK),
    (Mode.EMPTY, RefusalReason.NO_BLOCK),
    (Mode.CUT_OFF, RefusalReason.CUT_OFF),
    (Mode.NO_CLOSE, RefusalReason.MALFORMED),
    (Mode.TWO_BLOCKS, RefusalReason.SEVERAL_BLOCKS),
    (Mode.ONE_MEGABYTE, RefusalReason.MALFORMED),
    (Mode.RATE_LIMITED, RefusalReason.MODEL_FAILED),
    (Mode.SERVER_ERROR, RefusalReason.MODEL_FAILED),
    (Mode.INVALID_JSON, RefusalReason.MODEL_FAILED),
    (Mode.NEVER, RefusalReason.MODEL_FAILED),
    (Mode.HANG_UP, RefusalReason.MODEL_FAILED),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("mode", "reason"), REFUSALS)
async def test_nothing_malformed_becomes_a_kernel(
    mode: Mode, reason: RefusalReason, server: OpenAIServer, gateway: Callable[..., Gateway], tmp_path: Path
) -> None:
    server.mode = mode
    server.good_source = FASTER + "int answer;\n"  # the word by which the two blocks of that mode differ
    g = gateway(retries=1, timeout_s=0.5 if mode is Mode.NEVER else 60.0)
    task = row_task(tmp_path)
    parents = evaluated(SOURCE, task), evaluated("int other;\n", task)
    proposal = await Mutate(g.model, AuthorSettings(max_tokens=50)).propose(request_for(task, parents[0]))
    assert proposal.kernel is None
    assert proposal.refusal is not None
    assert proposal.refusal.reason is reason
    assert list(proposal.calls) == g.recorded
    assert len(g.recorded) == len(server.requests) == g.model.meter.spend().calls
    if mode is Mode.ONE_MEGABYTE:
        assert len(proposal.response) == ONE_MEGABYTE, "kept whole, and not sent back as part of a second prompt"
        assert len(server.requests) == 1
    assert "Task row_sum" in proposal.prompt
    server.mode = Mode.GOOD
    for operator in (Mutate(g.model), Cross(g.model)):
        again = await operator.propose(request_for(task, *parents))
        assert again.kernel is not None, "the run goes on"
        assert again.kernel.source == server.good_source


@pytest.mark.asyncio
async def test_a_resting_model_refuses_at_once_and_says_for_how_long(
    server: OpenAIServer, gateway: Callable[..., Gateway], tmp_path: Path
) -> None:
    server.mode = Mode.SERVER_ERROR
    g = gateway(retries=0, breaker=BreakerSettings(failures_to_open=1, first_pause_s=5.0))
    task = row_task(tmp_path)
    request = request_for(task, evaluated(SOURCE, task))
    operator = Mutate(g.model)
    assert operator.pause_s() == 0.0
    await operator.propose(request)
    assert operator.pause_s() == 5.0
    proposal = await operator.propose(request)
    assert proposal.refusal is not None
    assert proposal.refusal.reason is RefusalReason.MODEL_PAUSED
    assert proposal.calls == ()
    assert len(server.requests) == 1


def test_the_event_loop_lives_while_the_library_is_imported() -> None:
    code = """
import asyncio, sys
from evokern.model import GatewaySettings, LiteLLMModel

async def main():
    beats = 0
    async def beat():
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.01)
    heart = asyncio.create_task(beat())
    assert "litellm" not in sys.modules
    await LiteLLMModel(GatewaySettings("local", api_base="http://127.0.0.1:9/v1")).probe()
    assert "litellm" in sys.modules
    heart.cancel()
    print(beats)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert int(done.stdout) > 5, "an import on the loop would leave one or two"
