"""Turns: one process judges at a time, many of one process together."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from evokern.errors import Unavailable
from evokern.serve import turn as module
from evokern.serve.turn import Turn


async def test_one_process_waits_for_the_other_and_says_so(tmp_path: Path) -> None:
    """A lock belongs to the open file, so two in one process stand for two processes."""
    one, other, order, said = Turn(tmp_path), Turn(tmp_path), list[str](), list[str]()

    async def second() -> None:
        async with other.held(said.append):
            order.append("other")

    async with one.held():
        waiting = asyncio.ensure_future(second())
        await asyncio.sleep(0.2)
        order.append("one")
    await asyncio.wait_for(waiting, 5)
    assert order == ["one", "other"]
    assert said == ["another process of this home is judging; waiting for its turn to end"]


async def test_those_of_one_process_are_in_together(tmp_path: Path) -> None:
    turn = Turn(tmp_path)
    async with asyncio.timeout(5), turn.held(), turn.held():
        pass


async def test_a_busy_process_lets_others_have_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_SECONDS", 0.1)
    busy, other, ended = Turn(tmp_path), Turn(tmp_path), False

    async def work() -> None:
        while not ended:
            async with busy.held():
                await asyncio.sleep(0.03)

    workers = [asyncio.ensure_future(work()) for _ in range(3)]
    await asyncio.sleep(0.1)
    async with asyncio.timeout(10), other.held():
        ended = True
    await asyncio.gather(*workers)


async def test_whoever_gives_up_waiting_holds_nothing(tmp_path: Path) -> None:
    one, other = Turn(tmp_path), Turn(tmp_path)
    async with one.held():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), other.held():
                pass
    async with asyncio.timeout(5), other.held():
        pass


async def test_a_lock_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the home should be")
    with pytest.raises(Unavailable, match="the lock cannot be made"):
        async with Turn(tmp_path / "home").held():
            pass
