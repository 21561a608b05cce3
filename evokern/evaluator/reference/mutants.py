"""Mutants: a computation with one of its operators dropped (DESIGN section 5, admission).

`dropped` runs in the process that holds the reference. It sees every operator that PyTorch executes, after composite ones
have been taken apart, and lets one of them give what costs nothing instead of its result:

- one of its operands, where that has the result's shape or broadcasts to it: the operator is passed through;
- else zeros, or the mean of its result as one number.

What is no computation is no operator here: views, copies, casts, the making of constants, random draws, and guards against
a division by zero (adding, or clamping at, a constant of at most `GUARD`). Whether a mutant computes something else at all
is for the caller to find out: the subtraction of the largest element in a softmax can be dropped, and nothing is wrong. For
that question guards can be left out on both sides (`Mutant.bare`), since algebra holds without them only.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

MOST_OPERATORS = 64
"""Operators of one computation that are tried, from the first on."""

GUARD = 1e-3
"""A constant up to this, added or clamped at, keeps a divisor off zero and is not meant to change the result."""

LOOK = (0, 0)
"""What `dropped` takes to see all operators and drop none."""

BARE = (0, 0, 1)
"""What `dropped` takes to drop the guards alone."""

_MOST_OPERANDS = 3
_GUARDS = {"add", "add_", "clamp", "clamp_", "clamp_min", "clamp_min_", "maximum"}
_COPIES = {"clone", "copy_", "_to_copy", "_unsafe_view", "detach_", "contiguous", "_reshape_copy", "lift_fresh_copy", "_copy_from"}
_CONSTANTS = {"zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "fill_", "zero_"}
_ORDINALS = ("first", "second", "third")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way to drop one operator.

    Attributes:
        operator: Name of the operator.
        number: Its place, from 1.
        of: How many there are.
        way: Index of the replacement.
        replacement: What it gives instead, in words.
    """

    operator: str
    number: int
    of: int
    way: int
    replacement: str

    @property
    def where(self) -> tuple[int, int]:
        """What `dropped` takes."""
        return self.number, self.way

    @property
    def bare(self) -> tuple[int, int, int]:
        """The same without guards; to be compared with `BARE`."""
        return self.number, self.way, 1

    def __str__(self) -> str:
        place = f"`{self.operator}` (operator {self.number} of {self.of})"
        return f"dropping {place}" if not self.replacement else f"{self.replacement} in the place of {place}"


def mutants_of(seen: Sequence[Sequence[Any]]) -> list[Mutant]:
    """Every mutant of a computation.

    Args:
        seen: What `dropped` yielded: per operator its name and the words of its replacements.
    """
    return [
        Mutant(str(name), number, len(seen), way, str(words))
        for number, (name, replacements) in enumerate(seen[:MOST_OPERATORS], start=1)
        for way, words in enumerate(replacements)
    ]


@contextlib.contextmanager
def dropped(which: Sequence[int] | None) -> Iterator[list[list[Any]]]:
    """Within, one operator of what PyTorch computes gives its replacement.

    Args:
        which: `Mutant.where`, `Mutant.bare`, `LOOK` or `BARE`; None to change nothing and to see nothing.

    Yields:
        Per operator its name and the words of its replacements, in the order of execution, filled as they run.
    """
    if which is None:
        yield []
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mode = _mode_class()(*which)
    # Attention as its parts, so that each of them can be dropped.
    with sdpa_kernel(SDPBackend.MATH), mode:
        yield mode.seen


@functools.cache
def _mode_class() -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Dropping(TorchDispatchMode):  # type: ignore[misc]  # torch ships no types that strict mode can follow
        def __init__(self, number: int, way: int, bare: int = 0) -> None:
            super().__init__()
            self.number, self.way, self.bare = number, way, bare
            self.seen: list[list[Any]] = []

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # Nothing is compiled under it. PyTorch would otherwise import its compiler at the first operator: seconds.
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
            kwargs = kwargs or {}
            operands = _operands(args, kwargs)
            if not operands or not _computes(func):
                return func(*args, **kwargs)
            if _is_guard(func, args, kwargs):
                return args[0] if self.bare else func(*args, **kwargs)
            wanted = len(self.seen) + 1 == self.number
            if wanted and _is_in_place(func):
                operands = [o.clone() for o in operands]  # the first is about to be overwritten
            result = func(*args, **kwargs)
            target = _target(result)
            if target is None:
                return result
            replacements = _replacements(operands, target)
            self.seen.append([_name(func), [words for words, _ in replacements]])
            if not wanted:
                return result
            return _replaced(result, target, replacements[self.way][1], in_place=_is_in_place(func))

    return Dropping


def _operands(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def _computes(func: Any) -> bool:
    """Whether dropping it would drop a computation; a guard too says yes."""
    import torch

    name = func.overloadpacket.__name__
    if name in _COPIES or name in _CONSTANTS or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
    return not is_view


def _is_guard(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    import torch

    if func.overloadpacket.__name__ not in _GUARDS:
        return False
    values = [*args[1:], *(value for name, value in kwargs.items() if name != "alpha")]
    numbers = [v.item() if isinstance(v, torch.Tensor) and v.ndim == 0 and v.device.type != "meta" else v for v in values if v is not None]
    return bool(numbers) and all(isinstance(n, int | float) and 0 < abs(n) <= GUARD for n in numbers)


def _is_in_place(func: Any) -> bool:
    return any(r.alias_info is not None and r.alias_info.is_write for r in func._schema.returns)


def _target(result: Any) -> torch.Tensor | None:
    """The tensor that is replaced: the first of floats, else of integers; None where there is none, or only truth values."""
    import torch

    tensors = [t for t in (result if isinstance(result, tuple | list) else [result]) if isinstance(t, torch.Tensor)]
    floats = [t for t in tensors if t.is_floating_point()]
    whole = [t for t in tensors if t.dtype in (torch.int64, torch.int32)]
    return (floats or whole or [None])[0]


def _replacements(operands: Sequence[torch.Tensor], target: torch.Tensor) -> list[tuple[str, Any]]:
    """Words, and a function that gives the replacing tensor. The words are empty where the operator is passed through."""
    import torch

    fitting = [i for i, o in enumerate(operands) if _broadcasts(o.shape, target.shape)][:_MOST_OPERANDS]
    if fitting and target.is_floating_point():
        # Words for the second and third operand only: passing the first through is what dropping means.
        names = ["" if i == 0 else f"the {_ORDINALS[i]} operand" if i < len(_ORDINALS) else f"operand {i + 1}" for i in fitting]
        return [(name, functools.partial(_passed, operands[i])) for name, i in zip(names, fitting, strict=True)]
    found: list[tuple[str, Any]] = [("zeros", torch.zeros_like)]
    if target.is_floating_point() and target.numel() > 1:
        found.append(("one number", lambda t: torch.zeros_like(t) + t.mean()))
    return found


def _broadcasts(shape: Sequence[int], target: Sequence[int]) -> bool:
    return len(shape) <= len(target) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(target), strict=False))


def _passed(operand: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return operand.to(target.dtype).expand(target.shape).clone()


def _replaced(result: Any, target: torch.Tensor, replacement: Any, *, in_place: bool) -> Any:
    value = replacement(target)
    if in_place:
        target.copy_(value)
        return result
    if isinstance(result, tuple | list):
        return type(result)([value if t is target else t for t in result])
    return value


def _name(func: Any) -> str:
    name: str = func.overloadpacket.__name__
    return name.removeprefix("_").removeprefix("native_").removesuffix("_")
