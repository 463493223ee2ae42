"""The short version of the trial by fire. The long one: `python -m tests.fire --experiments 10000`."""

from __future__ import annotations

import pytest

from tests.fire.experiments import DECLARED, FORECAST, HOPPING, OVERLAPPING, PRICED
from tests.fire.requests import EXTENDED
from tests.fire.trial import put_to_trial

# Seeds that once broke an invariant: a node lost while the driver was down, a release that was commanded and
# not carried out, rounding between two clocks, a provider that never has a node, trials drawn after the end,
# a gang with two copies of a partition for validation.
ONCE_BROKEN = (
    14,
    25,
    34,
    55,
    80,
    88,
    92,
    145,
    172,
    202,
    272,
    1005,
    1078,
    1209,
    1295,
    1382,
    1673,
    2155,
    3096,
    10080,
    50681,
    70363,
    201943,
    202249,
    400110,
    502722,
    700232,
    HOPPING + 1347,
    HOPPING + 910106,
)


def _endures(seed: int) -> None:
    try:
        trial = put_to_trial(seed)
    except Exception as error:
        raise AssertionError(f"{error}\nreproduce with: python -m tests.fire --seed {seed}") from error
    assert trial.core.state.ended is not None


# Many driver deaths, each with a replay of all that was, or hundreds of new plans: seconds each.
TAKES_LONG = (80, 1005, 1209, 1295, 3096, 50681, 70363, HOPPING + 910106)


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=pytest.mark.slow) if seed in TAKES_LONG else seed for seed in ONCE_BROKEN],
)
def test_an_experiment_that_once_broke_holds(seed: int) -> None:
    _endures(seed)


def blocks(quick: int, of: int) -> pytest.MarkDecorator:
    """Seeds in blocks: the first `quick` by default, all with `make test-all`."""
    slow = [pytest.param(block, marks=pytest.mark.slow) for block in range(quick, of)]
    return pytest.mark.parametrize("block", [*range(quick), *slow])


@blocks(3, of=12)
def test_random_experiments_with_faults_keep_every_invariant(block: int) -> None:
    for seed in range(300_000 + 10 * block, 300_000 + 10 * (block + 1)):
        _endures(seed)


@blocks(1, of=4)
def test_random_experiments_that_may_stop_early_keep_every_invariant(block: int) -> None:
    for seed in range(600_000 + 10 * block, 600_000 + 10 * (block + 1)):
        _endures(seed)


@blocks(1, of=12)
def test_random_experiments_whose_models_hop_keep_every_invariant(block: int) -> None:
    for seed in range(HOPPING + 2 * block, HOPPING + 2 * (block + 1)):
        _endures(seed)


@blocks(1, of=8)
def test_random_experiments_whose_epochs_overlap_keep_every_invariant(block: int) -> None:
    for seed in range(OVERLAPPING + 3 * block, OVERLAPPING + 3 * (block + 1)):
        _endures(seed)


@blocks(1, of=3)
def test_random_experiments_with_several_prices_keep_every_invariant(block: int) -> None:
    for seed in range(PRICED + 10 * block, PRICED + 10 * (block + 1)):
        _endures(seed)


@blocks(1, of=3)
def test_random_experiments_with_stages_of_any_kind_keep_every_invariant(block: int) -> None:
    for seed in range(DECLARED + 10 * block, DECLARED + 10 * (block + 1)):
        _endures(seed)


@blocks(1, of=12)
def test_random_experiments_of_forecast_keep_every_invariant(block: int) -> None:
    for seed in range(FORECAST + 8 * block, FORECAST + 8 * (block + 1)):
        _endures(seed)


@blocks(1, of=24)
def test_random_experiments_with_requests_of_people_keep_every_invariant(block: int) -> None:
    """New limits, trials stopped, configurations added, and extensions after the end."""
    for kind in (300_000, 600_000, HOPPING, PRICED, DECLARED, FORECAST):
        _endures(EXTENDED + kind + block)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_random_experiments_whose_models_hop_keep_every_invariant(block: int) -> None:
    for seed in range(HOPPING + 1000 + 25 * block, HOPPING + 1000 + 25 * (block + 1)):
        _endures(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_random_experiments_keep_every_invariant(block: int) -> None:
    for seed in range(400_000 + 50 * block, 400_000 + 50 * (block + 1)):
        _endures(seed)
