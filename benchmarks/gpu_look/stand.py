"""How a device span is timed without a gap: a blocker holds the stream while everything is enqueued, and caches are made cold.

Used by the look at eviction and by both sides of the replay, so that their times are of one kind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from driver import Driver, packed

BLOCKER_US = 1500
EVICTED = 4  # times the L2


class Stand:
    """Blocker, eviction and events on one stream."""

    def __init__(self, driver: Driver, kernels: Path, stream: int) -> None:
        self.driver, self.stream = driver, stream
        module = driver.module(kernels.read_bytes())
        self._kernel = {name: driver.function_of(module, name) for name in ("spin", "read4", "write4")}
        self._evicted = EVICTED * int(str(driver.facts()["l2_bytes"]))
        self._clean, self._word = driver.allocate(self._evicted), driver.allocate(4096)
        self._start, self._end = driver.event(), driver.event()
        self._grid = 8 * int(str(driver.facts()["multiprocessors"]))

    def sample(self, launch: Callable[[], None], *, eviction: str, blocker: bool = True) -> tuple[float, bool]:
        """Device time of `launch` in us, and whether the blocker outlasted the enqueueing."""
        if blocker:
            self._launch("spin", 1, packed("QQI", BLOCKER_US * 1000, self._word, 1))
        began = time.perf_counter()
        if eviction == "read":
            self._launch("read4", self._grid, packed("QQq", self._clean, self._word, self._evicted // 16))
        elif eviction == "write":
            self._launch("write4", self._grid, packed("QI4xq", self._clean, 5, self._evicted // 16))
        self.driver.record(self._start, self.stream)
        launch()
        self.driver.record(self._end, self.stream)
        held = time.perf_counter() - began < BLOCKER_US / 1e6
        self.driver.synchronise()
        return self.driver.elapsed_us(self._start, self._end), held

    def _launch(self, name: str, grid: int, parameters: bytes) -> None:
        block = 32 if name == "spin" else 512
        self.driver.launch(self._kernel[name], [grid], [block], parameters, stream=self.stream)
