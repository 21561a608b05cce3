"""The contract holds for the operators that need no model, and fails those that break it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evokern.event import Operator, Proposal, Request
from evokern.operators.retune import Retune
from evokern.operators.rewrite import Rewrite
from evokern.testing.operator_contract import OperatorContract
from evokern.testing.requests import SOURCE, evaluated, request_for, row_task


class RowSum(OperatorContract):
    @pytest.fixture
    def wish(self, tmp_path: Path) -> Request:
        task = row_task(tmp_path)
        return request_for(task, evaluated(SOURCE, task))


class TestRetune(RowSum):
    @pytest.fixture
    def operator(self) -> Operator:
        return Retune()


class TestRewrite(RowSum):
    @pytest.fixture
    def operator(self) -> Operator:
        return Rewrite()


class Parrot:
    name = "parrot"
    parents_wanted = 1
    needs_model = False

    async def propose(self, request: Request) -> Proposal:
        return Proposal(request.parent.candidate.kernel, edits=("none",))


def test_an_operator_that_repeats_its_parent_breaks_the_contract(tmp_path: Path) -> None:
    task = row_task(tmp_path)
    wish = request_for(task, evaluated(SOURCE, task))
    with pytest.raises(AssertionError):
        OperatorContract().test_it_answers_with_a_new_kernel_and_says_what_it_changed(Parrot(), wish)
    with pytest.raises(AssertionError):
        OperatorContract().test_nothing_is_proposed_twice_and_the_end_is_a_typed_refusal(Parrot(), wish)
