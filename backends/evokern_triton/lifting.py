"""Configurations of `@triton.autotune` as tunables, so that a search chooses among them and a kernel times nothing itself.

An autotuner inside a kernel measures on a device that is shared with others, writes into its arguments while it does, and keeps what it
found in a cache that nobody sees. Lifted, the constants of the first configuration stand in lines `BLOCK = 1024  # tune: 512 1024`, and
launches pass them by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
import libcst.matchers as m

from evokern.errors import SourceError

_OPTIONS = {"num_warps": "4", "num_stages": "3", "num_ctas": "1", "maxnreg": "None"}
"""What a configuration says beside a kernel's constants, and what Triton takes where it says nothing."""


@dataclass
class _Lifted:
    """One kernel whose decorator is taken off.

    Attributes:
        kernel: Its name.
        values: Values of each constant and option in the order of the configurations, as written.
        names: Name of the tunable for each.
    """

    kernel: str
    values: dict[str, list[str]]
    names: dict[str, str] = field(default_factory=dict)


def lifted(source: str) -> str:
    """A source with its autotuned kernels' configurations turned into tunables; itself where there are none.

    The first configuration's values are chosen. Every value that some configuration has is allowed, so combinations that no
    configuration has become possible; values that are no numbers stay those of the first.

    Raises:
        SourceError: It cannot be parsed, or its configurations are no list of `triton.Config` in plain sight.
    """
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise SourceError(f"not valid Python: {error.message}", where=f"line {error.raw_line}") from error
    found = _Finder()
    module.visit(found)
    if not found.kernels:
        return source
    taken = found.bound
    for kernel in found.kernels.values():
        _name(kernel, taken)
    changed = module.visit(_Lifter(found.kernels))
    lines = "".join(_tunables(kernel) for kernel in found.kernels.values())
    return _inserted(changed.code, lines)


def _name(kernel: _Lifted, taken: set[str]) -> None:
    for constant in kernel.values:
        name = constant.upper() if constant in _OPTIONS else constant
        unique = name if name not in taken else f"{kernel.kernel.upper()}_{constant.upper()}"
        while unique in taken:
            unique += "_"
        taken.add(unique)
        kernel.names[constant] = unique


def _tunables(kernel: _Lifted) -> str:
    lines = []
    for constant, values in kernel.values.items():
        first, allowed = values[0], list(dict.fromkeys(values))
        tune = f"  # tune: {' '.join(allowed)}" if all(_is_number(value) for value in allowed) else ""
        lines.append(f"{kernel.names[constant]} = {first}{tune}\n")
    return "".join(lines)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdigit()


def _inserted(code: str, lines: str) -> str:
    """A module with lines before its first definition that follows the imports."""
    module = cst.parse_module(code)
    at = next((place for place, statement in enumerate(module.body) if m.matches(statement, m.FunctionDef() | m.ClassDef())), None)
    body = list(module.body)
    new = list(cst.parse_module(lines).body)
    place = len(body) if at is None else at
    if new and place:
        first = new[0]
        if isinstance(first, cst.SimpleStatementLine):
            new[0] = first.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    return module.with_changes(body=[*body[:place], *new, *body[place:]]).code


