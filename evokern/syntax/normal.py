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

_C_TOKEN = re.compile(
    r"""
      (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
    | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])*')
    | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?\*/)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<number>\.?\d(?:[eEpP][-+]|'(?=\w)|[\w.])*)
    | (?P<splice>\\[ \t]*\r?\n)
    | (?P<line>\n)
    | (?P<space>[ \t\r\f\v]+)
    | (?P<sign><<=|>>=|<=>|->\*|\.\.\.|::|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KEPT_COMMENT = re.compile(r"//[ \t]*(?:flags|tune):")


def _c_tokens(source: str) -> list[str]:
    tokens: list[str] = []
    directive = False
    line_start = True
    gap = False
    for match in _C_TOKEN.finditer(source):
        kind, text = match.lastgroup, match.group()
        kind = "raw" if match.group("raw") is not None else kind
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


def normal_form(source: str, dialect: str) -> str:
    """A hash that is equal only for sources with the same tokens.

    Args:
        source: Text of a kernel.
        dialect: "triton" for Python, else a C dialect.

    Returns:
        64 hex digits. A source that cannot be read as tokens has a normal form of its own, that of its exact bytes.
    """
    try:
        tokens = _python_tokens(source) if dialect == "triton" else _c_tokens(source)
    except (tokenize.TokenError, SyntaxError, ValueError):
        tokens = ["\0exact", source]
    joined = "\x1f".join((dialect, *tokens))
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()
