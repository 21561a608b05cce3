"""How long the oracle takes on a GPU to draw large sets, to tell rows of them and to judge these; prints JSON, one part at a time.

`python tests/gpu/oracle_smoke.py [--device cuda] [--dtype bfloat16] [--small] [--task softmax]`. Needs torch, and no sandbox.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from evokern.evaluator.catalogue import find_task
from evokern.evaluator.reference import edges, held_out, oracle
from evokern.evaluator.reference.admission import admit
from evokern.evaluator.reference.oracle import InputSet, Oracle
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.rule.correctness import judge_output
from evokern.evaluator.rule.trial import held_out_points, visible_points
from evokern.evaluator.secrecy import Secret
from evokern.task import DType, Task
from evokern.testing.served import served

SHAPES = ({"rows": 4096, "cols": 4096}, {"rows": 8192, "cols": 8192}, {"rows": 4096, "cols": 50257})
SMALL = ({"rows": 256, "cols": 512}, {"rows": 512, "cols": 1003})
SECRET = Secret(b"s" * 32)
TILE, WHOLE = 32, 512


def main() -> None:
    """Print what every part found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--task", default="softmax")
    parser.add_argument("--small", action="store_true", help="shapes that a CPU is done with in seconds")
    asked = parser.parse_args()
    task, dtype = find_task(asked.task), DType(asked.dtype)
    with started(task, dtype, asked.device) as (one, pid):
        if asked.small:
            one.FAR_BYTES = 1 << 17
        look = Look(one, pid, asked.device)
        if asked.task == "softmax":
            for axes in SMALL if asked.small else SHAPES:
                look.part(f"draw {tuple(axes.values())}", lambda axes=axes: look.draws(axes))
        look.part("admission on the shapes of a CPU", lambda: {"reasons": admit(task, dtype, one, SECRET)})
        look.part("all sets of a session", lambda: look.session(task if asked.small else task.on("gpu")))


@contextmanager
def started(task: Task, dtype: DType, device: str) -> Iterator[tuple[Oracle, int]]:
    with served(oracle.ENTRY, oracle.argument(task, dtype, on_device=True, device=device)) as process:
        one = Oracle(process.sock, task, dtype)
        yield one, process.pid
        one.close()


class Look:
    """The parts.

    Args:
        one: The oracle.
        pid: Its process.
        device: As PyTorch names it.
    """

    def __init__(self, one: Oracle, pid: int, device: str) -> None:
        self.one, self.pid, self.device = one, pid, device

    def part(self, name: str, work: Callable[[], dict[str, Any]]) -> None:
        """Print what a part found, with what it took and how much memory there is afterwards; the next one goes on where it fails."""
        start = time.perf_counter()
        try:
            found = work()
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"}
        line = {"part": name, "seconds": round(time.perf_counter() - start, 2), **found, **self.memory()}
        sys.stdout.write(f"{json.dumps(line)}\n")
        sys.stdout.flush()

    def memory(self) -> dict[str, float]:
        """Gigabytes: of this process, of the oracle's, and of the device, all processes together."""
        found = {"judge_host_gb": resident("self"), "oracle_host_gb": resident(str(self.pid))}
        if self.device != "cpu":
            import torch

            free, total = torch.cuda.mem_get_info()
            found["device_gb"] = round((total - free) / 1e9, 2)
        return found

    def draws(self, axes: dict[str, int]) -> dict[str, Any]:
        """Draws of one shape, what is asked of them, and whether they are the same when they are made again."""
        found: dict[str, Any] = {}
        drawn: list[InputSet] = []
        for name in ("first", "second"):
            found[f"{name}_s"] = timed(lambda: drawn.append(self.one.draw(axes, "normal", 1)))
        found["same_bits"] = bool(np.array_equal(drawn[0].inputs["x"], drawn[1].inputs["x"]))
        rows = np.arange(0, axes["rows"], max(1, axes["rows"] // WHOLE))[:WHOLE]
        found["is_far"] = drawn[0].is_far("y")
        found["same_answers"] = bool(np.array_equal(drawn[0].of("y", rows).expected, drawn[1].of("y", rows).expected))
        found["tile_ms"] = round(1e3 * min(timed(lambda: drawn[0].of("y", rows[:TILE])) for _ in range(5)), 2)
        found["whole_ms"] = round(1e3 * min(timed(lambda: drawn[0].of("y", rows)) for _ in range(3)), 2)
        self.one.forget(drawn[1]._request)
        found["release_and_draw_s"] = timed(lambda: drawn.append(self.one.draw(axes, "spiked", 2)))
        found["found_again_ms"] = round(1e3 * timed(lambda: drawn[1].of("y", rows[:TILE])), 2)
        found["edges_s"] = timed(lambda: drawn.append(self.one.draw(axes, edges.NAME, 3)))
        actual = np.zeros((axes["rows"], axes["cols"]), np.uint16 if self.one.dtype is DType.BFLOAT16 else np.float32)
        found["errors_s"] = timed(lambda: drawn[0].add_reference({"y": actual}, self.one.dtype))
        found["judge_ms"] = round(1e3 * timed(lambda: self.judge(drawn[0], actual, rows)), 2)
        for values in drawn:
            values.release()
        return found

    def judge(self, drawn: InputSet, actual: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]) -> None:
        """Judge the eager reference's stand-in: the oracle's own values, rounded."""
        answer = drawn.of("y", rows)
        right = answer.expected.astype(np.float32)
        actual[rows] = ((right.view(np.uint32) + 0x8000) >> 16).astype(np.uint16) if actual.dtype == np.uint16 else right
        rule: Any = (drawn.reduction, self.one.task.tolerance, self.one.dtype, answer.reference_error)
        finding = judge_output(actual, answer.expected, answer.scale, *rule, rows=rows, alone=True)
        assert finding.ok, finding

    def session(self, task: Task) -> dict[str, Any]:
        """Every set that a session draws before its first kernel: base sets, those of the check, those of the gate."""
        shelf = Shelf(task, self.one, SECRET)
        found: dict[str, Any] = {}
        for workload in task.search:
            start = time.perf_counter()
            count = shelf.count(workload)
            held = sum(shelf.timed(workload, index).nbytes for index in range(count))
            found[workload.name] = {"sets": count, "host_gb": round(held / 1e9, 2), "s": round(time.perf_counter() - start, 2)}
        gated = [*held_out.draw(task, SECRET.key, 0), *held_out.sweep(task, SECRET.key, 0)]
        for name, points in (("check", visible_points(task)), ("gate", held_out_points(task, gated))):
            start = time.perf_counter()
            held = sum(shelf.checked(dict(p.axes), p.distribution, p.index).nbytes for p in points)
            found[name] = {"sets": len(points), "host_gb": round(held / 1e9, 2), "s": round(time.perf_counter() - start, 2)}
        return found


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    start = time.perf_counter()
    work()
    return round(time.perf_counter() - start, 4)


def resident(process: str) -> float:
    """Gigabytes that a process has in memory."""
    text = Path(f"/proc/{process}/status").read_text()
    return round(int(text.split("VmRSS:")[1].split()[0]) / 1e6, 2)


if __name__ == "__main__":
    main()
