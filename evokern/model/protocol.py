"""The contract of a language model: messages in, one completion or one typed failure out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, runtime_checkable

from evokern.errors import EvokernError
from evokern.event import ModelCall


class Failure(StrEnum):
    """Why a call gave no completion. The list is closed: whatever a provider does ends in one of these."""

    RATE_LIMITED = "rate_limited"
    """HTTP 429."""
    SERVER_ERROR = "server_error"
    """HTTP 5xx."""
    TIMED_OUT = "timed_out"
    """No whole answer within the time-out of one call."""
    UNREACHABLE = "unreachable"
    """Connection refused, reset or closed, or the name does not resolve."""
    BAD_ANSWER = "bad_answer"
    """HTTP 200 with a body that is no chat completion."""
    UNAUTHORISED = "unauthorised"
    """HTTP 401 or 403: the key is missing, wrong or may not use this model."""
    OUT_OF_CREDIT = "out_of_credit"
    """HTTP 402, or 429 with code insufficient_quota."""
    NOT_FOUND = "not_found"
    """HTTP 404, or a provider that litellm does not know."""
    TOO_LONG = "too_long"
    """The prompt is longer than the model's context."""
    FILTERED = "filtered"
    """The provider's content filter refused the prompt."""
    REJECTED = "rejected"
    """Another HTTP 4xx: the provider will not serve this request."""
    CANCELLED = "cancelled"
    """The caller gave the call up; counted, never raised."""
    UNEXPECTED = "unexpected"
    """Anything else that the client library raised."""
    PAUSED = "paused"
    """Not sent: the circuit breaker is open."""
    BUDGET = "budget"
    """Not sent: it could have passed the budget of tokens or money."""

    @property
    def was_sent(self) -> bool:
        """Whether a request may have reached the provider, and so may have been billed."""
        return self not in (Failure.PAUSED, Failure.BUDGET)

    @property
    def is_transient(self) -> bool:
        """Whether the same call may well succeed a moment later; only these are tried again.

        A time-out is not: it has already taken as long as a call may take, and the next proposal is the next try.
        """
        return self in (Failure.RATE_LIMITED, Failure.SERVER_ERROR, Failure.UNREACHABLE)

    @property
    def is_hopeless(self) -> bool:
        """Whether only a person can mend it, so that the breaker opens at once."""
        return self in (Failure.UNAUTHORISED, Failure.OUT_OF_CREDIT, Failure.NOT_FOUND)

    @property
    def blames_endpoint(self) -> bool:
        """Whether it counts towards the breaker, rather than being about this one prompt or about ourselves."""
        return self.was_sent and self not in (Failure.TOO_LONG, Failure.FILTERED, Failure.CANCELLED)


class Finish(StrEnum):
    """Why the model stopped writing."""

    STOP = "stop"
    LENGTH = "length"
    FILTERED = "filtered"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation."""

    role: Literal["system", "user", "assistant"]
    content: str

    def to_json(self) -> dict[str, str]:
        """In the form of the chat-completions protocol."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider says an answer used.

    Attributes:
        prompt_tokens: From the answer's usage field, exact; None where the provider sent none.
        completion_tokens: The same for the answer.
        usd: Money in US dollars; None where the price is unknown.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered.

    Attributes:
        text: The answer; may be empty.
        finish: Why it ended there.
        usage: Tokens and money of this answer alone.
        calls: Every request sent for it, failed ones first, this one last.
    """

    text: str
    finish: Finish = Finish.STOP
    usage: Usage = Usage()
    calls: tuple[ModelCall, ...] = ()


class CallError(EvokernError):
    """No completion.

    Args:
        failure: Which kind.
        what: What happened, in words; never holds a key.
        where: Name of the model.
        mend: What the reader can do.
        calls: Every request sent before giving up; empty where none was.
        retry_after_s: Seconds after which it is worth another try; None where unknown.
    """

    def __init__(
        self,
        failure: Failure,
        what: str,
        *,
        where: str = "",
        mend: str = "",
        calls: tuple[ModelCall, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        self.failure, self.calls, self.retry_after_s = failure, calls, retry_after_s
        super().__init__(what, where=where, mend=mend)


@runtime_checkable
class Model(Protocol):
    """A language model."""

    @property
    def name(self) -> str:
        """How it is called in records and on screen."""

    def pause_s(self) -> float:
        """Seconds until a call makes sense: 0 if now, more while the endpoint is given a rest; inf once the budget is spent.

        Whoever chooses operators asks this first, so that a dead endpoint costs no turn.
        """

    async def complete(self, messages: Sequence[Message], *, max_tokens: int, temperature: float) -> Completion:
        """Answer the conversation.

        Args:
            messages: At least one, in order.
            max_tokens: Largest length of the answer, at least 1.
            temperature: Sampling temperature, 0 or more; dropped for models that take none.

        Raises:
            CallError: There is no answer; `failure` says of which kind.
        """
