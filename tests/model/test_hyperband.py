"""Hyperband gives brackets of Successive Halving."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elastune.model.stages import hyperband


def test_the_brackets_of_81_iterations_by_thirds() -> None:
    brackets = [
        [(s.trials, s.iterations) for s in spec.stages] for spec in hyperband(max_iterations=81, eta=3)
    ]
    assert brackets == [
        [(81, 1), (27, 3), (9, 9), (3, 27), (1, 41)],
        [(34, 3), (11, 9), (3, 27), (1, 42)],
        [(15, 9), (5, 27), (1, 45)],
        [(8, 27), (2, 54)],
        [(5, 81)],
    ]


def test_a_power_of_eta_does_not_lose_a_bracket_to_rounding() -> None:
    # log(243) / log(3) is 4.999... in floating point
    assert len(hyperband(max_iterations=243, eta=3)) == 6
    assert len(hyperband(max_iterations=1000, eta=10)) == 4
    # 1.1 ** 3 is 1.3310000000000004
    assert len(hyperband(max_iterations=1331, min_iterations=1000, eta=1.1)) == 4


def test_a_larger_minimum_leaves_fewer_brackets() -> None:
    assert len(hyperband(max_iterations=81, eta=3, min_iterations=9)) == 3


@given(most=st.integers(1, 2000), eta=st.one_of(st.integers(2, 6), st.sampled_from([1.25, 1.5, 2.5, 3.3])))
def test_every_bracket_trains_its_best_trial_to_the_end(most: int, eta: float) -> None:
    for spec in hyperband(max_iterations=most, eta=eta):
        assert sum(stage.iterations for stage in spec.stages) == most
