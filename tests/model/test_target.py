"""When a model is good enough."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.model.metric import Inequality, Mode, Target

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("comparison", "mode", "reached"),
    [
        (">=", Mode.MAX, [False, True, True]),
        (">", Mode.MAX, [False, False, True]),
        ("<=", Mode.MIN, [True, True, False]),
        ("<", Mode.MIN, [True, False, False]),
    ],
)
def test_a_comparison_holds_as_it_is_read(comparison: str, mode: Mode, reached: list[bool]) -> None:
    target = Target(metric="score", comparison=Inequality(comparison), value=0.5)
    assert target.mode is mode
    assert [target.is_reached_by(value) for value in (0.4, 0.5, 0.6)] == reached


def test_what_is_no_number_reaches_nothing() -> None:
    assert not any(Target(metric="x", comparison=c, value=0.0).is_reached_by(math.nan) for c in Inequality)


@given(comparison=st.sampled_from(Inequality), value=NUMBERS, one=NUMBERS, other=NUMBERS)
def test_what_is_better_than_enough_is_enough(
    comparison: Inequality, value: float, one: float, other: float
) -> None:
    target = Target(metric="x", comparison=comparison, value=value)
    if target.is_reached_by(one) and target.mode.better(other, one):
        assert target.is_reached_by(other)
