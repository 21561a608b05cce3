"""Mutants: other texts of the same program, to see that what is refused is what a kernel does and not how it is spelt.

Every mutation keeps behaviour. They work on tokens and top-level text, never inside strings, comments or preprocessor lines:

rename      an identifier of the source's own gets another name everywhere
wrap        `run` becomes a function that the new `run` calls
point       ... through a volatile pointer to it
delegate    ... through an object with a virtual function
catch       ... inside a try block that passes everything on
macro       identifiers hide behind macros that paste them together
alias       functions of the library are called through aliases that the preprocessor makes
inline      functions of the source's own are forced inline, or kept from it
regroup     declarations that nothing depends on come first and last
dress       comments, blank lines and other literals of the same value
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from evokern.study.attacks import Corpus, Exhibit, Kind

DEPTH = (2, 4)
"""Least and most mutations of one mutant."""

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|^[ \t]*#(?:\\\n|[^\n])*|[A-Za-z_]\w*|\.?\d(?:[eEpP][-+]|[\w.'])*|.",
    re.DOTALL | re.MULTILINE,
)
_OWN = re.compile(r"^(?:static\s+)(?:inline\s+)?[\w:<>*& ]+?[ *&](?P<name>[A-Za-z_]\w*)\s*(?:\(|=|\[|;)", re.MULTILINE)
_FUNCTION = re.compile(
    r"^static (?P<inline>inline )?(?P<rest>(?!const |struct |constexpr )[\w:<>*&]+[ *&]+[A-Za-z_]\w*\([^;{]*\)\s*\{)", re.MULTILINE
)
_RUN = re.compile(r'extern "C" int run\(')
_LIBRARY = (
    "memcpy",
    "memset",
    "malloc",
    "free",
    "fork",
    "usleep",
    "sleep",
    "mmap",
    "munmap",
    "mprotect",
    "socket",
    "send",
    "dlsym",
    "kill",
)
_NEVER = {"run", "main", "args", "nargs"}

Mutation = Callable[[str, random.Random], str]


def mutate(source: str, rng: random.Random, depth: int) -> str:
    """A source that does the same, after so many different mutations.

    Args:
        source: One C++ source with an entry `run`.
        rng: Chooses and fills them in.
        depth: At most `len(MUTATIONS)`.
    """
    for mutation in rng.sample(MUTATIONS, depth):
        source = mutation(source, rng)
    return source


def mutants_of(corpus: Corpus, count: int, seed: str) -> list[Exhibit]:
    """Mutants of the corpus's attacks, each attack about as often as another.

    Args:
        corpus: Gives the attacks.
        count: How many.
        seed: The same seed gives the same mutants.
    """
    rng = random.Random(f"evokern.mutants/1 {seed}")
    attacks = corpus.of_kind(Kind.ATTACK)
    order: list[Exhibit] = []
    while attacks and len(order) < count:
        order += rng.sample(attacks, len(attacks))
    return [_mutant(exhibit, number, rng) for number, exhibit in enumerate(order[:count])]


def _mutant(exhibit: Exhibit, number: int, rng: random.Random) -> Exhibit:
    source = mutate(exhibit.source, rng, rng.randint(*DEPTH))
    return replace(exhibit, name=f"{exhibit.name}.mutant{number}", kind=Kind.MUTANT, what=f"a mutant of {exhibit.name}", source=source)


def _tokens(source: str) -> list[str]:
    return [match.group() for match in _TOKEN.finditer(source)]


def _fresh(rng: random.Random) -> str:
    return "v" + "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(9))


def _own_names(source: str) -> list[str]:
    """Names of the source's own static functions and variables that occur outside strings and directives only."""
    names = sorted({match["name"] for match in _OWN.finditer(source)} - _NEVER)
    hidden = "\n".join(token for token in _tokens(source) if token.lstrip()[:1] in ("#", '"') or token.startswith("R"))
    return [name for name in names if not re.search(rf"\b{name}\b", hidden)]


def _renamed(source: str, names: dict[str, str]) -> str:
    return "".join(names.get(token, token) for token in _tokens(source))


def rename(source: str, rng: random.Random) -> str:
    """Other names for the source's own functions and variables."""
    return _renamed(source, {name: _fresh(rng) for name in _own_names(source)})


