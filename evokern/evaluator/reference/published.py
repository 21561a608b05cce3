"""Admission of tasks in others' formats: a module with `Model`, `get_inputs` and `get_init_inputs` (DESIGN section 5).

Two questions are answered of each. As published: would a fake pass on the module's own inputs, where an output is right if
it is close within a tolerance, absolute and relative, on each of some draws? And under evokern: would it pass on the
distributions that evokern draws, with parameters off their identity values, under the rule that kernels are judged by?

Fakes are outputs that nobody computed, and the model with one operator dropped (`mutants`). A dropped operator counts where
the model without it computes something else at all, which the second question finds out in float64.

`serve` runs in a slot of its own and is believed: whoever wrote a module that lies about itself has only his own task
admitted. The model is called in the mode it is built in, training, with one seed for whatever it draws; for evokern's
question dropout is off, for no two kernels would agree on it.
"""

from __future__ import annotations

import inspect
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evokern import record
from evokern.errors import EvokernError, Unavailable
from evokern.evaluator.call.mapped import keep_memory_mapped
from evokern.evaluator.reference.admission import equal
from evokern.evaluator.reference.mutants import BARE, LOOK, MOST_OPERATORS, Mutant, dropped, mutants_of
from evokern.evaluator.reference.oracle import drawn
from evokern.evaluator.rule.correctness import FLOAT32_ROUNDOFF, RowErrors, Scale, judge_output, row_errors, scale_of
from evokern.task import DISTRIBUTIONS, DType, Tolerance

if TYPE_CHECKING:
    import torch

ENTRY = "evokern.evaluator.reference.published:serve"
"""What a slot runs."""

MODULES = ("torch", "torch.utils.flop_counter", "torch.nn.attention", "torch._dynamo", "evokern.evaluator.reference.published")
"""What its zygote imports."""

MAX_DATAGRAM = 1 << 17
MAX_SOURCE = 1 << 16
"""Bytes of a module's text; longer ones are not asked about."""

TOLERANCE = 1e-2
"""As published: the tolerance of KernelBench for 16-bit types, and of several suites derived from it for all."""

STRICT = 1e-4
"""KernelBench's tolerance for float32."""

TRIALS = 5
"""As published: draws of the inputs on which a kernel must be right, KernelBench's default. Fakes that are within a tenth of the
tolerance on the first are not tried again."""

ILL_CONDITIONED = 1e-2
"""Relative error of eager float32 above which a set says nothing of a kernel."""

OWN = "task"
"""The distribution of the module's own inputs."""

_MODEL_SEED, _DRAW_SEED, _OTHER_SEED, _CALL_SEED = 42, 1001, 2002, 3003
_MOST_NAMED = 3
_BLOCK = 1 << 18


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why a task cannot tell a kernel from a fake.

    Attributes:
        kind: "null" (an output that nobody computed passes), "operator" (one that drops an operator passes), "input" (an input
            has no effect), "parameter" (one is at an identity value) or "reference" (it disagrees with itself).
        text: In words.
        tolerance: Smallest tolerance at which it holds; None where no tolerance is concerned.
    """

    kind: str
    text: str
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One answer.

    Attributes:
        flaws: Empty for a sound task.
        notes: What was left out, in words.
        operators: How many operators the model has; 0 where they were not looked at.
        sets: Distributions that it was judged on.
        meaningless: Mutants that compute the same as the model: number and way.
        names: Names of the operators.
    """

    flaws: tuple[Flaw, ...] = ()
    notes: tuple[str, ...] = ()
    operators: int = 0
    sets: tuple[str, ...] = ()
    meaningless: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = ()


