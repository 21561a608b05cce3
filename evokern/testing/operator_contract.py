"""What every operator must do; subclass and give the fixtures `operator` and `wish`."""

# ruff: noqa: D102 - a test's name says what it shows, and its values stand beside the call

from __future__ import annotations

import asyncio
import dataclasses
import random
import re

import pytest

from evokern.event import Operator, Parent, Proposal, Request
from evokern.kernel import Kernel

MOST_PROPOSALS = 60
"""Proposals drawn one after the other from one parent."""


class OperatorContract:
    """Subclass it, and give an operator with a request that it can answer with a kernel.

    A model behind the operator has to answer the same to the same prompt.
    """

    @pytest.fixture
    def operator(self) -> Operator:
        """The operator under test."""
        raise NotImplementedError

    @pytest.fixture
    def wish(self) -> Request:
        """A request with as many parents as the operator wants, to which it has a kernel to answer."""
        raise NotImplementedError

    def test_it_says_what_it_is_and_needs(self, operator: Operator) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", operator.name)
        assert operator.parents_wanted >= 1
        assert operator.needs_model in (True, False)

    def test_it_answers_with_a_new_kernel_and_says_what_it_changed(self, operator: Operator, wish: Request) -> None:
        proposal = proposed(operator, wish)
        assert proposal.kernel is not None, proposal.refusal
        assert proposal.refusal is None
        assert proposal.kernel.source.strip()
        assert proposal.kernel.id not in {parent.candidate.id for parent in wish.parents}
        assert operator.needs_model or proposal.edits

    def test_the_request_is_left_as_it_was(self, operator: Operator, wish: Request) -> None:
        parents, tried = wish.parents, set(wish.tried)
        proposed(operator, wish)
        assert (wish.parents, set(wish.tried)) == (parents, tried)

    def test_chance_comes_from_the_request_alone(self, operator: Operator, wish: Request) -> None:
        first, second = (proposed(operator, dataclasses.replace(wish, rng=random.Random(11))) for _ in range(2))
        assert (first.kernel, first.refusal, first.edits, first.prompt) == (second.kernel, second.refusal, second.edits, second.prompt)

    def test_nothing_is_proposed_twice_and_the_end_is_a_typed_refusal(self, operator: Operator, wish: Request) -> None:
        tried: set[str] = {parent.candidate.id for parent in wish.parents}
        for number in range(MOST_PROPOSALS):
            proposal = proposed(operator, dataclasses.replace(wish, tried=frozenset(tried), rng=random.Random(number), number=number))
            if proposal.kernel is None:
                assert proposal.refusal is not None
                return
            assert proposal.kernel.id not in tried
            tried.add(proposal.kernel.id)

    def test_a_model_is_called_only_by_those_that_need_one(self, operator: Operator, wish: Request) -> None:
        proposal = proposed(operator, wish)
        assert bool(proposal.calls) == bool(proposal.prompt) == operator.needs_model

    @pytest.mark.parametrize(
        "source", ["", "\x00\u2028\U0001f600\r", "}}}} not a program {{{{", "x" * 100_000], ids=["empty", "bytes", "braces", "long"]
    )
    def test_a_parent_that_is_no_program_is_no_accident(self, operator: Operator, wish: Request, source: str) -> None:
        broken = tuple(_with_source(parent, source) for parent in wish.parents)
        proposal = proposed(operator, dataclasses.replace(wish, parents=broken))
        assert (proposal.kernel is None) != (proposal.refusal is None)


def proposed(operator: Operator, request: Request) -> Proposal:
    """What an operator answers."""
    return asyncio.run(_propose(operator, request))


async def _propose(operator: Operator, request: Request) -> Proposal:
    return await operator.propose(request)


def _with_source(parent: Parent, source: str) -> Parent:
    kernel = Kernel(parent.candidate.kernel.dialect, source, parent.candidate.kernel.entry)
    evaluation = dataclasses.replace(parent.evaluation, kernel_id=kernel.id)
    return Parent(dataclasses.replace(parent.candidate, kernel=kernel), evaluation)
