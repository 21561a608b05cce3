"""What every store must do; subclass and give the fixture `open_store`."""

# ruff: noqa: D102, PLR2004 - a test's name says what it shows, and its values stand beside the call
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import pytest

from evokern.errors import EvokernError
from evokern.evaluation import Evaluation, Verdict
from evokern.event import Budget, Event, EventKind, RunSettings, Spent
from evokern.kernel import Candidate, Kernel
from evokern.store import payload
from evokern.task import DType


class Store(Protocol):
    """The methods under test."""

    async def append(self, events: list[Event]) -> None:
        """Write events durably."""
        ...

    def replay(self, run: str) -> Iterator[Event]:
        """A run's events in order."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


RUN = "softmax-20261129T1015-3f2a"


def sample_settings() -> RunSettings:
    """Settings with every kind of field in use."""
    return RunSettings(
        "softmax", "d" * 64, DType.FLOAT32, "cpu", 1, Budget(evaluations=10), 7, seeds=(("cpp", "int x;"),), options={"a": "b"}
    )


def sample_candidate(number: int, *, island: int = 0) -> Candidate:
    """A distinct candidate per number."""
    kernel = Kernel("cpp", f"// {number} \u00e9 \ud800 \u0000 'quote' \"double\"\r\n\tint x;\n")
    return Candidate(kernel, "softmax", DType.FLOAT32, parents=("a" * 64,), operator="retune", edits=(f"BLOCK={number}",), island=island)


def sample_events(count: int, *, run: str = RUN) -> list[Event]:
    """A run's beginning, proposals with their verdicts, and its end."""
    events = [payload.run_started(run, sample_settings())]
    for number in range(count):
        candidate = sample_candidate(number)
        events.append(payload.proposed(run, number, candidate, seconds=0.5))
        events.append(payload.evaluated(run, Evaluation(candidate.id, "t", "float32", Verdict.WRONG, key=f"key-{number}"), 0))
    return [*events, payload.run_ended(run, 0, "evaluations", Spent(evaluations=count))]


def without_time(events: Any) -> list[tuple[str, str, str, Any]]:
    """Events as they compare: all but when they were written."""
    return [(event.run, event.kind.value, event.key, event.payload) for event in events]


class StoreContract:
    """Subclass it, and give a fixture that opens the same store again at every call."""

    @pytest.fixture
    def open_store(self) -> Callable[[], Store]:
        """Opens a store; a later call opens what the earlier one wrote."""
        raise NotImplementedError

    def test_what_was_appended_is_replayed_in_order_and_unchanged(self, open_store: Callable[[], Store]) -> None:
        events = sample_events(30)
        with_store(open_store, lambda store: store.append(events))
        store = open_store()
        assert without_time(store.replay(RUN)) == without_time(events)
        assert all(event.at > 0 for event in store.replay(RUN))
        store.close()

    def test_every_payload_reads_back_as_what_it_was_made_of(self, open_store: Callable[[], Store]) -> None:
        events = sample_events(1)
        with_store(open_store, lambda store: store.append(events))
        store = open_store()
        bodies = [payload.read(event) for event in store.replay(RUN)]
        store.close()
        assert bodies[0] == sample_settings()
        assert isinstance(bodies[1], payload.Proposed)
        assert bodies[1].candidate == sample_candidate(0)
        assert isinstance(bodies[3], payload.Ended)

    def test_writing_twice_is_writing_once(self, open_store: Callable[[], Store]) -> None:
        events = sample_events(5)

        async def twice(store: Store) -> None:
            await store.append(events)
            await store.append(events[2:])
            await store.append([*sample_events(6), *sample_events(6)])

        with_store(open_store, twice)
        store = open_store()
        keys = [(event.kind, event.key) for event in store.replay(RUN)]
        store.close()
        assert len(keys) == len(set(keys)) == len(events) + 2

    def test_the_first_of_two_events_with_one_key_stays(self, open_store: Callable[[], Store]) -> None:
        first, second = (Event(RUN, EventKind.BASELINES, "b", {"n": n}) for n in (1, 2))

        async def both(store: Store) -> None:
            await store.append([first, second])
            await store.append([second])

        with_store(open_store, both)
        store = open_store()
        assert [event.payload for event in store.replay(RUN)] == [{"n": 1}]
        store.close()

    def test_runs_do_not_see_each_other(self, open_store: Callable[[], Store]) -> None:
        async def two(store: Store) -> None:
            await asyncio.gather(store.append(sample_events(3, run="a-1")), store.append(sample_events(2, run="b-2")))

        with_store(open_store, two)
        store = open_store()
        assert (len(list(store.replay("a-1"))), len(list(store.replay("b-2"))), list(store.replay("c-3"))) == (8, 6, [])
        store.close()

    def test_callers_wake_in_the_order_of_their_events(self, open_store: Callable[[], Store]) -> None:
        woken: list[str] = []

        async def many(store: Store) -> None:
            async def one(number: int) -> None:
                await store.append([Event(RUN, EventKind.BASELINES, str(number), {})])
                woken.append(str(number))

            await asyncio.gather(*(one(number) for number in range(200)))

        with_store(open_store, many)
        store = open_store()
        assert [event.key for event in store.replay(RUN)] == woken
        store.close()

    def test_a_payload_that_is_not_json_fails_alone(self, open_store: Callable[[], Store]) -> None:
        async def mixed(store: Store) -> list[Any]:
            bad = Event(RUN, EventKind.BASELINES, "bad", {"value": object()})
            good = [Event(RUN, EventKind.BASELINES, str(number), {}) for number in range(3)]
            return await asyncio.gather(*(store.append([event]) for event in (good[0], bad, *good[1:])), return_exceptions=True)

        outcomes = with_store(open_store, mixed)
        assert [isinstance(outcome, EvokernError) for outcome in outcomes] == [False, True, False, False]
        store = open_store()
        assert len(list(store.replay(RUN))) == 3
        store.close()

    def test_a_store_that_is_closed_twice_and_appended_to_says_so(self, open_store: Callable[[], Store]) -> None:
        store = open_store()
        store.close()
        store.close()
        with pytest.raises(EvokernError):
            asyncio.run(store.append(sample_events(1)))


def with_store(open_store: Callable[[], Store], work: Callable[[Store], Any]) -> Any:
    """Open, work, close."""

    async def whole() -> Any:
        async with _opened(open_store) as store:
            return await work(store)

    return asyncio.run(whole())


@asynccontextmanager
async def _opened(open_store: Callable[[], Store]) -> AsyncIterator[Store]:
    store = open_store()
    try:
        yield store
    finally:
        store.close()