class Module:
    """The judge's end of a process that holds a module.

    Args:
        sock: Sequenced socket to a process that runs `serve`.
        seconds: Wall time for everything that is asked of it.
    """

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._sock = sock
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds

    def size(self, source: str) -> dict[str, Any]:
        """Shapes of the inputs, elements, parameters and flops of a module, from a run that computes nothing.

        Raises:
            EvokernError: It does not run; the message says why.
            Unavailable: The process ended or took too long.
        """
        return self._ask({"op": "size", "source": source})

    def under_evokern(self, source: str) -> Column:
        """Whether fakes pass on evokern's distributions under its rule; errors as `size`."""
        return _column(self._ask({"op": "evokern", "source": source}))

    def as_published(self, source: str, known: Column | None) -> Column:
        """Whether fakes pass on the module's own inputs within its tolerance; errors as `size`.

        Args:
            source: Text of the module.
            known: What `under_evokern` found, so that only mutants that compute something else are tried; None where it could
                not be asked: no operator is then dropped.
        """
        meaning = None if known is None else {"names": known.names, "meaningless": known.meaningless}
        return _column(self._ask({"op": "published", "source": source, "known": meaning}))

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Unavailable(f"took more than {self._seconds:.0f} s")
        self._sock.settimeout(left)
        try:
            # Mutants take at most half of what is left, so that an answer comes.
            self._sock.send(json.dumps({**request, "seconds": left / 2}).encode())
            data = self._sock.recv(MAX_DATAGRAM)
        except TimeoutError as error:
            raise Unavailable(f"took more than {self._seconds:.0f} s") from error
        except OSError as error:
            raise Unavailable("its process ended") from error
        if not data:
            raise Unavailable("its process ended")
        answer = record.fields(data)
        if "error" in answer:
            raise EvokernError(str(answer["error"]))
        return answer


