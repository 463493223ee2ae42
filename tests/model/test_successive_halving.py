"""Successive Halving gives the stages that the papers list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.errors import InvariantError
from elastune.model.stages import Spec, Stage, successive_halving


def shape(spec: Spec) -> list[tuple[int, int]]:
    return [(stage.trials, stage.iterations) for stage in spec.stages]


@pytest.mark.parametrize(
    ("trials", "least", "most", "eta", "expected"),
    [
        (64, 4, 508, 2, [(64, 4), (32, 8), (16, 16), (8, 32), (4, 64), (2, 128), (1, 256)]),
        (32, 1, 50, 3, [(32, 1), (10, 3), (3, 9), (1, 37)]),
        (8, 1, 13, 3, [(8, 1), (2, 3), (1, 9)]),
        (64, 4, 100, 2, [(64, 4), (32, 8), (16, 16), (8, 32), (4, 40)]),
        (1, 1, 7, 2, [(1, 7)]),
        (5, 9, 9, 3, [(5, 9)]),
    ],
)
def test_stages_are_those_of_the_paper(
    trials: int, least: int, most: int, eta: int, expected: list[tuple[int, int]]
) -> None:
    spec = successive_halving(trials=trials, min_iterations=least, max_iterations=most, eta=eta)
    assert shape(spec) == expected


def test_the_large_search_of_figure_12_ends_in_one_trial_of_2052_iterations() -> None:
    spec = successive_halving(trials=512, min_iterations=4, max_iterations=4096, eta=2)
    assert len(spec.stages) == 10
    assert shape(spec)[-1] == (1, 2052)


@given(
    trials=st.integers(1, 500), least=st.integers(1, 20), factor=st.integers(1, 200), eta=st.integers(2, 5)
)
def test_the_best_trial_trains_exactly_the_maximum_and_trials_never_grow(
    trials: int, least: int, factor: int, eta: int
) -> None:
    most = least * factor
    spec = successive_halving(trials=trials, min_iterations=least, max_iterations=most, eta=eta)
    assert sum(stage.iterations for stage in spec.stages) == most
    counts = [stage.trials for stage in spec.stages]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == trials
    assert all(stage.iterations > 0 for stage in spec.stages)


def test_a_stage_in_progress_knows_what_each_trial_owes() -> None:
    assert Stage(trials=2, iterations=5).work == (5, 5)
    assert Stage(trials=2, iterations=5, remaining=(5, 1)).work == (5, 1)


@pytest.mark.parametrize(
    ("trials", "iterations", "remaining"),
    [(0, 1, ()), (1, -1, ()), (2, 5, (5,)), (2, 5, (4, 4)), (1, 0, (-1,))],
)
def test_an_impossible_stage_is_refused(trials: int, iterations: int, remaining: tuple[int, ...]) -> None:
    with pytest.raises(InvariantError):
        Stage(trials=trials, iterations=iterations, remaining=remaining)