class _Finder(m.MatcherDecoratableVisitor):
    """Finds autotuned kernels, and every name that is bound outside them.

    Attributes:
        kernels: By name.
        bound: Names that a tunable may not have: as a constant of the module it would take another's place, or not be seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kernels: dict[str, _Lifted] = {}
        self.bound: set[str] = set()

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:  # noqa: N802 - libcst's name
        self.bound |= {name.value for name in m.findall(node.target, m.Name()) if isinstance(name, cst.Name)}

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:  # noqa: N802 - libcst's name
        self.bound |= {name.value for name in m.findall(node.target, m.Name()) if isinstance(name, cst.Name)}

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:  # noqa: N802 - libcst's name
        for decorator in node.decorators:
            call = _autotune(decorator)
            if call is not None:
                self.kernels[node.name.value] = _Lifted(node.name.value, _values(_configurations(call), node.name.value))
        self.bound.add(node.name.value)
        if node.name.value not in self.kernels:
            self.bound |= {parameter.name.value for parameter in m.findall(node.params, m.Param()) if isinstance(parameter, cst.Param)}


class _Lifter(cst.CSTTransformer):
    """Takes decorators off and adds arguments to launches."""

    def __init__(self, kernels: dict[str, _Lifted]) -> None:
        super().__init__()
        self._kernels = kernels

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:  # noqa: N802
        return updated_node.with_changes(decorators=[one for one in updated_node.decorators if _autotune(one) is None])

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:  # noqa: N802
        kernel = self._launched(updated_node.func)
        if kernel is None:
            return updated_node
        given = {argument.keyword.value for argument in updated_node.args if argument.keyword is not None}
        added = [cst.Arg(cst.Name(kernel.names[name]), keyword=cst.Name(name), equal=_TIGHT) for name in kernel.values if name not in given]
        kept = list(updated_node.args)
        kept[-1:] = [last.with_changes(comma=cst.MaybeSentinel.DEFAULT) for last in kept[-1:]]
        return updated_node.with_changes(args=[*kept, *added])

    def _launched(self, function: cst.BaseExpression) -> _Lifted | None:
        if isinstance(function, cst.Subscript) and isinstance(function.value, cst.Name):
            return self._kernels.get(function.value.value)
        return None


_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _autotune(decorator: cst.Decorator) -> cst.Call | None:
    call = decorator.decorator
    if isinstance(call, cst.Call) and m.matches(call.func, m.Attribute(attr=m.Name("autotune")) | m.Name("autotune")):
        return call
    return None


def _configurations(call: cst.Call) -> list[cst.Call]:
    """The calls of `triton.Config` in a decorator."""
    chosen = next((one.value for one in call.args if one.keyword is not None and one.keyword.value == "configs"), None)
    if chosen is None and call.args and call.args[0].keyword is None:
        chosen = call.args[0].value
    if not isinstance(chosen, cst.List) or not chosen.elements:
        raise SourceError("the configurations of @triton.autotune are not a list in plain sight", mend="Write them out, or write tunables")
    found = [element.value for element in chosen.elements]
    if not all(isinstance(one, cst.Call) and m.matches(one.func, m.Attribute(attr=m.Name("Config")) | m.Name("Config")) for one in found):
        raise SourceError("a configuration of @triton.autotune is no triton.Config", mend="Write them out, or write tunables")
    return [one for one in found if isinstance(one, cst.Call)]


def _values(configurations: Sequence[cst.Call], kernel: str) -> dict[str, list[str]]:
    tables = [_table(one, kernel) for one in configurations]
    names = list(dict.fromkeys(name for table in tables for name in table))
    for table, name in itertools.product(tables, names):
        if name not in table and name not in _OPTIONS:
            raise SourceError(f"a configuration of {kernel} lacks the constant '{name}' that others have", mend="Write it out")
    return {name: [table.get(name) or _OPTIONS[name] for table in tables] for name in names}


def _table(configuration: cst.Call, kernel: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for position, argument in enumerate(configuration.args):
        name = argument.keyword.value if argument.keyword is not None else "kwargs" if position == 0 else ""
        if name == "kwargs" and isinstance(argument.value, cst.Dict):
            found |= {_key(element): _text(element.value) for element in argument.value.elements if isinstance(element, cst.DictElement)}
        elif name in _OPTIONS:
            found[name] = _text(argument.value)
        else:
            raise SourceError(f"a configuration of {kernel} says '{name or _text(argument.value)}'", mend="Only constants can be lifted")
    return found


def _key(element: cst.DictElement) -> str:
    if isinstance(element.key, cst.SimpleString):
        value: Any = element.key.evaluated_value
        if isinstance(value, str) and value.isidentifier():
            return value
    raise SourceError("a configuration's constant is not named by a plain string", mend="Write tunables")


def _text(node: cst.BaseExpression) -> str:
    return cst.Module([]).code_for_node(node)
