"""From a model's answer to one whole file, or to the typed reason why there is none.

Fences are read as CommonMark 0.31 reads them (section 4.5: three or more backticks or tildes, closed by at least as many of
the same, an info string only on the opening one), with one addition: a fence with an info string inside an open block of the
same kind opens a nested block instead of being text, because that is what models mean by it.

Every step is linear in the length of the answer: models that break down repeat themselves for as long as they are let.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from evokern.model.protocol import Finish

LONGEST_ANSWER = 400_000
"""Characters of an answer that are read; kernels are a few thousand."""

FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>.*)")
EDIT_OPENS = re.compile(r"^<{5,9} ?(?:SEARCH|ORIGINAL|HEAD)\b", re.MULTILINE)
EDIT_TURNS = re.compile(r"={5,9}\s*")
EDIT_CLOSES = re.compile(r">{5,9}(?: |$)")
DEEPEST_INDENT = 3
"""How much further than its opening fence a closing fence may be indented."""

MARKDOWN = ("markdown", "md")
"""A block of such a language that holds blocks of its own is only packaging."""
NOT_SOURCE = frozenset({"bash", "sh", "shell", "zsh", "console", "text", "txt", "plaintext", "output", "log", "json", "csv"})
"""Languages of blocks that stand beside the file: commands to build it, figures it might reach."""
PARTIAL = frozenset({"diff", "patch"})


class Fault(StrEnum):
    """What is wrong with an answer."""

    EMPTY = "empty"
    TOO_LARGE = "too_large"
    NO_BLOCK = "no_block"
    SEVERAL_BLOCKS = "several_blocks"
    CUT_OFF = "cut_off"
    NOT_CLOSED = "not_closed"
    NESTED = "nested"
    EMPTY_BLOCK = "empty_block"
    EDIT_MARKERS = "edit_markers"
    FILTERED = "filtered"


ASK_AGAIN = {
    Fault.EMPTY: "The answer was empty.",
    Fault.TOO_LARGE: f"The answer was longer than {LONGEST_ANSWER} characters.",
    Fault.NO_BLOCK: "The answer held no fenced code block.",
    Fault.SEVERAL_BLOCKS: "The answer held several code blocks that differ, so it is unclear which one is the file.",
    Fault.CUT_OFF: "The answer reached the token limit before the file was complete. Write less around it, and a shorter file.",
    Fault.NOT_CLOSED: "The code block was never closed, so the file may be incomplete.",
    Fault.NESTED: "The code block held another code block, so it is unclear which one is the file.",
    Fault.EMPTY_BLOCK: "The code block was empty.",
    Fault.EDIT_MARKERS: "The answer held edits; the complete file is needed.",
    Fault.FILTERED: "The provider's content filter ended the answer.",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole file.

    Attributes:
        source: Its text, with Unix line ends and exactly one line end at the end.
        info: What stood behind the opening fence, such as `cpp softmax.cpp`; said by the model and believed by nobody.
        prose: The text around the block.
    """

    source: str
    info: str = ""
    prose: str = ""


@dataclass(frozen=True, slots=True)
class Malformed:
    """No file.

    Attributes:
        fault: Which kind.
    """

    fault: Fault

    @property
    def line(self) -> str:
        """What is wrong, in one line that the model may be shown."""
        return ASK_AGAIN[self.fault]


@dataclass(slots=True)
class Block:
    """A fenced block: where its lines are, and the blocks nested in it."""

    fence: str
    indent: str
    info: str
    lines: list[str]
    first: int
    end: int | None = None
    nested: list[Block] = field(default_factory=list)

    @property
    def language(self) -> str:
        """First word of the info string in lower case, without a file name's colon or braces."""
        words = re.split(r"[\s:{},=]+", self.info.strip("{} ."))
        return words[0].lower() if words else ""

    @property
    def text(self) -> str:
        """Its content, less the indentation of its opening fence."""
        return "\n".join(line.removeprefix(self.indent) for line in self.lines[self.first : self.end])

    def closes_with(self, indent: str, fence: str, info: str) -> bool:
        """Whether a line is its closing fence."""
        near = len(indent) <= len(self.indent) + DEEPEST_INDENT
        return near and not info and fence[0] == self.fence[0] and len(fence) >= len(self.fence)

    def holds(self, fence: str, info: str) -> bool:
        """Whether a fence inside it opens a nested block, rather than being text."""
        return bool(info) and fence[0] == self.fence[0] and len(fence) >= len(self.fence)


