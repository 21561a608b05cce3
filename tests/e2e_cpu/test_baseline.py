"""PyTorch as an opponent, in a real process, called through windows by the judge's own records."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from evokern.errors import EvokernError
from evokern.evaluator.call import protocol
from evokern.evaluator.call.window import Frame, Placed
from evokern.evaluator.reference import baseline, oracle
from evokern.evaluator.reference.baseline import Baseline
from evokern.evaluator.reference.oracle import InputSet, Oracle
from evokern.evaluator.rule.correctness import judge_output, row_errors
from evokern.task import DType, Role, Task, load_task
from evokern.testing.served import Served, served

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

CORE = Path(__file__).parents[2] / "benchmarks" / "tasks" / "core"
F32 = DType.FLOAT32
NAMES = ["softmax", "rmsnorm", "cross_entropy", "bias_gelu"]
LONG, SHORT = {"rows": 512, "cols": 4096}, {"rows": 9, "cols": 33}


@dataclass
class Bound:
    """A baseline that is bound to windows."""

    process: Served
    frame: Frame
    client: Baseline
    task: Task
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def place(self, drawn: InputSet, layout: str = "contiguous") -> protocol.Go:
        """Write a set into the windows."""
        scalars = {a.name: drawn.inputs[a.name] for a in self.task.arguments if a.is_scalar}
        placed: list[Placed] = self.frame.place(drawn.axes, layout, scalars, self.rng)
        for one in placed:
            if one.window is not None and one.argument.role is not Role.OUT:
                one.view[...] = drawn.inputs[one.argument.name]
        return protocol.Go(int(self.rng.integers(1 << 40)), tuple(one.place for one in placed))

    def call(self, go: protocol.Go) -> int:
        """GO, and the status of DONE."""
        self.process.sock.send(protocol.encode_go(go))
        return protocol.decode_done(self.process.sock.recv(protocol.MAX_RECORD), go.seq).status

    def faults(self) -> int:
        """Minor page faults so far."""
        return int(Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[7])


@contextmanager
def bound(task: Task, variant: str, cache: Path | None = None) -> Iterator[Bound]:
    with served(baseline.ENTRY, baseline.argument(task, variant, cache=cache)) as process:
        frame = Frame(task, F32, [LONG, SHORT], trusted=True)
        record, descriptors = frame.bind(1)
        socket.send_fds(process.sock, [record], descriptors)
        assert protocol.decode_done(process.sock.recv(protocol.MAX_RECORD), 1).status == 0
        yield Bound(process, frame, Baseline(process.sock, task, F32), task)
        frame.close()


@contextmanager
def drawing(task: Task) -> Iterator[Oracle]:
    with served(oracle.ENTRY, oracle.argument(task, F32)) as process:
        yield Oracle(process.sock, task, F32)


def passes(task: Task, drawn: InputSet, outputs: dict[str, np.ndarray]) -> bool:
    return all(
        judge_output(
            outputs[a.name],
            drawn.expected[a.name],
            drawn.scale[a.name],
            drawn.reduction,
            task.tolerance,
            F32,
            drawn.reference_error[a.name],
        ).ok
        for a in task.outputs
    )


@pytest.mark.parametrize("name", NAMES)
def test_eager_answers_like_a_runner(name: str) -> None:
    task = load_task(CORE / name)
    with drawing(task) as draws, bound(task, "eager") as opponent:
        for axes in (LONG, SHORT):
            drawn = draws.draw(axes, "normal", 1)
            for layout in ("contiguous", "offset", "padded"):
                go = opponent.place(drawn, layout)
                opponent.client.prepare(go)
                assert opponent.call(go) == 0
                outputs = opponent.client.values(go)
                # The very values that the oracle's own eager run has, so its error is e_ref exactly.
                for output, errors in drawn.reference_error.items():
                    ours = row_errors(outputs[output], drawn.expected[output], F32)
                    np.testing.assert_allclose(ours.mean_square, errors[0].mean_square, rtol=0.5)
                assert passes(task, drawn, outputs)


def test_a_warm_call_takes_no_page_faults() -> None:
    task = load_task(CORE / "softmax")
    with drawing(task) as draws, bound(task, "eager") as opponent:
        long, short = draws.draw(LONG, "normal", 1), draws.draw(SHORT, "normal", 1)
        opponent.client.prepare(opponent.place(short))
        opponent.client.prepare(opponent.place(long))
        pages = LONG["rows"] * LONG["cols"] * 4 // 4096
        for _ in range(5):
            for drawn in (long, short):
                go = opponent.place(drawn, "offset")
                before = opponent.faults()
                assert opponent.call(go) == 0
                assert opponent.faults() - before < pages // 20


def test_shapes_that_were_not_prepared_are_refused() -> None:
    task = load_task(CORE / "softmax")
    with drawing(task) as draws, bound(task, "eager") as opponent:
        long, short = draws.draw(LONG, "normal", 1), draws.draw(SHORT, "normal", 1)
        opponent.client.prepare(opponent.place(long))
        assert opponent.call(opponent.place(short)) == baseline.NOT_PREPARED
        assert opponent.call(opponent.place(long)) == 0


def test_it_asks_for_no_workspace() -> None:
    task = load_task(CORE / "softmax")
    with drawing(task) as draws, bound(task, "eager") as opponent:
        go = replace(opponent.place(draws.draw(SHORT, "normal", 1)), kind=protocol.Kind.SIZE)
        opponent.process.sock.send(protocol.encode_go(go))
        assert protocol.decode_bytes(opponent.process.sock.recv(protocol.MAX_RECORD), go.seq) == 0


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for both variants: what the compiler finds out about the processor is found out once."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(("variant", "shapes"), [("compile", [SHORT]), ("compile_dynamic", [LONG, SHORT])])
def test_compiled_before_it_is_called_and_never_again(variant: str, shapes: list[dict[str, int]], cache: Path) -> None:
    task = load_task(CORE / "rmsnorm")
    others = set(cache.rglob("*.so"))
    with drawing(task) as draws, bound(task, variant, cache) as opponent:
        sets = [draws.draw(axes, "normal", 1) for axes in shapes]
        for drawn in sets:
            opponent.client.prepare(opponent.place(drawn))
        products = sorted(cache.rglob("*"))
        compiled = set(cache.rglob("*.so"))
        assert compiled > others
        for drawn in sets:
            for layout in ("contiguous", "offset"):  # offsets differ with every call
                go = opponent.place(drawn, layout)
                assert opponent.call(go) == 0
                outputs = opponent.client.values(go)
                assert passes(task, drawn, outputs)
                drawn.add_reference(outputs, F32)
        assert opponent.call(opponent.place(sets[0], "padded")) == baseline.NOT_PREPARED
        assert sorted(cache.rglob("*")) == products
        # eager, the reference on rounded inputs, and both layouts of this baseline
        assert len(sets[0].reference_error["y"]) == 4
    with drawing(task) as draws, bound(task, variant, cache) as opponent:
        for axes in shapes:
            opponent.client.prepare(opponent.place(draws.draw(axes, "normal", 1)))
        assert set(cache.rglob("*.so")) == compiled


def test_a_reference_that_fails_is_said_and_the_process_goes_on() -> None:
    task = replace(
        load_task(CORE / "softmax"), reference="def run(x):\n    if x.shape[0] == 9:\n        raise ValueError('nine')\n    return x"
    )
    with drawing(load_task(CORE / "softmax")) as draws, bound(task, "eager") as opponent:
        with pytest.raises(EvokernError, match="nine"):
            opponent.client.prepare(opponent.place(draws.draw(SHORT, "normal", 1)))
        go = opponent.place(draws.draw(LONG, "normal", 1))
        opponent.client.prepare(go)
        assert opponent.call(go) == 0
