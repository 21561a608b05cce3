"""One gateway to every language model, over litellm.

litellm is imported on the first call, in a thread, because that takes seconds. Each request has a time-out of its own; those
that a moment may mend are tried again, with growing, jittered waits that honour Retry-After; a circuit breaker leaves a dead
endpoint alone. Limits of model calls are the gateway's own and are never mixed with those of evaluations.

Settings come from arguments first, then from EVOKERN_MODEL, EVOKERN_API_BASE, EVOKERN_API_KEY and EVOKERN_API_TIMEOUT (seconds a
request), then from litellm's own variables such as OPENAI_API_KEY. With an address given, a model that names no provider is taken to
be OpenAI-compatible.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from evokern.errors import Unavailable, UsageError
from evokern.event import ModelCall
from evokern.model.breaker import Breaker, BreakerSettings, Permit
from evokern.model.classify import classify, retry_after_s
from evokern.model.meter import MAY_BE_BILLED, Meter, Reservation, Spend
from evokern.model.protocol import CallError, Completion, Failure, Finish, Message, Usage

FINISHES = {"stop": Finish.STOP, "length": Finish.LENGTH, "content_filter": Finish.FILTERED}
CLASS_PREFIXES = re.compile(r"^(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?:: | - ))+")
"""How litellm begins its messages: names of classes, its own and the provider's, which `Failure` says better."""
MESSAGE_OVERHEAD_TOKENS = 16
"""More than any chat template adds per message."""
LONGEST_ERROR = 300
"""Characters of a provider's message that are kept."""
NO_KEY = "not-needed"
"""Sent to OpenAI-compatible endpoints where no key was given: the client insists on one, local servers ignore it."""
SHORTEST_SECRET = 6
"""Shorter values of *_API_KEY variables are place-holders such as "none"; blanking them out would only garble messages."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """How to reach a model, and how patiently.

    Attributes:
        model: As litellm spells it, such as `openai/gpt-4o` or `ollama/qwen3`.
        api_base: Address of the endpoint; None for the provider's own.
        api_key: Key; None where litellm finds it in its own variables.
        timeout_s: Time-out of one request in seconds, above 0.
        retries: Further requests after one that failed for a passing reason, 0 or more.
        first_wait_s: Seconds before the first of them; doubles each time.
        longest_wait_s: Longest wait inside a call; a server that asks for more opens the breaker instead.
        in_flight: Requests at the same time, at least 1.
        token_limit: Budget of tokens; None for none.
        usd_limit: Budget of money in US dollars; None for none.
        breaker: When to leave the endpoint alone.
    """

    model: str
    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 300.0
    retries: int = 3
    first_wait_s: float = 1.0
    longest_wait_s: float = 30.0
    in_flight: int = 4
    token_limit: int | None = None
    usd_limit: float | None = None
    breaker: BreakerSettings = field(default_factory=BreakerSettings)

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if not self.model.strip():
            raise UsageError("the model's name is empty", where="--model", mend="Write provider/model, such as openai/gpt-4o")
        if self.api_base is not None and not _is_address(self.api_base):
            raise UsageError(f"'{self.api_base}' is not an http address", where="EVOKERN_API_BASE", mend="Write it as http://host:port/v1")
        if self.timeout_s <= 0 or self.retries < 0 or self.first_wait_s < 0 or self.longest_wait_s < 0 or self.in_flight < 1:
            raise UsageError("needs timeout_s > 0, retries >= 0, waits >= 0 and in_flight >= 1", where="model")

    @classmethod
    def from_environment(cls, model: str | None = None, environ: Mapping[str, str] | None = None, **rest: Any) -> GatewaySettings | None:
        """Settings from `--model` and the environment.

        Args:
            model: Value of `--model`; None or empty where it was not given.
            environ: Variables; those of the process if None.
            rest: Other fields.

        Returns:
            The settings, or None where no model is named: the run then goes on without one.

        Raises:
            UsageError: A value is wrong.
        """
        variables = os.environ if environ is None else environ
        name = model or variables.get("EVOKERN_MODEL", "")
        if not name.strip():
            return None
        fields: dict[str, Any] = {
            "api_base": variables.get("EVOKERN_API_BASE") or None,
            "api_key": variables.get("EVOKERN_API_KEY") or None,
            **_timeout(variables.get("EVOKERN_API_TIMEOUT", "")),
            **rest,
        }
        return cls(name.strip(), **fields)


def _timeout(text: str) -> dict[str, float]:
    """The time-out as the environment gives it; nothing where it is not set."""
    if not text.strip():
        return {}
    try:
        return {"timeout_s": float(text)}
    except ValueError as error:
        raise UsageError(f"'{text}' is not a number of seconds", where="EVOKERN_API_TIMEOUT", mend="Write it as 300") from error


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """How the model is doing, for `evokern status`.

    Attributes:
        model: Its name.
        state: "closed" (in use), "open" (left alone) or "trial".
        pause_s: Seconds until the next request may go.
        openings: How often it was left alone so far.
        last_failure: The last failed call in one line; empty if there was none.
        spend: Calls, tokens and money.
    """

    model: str
    state: str
    pause_s: float
    openings: int
    last_failure: str
    spend: Spend

    @property
    def line(self) -> str:
        """One line for people."""
        s = self.spend
        money = f"{s.usd:.4f} USD" if s.usd is not None else f"at least {s.usd_at_least:.4f} USD" if s.usd_at_least else "cost unknown"
        failed = s.calls - s.in_flight - s.answered
        text = f"model {self.model}: {s.calls} calls, {s.in_flight} in flight, {failed} failed, {s.tokens} tokens, {money}"
        return text if self.state == "closed" else f"{text}; paused, next try in {self.pause_s:.0f} s after {self.last_failure}"


@dataclass(slots=True)
class _Flight:
    """One request between being let out and its end; `calls` is where it is written down then."""

    permit: Permit
    reservation: Reservation
    started: float
    calls: list[ModelCall]
    usage: Usage | None = None


class LiteLLMModel:
    """A model behind litellm. It lives on one event loop.

    Args:
        settings: How to reach it.
        record: Called with every request that ended, cancelled ones included.
        clock: Seconds that only grow.
        sleep: Waits between tries.
        seed: Of the jitter of those waits.

    Attributes:
        settings: As given.
        meter: Counts every request.
        breaker: Leaves a dead endpoint alone.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        record: Callable[[ModelCall], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        seed: int = 0,
    ) -> None:
        self.settings = settings
        self.meter = Meter(settings.token_limit, settings.usd_limit)
        self.breaker = Breaker(settings.breaker, clock)
        self._record, self._clock, self._sleep = record, clock, sleep
        self._jitter = random.Random(seed)
        self._slots = asyncio.Semaphore(settings.in_flight)
        self._loading = asyncio.Lock()
        self._library: Any = None
        self._routed_name = settings.model
        self._last_failure = ""
        self._budget_is_spent = False

    @property
    def name(self) -> str:
        """The model's name as the user gave it."""
        return self.settings.model

    def pause_s(self) -> float:
        """Seconds until a call makes sense; inf once the budget let a call through no more."""
        if self._budget_is_spent and self.meter.spend().in_flight == 0:
            return float("inf")
        return self.breaker.pause_s()

    def status(self) -> ModelStatus:
        """How it is doing now."""
        return ModelStatus(self.name, self.breaker.state, self.pause_s(), self.breaker.openings, self._last_failure, self.meter.spend())

    async def probe(self) -> None:
        """Find out, without a request, what would make every call fail.

        Raises:
            Unavailable: litellm is not installed, knows no such provider, misses a key, or has no price to hold a money budget
                against; the message says how to mend it.
        """
        library = await self._load()
        missing = [] if self._needs_no_key(library) else self._missing_keys(library)
        if missing:
            raise Unavailable(f"no key: {' and '.join(missing)} not set", where=f"model {self.name}", mend=f"export {missing[0]}=...")
        if self.settings.usd_limit is not None and self._price(library, 1000, 1000) is None:
            raise Unavailable(
                "its price is not known, so a budget in dollars cannot be held",
                where=f"model {self.name}",
                mend="Give the budget in tokens, with --tokens",
            )

    async def complete(self, messages: Sequence[Message], *, max_tokens: int, temperature: float) -> Completion:
        """Answer the conversation; see `Model.complete`.

        Raises:
            CallError: There is no answer; `calls` holds every request that was sent for it.
            Unavailable: litellm is not installed, or knows no such provider.
        """
        library = await self._load()
        calls: list[ModelCall] = []
        failed: CallError | None = None
        for attempt in range(self.settings.retries + 1):
            try:
                completion = await self._send(library, messages, max_tokens, temperature, calls)
                return Completion(completion.text, completion.finish, completion.usage, tuple(calls))
            except CallError as error:
                # A retry that is not let out ends the call, but what it failed of is the request before.
                failed = error if error.failure.was_sent or failed is None else failed
                wait_s = self._wait_before_retry(error, attempt)
            if wait_s is None:
                break
            await self._sleep(wait_s)
        assert failed is not None, "the loop runs at least once"
        raise CallError(
            failed.failure, failed.what, where=failed.where, mend=failed.mend, calls=tuple(calls), retry_after_s=failed.retry_after_s
        ) from failed

    async def aclose(self) -> None:
        """Close connections that litellm keeps open for the next call."""
        close = getattr(self._library, "close_litellm_async_clients", None)
        if close is not None:
            await close()

    def _wait_before_retry(self, failed: CallError, attempt: int) -> float | None:
        """Seconds to the next try, or None where there is none."""
        if not failed.failure.is_transient or attempt >= self.settings.retries:
            return None
        if failed.retry_after_s is not None:
            wait_s = failed.retry_after_s
        else:
            grown_s = min(self.settings.first_wait_s * 2.0 ** min(attempt, 32), self.settings.longest_wait_s)
            # Half fixed, half random ("equal jitter"), so that calls which failed together do not come back together.
            # Source: Brooker, Exponential Backoff And Jitter, AWS Architecture Blog, 2015.
            wait_s = grown_s * (0.5 + 0.5 * self._jitter.random())
        would_be_in_vain = wait_s > self.settings.longest_wait_s or wait_s < self.breaker.pause_s()
        return None if would_be_in_vain else wait_s

    async def _send(
        self, library: Any, messages: Sequence[Message], max_tokens: int, temperature: float, calls: list[ModelCall]
    ) -> Completion:
        """One request: let out, counted, timed, and its failure typed. Appends to `calls` whatever comes of it."""
        async with self._slots:
            flight = self._let_out(library, messages, max_tokens, calls)
            try:
                response = await self._request(library, messages, max_tokens, temperature)
                flight.usage = self._usage(response)
                text, finish = _read_answer(response)
            except asyncio.CancelledError:
                self.breaker.abandoned(flight.permit)
                self._landed(flight, Failure.CANCELLED)
                raise
            except Exception as error:  # any bug of the client library is a failed call too, never the end of the run
                raise self._failed(flight, error) from error
            self.breaker.succeeded(flight.permit)
            self._landed(flight, None)
            return Completion(text, finish, flight.usage)

    def _let_out(self, library: Any, messages: Sequence[Message], max_tokens: int, calls: list[ModelCall]) -> _Flight:
        reservation = self._reserve(library, messages, max_tokens)
        if not self.meter.allows(reservation):
            self._budget_is_spent = True
            self.meter.not_sent(Failure.BUDGET)
            raise CallError(Failure.BUDGET, "one more call could pass the budget", where=f"model {self.name}")
        permit = self.breaker.admit()
        if permit is None:
            self.meter.not_sent(Failure.PAUSED)
            pause_s = self.breaker.pause_s()
            what = f"left alone for another {pause_s:.0f} s after {self._last_failure or 'failures'}"
            raise CallError(Failure.PAUSED, what, where=f"model {self.name}", retry_after_s=pause_s)
        self._budget_is_spent = False
        self.meter.begin(reservation)
        return _Flight(permit, reservation, self._clock(), calls)

    async def _request(self, library: Any, messages: Sequence[Message], max_tokens: int, temperature: float) -> Any:
        s = self.settings
        # litellm's own time-out covers single reads only; a server that drips bytes is ended by ours.
        async with asyncio.timeout(s.timeout_s):
            return await library.acompletion(
                model=self._routed_name,
                messages=[m.to_json() for m in messages],
                max_tokens=max_tokens,
                temperature=temperature,
                api_base=s.api_base,
                api_key=s.api_key or (NO_KEY if self._needs_no_key(library) else None),
                timeout=s.timeout_s,
                num_retries=0,
                max_retries=0,
                drop_params=True,
            )

    def _failed(self, flight: _Flight, error: Exception) -> CallError:
        failure = Failure.BAD_ANSWER if isinstance(error, NotACompletionError) else classify(error)
        asked_s = retry_after_s(error)
        what = f"{failure.replace('_', ' ')}: {self._clean(error)}"
        if failure.blames_endpoint:
            too_long = asked_s is not None and asked_s > self.settings.longest_wait_s
            self.breaker.failed(flight.permit, at_once=failure.is_hopeless or too_long, at_least_s=asked_s or 0.0)
            self._last_failure = what
        else:
            self.breaker.abandoned(flight.permit)
        self._landed(flight, failure)
        return CallError(failure, what, where=f"model {self.name}", mend=self._mend(failure), retry_after_s=asked_s)

    def _landed(self, flight: _Flight, failure: Failure | None) -> None:
        if failure is None:
            self.meter.answered(flight.reservation, flight.usage or Usage())
        else:
            self.meter.failed(flight.reservation, failure, flight.usage)
        # An error status is not billed, so its cost is known to be nothing; a time-out's is not known.
        known = flight.usage or Usage(usd=None if failure is None or failure in MAY_BE_BILLED else 0.0)
        seconds = self._clock() - flight.started
        call = ModelCall(self.name, failure or "ok", known.prompt_tokens or 0, known.completion_tokens or 0, known.usd, seconds)
        flight.calls.append(call)
        if self._record is not None:
            self._record(call)

    def _reserve(self, library: Any, messages: Sequence[Message], max_tokens: int) -> Reservation:
        # No tokenizer makes more tokens than there are bytes, so this is a bound for every model.
        prompt = sum(len(m.content.encode("utf-8", "surrogatepass")) + MESSAGE_OVERHEAD_TOKENS for m in messages)
        usd = None if self.settings.usd_limit is None else self._price(library, prompt, max_tokens)
        return Reservation(prompt + max_tokens, usd)

    async def _load(self) -> Any:
        """The litellm module, imported in a thread so that evaluations go on meanwhile."""
        async with self._loading:
            if self._library is None:
                library = await asyncio.to_thread(_import_litellm)
                self._routed_name = self._route(library)
                self._library = library
        return self._library

    def _route(self, library: Any) -> str:
        """The name under which litellm finds the provider."""
        name = self.settings.model
        try:
            library.get_llm_provider(name)
        except Exception as error:  # litellm raises BadRequestError of two libraries here, by version
            if self.settings.api_base is not None:
                return f"openai/{name}"
            raise Unavailable(
                "names no provider that litellm knows",
                where=f"model {name}",
                mend="Write provider/model, such as openai/gpt-4o, or set EVOKERN_API_BASE to an OpenAI-compatible address",
            ) from error
        return name

    def _needs_no_key(self, library: Any) -> bool:
        """Whether a place-holder will do: an OpenAI-compatible address of the user's own, and no key anywhere."""
        if self.settings.api_key is not None or os.environ.get("OPENAI_API_KEY"):
            return False
        return self._has_own_address(library) and self._provider(library) == "openai"

    def _has_own_address(self, library: Any) -> bool:
        if self.settings.api_base is not None:
            return True
        names = ("OPENAI_API_BASE", "OPENAI_BASE_URL") if self._provider(library) == "openai" else ()
        return any(os.environ.get(n) for n in names)

    def _provider(self, library: Any) -> str:
        return str(library.get_llm_provider(self._routed_name)[1])

    def _missing_keys(self, library: Any) -> list[str]:
        """Variables for keys that litellm would need; addresses have defaults."""
        found = library.validate_environment(self._routed_name, api_key=self.settings.api_key)
        return [str(name) for name in found["missing_keys"] if not str(name).endswith(("_API_BASE", "_BASE_URL"))]

    def _price(self, library: Any, prompt_tokens: int, completion_tokens: int) -> float | None:
        """US dollars, or None where unknown. The price list is the providers': it says nothing of an address of one's own."""
        if self._has_own_address(library):
            return None
        try:
            parts = library.cost_per_token(model=self._routed_name, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
        except Exception:  # "not mapped" has changed its class between versions, and means unknown in each
            return None
        return float(sum(parts)) or None

    def _usage(self, response: Any) -> Usage:
        usage = getattr(response, "usage", None)
        prompt, completion = (_count(getattr(usage, field, None)) for field in ("prompt_tokens", "completion_tokens"))
        if not prompt:
            # litellm fills in zeros where the provider sent no usage, and no prompt has no tokens.
            return Usage()
        billed = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
        usd = float(billed) if isinstance(billed, int | float) and billed > 0 and not self._has_own_address(self._library) else None
        return Usage(prompt, completion, usd)

    def _mend(self, failure: Failure) -> str:
        if failure is Failure.UNAUTHORISED:
            return "Check the key in EVOKERN_API_KEY or the provider's own variable"
        if failure is Failure.UNREACHABLE and self.settings.api_base:
            return f"Is anything listening at {self.settings.api_base}?"
        if failure is Failure.TIMED_OUT:
            return f"The time-out of one call is {self.settings.timeout_s:g} s"
        return ""

    def _clean(self, error: Exception) -> str:
        """A provider's message in one short line, with every key that this process knows blanked out."""
        text = " ".join(str(error).split()) or type(error).__name__
        secrets = [self.settings.api_key or "", *(v for k, v in os.environ.items() if k.endswith("_API_KEY"))]
        for secret in secrets:
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "***")
        return CLASS_PREFIXES.sub("", text).rstrip(". ")[:LONGEST_ERROR]


class NotACompletionError(Exception):
    """A provider's answer is no chat completion."""


def _read_answer(response: Any) -> tuple[str, Finish]:
    choices = getattr(response, "choices", None)
    if not choices or getattr(choices[0], "message", None) is None:
        raise NotACompletionError("the answer holds no choices")
    text = choices[0].message.content
    if text is not None and not isinstance(text, str):
        raise NotACompletionError("the answer's content is no text")
    # Lone surrogates, which JSON can spell, cannot be written into a database.
    clean = (text or "").encode("utf-8", "replace").decode("utf-8")
    return clean, FINISHES.get(str(choices[0].finish_reason), Finish.OTHER)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _import_litellm() -> Any:
    """The litellm module, told to fetch nothing, report nothing and print nothing."""
    # Without the first it downloads a price list on import; with the second it leaves .env files alone, which are no setting of ours.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    if importlib.util.find_spec("litellm") is None:
        raise Unavailable("litellm is not installed", where="model", mend="pip install litellm")
    library: Any = importlib.import_module("litellm")
    library.telemetry = False  # gone in recent versions, on by default in old ones
    library.suppress_debug_info = True
    for logger in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    return library