def _column(answer: Mapping[str, Any]) -> Column:
    # The module runs where this was written, so it can be anything.
    try:
        flaws = tuple(Flaw(str(f["kind"]), str(f["text"]), f["tolerance"]) for f in answer["flaws"])
        return Column(
            flaws, tuple(map(str, answer["notes"])), int(answer["operators"]), tuple(map(str, answer["sets"])),
            tuple((int(a), int(b)) for a, b in answer["meaningless"]), tuple(map(str, answer["names"])),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise EvokernError(f"its process gave no answer that can be read: {error}") from error


# From here on: the process that holds the module.


def serve(sock: socket.socket, descriptors: Sequence[int], argument: bytes) -> None:
    """Answer until the judge hangs up.

    Args:
        sock: Sequenced socket to the judge.
        descriptors: None are expected.
        argument: Nothing.
    """
    import torch

    keep_memory_mapped()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    answers: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {"size": _size, "evokern": _evokern, "published": _published}
    while data := sock.recv(MAX_DATAGRAM):
        request = json.loads(data)
        try:
            answer = answers[request["op"]](request)
        except MemoryError:
            raise
        except Exception as error:
            answer = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
        sock.send(json.dumps(answer).encode())


class _Loaded:
    """A module's names, and one model of it."""

    def __init__(self, source: str) -> None:
        self.names: dict[str, Any] = {"__name__": "problem"}
        exec(compile(source, "problem.py", "exec"), self.names)

    def model(self) -> torch.nn.Module:
        """A fresh one, always the same."""
        import torch

        given = self.names["get_init_inputs"]()
        torch.manual_seed(_MODEL_SEED)
        # Odd files give the constructor's arguments by name.
        if isinstance(given, dict):
            model: torch.nn.Module = self.names["Model"](**given)
        else:
            model = self.names["Model"](*given)
        return model

    def inputs(self, seed: int) -> list[Any]:
        """One draw of its own."""
        import torch

        torch.manual_seed(seed)
        made = self.names["get_inputs"]()
        return list(made) if isinstance(made, list | tuple) else [made]


def _call(model: torch.nn.Module, inputs: Sequence[Any], *, seed: int = _CALL_SEED) -> list[torch.Tensor]:
    """Outputs of one call on copies of the inputs, whatever the model draws or writes."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    torch.manual_seed(seed)
    returned = model(*tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, list(inputs)))
    return [v.detach() for v in tree_leaves(returned) if isinstance(v, torch.Tensor)]


def _size(request: Mapping[str, Any]) -> dict[str, Any]:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.flop_counter import FlopCounterMode

    class Counting(TorchDispatchMode):  # type: ignore[misc]  # torch ships no types that strict mode can follow
        elements = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if all(r.alias_info is None for r in func._schema.returns):
                self.elements += sum(t.numel() for t in tree_leaves(result) if isinstance(t, torch.Tensor))
            return result

    with torch.device("meta"):
        loaded = _Loaded(request["source"])
        model, inputs = loaded.model(), loaded.inputs(_DRAW_SEED)
        counting, flops = Counting(), FlopCounterMode(display=False)
        with flops, counting:
            model(*inputs)
    tensors = [t for t in tree_leaves(inputs) if isinstance(t, torch.Tensor)]
    return {
        "shapes": [list(t.shape) for t in tensors],
        "elements": counting.elements + sum(t.numel() for t in tensors),
        "parameters": sum(p.numel() for p in model.parameters()),
        "flops": flops.get_total_flops(),
    }


@dataclass
class _Findings:
    """An answer in the making."""

    flaws: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    sets: list[str] = field(default_factory=list)
    meaningless: list[tuple[int, int]] = field(default_factory=list)

    def add(self, kind: str, text: str, tolerance: float | None = None) -> None:
        """A flaw."""
        self.flaws.append({"kind": kind, "text": text, "tolerance": tolerance})

    def late(self) -> None:
        """Some mutant was not tried."""
        note = "some operators were not dropped, for lack of time"
        if note not in self.notes:
            self.notes.append(note)

    def answer(self) -> dict[str, Any]:
        """As the judge reads it."""
        return {
            "flaws": self.flaws, "notes": self.notes, "operators": len(self.names), "sets": self.sets,
            "meaningless": self.meaningless, "names": self.names,
        }  # fmt: skip


# As published


def _published(request: Mapping[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + request["seconds"]
    loaded, findings = _Loaded(request["source"]), _Findings()
    model, inputs = loaded.model(), loaded.inputs(_DRAW_SEED)
    expected = _call(model, inputs)
    findings.sets.append(OWN)
    if not all(_is_finite(v) for v in expected):
        findings.add("reference", "the reference gives infinities or NaNs on its own inputs")
    if _distance(_call(model, inputs, seed=_CALL_SEED + 1), expected) > TOLERANCE:
        findings.notes.append("the model draws random numbers: two runs agree only where they are seeded alike")
    if _distance(_call(model, inputs), expected) > TOLERANCE:
        findings.add("reference", "two runs of the reference disagree")
    idle = [f"'{name}' is drawn as {word}" for name, p in model.named_parameters() if (word := _constant(p))]
    if idle:
        more = f", and {len(idle) - _MOST_NAMED} more" if len(idle) > _MOST_NAMED else ""
        findings.add("parameter", f"parameters do nothing: {', '.join(idle[:_MOST_NAMED])}{more}")

    suspects = _Suspects(model)
    for trial in range(TRIALS):
        if trial and (not suspects.doubtful or time.monotonic() > deadline):
            break
        suspects.face(loaded.inputs(_DRAW_SEED + trial), loaded.inputs(_OTHER_SEED + trial), _within_tolerance)
    _without_dropout(model)
    mutants = _look(model, inputs, findings)
    if request["known"] is None or list(request["known"]["names"]) != findings.names:
        findings.notes.append("no operator was dropped: which of them compute anything is not known")
        mutants = []
    meaningless = {tuple(pair) for pair in request["known"]["meaningless"]} if mutants else set()
    suspects.accuse([m for m in mutants if m.where not in meaningless])
    for trial in range(TRIALS):
        if suspects.mutants and (not trial or suspects.doubtful_mutants):
            suspects.drop(loaded.inputs(_DRAW_SEED + trial), _within_tolerance, deadline, findings)
    _conclude(suspects, findings, "the tolerance")
    return findings.answer()


Measured = Callable[[Sequence["torch.Tensor"]], float]
"""How far outputs are from what they should be; infinite where that is too far."""


def _within_tolerance(expected: Sequence[torch.Tensor]) -> Measured:
    def measured(found: Sequence[torch.Tensor]) -> float:
        distance = _distance(found, expected)
        return distance if distance <= TOLERANCE else float("inf")

    return measured


class _Suspects:
    """Fakes that have passed on every set so far, each with the largest distance at which it did.

    Args:
        model: Whose outputs they pretend to be.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self._fakes: dict[str, float] = {}
        self._idle: dict[str, float] = {}
        self._mutants: dict[Mutant, float] = {}

    @property
    def doubtful(self) -> bool:
        """Whether a fake that computes nothing, or an idle input, has passed only just."""
        return any(_is_doubtful(worst) for worst in [*self._fakes.values(), *self._idle.values()])

    @property
    def doubtful_mutants(self) -> bool:
        """Whether a mutant has passed only just."""
        return any(map(_is_doubtful, self._mutants.values()))

    @property
    def mutants(self) -> list[Mutant]:
        """Mutants that are left."""
        return list(self._mutants)

    def accuse(self, mutants: Sequence[Mutant]) -> None:
        """Take mutants to be dropped."""
        self._mutants = dict.fromkeys(mutants, 0.0)

    def acquit(self, mutants: Sequence[Mutant]) -> None:
        """Take some back."""
        self._mutants = {mutant: worst for mutant, worst in self._mutants.items() if mutant not in mutants}

    def face(self, inputs: Sequence[Any], others: Sequence[Any], measure: Callable[[Sequence[torch.Tensor]], Measured]) -> None:
        """Drop fakes that fail on a set, and inputs that it shows to have an effect.

        Args:
            inputs: Of the set.
            others: Another draw of them.
            measure: Made of what the outputs are.
        """
        expected = _call(self.model, inputs)
        measured = measure(expected)
        for words, fake in _fakes(expected, _call(self.model, others), inputs):
            if self._fakes.get(words, 0.0) < np.inf:
                self._fakes[words] = max(self._fakes.get(words, 0.0), measured(fake))
        for name, place in _tensor_inputs(self.model, inputs):
            if self._idle.get(name, 0.0) < np.inf:
                found = _call(self.model, [*inputs[:place], others[place], *inputs[place + 1 :]])
                self._idle[name] = max(self._idle.get(name, 0.0), measured(found))

    def drop(
        self, inputs: Sequence[Any], measure: Callable[[Sequence[torch.Tensor]], Measured], deadline: float, findings: _Findings
    ) -> None:
        """Drop mutants that fail on a set; past the deadline, those that were not tried on it."""
        measured = measure(_call(self.model, inputs))
        for mutant in self.mutants:
            worst = self._mutants.pop(mutant)
            if time.monotonic() > deadline:
                findings.late()
                continue
            found = _mutated(self.model, inputs, mutant.where)
            worst = np.inf if found is None else max(worst, measured(found))
            if worst < np.inf:
                self._mutants[mutant] = worst

    def found(self) -> Iterator[tuple[str, str, float]]:
        """Kind, words and distance of everything that passed."""
        yield from (("null", f"{words} would pass", worst) for words, worst in self._fakes.items() if worst < np.inf)
        yield from (("input", f"no output depends on input '{name}'", worst) for name, worst in self._idle.items() if worst < np.inf)
        yield from (("operator", f"{mutant} changes nothing that {{}} sees", worst) for mutant, worst in self._mutants.items())


def _is_doubtful(worst: float) -> bool:
    return TOLERANCE / 10 < worst < np.inf


def _conclude(suspects: _Suspects, findings: _Findings, judge: str, *, tolerance: bool = True) -> None:
    for kind, text, worst in suspects.found():
        findings.add(kind, text.format(judge), float(worst) if tolerance else None)


def _look(model: torch.nn.Module, inputs: Sequence[Any], findings: _Findings) -> list[Mutant]:
    with dropped(LOOK) as seen:
        _call(model, inputs)
    findings.names.extend(str(name) for name, _ in seen[:MOST_OPERATORS])
    if len(seen) > MOST_OPERATORS:
        findings.notes.append(f"of {len(seen)} operators the first {MOST_OPERATORS} were dropped")
    return mutants_of(seen)


def _mutated(model: torch.nn.Module, inputs: Sequence[Any], which: tuple[int, ...]) -> list[torch.Tensor] | None:
    """What the mutant computes; None where it cannot run."""
    try:
        with dropped(which):
            return _call(model, inputs)
    except (RuntimeError, ValueError, IndexError):
        return None


def _distance(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The smallest t for which every |found - expected| <= t + t |expected|; infinite where shapes or NaNs say no.

    It ends at the first block that is above `TOLERANCE`.
    """
    worst = 0.0
    for one, two in zip(found, expected, strict=True):
        if one.shape != two.shape:
            return float("inf")
        for here, there in zip(_blocks(one), _blocks(two), strict=True):
            share = (here.double() - there.double()).abs_() / (there.double().abs() + 1)
            share = share.masked_fill_(here == there, 0.0).nan_to_num_(nan=float("inf"))
            worst = max(worst, float(share.max()))
            if worst > TOLERANCE:
                return worst
    return worst


def _blocks(value: torch.Tensor) -> Iterator[torch.Tensor]:
    """A tensor along its first axis, in pieces of about `_BLOCK` elements; cut by shape alone, so that two alike are cut alike."""
    if not value.numel():
        return
    if not value.ndim:
        yield value
        return
    rows = max(1, _BLOCK * value.shape[0] // value.numel())
    yield from (value[start : start + rows] for start in range(0, value.shape[0], rows))


def _fakes(
    expected: Sequence[torch.Tensor], other: Sequence[torch.Tensor], inputs: Sequence[Any]
) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Outputs that need no computation.

    Args:
        expected: What the outputs are.
        other: What they are for another draw of the inputs.
        inputs: The inputs.
    """
    import torch

    yield "an output of zeros", [torch.zeros_like(v) for v in expected]
    yield "an output of ones", [torch.ones_like(v) for v in expected]
    if any(v.numel() > 1 for v in expected):
        yield "the mean of the output", [_filled(v, v.double().mean()) for v in expected]
    if any(v.ndim > 1 and v.shape[-1] > 1 for v in expected):
        yield "the mean of each row", [_filled(v, v.double().mean(-1, keepdim=True)) if v.ndim else v for v in expected]
    if any(v.ndim > 1 and v.shape[0] > 1 for v in other):
        yield (
            "the mean over the batch of another input's output",
            [_filled(v, o.double().mean(0, keepdim=True)) if v.ndim else o for v, o in zip(expected, other, strict=True)],
        )
    yield "the output of the previous call", list(other)
    for number, source in enumerate(inputs, start=1):
        if isinstance(source, torch.Tensor) and all(source.shape == v.shape for v in expected):
            yield f"a copy of input {number}", [source.to(v.dtype) for v in expected]


def _filled(like: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return value.to(like.dtype).expand(like.shape)


def _tensor_inputs(model: torch.nn.Module, inputs: Sequence[Any]) -> Iterator[tuple[str, int]]:
    import torch

    names = list(inspect.signature(model.forward).parameters)
    for place, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            yield (names[place] if place < len(names) else f"number {place + 1}"), place


def _constant(parameter: torch.Tensor) -> str:
    """What makes a parameter do nothing; empty where it does something."""
    if not parameter.numel() or not bool((parameter == parameter.flatten()[0]).all()):
        return ""
    value = float(parameter.flatten()[0])
    if value in {0.0, 1.0}:
        return "zeros" if value == 0.0 else "ones"
    return "one constant" if parameter.numel() > 1 else ""


def _is_finite(value: torch.Tensor) -> bool:
    import torch

    return bool(torch.isfinite(value).all())


# Under evokern's distributions and rule


@dataclass
class _Set:
    """One draw, in float64, and what the rule needs of it; per output."""

    inputs: list[Any]
    expected: list[NDArray[np.float64]]
    scale: list[Scale]
    error: list[RowErrors]
    reduction: list[int]

    def measure(self, expected: Sequence[torch.Tensor]) -> Measured:
        """Its own measure: what the outputs are, it knows."""
        return self.measured

    def measured(self, found: Sequence[torch.Tensor]) -> float:
        """Zero where outputs pass the rule, else infinity."""
        for i, value in enumerate(found):
            values = value.double().numpy()
            finding = judge_output(values, self.expected[i], self.scale[i], self.reduction[i], Tolerance(), DType.FLOAT32, [self.error[i]])
            if not finding.ok:
                return float("inf")
        return 0.0 if len(found) == len(self.expected) else float("inf")


def _evokern(request: Mapping[str, Any]) -> dict[str, Any]:
    loaded, findings = _Loaded(request["source"]), _Findings()
    deadline = time.monotonic() + request["seconds"]
    eager, wide = _sharpened(loaded.model()), _sharpened(loaded.model()).double()
    own, theirs = loaded.inputs(_DRAW_SEED), loaded.inputs(_OTHER_SEED)
    suspects, repeats = _Suspects(wide), True
    mutants = _look(wide, _wide(own), findings)
    suspects.accuse(mutants)
    for distribution in (OWN, *(d for d in DISTRIBUTIONS if d != OWN)):
        inputs, others = _drawn(own, distribution, _DRAW_SEED), _drawn(theirs, distribution, _OTHER_SEED)
        one = _set(eager, wide, inputs)
        if one is None:
            findings.notes.append(f"not judged on {distribution} values: eager float32 is ill-conditioned or not finite there")
            continue
        findings.sets.append(distribution)
        repeats = repeats and one.measured(_call(wide, _wide(inputs), seed=_CALL_SEED + 1)) < np.inf
        suspects.face(_wide(inputs), _wide(others), one.measure)
        suspects.drop(_wide(inputs), one.measure, deadline, findings)
        if time.monotonic() > deadline:
            findings.notes.append(f"not judged on distributions after {distribution}, for lack of time")
            break
    if not findings.sets:
        findings.notes.append("not judged: the reference is not finite, or ill-conditioned, under every distribution")
        return findings.answer()
    if not repeats:
        findings.add("reference", "two runs of the reference disagree, dropout switched off")
    meaningless = _meaningless(wide, own, mutants)
    findings.meaningless.extend(m.where for m in meaningless)
    suspects.acquit(meaningless)
    _conclude(suspects, findings, "the rule", tolerance=False)
    return findings.answer()


def _sharpened(model: torch.nn.Module) -> torch.nn.Module:
    """The model with dropout off, and every parameter that is one constant drawn anew."""
    import torch

    generator = torch.Generator().manual_seed(_MODEL_SEED)
    for parameter in model.parameters():
        if _constant(parameter):
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator))
    return _without_dropout(model)


def _without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.eval()
    return model


def _drawn(own: Sequence[Any], distribution: str, seed: int) -> list[Any]:
    """Inputs of the module's shapes with values of a distribution; what is no tensor of floats stays."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    if distribution == OWN:
        return list(own)
    return [drawn(distribution, v.shape, generator) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in own]


def _wide(inputs: Sequence[Any]) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_map

    converted: list[Any] = tree_map(lambda v: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v, list(inputs))
    return converted


def _set(eager: torch.nn.Module, wide: torch.nn.Module, inputs: list[Any]) -> _Set | None:
    """One set, its rule scaled to what eager float32 achieves on it; None where that says nothing."""
    actual, expected = _call(eager, inputs), _call(wide, _wide(inputs))
    made = _Set(inputs, [], [], [], [])
    for one, two in zip(actual, expected, strict=True):
        if one.shape != two.shape or not _is_finite(one) or not _is_finite(two):
            return None
        values = two.double().numpy()
        scale = scale_of(values)
        rows = two.double().reshape(-1, two.shape[-1] if two.ndim > 1 else 1)
        rms = rows.square().mean(1, keepdim=True).sqrt()
        size = (rows.abs() + rms).clamp_min_(1e-30)
        relative = float(((one.double().reshape(rows.shape) - rows).abs_() / size).max()) if two.numel() else 0.0
        if relative > ILL_CONDITIONED:
            return None
        made.expected.append(values)
        made.scale.append(scale)
        made.error.append(row_errors(one.float().numpy(), values, DType.FLOAT32))
        # K is not declared, so it is what makes eager's own error fit, within a quarter of the bound.
        made.reduction.append(max(1, round((relative / FLOAT32_ROUNDOFF) ** 2)))
    return made


def _meaningless(model: torch.nn.Module, own: Sequence[Any], mutants: list[Mutant]) -> list[Mutant]:
    """Mutants that compute what the model does, but for the rounding of float64 and for guards, whatever the values."""
    for distribution in DISTRIBUTIONS:
        inputs = _wide(_drawn(own, distribution, _OTHER_SEED))
        expected = _mutated(model, inputs, BARE)
        if expected is None:
            return []
        mutants = [m for m in mutants if _same(_mutated(model, inputs, m.bare), expected)]
    return mutants


def _same(found: Sequence[torch.Tensor] | None, expected: Sequence[torch.Tensor]) -> bool:
    if found is None:
        return False
    return all(equal(a.double().numpy(), b.double().numpy()) for a, b in zip(found, expected, strict=True))
