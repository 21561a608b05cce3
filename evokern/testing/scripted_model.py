"""ScriptedModel: a language model whose answers are written down beforehand, for tests and demonstrations.

It is labelled: its name begins with "scripted", so nothing made with it can be taken for the work of a model. Answers are good,
useless or broken in the ways that models are, in the order given or drawn by a seed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evokern.event import ModelCall
from evokern.model.protocol import CallError, Completion, Failure, Finish, Message, Usage
from evokern.operators.answer import blocks_of
from evokern.operators.prompt import PARENT_HEADING

Reply = Completion | Failure | Callable[[Sequence[Message]], Completion]
"""One answer: as it is, a failure to raise, or made from the conversation."""


def whole_file(source: str, language: str = "cpp") -> Completion:
    """A good answer: a sentence, then the file in one block."""
    return Completion(f"Here is the new kernel.\n\n```{language}\n{source.rstrip()}\n```\n")


def prose() -> Completion:
    """An answer without a file."""
    return Completion("I would fuse the passes over the row and keep several accumulators.")


def cut_off(source: str, language: str = "cpp") -> Completion:
    """A block that the token limit cut in half."""
    return Completion(f"Here it is.\n```{language}\n{source[: len(source) // 2]}", Finish.LENGTH)


def two_blocks(first: str, second: str, language: str = "cpp") -> Completion:
    """Two different files."""
    return Completion(f"Either\n```{language}\n{first.rstrip()}\n```\nor\n```{language}\n{second.rstrip()}\n```\n")


def empty() -> Completion:
    """An answer without a character."""
    return Completion("")


def edited_parent(edit: Callable[[str], str]) -> Callable[[Sequence[Message]], Completion]:
    """A good answer that is made from the parent shown in the prompt.

    Args:
        edit: From the parent's source to the new one.
    """
    return lambda messages: whole_file(edit(parent_source(messages)))


def unchanged_parent() -> Callable[[Sequence[Message]], Completion]:
    """The parent once more, with a comment that changes nothing."""
    return edited_parent(lambda source: f"// improved\n{source}")


def syntax_error() -> Callable[[Sequence[Message]], Completion]:
    """The parent with a line that no compiler takes."""
    return edited_parent(lambda source: f"{source}\nthis is not a declaration;\n")


def parent_source(messages: Sequence[Message]) -> str:
    """Source of the main parent in a conversation of `Mutate` or `Cross`.

    Raises:
        ValueError: No message shows a parent.
    """
    heading = re.compile(rf"^{re.escape(PARENT_HEADING)} .*$", re.MULTILINE)
    for message in messages:
        match = heading.search(message.content)
        if message.role == "user" and match is not None:
            blocks = blocks_of(message.content[match.end() :])
            return next(source for info, source in blocks if info != "text") + "\n"
    raise ValueError("the conversation shows no parent")


@dataclass
class ScriptedModel:
    """A model that answers from a script.

    Args:
        script: The answers.
        seed: None to give them in order, the last one for ever after; else each call draws one by this seed.
        label: Told apart in records by this.

    Attributes:
        conversations: What it was asked, in order.
    """

    script: Sequence[Reply]
    seed: int | None = None
    label: str = "test"
    conversations: list[tuple[Message, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse an empty script, and start the chance."""
        if not self.script:
            raise ValueError("a script needs at least one answer")
        self._rng = None if self.seed is None else random.Random(self.seed)

    @property
    def name(self) -> str:
        """Says that this is no language model."""
        return f"scripted:{self.label}"

    def pause_s(self) -> float:
        """Never left alone."""
        return 0.0

    async def complete(self, messages: Sequence[Message], *, max_tokens: int, temperature: float) -> Completion:
        """The next answer, with one token per four characters counted.

        Raises:
            CallError: The script says so.
        """
        number = len(self.conversations)
        self.conversations.append(tuple(messages))
        reply = self.script[min(number, len(self.script) - 1)] if self._rng is None else self._rng.choice(self.script)
        if isinstance(reply, Failure):
            calls = (ModelCall(self.name, reply),) if reply.was_sent else ()
            raise CallError(reply, f"{reply.replace('_', ' ')}, as scripted", where=f"model {self.name}", calls=calls)
        completion = reply if isinstance(reply, Completion) else reply(messages)
        usage = Usage(_tokens("".join(m.content for m in messages)), _tokens(completion.text), None)
        call = ModelCall(self.name, "ok", usage.prompt_tokens or 0, usage.completion_tokens or 0)
        return Completion(completion.text, completion.finish, usage, (call,))


def _tokens(text: str) -> int:
    return -(-len(text) // 4)
