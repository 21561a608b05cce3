"""Normal form: sources that differ only in comments and white space are one piece of work.

A normal form may refuse work as a duplicate and never lends a verdict (EVALUATOR section 4), so it errs towards "different":
every token, every literal, every preprocessor line and every line break that can matter stays. `// flags:` lines stay too, and
so do `tune:` lists, because two sources with other lists have other children.
"""

from __future__ import annotations

import hashlib
import io
import re
import tokenize
from collections.abc import Iterator

_C_TOKEN = re.compile(
    r"""
      (?P<comment>//(?:\\\r?\n|[^\n])*)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<number>\.?\d(?:[eEpP][-+]|'(?=\w)|[\w.])*)
    | (?P<splice>\\[ \t]*\r?\n)
    | (?P<line>\n)
    | (?P<space>[ \t\r\f\v]+)
    | (?P<sign><<=|>>=|<=>|->\*|\.\.\.|::|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Tokens that need no closing."""

_OPENER = re.compile(r"""(?:u8|[uUL])?(?:R"(?P<mark>[^()\\\s]{0,16})\(|(?P<quote>["']))|/\*""")
_INSIDE = {quote: re.compile(rf"(?:\\.|[^{quote}\\\n])*+", re.DOTALL) for quote in "\"'"}
_KEPT_COMMENT = re.compile(r"//[ \t]*(?:flags|tune):")


class _Closings:
    """Where literals and comments of one source end, in time linear in its length: what was found to be open is not searched again."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._missing: set[str] = set()
        self._open_until = {quote: 0 for quote in _INSIDE}

    def end(self, opener: re.Match[str]) -> int:
        """The place behind what the opener opens; -1 where nothing closes it."""
        quote, mark = opener.group("quote"), opener.group("mark")
        if quote is not None:
            return self._end_of_text(opener.end(), quote)
        closing = "*/" if mark is None else f'){mark}"'
        found = -1 if closing in self._missing else self._source.find(closing, opener.end())
        if found < 0:
            self._missing.add(closing)
        return found + len(closing) if found >= 0 else -1

    def _end_of_text(self, start: int, quote: str) -> int:
        # Every quote that an unclosed text passed over is escaped, and a text that began there would pass over the same.
        if start <= self._open_until[quote]:
            return -1
        inside = _INSIDE[quote].match(self._source, start)
        end = inside.end() if inside else start
        if self._source[end : end + 1] == quote:
            return end + 1
        self._open_until[quote] = end
        return -1


def _c_pieces(source: str) -> Iterator[tuple[str, str]]:
    """Kind and text of every token, comments and white space included."""
    closings, at = _Closings(source), 0
    while at < len(source):
        opener = _OPENER.match(source, at)
        end = closings.end(opener) if opener else -1
        if opener and end >= 0:
            yield "comment" if opener.group() == "/*" else "text", source[at:end]
        elif match := _C_TOKEN.match(source, at):
            end = match.end()
            yield match.lastgroup or "", match.group()
        at = end


def _c_tokens(source: str) -> list[str]:
    tokens: list[str] = []
    directive = False
    line_start = True
    gap = False
    for kind, text in _c_pieces(source):
        if kind == "line" or (kind == "comment" and "\n" in text and not directive):
            if directive:
                tokens.append("\n")
            directive, line_start, gap = False, True, False
            continue
        if kind == "comment":
            if _KEPT_COMMENT.match(text):
                tokens.append(" ".join(text.split()))
            gap = True
            continue
        if kind == "space":
            gap = True
            continue
        if line_start and text == "#":
            directive = True
            tokens.append("\n")
        elif directive and gap:
            tokens.append(" ")  # `#define f (x)` is not `#define f(x)`
        tokens.append(text)
        line_start = gap = False
    return tokens


def _python_tokens(source: str) -> list[str]:
    dropped = {tokenize.NL, tokenize.ENCODING}
    tokens = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in dropped or (token.type == tokenize.COMMENT and not re.match(r"#\s*tune:", token.string)):
            continue
        text = "" if token.type in (tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE) else token.string
        tokens.append(f"{token.type}:{text}")
    return tokens


def tokens(source: str, dialect: str) -> list[str]:
    """Tokens of a source without comments and white space; for Python each with its kind before it.

    Args:
        source: Text of a kernel.
        dialect: "triton" for Python, else a C dialect.

    Raises:
        TokenError, SyntaxError, ValueError: It cannot be read as tokens.
    """
    return _python_tokens(source) if dialect == "triton" else _c_tokens(source)


def normal_form(source: str, dialect: str) -> str:
    """A hash that is equal only for sources with the same tokens.

    Args:
        source: Text of a kernel.
        dialect: "triton" for Python, else a C dialect.

    Returns:
        64 hex digits. A source that cannot be read as tokens has a normal form of its own, that of its exact bytes.
    """
    try:
        found = tokens(source, dialect)
    except (tokenize.TokenError, SyntaxError, ValueError):
        found = ["\0exact", source]
    joined = "\x1f".join((dialect, *found))
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()
