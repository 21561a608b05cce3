"""C++ sources as trees: parse, ask, edit.

A `Unit` is one parsed source. Motifs ask it for canonical loops, types of expressions and names that are read and written, and
answer with edits; an edited source is parsed again, so a tree is never stale. Grammar: tree-sitter-cpp.

What is asked is answered conservatively: an expression whose type or purity cannot be read off the text has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tree_sitter import Language, Node, Parser

PURE_CALLS = frozenset(
    f"{prefix}{name}{suffix}"
    for prefix in ("", "std::")
    for name in (*"exp exp2 expm1 log log2 log1p sqrt tanh erf fabs abs fmax fmin fma rint nearbyint floor ceil trunc max min pow".split(),)
    for suffix in ("", "f")
) | {"static_cast", "evokern::data", "evokern::row_stride", "evokern::scalar"}
"""Calls that read nothing but their arguments and write nothing."""

COMPLEX_CALLS = frozenset(
    f"{prefix}{name}{suffix}"
    for prefix in ("", "std::")
    for name in "exp exp2 expm1 log log2 log1p sqrt tanh erf pow".split()
    for suffix in ("", "f")
)
"""Pure calls that cost far more than an addition."""


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_cpp

    return Parser(Language(tree_sitter_cpp.language()))


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes [start, stop) of a source become `text`."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True)
class Loop:
    """A loop `for (type variable = start; variable < stop; ++variable)`.

    Attributes:
        node: The for statement.
        pragma: The pragma line right before it, or None.
        variable: Name of the counter, declared in the header.
        type: Its type, as written.
        start: First value, as written.
        stop: First value that is not reached, as written.
        body: The body's node.
    """

    node: Node
    pragma: Node | None
    variable: str
    type: str
    start: str
    stop: str
    body: Node

    @property
    def first_byte(self) -> int:
        """Where the loop begins, its pragma included."""
        return self.node.start_byte if self.pragma is None else self.pragma.start_byte

    @property
    def statements(self) -> list[Node]:
        """Statements of the body, comments dropped."""
        return statements_of(self.body)


def text_of(node: Node | None) -> str:
    """The node's source text; empty for None."""
    return "" if node is None or node.text is None else node.text.decode("utf-8", "surrogateescape")


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, in source order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


def ancestors(node: Node) -> Iterator[Node]:
    """Everything above the node, nearest first."""
    current = node.parent
    while current is not None:
        yield current
        current = current.parent


def tokens(node: Node) -> tuple[str, ...]:
    """Texts of the node's leaves, comments dropped: equal for expressions that are spelt alike."""
    return tuple(text_of(n) for n in walk(node) if n.child_count == 0 and n.type != "comment")


def names(node: Node) -> set[str]:
    """Every identifier that the node reads or writes; not type names or members."""
    return {text_of(n) for n in walk(node) if n.type == "identifier"}


def statements_of(body: Node) -> list[Node]:
    """Statements of a block, or the one statement that stands for it; comments dropped, pragmas kept."""
    if body.type != "compound_statement":
        return [body]
    return [child for child in body.named_children if child.type != "comment"]


def unwrapped(node: Node) -> Node:
    """The expression inside redundant parentheses."""
    while node.type in ("parenthesized_expression", "condition_clause") and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def callee(node: Node) -> str:
    """Name of the function that a call calls, template arguments dropped, such as `std::exp`; empty for other nodes."""
    if node.type != "call_expression":
        return ""
    function = node.child_by_field_name("function")
    return "".join(text_of(function).split("<", 1)[0].split()) if function is not None else ""


def arguments(call: Node) -> list[Node]:
    """Argument expressions of a call."""
    node = call.child_by_field_name("arguments")
    return [] if node is None else [n for n in node.named_children if n.type != "comment"]


def subscript(node: Node) -> tuple[str, Node] | None:
    """Array name and index of `name[index]`, or None for anything else."""
    if node.type != "subscript_expression":
        return None
    base, index = node.child_by_field_name("argument"), node.child_by_field_name("indices")
    if base is None or index is None or base.type != "identifier" or index.named_child_count != 1:
        return None
    return text_of(base), index.named_children[0]


def operator_of(node: Node) -> str:
    """The operator of a binary, assignment or update expression; empty for other nodes."""
    return text_of(node.child_by_field_name("operator"))


