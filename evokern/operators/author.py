"""Asks a model for one whole file: what `Mutate` and `Cross` share.

A malformed answer may be asked for once more, with the reason; then it is refused. An answer that equals a parent, byte by
byte or in normal form, is refused before anything is evaluated. Whatever happens, prompt, answer and every call are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evokern import syntax
from evokern.errors import UsageError
from evokern.event import ModelCall, Proposal, Refusal, RefusalReason, Request
from evokern.kernel import Kernel
from evokern.model.protocol import CallError, Completion, Failure, Message, Model
from evokern.operators.answer import Fault, Malformed, parse_answer
from evokern.operators.prompt import LANGUAGES, ask_again

NO_ANSWER = "(no answer)"
"""Stands for an empty answer in the conversation: several providers refuse an empty turn."""

REFUSALS_BY_FAULT = {
    Fault.EMPTY: RefusalReason.NO_BLOCK,
    Fault.NO_BLOCK: RefusalReason.NO_BLOCK,
    Fault.SEVERAL_BLOCKS: RefusalReason.SEVERAL_BLOCKS,
    Fault.CUT_OFF: RefusalReason.CUT_OFF,
}
REFUSALS_BY_FAILURE = {Failure.PAUSED: RefusalReason.MODEL_PAUSED, Failure.BUDGET: RefusalReason.BUDGET_SPENT}
IN_VAIN = (Fault.TOO_LARGE, Fault.FILTERED)
"""Faults that asking again does not mend, or only at a price: a huge answer would be sent back as part of the prompt."""


@dataclass(frozen=True, slots=True)
class AuthorSettings:
    """How a model is asked.

    Attributes:
        max_tokens: Largest length of an answer in tokens, at least 1.
        temperature: Sampling temperature, 0 or more.
        retries: How often a malformed answer is asked for again, 0 or more.
    """

    max_tokens: int = 8192
    temperature: float = 0.8
    retries: int = 1

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.max_tokens < 1 or self.temperature < 0 or self.retries < 0:
            raise UsageError("needs max_tokens >= 1, temperature >= 0 and retries >= 0", where="model")


@dataclass(frozen=True, slots=True)
class Unusable:
    """An answer that gives no kernel, and whether asking again may help."""

    refusal: Refusal
    may_be_mended: bool = True


class Author:
    """Gets one whole file out of a model, or the typed reason why there is none.

    Args:
        model: Who writes.
        settings: How it is asked.
        normal_form: (source, dialect) to a text that is equal for sources which differ in nothing that matters.
    """

    def __init__(
        self, model: Model, settings: AuthorSettings | None = None, normal_form: Callable[[str, str], str] = syntax.normal_form
    ) -> None:
        self.model = model
        self.settings = settings or AuthorSettings()
        self._normal_form = normal_form

    async def write(self, messages: Sequence[Message], request: Request, edit: str) -> Proposal:
        """Ask for a kernel.

        Args:
            messages: The conversation so far.
            request: Where parents and kernels already tried are taken from.
            edit: Label of the edit, if there is a kernel.

        Returns:
            The kernel or the refusal. `prompt` is the last conversation sent, as JSON; `response` the last answer, exact.
        """
        conversation = list(messages)
        calls: list[ModelCall] = []
        tries_left = self.settings.retries
        while True:
            prompt = transcript(conversation)
            try:
                completion = await self._complete(conversation)
            except CallError as failed:
                reason = REFUSALS_BY_FAILURE.get(failed.failure, RefusalReason.MODEL_FAILED)
                return Proposal.refused(reason, failed.line, prompt=prompt, calls=(*calls, *failed.calls))
            calls.extend(completion.calls)
            outcome = self._judge(completion, request)
            if isinstance(outcome, Kernel):
                return Proposal(outcome, edits=(edit,), prompt=prompt, response=completion.text, calls=tuple(calls))
            if not outcome.may_be_mended or tries_left == 0:
                return Proposal(None, outcome.refusal, prompt=prompt, response=completion.text, calls=tuple(calls))
            tries_left -= 1
            language = LANGUAGES[request.parent.candidate.kernel.dialect]
            conversation += [Message("assistant", completion.text or NO_ANSWER), ask_again(outcome.refusal.detail, language)]

    async def _complete(self, conversation: Sequence[Message]) -> Completion:
        s = self.settings
        return await self.model.complete(tuple(conversation), max_tokens=s.max_tokens, temperature=s.temperature)

    def _judge(self, completion: Completion, request: Request) -> Kernel | Unusable:
        parents = [p.candidate.kernel for p in request.parents]
        answer = parse_answer(completion.text, completion.finish, parents=[p.source for p in parents])
        if isinstance(answer, Malformed):
            reason = REFUSALS_BY_FAULT.get(answer.fault, RefusalReason.MALFORMED)
            return Unusable(Refusal(reason, answer.line), answer.fault not in IN_VAIN)
        kernel = Kernel(parents[0].dialect, answer.source, parents[0].entry)
        if self._equals_one_of(kernel, parents):
            return Unusable(Refusal(RefusalReason.NO_CHANGE, "The file equals a parent in everything but white space and comments."))
        if kernel.id in request.tried:
            return Unusable(Refusal(RefusalReason.ALREADY_TRIED, "Exactly this file was tried before."))
        return kernel

    def _equals_one_of(self, kernel: Kernel, parents: Sequence[Kernel]) -> bool:
        form = self._normal_form(kernel.source, kernel.dialect)
        return any(form == self._normal_form(p.source, p.dialect) for p in parents)


def transcript(messages: Sequence[Message]) -> str:
    """A conversation as a JSON list of {role, content}: exact, and what training data is made from."""
    return json.dumps([m.to_json() for m in messages], ensure_ascii=False)


def readable(prompt: str) -> str:
    """A transcript for people: each turn under its role. Whatever is no transcript, as other operators may keep it, stays as it is."""
    try:
        return "\n\n".join(f"[{turn['role']}]\n{turn['content']}" for turn in json.loads(prompt))
    except (ValueError, TypeError, KeyError, RecursionError):
        return prompt
