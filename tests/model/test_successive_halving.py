"""Successive Halving gives the stages that the papers list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastune.errors import InvariantError
from elastune.model.stages import Spec, Stage, successive_halving

ANY_ETA = st.one_of(st.integers(2, 5), st.integers(105, 500).map(lambda hundredths: hundredths / 100))


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
        (32, 1, 50, 2.5, [(32, 1), (12, 2), (5, 6), (2, 15), (1, 26)]),
        (10, 4, 50, 1.5, [(10, 4), (6, 6), (4, 9), (2, 13), (1, 18)]),
        (110, 10, 31, 1.1, [(110, 10), (100, 11), (90, 10)]),  # 110 / 1.1 is 99.99... in floating point
    ],
)
def test_stages_are_those_of_the_paper(
    trials: int, least: int, most: int, eta: float, expected: list[tuple[int, int]]
) -> None:
    spec = successive_halving(trials=trials, min_iterations=least, max_iterations=most, eta=eta)
    assert shape(spec) == expected


def test_the_large_search_of_figure_12_ends_in_one_trial_of_2052_iterations() -> None:
    spec = successive_halving(trials=512, min_iterations=4, max_iterations=4096, eta=2)
    assert len(spec.stages) == 10
    assert shape(spec)[-1] == (1, 2052)


@given(trials=st.integers(1, 500), least=st.integers(1, 20), factor=st.integers(1, 200), eta=ANY_ETA)
def test_the_best_trial_trains_exactly_the_maximum_and_trials_never_grow(
    trials: int, least: int, factor: int, eta: float
) -> None:
    most = least * factor
    spec = successive_halving(trials=trials, min_iterations=least, max_iterations=most, eta=eta)
    assert sum(stage.iterations for stage in spec.stages) == most
    counts = [stage.trials for stage in spec.stages]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == trials
    assert all(stage.iterations > 0 for stage in spec.stages)


@given(trials=st.integers(1, 10_000), least=st.integers(1, 50), hundredths=st.integers(101, 600))
def test_every_stage_but_the_last_is_rounded_down_exactly(trials: int, least: int, hundredths: int) -> None:
    """Brute force in whole numbers: eta is a count of hundredths."""
    spec = successive_halving(
        trials=trials, min_iterations=least, max_iterations=1_000_000, eta=hundredths / 100
    )
    for k, stage in enumerate(spec.stages[:-1]):
        up, down = hundredths**k, 100**k
        assert stage.trials * up <= trials * down < (stage.trials + 1) * up
        assert stage.iterations * down <= least * up < (stage.iterations + 1) * down


@given(trials=st.integers(1, 500), eta=st.integers(2, 6))
def test_a_whole_eta_is_the_same_in_either_notation(trials: int, eta: int) -> None:
    specs = [
        successive_halving(trials=trials, min_iterations=1, max_iterations=300, eta=each)
        for each in (eta, float(eta))
    ]
    assert specs[0] == specs[1]
    assert {type(stage.iterations) for spec in specs for stage in spec.stages} == {int}


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
