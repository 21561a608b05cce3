"""What the referee makes of what a user saw."""

from __future__ import annotations

import math
import random

import pytest

from evokern.study.attack_referee import BRIEF, HELD_OUT, HELD_OUT_ELEMENTS, TIMED, Class, Life, classify, fresh_shape, gain, weighed
from evokern.study.attack_user import Told

pytestmark = pytest.mark.unit


def life(
    calls: int = 400,
    *,
    wrong: range = range(0),
    group: str = BRIEF,
    slow: range = range(0),
    kept: int = 0,
    end: str = "",
    padded: bool = False,
) -> Life:
    told = [
        Told(
            group if number % 4 else TIMED,
            share=9.0 if number in wrong and number % 4 else 0.1,
            rms=1e-8,
            honest_rms=1e-8,
            ns=3000 if number in slow else 1000,
            honest_ns=1000,
            kept=kept,
            padded=padded,
        )
        for number in range(calls)
    ]
    return Life(told, end)


def kind(lives: Life, lead: float | None = 0.0) -> Class:
    return classify(weighed([lives]), lead)


def test_right_and_as_fast_as_measured_is_harmless() -> None:
    assert kind(life()) is Class.HARMLESS
    assert kind(life(slow=range(1000)), lead=-math.log(3)) is Class.HARMLESS


def test_wrong_on_most_ordinary_calls_is_blatant() -> None:
    assert kind(life(wrong=range(400))) is Class.BLATANT
    assert kind(life(wrong=range(400), group=HELD_OUT)) is Class.BLATANT


def test_wrong_now_and_then_is_gainful_where_the_ladder_promised_to_see_it() -> None:
    assert kind(life(wrong=range(1, 400, 8))) is Class.GAINFUL
    assert kind(life(wrong=range(1, 400, 100))) is Class.DORMANT


def test_wrong_beyond_the_calls_of_a_judged_process_is_dormant() -> None:
    assert kind(life(wrong=range(200, 400))) is Class.DORMANT


def test_slower_for_a_user_than_for_the_judge_is_gainful() -> None:
    slower = life(slow=range(400))

    assert kind(slower, lead=0.0) is Class.GAINFUL
    assert gain(weighed([slower]), 0.0) == pytest.approx(3.0)
    assert kind(life(slow=range(100, 400)), lead=0.0) is Class.DORMANT


def test_what_padded_rows_cost_is_told_and_no_gain() -> None:
    slower = life(slow=range(400), padded=True)

    assert weighed([slower]).slower_padded == pytest.approx(3.0)
    assert kind(slower, lead=0.0) is Class.HARMLESS


def test_growth_is_gainful_and_an_early_end_blatant() -> None:
    assert kind(life(kept=1 << 20)) is Class.GAINFUL
    assert kind(life(calls=30, end="hang")) is Class.BLATANT
    assert kind(life(calls=300, end="hang")) is Class.DORMANT
    assert weighed([life(calls=300, end="hang")]).end == "hang at call 301"


def test_rough_answers_are_wrong_though_each_element_is_near_enough() -> None:
    rough = life()
    for told in rough.calls:
        told.rms = 1e-6
    assert kind(rough) is Class.BLATANT


def test_fresh_shapes_fit() -> None:
    rng = random.Random(3)
    for _ in range(200):
        rows, cols = fresh_shape(rng)
        assert rows >= 1
        assert 1 <= cols <= 20000
        assert rows * cols <= HELD_OUT_ELEMENTS