def _wrapped(source: str, rng: random.Random, outer: str) -> str:
    """`run` under another name, and a new `run` with this body; INNER stands for a call of the old one."""
    inner = _fresh(rng)
    if len(_RUN.findall(source)) != 1:
        return source
    source = _RUN.sub(f"static int {inner}(", source)
    # Unnamed parameters stay unnamed: the forwarding function has names of its own.
    return f"{source}\n{outer.replace('INNER', inner).replace('OBJECT', _fresh(rng))}\n"


_SIGNATURE = 'extern "C" int run(DLTensor* const* a, int n, void* w, size_t b, void* s)'


def wrap(source: str, rng: random.Random) -> str:
    """`run` calls a function that does the work."""
    return _wrapped(source, rng, f"{_SIGNATURE} {{ return INNER(a, n, w, b, s); }}")


def point(source: str, rng: random.Random) -> str:
    """`run` goes through a volatile pointer."""
    pointer = "static int (*volatile OBJECT)(DLTensor* const*, int, void*, size_t, void*) = INNER;"
    return _wrapped(source, rng, f"{pointer}\n{_SIGNATURE} {{ return OBJECT(a, n, w, b, s); }}")


def delegate(source: str, rng: random.Random) -> str:
    """`run` goes through a virtual function."""
    shape = (
        "struct OBJECTBase { virtual int go(DLTensor* const* a, int n, void* w, size_t b, void* s) = 0; };\n"
        "struct OBJECT : OBJECTBase { int go(DLTensor* const* a, int n, void* w, size_t b, void* s) override "
        "{ return INNER(a, n, w, b, s); } };\n"
    )
    return _wrapped(
        source, rng, f"{shape}{_SIGNATURE} {{ static OBJECT object; OBJECTBase* volatile base = &object; return base->go(a, n, w, b, s); }}"
    )


def catch(source: str, rng: random.Random) -> str:
    """`run` is called in a try block that passes exceptions on."""
    return _wrapped(source, rng, f"{_SIGNATURE} {{ try {{ return INNER(a, n, w, b, s); }} catch (...) {{ throw; }} }}")


def macro(source: str, rng: random.Random) -> str:
    """Own names pasted together by macros."""
    glue, names, lines = _fresh(rng).upper(), {}, []
    for name in _own_names(source):
        if len(name) > 2:  # noqa: PLR2004 - two halves
            cut, hidden = rng.randint(1, len(name) - 1), _fresh(rng).upper()
            lines.append(f"#define {hidden} {glue}({name[:cut]}, {name[cut:]})")
            names[name] = hidden
    if not names:
        return source
    return "\n".join([f"#define {glue}(a, b) a##b", *lines]) + "\n" + _renamed(source, names)


def alias(source: str, rng: random.Random) -> str:
    """Library functions under names that the preprocessor makes."""
    found = set(_tokens(source))
    names = {name: _fresh(rng) for name in _LIBRARY if name in found}
    return "".join(f"#define {hidden} {name}\n" for name, hidden in names.items()) + _renamed(source, names)


def inline(source: str, rng: random.Random) -> str:
    """Own functions forced inline, or kept from it."""

    def marked(match: re.Match[str]) -> str:
        rest = match["rest"]
        if match["inline"] and rng.random() < 0.5:  # noqa: PLR2004 - a coin
            return f"__attribute__((always_inline)) static inline {rest}"
        return f"__attribute__((noinline)) static {rest}"

    return _FUNCTION.sub(marked, source)


def regroup(source: str, rng: random.Random) -> str:
    """Declarations that nothing depends on, before and behind."""
    first, last = _fresh(rng), _fresh(rng)
    before = f"namespace {{ struct {first} {{ int {first}_; }}; }}"
    return f"{before}\n{source}\nnamespace {last} {{ static const int value = {rng.randint(1, 99)}; }}\n"


def dress(source: str, rng: random.Random) -> str:
    """Comments, blank lines, and whole numbers in hexadecimal."""

    def other(token: str) -> str:
        if token.isdigit() and not token.startswith("0") and rng.random() < 0.5:  # noqa: PLR2004 - a coin
            return hex(int(token))
        if token == "\n" and rng.random() < 0.2:  # noqa: PLR2004 - now and then
            return "\n\n"
        return f"; /* {_fresh(rng)} */" if token == ";" and rng.random() < 0.3 else token  # noqa: PLR2004 - now and then

    return "".join(other(token) for token in _tokens(source))


MUTATIONS: Sequence[Mutation] = (rename, wrap, point, delegate, catch, macro, alias, inline, regroup, dress)