def operands(node: Node) -> tuple[Node, Node] | None:
    """Both sides of a binary or assignment expression."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    return None if left is None or right is None else (left, right)


def written(node: Node) -> list[Node]:
    """Targets of every assignment, increment and decrement below the node."""
    targets = []
    for child in walk(node):
        if child.type == "assignment_expression":
            targets.append(child.child_by_field_name("left"))
        elif child.type == "update_expression":
            targets.append(child.child_by_field_name("argument"))
    return [t for t in targets if t is not None]


def declared_name(declarator: Node | None) -> str:
    """The name that a declarator declares, through pointers, references, arrays and initialisers."""
    while declarator is not None and declarator.type != "identifier":
        inner = declarator.child_by_field_name("declarator")
        declarator = inner or next((c for c in declarator.named_children if c.type.endswith("declarator") or c.type == "identifier"), None)
    return text_of(declarator)


def declarators(declaration: Node) -> list[Node]:
    """Declarators of a declaration or parameter."""
    return declaration.children_by_field_name("declarator")


def declared(node: Node) -> set[str]:
    """Names declared anywhere below the node."""
    found = {declared_name(d) for n in walk(node) if n.type in ("declaration", "parameter_declaration") for d in declarators(n)}
    return found - {""}


def initialiser(declarator: Node) -> Node | None:
    """The value that a declarator starts with, or None."""
    return declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None


def assignment(statement: Node) -> tuple[Node, str, Node] | None:
    """Target, operator and value of a statement that is one assignment."""
    if statement.type != "expression_statement" or statement.named_child_count != 1:
        return None
    expression = statement.named_children[0]
    sides = operands(expression)
    if expression.type != "assignment_expression" or sides is None:
        return None
    return sides[0], operator_of(expression), sides[1]


class Unit:
    """One parsed C++ source.

    Attributes:
        source: Its text.
        root: Its translation unit.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.data = source.encode("utf-8", "surrogateescape")
        self._tree = _parser().parse(self.data)
        self.root = self._tree.root_node

    @property
    def is_valid(self) -> bool:
        """Whether the grammar accepts the whole source."""
        return not self.root.has_error

    def line_of(self, node: Node) -> int:
        """Line of the node's first character, counted from 1."""
        return node.start_point[0] + 1

    def indent_of(self, byte: int) -> str:
        """White space before the first character of the line that holds this byte."""
        line = self.data[self.data.rfind(b"\n", 0, byte) + 1 : byte].decode("utf-8", "surrogateescape")
        return line[: len(line) - len(line.lstrip())]

    def edited(self, edits: Iterable[Edit]) -> str:
        """The source after edits that do not overlap; insertions at one place keep their order."""
        data = self.data
        for edit in reversed(sorted(edits, key=lambda e: (e.start, e.stop))):
            data = data[: edit.start] + edit.text.encode("utf-8", "surrogateescape") + data[edit.stop :]
        return data.decode("utf-8", "surrogateescape")

    def text_with(self, node: Node, edits: Iterable[Edit]) -> str:
        """The node's text after edits inside it."""
        data = self.data[node.start_byte : node.end_byte]
        for edit in reversed(sorted(edits, key=lambda e: (e.start, e.stop))):
            first, last = edit.start - node.start_byte, edit.stop - node.start_byte
            data = data[:first] + edit.text.encode("utf-8", "surrogateescape") + data[last:]
        return data.decode("utf-8", "surrogateescape")

    @cached_property
    def all_names(self) -> frozenset[str]:
        """Every word of the source that could clash with a new name."""
        kinds = ("identifier", "field_identifier", "type_identifier", "namespace_identifier")
        return frozenset(text_of(n) for n in walk(self.root) if n.type in kinds)

    def fresh(self, wanted: str) -> str:
        """The wanted name, or the first of wanted_2, wanted_3, … that the source does not hold."""
        name, number = wanted, 1
        while name in self.all_names:
            number += 1
            name = f"{wanted}_{number}"
        return name

    @cached_property
    def functions(self) -> dict[str, Node]:
        """Function definitions by name."""
        found = {}
        for node in walk(self.root):
            if node.type == "function_definition":
                declarator = node.child_by_field_name("declarator")
                while declarator is not None and declarator.type != "function_declarator":
                    declarator = declarator.child_by_field_name("declarator")
                if declarator is not None:
                    found[text_of(declarator.child_by_field_name("declarator"))] = node
        return found

    @cached_property
    def pure_functions(self) -> frozenset[str]:
        """Functions of this source that take numbers, write only their own locals and call only pure functions."""
        pure: set[str] = set()
        for name, function in self.functions.items():
            body = function.child_by_field_name("body")
            parameters = next((n for n in walk(function) if n.type == "parameter_list"), None)
            if body is None or parameters is None or any("*" in text_of(p) or "&" in text_of(p) for p in parameters.named_children):
                continue
            own = declared(body) | declared(parameters)
            calls = {callee(n) for n in walk(body) if n.type == "call_expression"}
            allowed = (
                PURE_CALLS
                | pure
                | {"__builtin_memcpy", "std::memcpy", "__builtin_rintf", "__builtin_fmaf", "__builtin_inff", "__builtin_copysignf"}
            )
            if all(text_of(t) in own for t in written(body)) and calls <= allowed and "static" not in tokens(body):
                pure.add(name)
        return frozenset(pure)

    def is_pure(self, expression: Node) -> bool:
        """Whether evaluating the expression changes nothing and calls nothing unknown."""
        if written(expression) or any(n.type in ("lambda_expression", "new_expression", "delete_expression") for n in walk(expression)):
            return False
        return all(callee(n) in PURE_CALLS or callee(n) in self.pure_functions for n in walk(expression) if n.type == "call_expression")

    @cached_property
    def loops(self) -> list[Loop]:
        """Canonical loops, in source order."""
        return [loop for node in walk(self.root) if node.type == "for_statement" and (loop := self._canonical(node)) is not None]

    @cached_property
    def innermost_loops(self) -> list[Loop]:
        """Canonical loops that hold no loop of any kind."""
        kinds = ("for_statement", "while_statement", "do_statement", "for_range_loop")
        return [loop for loop in self.loops if not any(n.type in kinds for n in walk(loop.body))]

    def _canonical(self, node: Node) -> Loop | None:
        start = node.child_by_field_name("initializer")
        condition = node.child_by_field_name("condition")
        update = node.child_by_field_name("update")
        body = node.child_by_field_name("body")
        if start is None or condition is None or update is None or body is None or start.type != "declaration":
            return None
        parts = declarators(start)
        value = initialiser(parts[0]) if len(parts) == 1 else None
        sides = operands(condition)
        if value is None or sides is None or operator_of(condition) != "<":
            return None
        variable = declared_name(parts[0])
        step = "".join(tokens(update))
        if text_of(sides[0]) != variable or step not in (f"++{variable}", f"{variable}++", f"{variable}+=1"):
            return None
        if variable in {text_of(t) for t in written(body)}:
            return None
        previous = node.prev_sibling
        pragma = previous if previous is not None and previous.type == "preproc_call" and text_of(previous).startswith("#pragma") else None
        kind = text_of(start.child_by_field_name("type"))
        return Loop(node, pragma, variable, kind, text_of(value), text_of(sides[1]), body)

    def is_invariant(self, expression: Node, region: Node, moving: frozenset[str] | set[str] = frozenset()) -> bool:
        """Whether the expression keeps its value through a region: nothing it names is written or declared there.

        Array elements count as varying, since a store through another pointer could change them; fields of the arguments'
        descriptors do not, since no kernel writes those.
        """
        for node in walk(expression):
            if node.type in ("subscript_expression", "pointer_expression") and not self._is_descriptor(node):
                return False
        changing = {text_of(t) for t in written(region)} | declared(region) | set(moving)
        return not names(expression) & changing and self.is_pure(expression)

    def _is_descriptor(self, node: Node) -> bool:
        """Whether a subscript only picks an argument's descriptor, or a number of its shape or strides."""
        base: Node | None = node
        while base is not None and base.type in ("subscript_expression", "field_expression"):
            base = base.child_by_field_name("argument")
        return base is not None and base.type == "identifier" and "DLTensor" in self.type_of_name(text_of(base), base)

    def declaration_of(self, name: str, at: Node) -> tuple[Node, Node] | None:
        """The declaration and declarator of a name as seen from a node; None where it is not found."""
        child = at
        for scope in ancestors(at):
            for node in self._declarations_in(scope, child):
                for declarator in declarators(node):
                    if declared_name(declarator) == name:
                        return node, declarator
            child = scope
        return None

    def _declarations_in(self, scope: Node, child: Node) -> Iterator[Node]:
        if scope.type in ("compound_statement", "translation_unit", "declaration_list"):
            yield from (n for n in scope.named_children if n.type == "declaration" and n.start_byte < child.start_byte)
        elif scope.type == "for_statement":
            start = scope.child_by_field_name("initializer")
            if start is not None and start.type == "declaration":
                yield start
        elif scope.type in ("function_definition", "lambda_expression"):
            for node in scope.children:
                if node.type in ("function_declarator", "abstract_function_declarator"):
                    yield from (n for n in walk(node) if n.type == "parameter_declaration")

    def type_of_name(self, name: str, at: Node) -> str:
        """Type of a name as seen from a node, as `type_of` tells it."""
        found = self.declaration_of(name, at)
        return self._type_in(*found) if found is not None else ""

    def type_of(self, expression: Node) -> str:
        """Type of an expression as one of float, double, int, pointer names such as `float*`; empty where it cannot be told."""
        node = unwrapped(expression)
        kind = node.type
        if kind == "number_literal":
            return _literal_type(text_of(node))
        if kind == "identifier":
            return self._declared_type(node)
        if kind == "subscript_expression":
            base = node.child_by_field_name("argument")
            pointer = self.type_of(base) if base is not None else ""
            return pointer[:-1] if pointer.endswith("*") else ""
        if kind == "unary_expression":
            inner = node.child_by_field_name("argument")
            return self.type_of(inner) if inner is not None and operator_of(node) in "+-" else ""
        if kind == "cast_expression":
            return _plain_type(text_of(node.child_by_field_name("type")))
        if kind == "conditional_expression":
            return _joined(*(self.type_of(n) for n in node.named_children[1:3]))
        if kind == "binary_expression":
            sides = operands(node)
            if sides is None or operator_of(node) not in ("+", "-", "*", "/"):
                return ""
            left, right = self.type_of(sides[0]), self.type_of(sides[1])
            if left.endswith("*") and right == "int":
                return left
            return _joined(left, right)
        return self._call_type(node) if kind == "call_expression" else ""

    def _call_type(self, call: Node) -> str:
        name = callee(call)
        if name == "static_cast" or name in ("evokern::data", "evokern::scalar"):
            inside = text_of(call.child_by_field_name("function")).split("<", 1)[1].rsplit(">", 1)[0]
            return _plain_type(inside) + ("*" if name == "evokern::data" else "")
        if name in PURE_CALLS:
            if not name.startswith("std::"):
                return "float" if name.endswith("f") and name not in ("erf",) else "double"
            found = _joined(*(self.type_of(a) for a in arguments(call)))
            return "double" if found == "int" and name in COMPLEX_CALLS else found
        function = self.functions.get(name)
        return _plain_type(text_of(function.child_by_field_name("type"))) if function is not None else ""

    def _declared_type(self, identifier: Node) -> str:
        if text_of(identifier) == "INFINITY":
            return "float"
        return self.type_of_name(text_of(identifier), identifier)

    def _type_in(self, declaration: Node, declarator: Node) -> str:
        written_type = text_of(declaration.child_by_field_name("type"))
        if written_type == "auto":
            value = initialiser(declarator)
            return self.type_of(value) if value is not None else ""
        shape = [n.type for n in walk(declarator) if n.type in ("pointer_declarator", "array_declarator")]
        if initialiser(declarator) is not None:
            inner = declarator.child_by_field_name("declarator")
            shape = [n.type for n in walk(inner) if n.type in ("pointer_declarator", "array_declarator")] if inner is not None else []
        return _plain_type(written_type) + "*" * len(shape)


def _literal_type(literal: str) -> str:
    text = literal.lower()
    if text.startswith("0x"):
        return "int"
    if text.endswith("f"):
        return "float"
    return "double" if any(c in text for c in ".e") else "int"


def _plain_type(written_type: str) -> str:
    words = [
        w
        for w in written_type.replace("*", " * ").replace("std::", "").split()
        if w not in ("const", "volatile", "__restrict", "__restrict__")
    ]
    stars = words.count("*")
    bare = " ".join(w for w in words if w != "*")
    integers = ("int", "long", "size_t", "int64_t", "int32_t", "uint32_t", "uint64_t", "ptrdiff_t", "long long", "unsigned", "short")
    return ("int" if bare in integers else bare) + "*" * stars


def _joined(*types: str) -> str:
    if any(t not in ("int", "float", "double") for t in types):
        return ""
    return next((t for t in ("double", "float") if t in types), "int")