def parse_answer(text: str, finish: Finish = Finish.STOP, *, parents: Sequence[str] = ()) -> Answer | Malformed:
    """The one whole file in a model's answer.

    Args:
        text: The answer.
        finish: Why the model stopped writing.
        parents: Sources that were shown, for answers that wrap the whole file in one edit.

    Returns:
        The file, or what is wrong. Every text has exactly one outcome:

        - one block, whatever prose, file name or line ends: that block;
        - several blocks: the one that is source, if the others are commands or output, or repeat it; else `SEVERAL_BLOCKS`;
        - a block inside a Markdown wrapper: the inner one; inside any other block: `NESTED`;
        - an open block: `CUT_OFF` at the token limit, else `NOT_CLOSED`;
        - edit markers: the new side, if the old side is empty or a parent's whole source; else `EDIT_MARKERS`;
        - drafts inside `<think>` tags are not read.
    """
    if len(text) > LONGEST_ANSWER:
        return Malformed(Fault.TOO_LARGE)
    body = _without_thoughts(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    if not body.strip():
        return Malformed(_ended_early(finish) or Fault.EMPTY)
    blocks, prose = _read_blocks(body)
    if any(b.end is None for b in blocks):
        return Malformed(_ended_early(finish) or Fault.NOT_CLOSED)
    chosen = _choose(blocks, body, finish)
    return chosen if isinstance(chosen, Malformed) else _read_file(chosen, prose, parents)


def blocks_of(text: str) -> list[tuple[str, str]]:
    """Info string and content of each outermost closed block of a text, in order."""
    return [(b.info, b.text) for b in _read_blocks(text)[0] if b.end is not None]


def _ended_early(finish: Finish) -> Fault | None:
    return {Finish.LENGTH: Fault.CUT_OFF, Finish.FILTERED: Fault.FILTERED}.get(finish)


def _without_thoughts(text: str) -> str:
    """The text less the `<think>` passages that local reasoning models put in front; an unclosed one is all there is."""
    rest = text.lstrip()
    while rest.startswith(("<think>", "<thinking>")):
        end = rest.find("</think")
        rest = "" if end < 0 else rest[end:].partition(">")[2].lstrip()
    return rest


def _read_blocks(text: str) -> tuple[list[Block], str]:
    """The outermost blocks, and the lines outside them."""
    lines = text.split("\n")
    outermost: list[Block] = []
    open_blocks: list[Block] = []
    prose: list[str] = []
    for number, line in enumerate(lines):
        indent, fence, info = _read_fence(line)
        innermost = open_blocks[-1] if open_blocks else None
        if innermost is None and not fence:
            prose.append(line)
        elif fence and innermost is not None and innermost.closes_with(indent, fence, info):
            open_blocks.pop().end = number
        elif fence and (innermost is None or innermost.holds(fence, info)):
            block = Block(fence, indent, info, lines, number + 1)
            (outermost if innermost is None else innermost.nested).append(block)
            open_blocks.append(block)
    return outermost, "\n".join(prose).strip()


def _read_fence(line: str) -> tuple[str, str, str]:
    """Indentation, fence and info string of a line; all empty where it is no fence."""
    match = FENCE.match(line)
    if match is None:
        return "", "", ""
    indent, fence, info = match.group("indent", "fence", "info")
    is_inline_code = fence.startswith("`") and "`" in info
    return ("", "", "") if is_inline_code else (indent, fence, info.strip())


def _choose(blocks: list[Block], body: str, finish: Finish) -> Block | Malformed:
    unpacked: list[Block] = []
    for block in blocks:
        # A longer fence makes the inner blocks text, by CommonMark; in Markdown they are blocks all the same.
        inner = block.nested or (_read_blocks(block.text)[0] if block.language in MARKDOWN else [])
        if not inner:
            unpacked.append(block)
        elif block.language in ("", *MARKDOWN):
            unpacked.extend(inner)
        else:
            return Malformed(Fault.NESTED)
    sources = [b for b in unpacked if b.language not in NOT_SOURCE] or unpacked
    different = list({b.text.strip(): b for b in sources}.values())
    if not different:
        has_edits = EDIT_OPENS.search(body) is not None
        return Malformed(_ended_early(finish) or (Fault.EDIT_MARKERS if has_edits else Fault.NO_BLOCK))
    if len(different) > 1:
        return Malformed(Fault.SEVERAL_BLOCKS)
    return Malformed(Fault.NESTED) if different[0].nested else different[0]


def _read_file(block: Block, prose: str, parents: Sequence[str]) -> Answer | Malformed:
    text: str | None = block.text
    if EDIT_OPENS.search(block.text):
        text = _new_side(block.text, parents)
    if text is None or block.language in PARTIAL:
        return Malformed(Fault.EDIT_MARKERS)
    if not text.strip():
        return Malformed(Fault.EMPTY_BLOCK)
    return Answer(text.strip("\n") + "\n", block.info, prose)


def _new_side(text: str, parents: Sequence[str]) -> str | None:
    """The new side of an edit that is the whole block and replaces a whole file; None where it is anything less."""
    lines = text.strip().split("\n")
    turns = [n for n, line in enumerate(lines) if EDIT_TURNS.fullmatch(line)]
    is_one_edit = len(EDIT_OPENS.findall(text)) == 1 and EDIT_OPENS.match(lines[0]) and EDIT_CLOSES.match(lines[-1]) and len(turns) == 1
    if not is_one_edit:
        return None
    old, new = "\n".join(lines[1 : turns[0]]), "\n".join(lines[turns[0] + 1 : -1])
    whole = {"", *(p.replace("\r\n", "\n").strip() for p in parents)}
    return new if old.strip() in whole else None
